"""One step of DP-SGD without noise equals Opacus's on the same batch; skipped, visibly, where it is not installed."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seedscope.models import Network

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
opacus = pytest.importorskip("opacus", reason="the torch extra (opacus) is not installed")

from seedscope import lenet5, mlp  # noqa: E402
from seedscope.training.dpsgd.per_example import clipped_sum  # noqa: E402

pytestmark = pytest.mark.optimised
BATCH, CLIPPING = 12, 0.7


Pair = tuple[Network, Any, Any, Any, Any]  # ours with its parameters, theirs, rows of both kinds


def dense(layer: Any) -> tuple[Any, Any]:
    """Return the weight and bias of one of our layers as torch has them."""
    return torch.tensor(np.asarray(layer.weight)), torch.tensor(np.asarray(layer.bias))


def mlp_pair() -> Pair:
    """Return our network with its parameters, torch's copy of it, and rows of both kinds."""
    network = mlp((7,)).network((5,), 3)
    parameters = network.init(jax.random.key(0))
    theirs = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    copy(theirs, [dense(layer) for layer in parameters.layers])
    rows = np.random.default_rng(0).normal(size=(BATCH, 5)).astype(np.float32)
    return network, parameters, theirs, rows, torch.tensor(rows)


def lenet_pair() -> Pair:
    """Return the same for LeNet-5: their images and kernels have the channel first, ours last."""
    network = lenet5().network((28, 28, 1), 10)
    parameters = network.init(jax.random.key(1))
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 16, 5),
        torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(),
        torch.nn.Linear(120, 84), torch.nn.ReLU(), torch.nn.Linear(84, 10),
    )  # fmt: skip
    kernels = []
    for layer, channels in zip(parameters.convolutions, (1, 6), strict=True):
        weight = np.asarray(layer.weight).reshape(-1, 5, 5, channels).transpose(0, 3, 1, 2)
        kernels.append((torch.tensor(weight.copy()), torch.tensor(np.asarray(layer.bias))))
    first, *others = [dense(layer) for layer in parameters.dense.layers]
    inputs = np.arange(400).reshape(5, 5, 16).transpose(2, 0, 1).ravel()  # their order of our 400 inputs
    copy(theirs, [*kernels, (first[0][:, inputs], first[1]), *others])
    rows = np.random.default_rng(2).random((BATCH, 28, 28, 1), np.float32)
    return network, parameters, theirs, rows, torch.tensor(rows.transpose(0, 3, 1, 2).copy())


def copy(module: Any, values: Any) -> None:
    """Give torch's layers these weights and biases."""
    layers = [layer for layer in module if hasattr(layer, "weight")]
    with torch.no_grad():
        for layer, (weight, bias) in zip(layers, values, strict=True):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [mlp_pair, lenet_pair])
def test_a_step_without_noise_equals_that_of_opacus(pair: Callable[[], Pair]) -> None:
    network, parameters, theirs, rows, their_rows = pair()
    labels = np.random.default_rng(3).integers(0, 3, BATCH)
    engine = opacus.PrivacyEngine()
    data = torch.utils.data.TensorDataset(their_rows, torch.tensor(labels))
    module, optimizer, _ = engine.make_private(
        module=theirs, optimizer=torch.optim.SGD(theirs.parameters(), lr=1.0), noise_multiplier=0.0,
        data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH), max_grad_norm=CLIPPING, poisson_sampling=False,
    )  # fmt: skip
    before = [one.detach().clone() for one in theirs.parameters()]
    torch.nn.functional.cross_entropy(module(their_rows), torch.tensor(labels)).backward()
    optimizer.step()
    moved = np.array([float(((a - b) ** 2).sum()) for a, b in zip(before, theirs.parameters(), strict=True)])
    biases = [
        np.asarray(b) - np.asarray(a.detach())
        for b, a in zip(before[1::2], list(theirs.parameters())[1::2], strict=True)
    ]
    x, y, w = (jnp.asarray(one, jnp.float32) for one in (rows, labels, np.ones(BATCH)))
    total = clipped_sum(network, parameters, x, y, w, CLIPPING)
    layers = [*getattr(total, "convolutions", ()), *getattr(total, "dense", total).layers]
    ours = np.array(
        [float(np.sum((np.asarray(leaf) / BATCH) ** 2)) for layer in layers for leaf in (layer.weight, layer.bias)]
    )
    np.testing.assert_allclose(ours, moved, rtol=2e-3)
    for layer, bias in zip(layers, biases, strict=True):
        np.testing.assert_allclose(np.asarray(layer.bias) / BATCH, bias, atol=1e-5)
