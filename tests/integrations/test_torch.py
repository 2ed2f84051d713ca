"""An Opacus loop that is recorded; skipped, visibly, where Opacus is not installed."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
opacus = pytest.importorskip("opacus", reason="the torch extra (opacus) is not installed")

from opacus.data_loader import DPDataLoader, wrap_collate_with_empty  # noqa: E402
from opacus.optimizers import DPOptimizer  # noqa: E402
from opacus.optimizers import optimizer as opacus_optimizer  # noqa: E402
from opacus.schedulers import ExponentialGradClip, ExponentialNoise  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from opacus.utils.uniform_sampler import UniformWithReplacementSampler  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset, default_collate  # noqa: E402

import seedscope as ss  # noqa: E402
from seedscope.core import SeedscopeWarning  # noqa: E402
from seedscope.integrations.torch import Recorder  # noqa: E402
from seedscope.training import FlatClipping, Poisson  # noqa: E402
from seedscope.training.dpsgd.batches import draw_batches  # noqa: E402
from seedscope.training.dpsgd.noise import noise_keys, normals_like  # noqa: E402
from seedscope.training.dpsgd.norms import People  # noqa: E402
from seedscope.training.dpsgd.parts import batch_parts  # noqa: E402
from seedscope.training.dpsgd.privacy_losses import network_pulls  # noqa: E402
from seedscope.training.dpsgd.steps import PrivateSteps  # noqa: E402
from seedscope.training.dpsgd.train import train_dpsgd  # noqa: E402
from seedscope.training.gradient import starting_points  # noqa: E402

pytestmark = [
    pytest.mark.optimised,
    pytest.mark.filterwarnings("ignore::UserWarning:opacus", "ignore:Full backward hook", "ignore:Secure RNG"),
    pytest.mark.filterwarnings("ignore:secure mode is off"),
]
EXAMPLES, FEATURES, CLASSES, STEPS = 60, 4, 3, 10
CROSS_ENTROPY = torch.nn.functional.cross_entropy


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Small networks are slower with several threads."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def parts() -> tuple[Any, Any]:
    """Return a training and a test data set of torch's."""
    draw = np.random.default_rng(0)
    labels = np.arange(2 * EXAMPLES) % CLASSES
    rows = draw.normal(size=(2 * EXAMPLES, FEATURES)) + labels[:, None]
    tensors = torch.tensor(rows, dtype=torch.float32), torch.tensor(labels)
    return tuple(TensorDataset(*(one[part] for one in tensors)) for part in (slice(EXAMPLES), slice(EXAMPLES, None)))


def private(train: Any, seed: int, mode: str = "hooks", noise: float = 1.0, **options: Any) -> Any:
    """Return a small network, its optimizer and loader, made private by Opacus, and for ghost clipping the loss."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), torch.nn.Tanh(), torch.nn.Linear(5, CLASSES))
    found = opacus.PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5), noise_multiplier=noise, max_grad_norm=0.7,
        data_loader=DataLoader(train, batch_size=15), grad_sample_mode=mode, criterion=torch.nn.CrossEntropyLoss(),
        **options,
    )  # fmt: skip
    return found if len(found) == 4 else (found[0], found[1], CROSS_ENTROPY, found[2])


def trained(model: Any, optimizer: Any, loss: Any, loader: Any, epochs: int = 2) -> None:
    """Train as anybody does."""
    for _ in range(epochs):
        for rows, labels in loader:
            optimizer.zero_grad()
            loss(model(rows), labels).backward()
            optimizer.step()


def recorded(parts: Any, runs: int = 1, recorder: Recorder | None = None, **options: Any) -> Recorder:
    """Return a recorder of runs on the training part."""
    recorder = recorder or Recorder(test=parts[1])
    for seed in range(runs):
        model, optimizer, loss, loader = private(parts[0], seed, **options)
        recorder.attach(model, optimizer, loader)
        trained(model, optimizer, loss, loader)
    recorder.finish()
    return recorder


class Given(UniformWithReplacementSampler):  # type: ignore[misc]
    """Poisson batches that were drawn already."""

    def __init__(self, batches: list[list[int]], rate: float):
        super().__init__(num_samples=EXAMPLES, sample_rate=rate, steps=len(batches))
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)


def torch_copy(network: Any, parameters: Any) -> Any:
    """Return torch's copy of our network of dense layers."""
    theirs = torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), torch.nn.Tanh(), torch.nn.Linear(5, CLASSES))
    with torch.no_grad():
        for mine, layer in zip(parameters.layers, (theirs[0], theirs[2]), strict=True):
            layer.weight.copy_(torch.tensor(np.asarray(mine.weight)))
            layer.bias.copy_(torch.tensor(np.asarray(mine.bias)))
    return theirs


def test_the_same_batches_and_noise_record_what_our_own_steps_record(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate, clip, multiplier, root, seeds = 0.2, 0.7, 1.5, 5, np.array([3])
    rows, labels = (one.numpy() for one in parts[0].tensors)
    spare = np.concatenate([rows, rows[:1]]), np.append(labels, labels[0]).astype(np.float32)
    network = ss.mlp((5,), "tanh").network((FEATURES,), CLASSES)
    steps = PrivateSteps(0.5, 12, STEPS, multiplier, clip, Poisson(), None, "sum", FlatClipping())
    people = People(rows, labels.astype(np.float32), 1)
    ours = train_dpsgd(
        steps, network, "add_or_remove", root, seeds, np.array([-1]), ("varied",), tuple(range(1, STEPS + 1)), *spare,
        None, people=people, lossy=np.arange(EXAMPLES),
    )  # fmt: skip
    own_parts = batch_parts(network, steps, (FEATURES,), 1, 1, EXAMPLES)
    batches = [one.tolist() for one in draw_batches(steps, root, seeds, EXAMPLES, own_parts).of_seed(0)]
    key = noise_keys(root, seeds)[0]
    normals = [normals_like(network.init, jax.random.fold_in(key, t)) for t in range(STEPS)]
    flat = [np.asarray(leaf) for one in normals for layer in one.layers for leaf in (layer.weight, layer.bias)]
    pieces = iter(flat)

    def noise(std: float, reference: Any, **_: Any) -> Any:
        return std * torch.tensor(next(pieces)).reshape(reference.shape)

    monkeypatch.setattr(opacus_optimizer, "_generate_noise", noise)
    start = jax.tree.map(lambda leaf: leaf[0, 0], starting_points(network.init, root, seeds, 1, ("varied",)))
    model = opacus.GradSampleModule(torch_copy(network, start))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5), noise_multiplier=multiplier, max_grad_norm=clip,
        expected_batch_size=12,
    )  # fmt: skip
    collate = wrap_collate_with_empty(collate_fn=default_collate)
    loader = DataLoader(parts[0], batch_sampler=Given(batches, rate), collate_fn=collate)
    recorder = Recorder(test=parts[1])
    recorder.attach(model, optimizer, loader)
    trained(model, optimizer, CROSS_ENTROPY, loader, epochs=1)
    recorder.finish()
    run = recorder.runs[0]
    weights = np.concatenate([one.detach().numpy().ravel() for one in model.parameters()])
    np.testing.assert_allclose(weights, ours["weights"][0, 0, 0, -1], atol=1e-4)
    np.testing.assert_allclose(run.norms, ours["gradient_norms"][0, 0, 0, :STEPS], atol=1e-4)
    np.testing.assert_allclose(run.losses, ours["privacy_losses"][0, 0, 0], atol=1e-4)  # type: ignore[arg-type]
    np.testing.assert_array_equal(run.correct, ours["correct"][0, 0, 0, :STEPS])
    np.testing.assert_array_equal(run.members, [np.isin(np.arange(EXAMPLES), one) for one in batches])
    from jax.flatten_util import ravel_pytree

    _, structured = ravel_pytree(start)
    states = [ravel_pytree(start)[0], *ours["weights"][0, 0, 0, :-1]]
    for step, state in enumerate(states):
        people_here = (rows, labels.astype(np.float32))
        at_state = structured(jax.numpy.asarray(state))
        pulls = network_pulls(network, False, clip, normals[step], at_state, None, people_here)
        np.testing.assert_allclose(run.projections[step], multiplier * clip * np.asarray(pulls.products), atol=1e-4)


def test_losses_are_those_of_a_slow_loop_over_people(parts: Any) -> None:
    model, optimizer, loss, loader = private(parts[0], 0)
    recorder = Recorder(test=parts[1], people=[7, 2])
    recorder.attach(model, optimizer, loader)
    slow = np.zeros(2)
    scale, rate = 0.7, loader.batch_sampler.sample_rate
    for rows, labels in loader:
        state = {name: one.detach().clone() for name, one in model._module.named_parameters()}
        optimizer.zero_grad()
        loss(model(rows), labels).backward()
        optimizer.step()
        run = recorder._recording
        assert run is not None
        noise = torch.cat([(one.grad * 15 - one.summed_grad).flatten() for one in model.parameters()]).detach()
        for place, person in enumerate((7, 2)):
            twin = torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), torch.nn.Tanh(), torch.nn.Linear(5, CLASSES))
            twin.load_state_dict(state)
            row, label = parts[0][person]
            CROSS_ENTROPY(twin(row[None]), label[None]).backward()
            gradient = torch.cat([one.grad.flatten() for one in twin.parameters()])
            gradient *= min(1.0, 0.7 / float(gradient.norm()))
            seen = noise + float(run.kept[-1][2][place]) * gradient
            z = float(seen @ gradient - gradient @ gradient / 2) / scale**2
            slow[place] += np.log(1 - rate + rate * np.exp(z))
    recorder.finish()
    np.testing.assert_allclose(recorder.runs[0].losses, slow, atol=1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["functorch", "ghost"])
def test_however_opacus_gets_its_gradients_the_record_is_the_same(parts: Any, mode: str) -> None:
    plain, other = (recorded(parts, mode=one).runs[0] for one in ("hooks", mode))
    np.testing.assert_array_equal(plain.members, other.members)
    np.testing.assert_allclose(plain.norms, other.norms, atol=1e-4)
    np.testing.assert_allclose(plain.projections, other.projections, atol=1e-4)
    np.testing.assert_allclose(plain.losses, other.losses, atol=1e-4)  # type: ignore[arg-type]


def test_batches_in_physical_pieces_are_still_one_step(parts: Any) -> None:
    model, optimizer, loss, loader = private(parts[0], 0)
    recorder = Recorder(test=parts[1])
    recorder.attach(model, optimizer, loader)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as pieces:
        trained(model, optimizer, loss, pieces)
    recorder.finish()
    whole = recorded(parts).runs[0]
    np.testing.assert_array_equal(recorder.runs[0].members, whole.members)
    np.testing.assert_allclose(recorder.runs[0].losses, whole.losses, atol=1e-3)  # type: ignore[arg-type]


def test_recording_changes_nothing_and_leaves_nothing_behind(parts: Any) -> None:
    weights = []
    for record in (False, True):
        model, optimizer, loss, loader = private(parts[0], 0)
        sampler, recorder = loader.batch_sampler, Recorder(test=parts[1])
        if record:
            recorder.attach(model, optimizer, loader)
        trained(model, optimizer, loss, loader)
        recorder.finish()
        assert loader.batch_sampler is sampler
        assert "add_noise" not in vars(optimizer)
        weights.append(torch.cat([one.detach().flatten() for one in model.parameters()]).numpy())
    np.testing.assert_array_equal(*weights)


@pytest.fixture(scope="module")
def ensemble(parts: Any) -> ss.Ensemble:
    """Return an ensemble of recorded runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups = {"half": np.arange(2 * EXAMPLES) % 2}
        return recorded(parts, 24, Recorder(test=parts[1], groups=groups)).ensemble("mine")


def test_runs_make_an_ensemble_of_what_the_optimizer_said(ensemble: ss.Ensemble) -> None:
    mechanism = ensemble.mechanism
    assert isinstance(mechanism, ss.DPSGD)
    assert (mechanism.steps, mechanism.noise_multiplier, mechanism.clipping_norm) == (8, 1.0, 0.7)
    assert mechanism.sampling_probability(EXAMPLES) == pytest.approx(0.25, abs=1e-9)
    assert ensemble.guarantee.epsilon is not None
    assert ensemble.guarantee.epsilon.kind == "estimate"  # secure mode is off
    expected = ss.accounting.dpsgd_epsilon(1.0, 0.25, 8, 1e-5)
    assert float(ensemble.guarantee.epsilon) == pytest.approx(float(expected), rel=1e-6)


def test_everything_follows_from_it(ensemble: ss.Ensemble, tmp_path: Path) -> None:
    losses = ss.privacy_loss.everybody(ensemble)
    assert losses.people.tolist() == list(range(EXAMPLES))
    assert losses.kind == "estimate"
    assert losses.self_test.holds  # type: ignore[attr-defined]
    bounds = ss.per_instance.per_instance_privacy(ensemble)
    assert np.all(bounds.epsilon <= float(bounds.epsilon_baseline) * (1 + 1e-9))
    audit = ss.audit(ensemble)
    assert audit.levels[0].multiplicity.models == 24
    audit.save(tmp_path / "out")
    assert "DP-SGD" in (tmp_path / "out" / "report.json").read_text()


def test_memory_is_bounded_by_dropping_every_second_step(parts: Any) -> None:
    whole = recorded(parts).runs[0]
    thin = recorded(parts, recorder=Recorder(test=parts[1], most_bytes=10 * EXAMPLES * 3)).runs[0]
    assert (whole.every, thin.every) == (1, 4)
    np.testing.assert_array_equal(thin.norms, whole.norms[::4])
    np.testing.assert_array_equal(thin.losses, whole.losses)


def test_what_breaks_a_guarantee_is_warned_of(parts: Any) -> None:
    with pytest.warns(SeedscopeWarning, match="not as Poisson batches"):
        recorder = recorded(parts, 2, poisson_sampling=False)
    assert recorder.runs[0].losses is None
    assert recorder.ensemble().guarantee.epsilon is None
    with pytest.warns(SeedscopeWarning, match="secure mode is off"):
        recorded(parts)


@pytest.mark.filterwarnings("ignore:noise or clipping changed")  # at the second run's attach
@pytest.mark.parametrize("scheduler", [ExponentialNoise, ExponentialGradClip])
def test_noise_or_clipping_that_changes_guarantees_nothing(parts: Any, scheduler: Any) -> None:
    recorder = Recorder(test=parts[1])
    for seed in range(2):
        model, optimizer, loss, loader = private(parts[0], seed)
        schedule = scheduler(optimizer, gamma=0.5)
        recorder.attach(model, optimizer, loader)
        for _ in range(2):
            trained(model, optimizer, loss, loader, epochs=1)
            schedule.step()
    with pytest.warns(SeedscopeWarning, match="noise or clipping changed between steps"):
        ensemble = recorder.ensemble()
    assert ensemble.guarantee.epsilon is None
    assert "noise or clipping that changed" in ensemble.guarantee.reason
    mechanism = ensemble.mechanism  # noise scales are 0.7 and 0.35 in both cases
    assert isinstance(mechanism, ss.DPSGD)
    assert mechanism.noise_multiplier * mechanism.clipping_norm == pytest.approx(0.35)
    assert mechanism.clipping_norm == pytest.approx(0.7)


def test_noise_that_is_set_after_attaching_is_what_counts(parts: Any) -> None:
    recorder = Recorder(test=parts[1])
    for seed in range(2):
        model, optimizer, loss, loader = private(parts[0], seed)
        recorder.attach(model, optimizer, loader)
        optimizer.noise_multiplier = 0.5
        trained(model, optimizer, loss, loader)
    expected = ss.accounting.dpsgd_epsilon(0.5, 0.25, 8, 1e-5)
    assert float(recorder.ensemble().guarantee.epsilon) == pytest.approx(float(expected), rel=1e-6)  # type: ignore[arg-type]


def with_gaps(parts: Any, mode: str, skip: bool) -> Recorder:
    """Return a recorder of runs in which two batches were empty, left out of training or not."""
    recorder = Recorder(test=parts[1])
    for seed in range(2):
        model, optimizer, loss, loader = private(parts[0], seed, mode=mode)
        given = Given([[1, 2, 3], [], [4, 5], []], 0.25)
        loader = DataLoader(parts[0], batch_sampler=given, collate_fn=loader.collate_fn)
        recorder.attach(model, optimizer, loader)
        for rows, labels in loader:
            if len(rows) or not skip:
                optimizer.zero_grad()
                loss(model(rows), labels).backward()
                optimizer.step()
    return recorder


@pytest.mark.filterwarnings("ignore:2 empty batches were left out")  # at the second run's attach
@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_empty_batches_that_are_left_out_guarantee_nothing(parts: Any, mode: str) -> None:
    recorder = with_gaps(parts, mode, skip=True)
    with pytest.warns(SeedscopeWarning, match="2 empty batches were left out"):
        ensemble = recorder.ensemble()
    assert ensemble.guarantee.epsilon is None
    assert "empty batches that were left out" in ensemble.guarantee.reason
    assert recorder.runs[0].members.sum(1).tolist() == [3, 2]


def test_a_step_on_an_empty_batch_is_a_step(parts: Any) -> None:
    recorder = with_gaps(parts, "hooks", skip=False)
    assert recorder.ensemble().guarantee.epsilon is not None
    assert recorder.runs[0].members.sum(1).tolist() == [3, 0, 2, 0]


@pytest.mark.filterwarnings("ignore:the model has dropout")
def test_recorded_losses_are_estimates_and_say_for_what(parts: Any) -> None:
    recorder = Recorder(test=parts[1], people=[0, 1])
    for seed in range(20):
        torch.manual_seed(seed)
        dropped = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(FEATURES, CLASSES))
        model, optimizer, loader = by_hand(parts, dropped, 15)
        recorder.attach(model, optimizer, loader)
        trained(model, optimizer, CROSS_ENTROPY, loader, epochs=1)
    losses = ss.privacy_loss.everybody(recorder.ensemble())
    assert losses.kind == "estimate"
    for reason in ("dropout was drawn again", "secure mode is off", "preprocessing that is not known to be public"):
        assert reason in losses.attacker


def test_secure_noise_is_still_floating_point_so_an_estimate(parts: Any) -> None:
    recorder = Recorder(test=parts[1])
    for seed in range(2):
        model, optimizer, loss, loader = private(parts[0], seed)
        optimizer.secure_mode = True
        recorder.attach(model, optimizer, loader)
        trained(model, optimizer, loss, loader, epochs=1)
    guarantee = recorder.ensemble().guarantee
    assert not any("secure" in sentence for sentence in recorder.runs[0].warnings)
    assert guarantee.epsilon is not None
    assert guarantee.epsilon.kind == "estimate"
    assert "noise in floating point" in guarantee.reason


def by_hand(parts: Any, model: Any, divisor: int) -> Any:
    """Return model, optimizer and loader that are private without an engine to check them."""
    wrapped = opacus.GradSampleModule(model, strict=False)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1), noise_multiplier=1.0, max_grad_norm=1.0,
        expected_batch_size=divisor,
    )  # fmt: skip
    return wrapped, optimizer, DPDataLoader(parts[0], sample_rate=0.25)


def test_batch_norm_and_a_divisor_from_the_data_are_warned_of(parts: Any) -> None:
    norm = torch.nn.BatchNorm1d(5, affine=False, track_running_stats=False)  # which Opacus does not notice
    mixing = torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), norm, torch.nn.Linear(5, CLASSES))
    with pytest.warns(SeedscopeWarning, match="batch normalisation, which mixes examples"):
        Recorder(test=parts[1]).attach(*by_hand(parts, mixing, 15))
    with pytest.warns(SeedscopeWarning, match="divided by 11, not by the expected batch size 15"):
        Recorder(test=parts[1]).attach(*by_hand(parts, torch.nn.Linear(FEATURES, CLASSES), 11))
    model, optimizer, loader = by_hand(parts, torch.nn.Linear(FEATURES, CLASSES), 15)
    recorder = Recorder(test=parts[1])
    recorder.attach(model, optimizer, loader)
    for rows, labels in loader:
        optimizer.zero_grad()
        CROSS_ENTROPY(model(rows), labels).backward()
        optimizer.expected_batch_size = max(1, len(rows))
        optimizer.step()
    with pytest.warns(SeedscopeWarning, match="changed between steps"):
        recorder.finish()


def test_one_logit_is_recorded_too(parts: Any) -> None:
    rows, labels = parts[0].tensors
    binary = TensorDataset(rows, (labels > 0).float())
    recorder = Recorder(
        test=binary, loss=lambda out, y: torch.nn.functional.binary_cross_entropy_with_logits(out[:, 0], y)
    )
    for seed in range(2):
        torch.manual_seed(seed)
        model, optimizer, loader = by_hand((binary,), torch.nn.Linear(FEATURES, 1), 15)
        recorder.attach(model, optimizer, loader)
        trained(model, optimizer, recorder.loss, loader, epochs=1)
    assert recorder.ensemble().base_scores().shape == (2, EXAMPLES)


def test_mistakes_are_named_in_a_sentence(parts: Any) -> None:
    model, optimizer, _, loader = private(parts[0], 0)
    with pytest.raises(ss.SeedscopeError, match="must be one that Opacus made private, got SGD"):
        Recorder(test=parts[1]).attach(model, optimizer.original_optimizer, loader)
    per_layer = private(parts[0], 0, clipping="flat")
    with pytest.raises(ss.SeedscopeError, match="people must be among 60 examples"):
        Recorder(test=parts[1], people=[60]).attach(per_layer[0], per_layer[1], per_layer[3])
    recorder = Recorder(test=parts[1])
    recorder.attach(model, optimizer, loader)
    with pytest.raises(ss.SeedscopeError, match="took no step"):
        recorder.finish()
    with pytest.raises(ss.SeedscopeError, match="at least two runs, got 1"):
        recorded(parts).ensemble()
    mixed = recorded(parts, recorder=recorded(parts), noise=2.0)
    with pytest.raises(ss.SeedscopeError, match="runs must be of one training"):
        mixed.ensemble()


def test_a_step_without_the_loader_is_named(parts: Any) -> None:
    model, optimizer, loss, loader = private(parts[0], 0)
    recorder = Recorder(test=parts[1])
    recorder.attach(model, optimizer, loader)
    rows, labels = parts[0].tensors
    optimizer.zero_grad()
    loss(model(rows[:5]), labels[:5]).backward()
    with pytest.raises(ss.SeedscopeError, match="without a batch of the loader"):
        optimizer.step()


PAGE = Path(__file__).parents[2] / "docs" / "opacus.md"


def test_the_docs_example_has_at_most_five_more_lines_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^``` { \.python .*?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    plain, with_us = (one.strip().splitlines() for one in blocks[:2])
    more = [line for line in with_us if line not in plain]
    assert len(more) <= 5
    assert [line for line in with_us if line in plain] == plain  # nothing else has changed
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(with_us).replace("range(50)", "range(3)"), str(PAGE), "exec"), {"__name__": "a_page"})
    assert (tmp_path / "out" / "report.html").exists()
