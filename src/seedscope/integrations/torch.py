"""Records an existing Opacus loop: everybody's gradient norms, the noise along them, batches, and privacy losses.

    recorder = Recorder(test=test_set)
    for seed in range(50):
        …                                             # your own model, optimizer, loader, made private by Opacus
        recorder.attach(model, optimizer, loader)     # before the training loop, which stays as it is
        …
    ss.audit(recorder.ensemble()).save("out")

When the optimizer has added its noise ξ and not yet moved, people's gradients g at that state are computed again, block
by block, whatever Opacus does to have its own (hooks, functorch, ghost clipping). Their clipped norms, ⟨ξ, g⟩ and who
was in the batch give every step's privacy loss; only its sum is kept, norms and projections as far as memory allows.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import torch
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler
    from torch.func import functional_call, grad, vmap
    from torch.utils.data import default_collate
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"recording needs PyTorch and Opacus ({error}): pip install 'seedscope[torch]'.", name=error.name
    ) from error

from seedscope.core import SeedscopeError, SeedscopeWarning, require, require_count
from seedscope.integrations.recorded_runs import Doubt, Run, Settings, ensemble_of_runs, log_mixture
from seedscope.storage import Ensemble

BLOCK_BYTES = 64 << 20  # of people's gradients that are held together
BYTES_KEPT = 10  # of a person and a step: norm, projection, in the batch, right
SMALLEST_NORM = 1e-6  # what Opacus adds to a norm before it divides by it
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
MIXES_PEOPLE = (torch.nn.modules.batchnorm._BatchNorm,)
DROPS = (torch.nn.modules.dropout._DropoutNd,)


class Recorder:
    """Records runs of an Opacus loop, each from `attach` until the next `attach` or `ensemble`.

    Args:
        test: a data set of (input, label) on which decisions are compared.
        loss: (outputs, labels) → the loss that is trained, cross-entropy by default.
        people: numbers of the training examples that are watched; by default everybody.
        groups: by name, a value for each training example and then for each test example.
        delta: at which ε is told.
        most_bytes: that norms, projections and batches may take for each run; beyond that every second step is dropped.
    """

    def __init__(
        self,
        *,
        test: Any,
        loss: Callable[[Any, Any], Any] = torch.nn.functional.cross_entropy,
        people: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
        delta: float = 1e-5,
        most_bytes: int = 256 << 20,
    ) -> None:
        require_count("most_bytes", most_bytes, at_least=1)
        self.test, self.loss, self.groups, self.delta = test, loss, groups, delta
        self.people = None if people is None else np.asarray(people, int)
        self.most_bytes = most_bytes
        self.runs: list[Run] = []
        self._recording: _Recording | None = None

    def attach(self, model: Any, optimizer: Any, loader: Any, engine: Any = None) -> None:
        """Record from here on what this optimizer does; what was recorded before becomes a finished run.

        Args:
            model: as Opacus returned it, or (with `wrap_model=False`) your own.
            optimizer: as Opacus returned it.
            loader: as Opacus returned it; the order of its data set is the order of people.
            engine: the PrivacyEngine; where it is not in secure mode the optimizer's word for it does not count.
        """
        self.finish()
        self._recording = _Recording(self, model, optimizer, loader, engine)

    def finish(self) -> None:
        """End the run under way: its model is asked for scores, and Opacus's objects are as they were."""
        if self._recording is not None:
            recording, self._recording = self._recording, None
            self.runs.append(recording.finished(self.test))

    def ensemble(self, name: str = "recorded runs") -> Ensemble:
        """Return all runs as an ensemble, which `ss.audit` and every analysis takes."""
        self.finish()
        return ensemble_of_runs(self.runs, groups=self.groups, delta=self.delta, name=name)


class _Batches:
    """A batch sampler that remembers what it handed out, batch by batch, until a step has used it."""

    def __init__(self, sampler: Any):
        self.sampler = sampler
        self.waiting: deque[list[int]] = deque()
        self.passed_over = 0  # empty batches without a step

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.sampler:
            self.waiting.append(list(batch))
            yield batch

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)

    @property
    def left_out(self) -> int:
        """How many empty batches no step was taken on."""
        return self.passed_over + sum(not batch for batch in self.waiting)

    def taken(self, size: int | None, empty: bool) -> np.ndarray:
        """Return the batch that a step has just used; loops that leave out empty batches leave them here."""
        while self.waiting and not empty and not self.waiting[0]:
            self.waiting.popleft()
            self.passed_over += 1
        require(self.waiting, "a step was taken without a batch of the loader; train on the loader that is attached.")
        batch = self.waiting.popleft()
        right = size is None or size == len(batch)
        require(right, f"a step had {size} examples, the loader's batch {len(batch)}; attach before the first batch.")
        return np.asarray(batch, int)


class _Recording:
    """One run under way."""

    def __init__(self, recorder: Recorder, model: Any, optimizer: Any, loader: Any, engine: Any):
        _require_known(optimizer, loader)
        self.recorder, self.optimizer, self.loader = recorder, optimizer, loader
        self.module = getattr(model, "_module", model)
        self.plain = _without_hooks(self.module)
        self.names = [name for name, parameter in self.module.named_parameters() if parameter.requires_grad]
        examples = len(loader.dataset)
        self.people = np.arange(examples) if recorder.people is None else recorder.people
        require(len(self.people) and self.people.max() < examples, f"people must be among {examples} examples.")
        self.rows, self.labels = _collated(loader.dataset, self.people)
        self.block = _block_size(sum(parameter.numel() for parameter in self.module.parameters()))
        self.random = any(isinstance(module, DROPS) for module in self.module.modules())
        self.poisson = isinstance(loader.batch_sampler, UniformWithReplacementSampler)
        self.settings = self._settings(engine)
        self.sizes: set[int] = set()  # what sums were divided by
        self.noises: set[tuple[float, float]] = set()  # multipliers and clipping norms
        self.warned = _warnings(self.module, loader, self.settings, self.random)
        self.losses, self.steps, self.every = np.zeros(len(self.people)), 0, 1
        self.kept: list[tuple[np.ndarray, ...]] = []
        self.batches = _Batches(loader.batch_sampler)
        object.__setattr__(loader, "batch_sampler", self.batches)  # torch refuses to have it set
        self.add_noise = optimizer.add_noise
        optimizer.add_noise = self._noise_was_added

    def _settings(self, engine: Any) -> Settings:
        """Return rate, clipping and noise as the optimizer and the loader have them."""
        optimizer, loader = self.optimizer, self.loader
        rate = float(loader.batch_sampler.sample_rate) if self.poisson else 1 / max(1, len(loader))
        return Settings(
            model=type(self.module).__name__,
            parameters=sum(parameter.numel() for parameter in self.module.parameters()),
            rate=rate,
            batch_size=int(optimizer.expected_batch_size or math.ceil(rate * len(loader.dataset))),
            noise_multiplier=float(optimizer.noise_multiplier),
            clipping_norm=float(optimizer.max_grad_norm),
            learning_rate=float(optimizer.param_groups[0]["lr"]),
            poisson=self.poisson,
            secure=bool(optimizer.secure_mode and getattr(engine, "secure_mode", True)),
            mixes_people=any(isinstance(module, MIXES_PEOPLE) for module in self.module.modules()),
            examples=len(loader.dataset),
        )

    def _noise_was_added(self) -> None:
        """Stand in for the optimizer's `add_noise`: add it, and look at what was drawn before anything moves."""
        self.add_noise()
        noise = {}
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                noise[name] = (parameter.grad - parameter.summed_grad.view_as(parameter)).detach()
        self._record(noise)

    def _record(self, noise: dict[str, Any]) -> None:
        """Add a step: everybody's norms, the noise along their gradients, and who was in the batch."""
        optimizer, scale = self.optimizer, self._noise_scale()
        self.sizes.add(int(optimizer.expected_batch_size or 0))
        self.noises.add((float(optimizer.noise_multiplier), float(optimizer.max_grad_norm)))
        size = _examples_in_step(optimizer)
        inside = np.isin(self.people, self.batches.taken(size, _nobody_in_step(optimizer, size)))
        norms, products, right = self._gradients(noise)
        factors = np.minimum(1.0, optimizer.max_grad_norm / (norms + SMALLEST_NORM))
        lengths, along = factors * norms, factors * products
        if scale > 0 and self.poisson:
            exponents = (along + (inside - 0.5) * lengths**2) / scale**2
            self.losses += log_mixture(exponents, self.settings.rate)
        if self.steps % self.every == 0:
            self.kept.append((norms.astype(np.float32), along.astype(np.float32), inside, right))
            self._thin()
        self.steps += 1

    def _noise_scale(self) -> float:
        """Return the standard deviation of the noise on the sum in this step."""
        multiplier = getattr(self.optimizer, "_adjusted_noise_multiplier", self.optimizer.noise_multiplier)
        return float(multiplier * self.optimizer.max_grad_norm)

    def _thin(self) -> None:
        """Drop every second record where they take more memory than they may."""
        if len(self.kept) > 1 and BYTES_KEPT * len(self.people) * len(self.kept) > self.recorder.most_bytes:
            self.kept, self.every = self.kept[::2], 2 * self.every

    def _gradients(self, noise: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of people at the model's state [person]: gradients' norms, products with the noise, who is right."""
        buffers = dict(self.module.named_buffers())
        parameters = {name: tensor.detach() for name, tensor in self.module.named_parameters()}
        moving = {name: parameters[name] for name in self.names}
        fixed = {name: tensor for name, tensor in parameters.items() if name not in moving} | buffers

        def loss_of_one(moved: dict[str, Any], row: Any, label: Any) -> tuple[Any, Any]:
            outputs = functional_call(self.plain, {**fixed, **moved}, (row.unsqueeze(0),))
            return self.recorder.loss(outputs, label.unsqueeze(0)), outputs[0]

        mode = "different" if self.random else "error"
        of_everybody = vmap(grad(loss_of_one, has_aux=True), in_dims=(None, 0, 0), randomness=mode)
        blocks = []
        self.plain.train(self.module.training)
        with torch.random.fork_rng(enabled=self.random):
            for first in range(0, len(self.people), self.block):
                part = slice(first, first + self.block)
                gradients, outputs = of_everybody(moving, self.rows[part], self.labels[part])
                right = _decisions(outputs) == np.asarray(self.labels[part]).reshape(-1)
                blocks.append((*_norms_and_products(gradients, noise), right))
        norms, products, right = (np.concatenate(values) for values in zip(*blocks, strict=True))
        return norms, products, right

    def finished(self, test: Any) -> Run:
        """Return the run, after Opacus's objects were given back what they had."""
        del self.optimizer.add_noise  # its own is the class's
        object.__setattr__(self.loader, "batch_sampler", self.batches.sampler)
        require(self.steps > 0, "the run that was attached took no step; attach before the training loop.")
        self.warned += [_warn(sentence) for sentence in self._broken_on_the_way()]
        with torch.no_grad():
            self.plain.load_state_dict(self.module.state_dict())
            self.plain.eval()
            train, test_part = (_scores(self.plain, dataset) for dataset in (self.loader.dataset, test))
        norms, products, inside, right = (np.stack(values) for values in zip(*self.kept, strict=True))
        return Run(
            self._least_noise(), self.steps, self.every, self.people, norms, products, inside, right,
            self.losses if self.poisson and self._noise_scale() > 0 else None, train, test_part, tuple(self.warned),
            self._doubts(),
        )  # fmt: skip

    def _broken_on_the_way(self) -> list[str]:
        """Return what went wrong between the first step and the last, a sentence each."""
        blocks = []
        if len(self.sizes) > 1:
            blocks.append("the divisor of the gradients changed between steps: taken from the data?")
        if len(self.noises) > 1:
            blocks.append("noise or clipping changed between steps: no ε is told, ask Opacus's own accountant for one.")
        if self.batches.left_out:
            blocks.append(
                f"{self.batches.left_out} empty batches were left out: a missing step tells that nobody was in it, so "
                "nothing is guaranteed; take a step on empty batches too."
            )
        return blocks

    def _least_noise(self) -> Settings:
        """Return the settings with the largest clipping norm, and the least noise in its units, of all steps."""
        clip = max(norm for _, norm in self.noises)
        least = min(multiplier * (norm / clip) for multiplier, norm in self.noises)
        return replace(self.settings, noise_multiplier=least, clipping_norm=clip)

    def _doubts(self) -> tuple[Doubt, ...]:
        """Return what makes of the run's numbers estimates, or forbids to guarantee anything."""
        held: dict[Doubt, bool] = {
            Doubt.INSECURE: not self.settings.secure,
            Doubt.FLOATING_POINT: self.settings.secure,
            Doubt.DIVISOR: len(self.sizes) > 1,
            Doubt.RANDOM_LAYERS: self.random,
            Doubt.PREPROCESSING: True,
            Doubt.MIXES_PEOPLE: self.settings.mixes_people,
            Doubt.NOISE_VARIED: len(self.noises) > 1,
            Doubt.EMPTY_LEFT_OUT: self.batches.left_out > 0,
        }
        return tuple(doubt for doubt, holds in held.items() if holds)


def _require_known(optimizer: Any, loader: Any) -> None:
    """Raise unless the optimizer clips and adds noise in a way that is understood here."""
    name = type(optimizer).__name__
    require(isinstance(optimizer, DPOptimizer), f"optimizer must be one that Opacus made private, got {name}.")
    flat = type(optimizer) in (DPOptimizer, DPOptimizerFastGradientClipping)
    require(flat, f"{name} is not recorded: only flat clipping on one machine is, clipping='flat'.")
    indexed = hasattr(loader, "batch_sampler") and hasattr(getattr(loader, "dataset", None), "__getitem__")
    require(indexed, "loader must be a DataLoader of a data set with numbered examples.")


def _warn(sentence: str) -> str:
    """Return the sentence after it was said as a warning."""
    warnings.warn(sentence, SeedscopeWarning, stacklevel=6)
    return sentence


def _warnings(module: Any, loader: Any, settings: Settings, random: bool) -> list[str]:
    """Return what breaks a guarantee, or a recording, each said as a warning."""
    blocks = []
    if not settings.poisson:
        kind = type(loader.batch_sampler).__name__
        blocks.append(f"batches are drawn by {kind}, not as Poisson batches: accounting for Poisson does not hold.")
    if settings.mixes_people:
        blocks.append("the model has batch normalisation, which mixes examples: clipping bounds nobody's influence.")
    if not settings.secure:
        blocks.append("secure mode is off: the noise is pseudo-random floating point, so its ε is an estimate.")
    expected = settings.rate * settings.examples
    if settings.poisson and settings.batch_size not in (int(expected), round(expected)):
        blocks.append(
            f"gradients are divided by {settings.batch_size}, not by the expected batch size {expected:.1f}: is the "
            "divisor taken from the data?"
        )
    if random:
        blocks.append("the model has dropout: people's gradients are recorded with masks of their own, as estimates.")
    return [_warn(doubt) for doubt in blocks]


def _examples_in_step(optimizer: Any) -> int | None:
    """Return how many examples the optimizer has just clipped; None where it does not say (ghost clipping)."""
    if type(optimizer) is not DPOptimizer or optimizer._step_skip_queue or optimizer._is_last_step_skipped:
        return None
    return len(optimizer.grad_samples[0])


def _nobody_in_step(optimizer: Any, size: int | None) -> bool:
    """Whether a step had no examples; where their number is not told, whether their sum is exactly zero."""
    return (
        size == 0 if size is not None else not any(bool(parameter.summed_grad.any()) for parameter in optimizer.params)
    )


def _without_hooks(module: Any) -> Any:
    """Return a copy of a module that Opacus does not listen to."""
    kept = [(inner, name, getattr(inner, name)) for inner in module.modules() for name in HOOKS if hasattr(inner, name)]
    for inner, name, hooks in kept:
        setattr(inner, name, type(hooks)())
    try:
        return copy.deepcopy(module)
    finally:
        for inner, name, hooks in kept:
            setattr(inner, name, hooks)


def _block_size(parameters: int) -> int:
    """Return how many people's gradients fit into the memory that they may take."""
    return max(1, BLOCK_BYTES // (4 * max(1, parameters)))


def _collated(dataset: Any, places: Sequence[int] | np.ndarray) -> tuple[Any, Any]:
    """Return inputs and labels of some examples as tensors."""
    pairs = [dataset[int(place)] for place in places]
    right = all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs)
    require(right, "a data set must give pairs (input, label).")
    rows, labels = default_collate(pairs)
    require(isinstance(rows, torch.Tensor), "inputs must be tensors of one shape.")
    return rows, labels


def _norms_and_products(gradients: Mapping[str, Any], noise: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return norms of gradients {name: [person, ...]} and their products with the noise {name: [...]}: [person]."""
    squares: Any = 0.0
    products: Any = 0.0
    for name, gradient in gradients.items():
        flat = gradient.reshape(len(gradient), -1).double()
        squares = squares + (flat**2).sum(1)
        products = products + flat @ noise[name].reshape(-1).double()
    return np.sqrt(squares.cpu().numpy()), products.cpu().numpy()


def _decisions(outputs: Any) -> np.ndarray:
    """Return the class [person] that outputs [person(, class)] decide for."""
    single = outputs.ndim == 1 or outputs.shape[-1] == 1
    decided = (outputs.reshape(len(outputs)) > 0).long() if single else outputs.argmax(-1)
    return np.asarray(decided.cpu().numpy())


def _scores(module: Any, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return scores [example(, class)] and labels [example] of a data set."""
    scores, truth = [], []
    for first in range(0, len(dataset), 1024):
        rows, labels = _collated(dataset, range(first, min(first + 1024, len(dataset))))
        outputs = module(rows)
        single = outputs.ndim == 1 or outputs.shape[-1] == 1
        chances = torch.sigmoid(outputs.reshape(len(rows))) if single else torch.softmax(outputs, -1)
        scores.append(chances.double().cpu().numpy())
        truth.append(np.asarray(labels).reshape(-1))
    if not scores:
        raise SeedscopeError("test must have examples.")
    return np.concatenate(scores), np.concatenate(truth)
