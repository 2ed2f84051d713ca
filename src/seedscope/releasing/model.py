"""A model that is published: weights in open formats, public preprocessing, and a card."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seedscope.analyses.multiplicity import ReleasedDisagreement, released_model_disagreement
from seedscope.core import PRIVATE, PUBLIC, SeedscopeError, cannot_write, plain_values, require, write_together
from seedscope.datasets import FittedScaling
from seedscope.mechanisms import Guarantee
from seedscope.releasing.card import model_card

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

    from seedscope.accounting import TradeOff

FORMAT, VERSION = "seedscope-model", 1
ARRAYS = ("mean", "deviation", "lower", "upper", "fill")  # of a scaling
WEIGHTS, FACTS, CARD, GRAPH = "model.npz", "model.json", "MODEL_CARD.md", "model.onnx"


@dataclass(frozen=True, eq=False)
class ReleasedModel:
    """The one model to publish: flat weights (of a linear model the bias last), how rows are scaled, what is proved.

    `noise_scale` is the public standard deviation of the noise on each weight (output perturbation), by which whoever
    holds the model can tell how arbitrary its decisions are; None where noise went elsewhere.
    """

    weights: np.ndarray
    model: str
    linear: bool
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    scaling: FittedScaling
    mechanism: str
    guarantee: Guarantee
    curve: TradeOff | None = None
    noise_scale: float | None = None

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        """Return the probabilities [row, class] of a linear model for features as they are in the table."""
        require(self.linear, f"only linear models predict by themselves; load the weights into {self.model}.")
        coefficients, intercepts = self.coefficients
        logits = self.scaling.apply(np.asarray(features, float)) @ coefficients.T + intercepts
        if logits.shape[1] == 1:
            logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: np.ndarray = chances / chances.sum(axis=1, keepdims=True)
        return probabilities

    @property
    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """A linear model's coefficients [logit, feature] and intercepts [logit]: one logit for two classes."""
        logits, width = 1 if len(self.class_names) == 2 else len(self.class_names), len(self.feature_names)
        return self.weights[: logits * width].reshape(logits, width), self.weights[logits * width :]

    def arbitrariness(self, features: np.ndarray, confidence: float = 0.95, **options: Any) -> ReleasedDisagreement:
        """Return how arbitrary this model's decisions about rows of the table are: from the model alone, privacy-free.

        Args:
            features: as they are in the table, [row, feature].
            confidence: with which each interval holds, over the noise that was drawn.
            options: `examples` and `weights` of `multiplicity.released_model_disagreement`.
        """
        require(self.linear, f"arbitrariness needs a linear model; this one is {self.model}.")
        noise = f"arbitrariness needs noise of a known scale on the weights; this model is by {self.mechanism}."
        require(self.noise_scale is not None, noise)
        scaled = self.scaling.apply(np.asarray(features, float))
        coefficients, intercepts = self.coefficients
        scores, norms = scaled @ coefficients.T + intercepts, np.hypot(np.linalg.norm(scaled, axis=1), 1)
        options, noise_scale = options | {"classes": len(self.class_names)}, float(self.noise_scale or 0)
        linear = scores[:, 0] if len(intercepts) == 1 else scores
        return released_model_disagreement(linear, norms, noise_scale, confidence, **options)

    def as_scikit_learn(self) -> LogisticRegression:
        """Return a linear model as scikit-learn's; it takes rows that `scaling.apply` has scaled."""
        from sklearn.linear_model import LogisticRegression

        require(self.linear, f"only linear models are scikit-learn's; this one is {self.model}.")
        regression = LogisticRegression()
        regression.coef_, regression.intercept_ = self.coefficients
        regression.classes_, regression.n_features_in_ = np.arange(len(self.class_names)), len(self.feature_names)
        return regression

    def as_dict(self) -> dict[str, Any]:
        """Return everything that is public about the model, as plain values."""
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "model": self.model,
            "linear": self.linear,
            "features": list(self.feature_names),
            "classes": list(self.class_names),
            "scaling": _scaling_facts(self.scaling),
            "mechanism": self.mechanism,
            "guarantee": self.guarantee.describe(),
            "curve": None if self.curve is None else self.curve.as_dict(),
            "noise_scale": self.noise_scale,
        }
        return facts | (self._linear_facts() if self.linear else {})

    def _linear_facts(self) -> dict[str, Any]:
        """Return coefficients and intercept as plain values: of two classes one row, of more a row for each."""
        coefficients, intercepts = (array.tolist() for array in self.coefficients)
        two_classes = len(self.class_names) == 2
        return {
            "coefficients": coefficients[0] if two_classes else coefficients,
            "intercept": intercepts[0] if two_classes else intercepts,
        }

    def as_onnx(self) -> bytes:
        """Return a linear model with its scaling as an ONNX file (extra `onnx`): rows of the table in, chances out."""
        from seedscope.releasing.onnx_graph import onnx_model  # extra

        require(self.linear, f"only linear models are written as ONNX; this one is {self.model}.", argument="onnx")
        return onnx_model(*self.coefficients, self.scaling, self.class_names)

    def save(self, folder: str | Path, onnx: bool = False) -> list[Path]:
        """Write model.npz, model.json and MODEL_CARD.md (and model.onnx) into a new or empty folder, and nothing else.

        Where the guarantee is proved everybody may read them, else their owner only.
        """
        place = Path(folder)
        free = not place.exists() or (place.is_dir() and not any(place.iterdir()))
        require(free, f"{place} is not empty; a published model gets a folder of its own.", argument="out")
        facts = plain_values(self.as_dict())
        files: dict[str, str | bytes] = {
            CARD: model_card(facts),
            FACTS: json.dumps(facts, indent=1, ensure_ascii=False) + "\n",
            WEIGHTS: _archive({"weights": self.weights, **_scaling_arrays(self.scaling)}),
        }
        if onnx:
            files[GRAPH] = self.as_onnx()
        try:
            place.mkdir(parents=True, exist_ok=True)
            return write_together(place, files, PUBLIC if self.guarantee.is_proved else PRIVATE)
        except OSError as error:
            raise cannot_write(place, error) from error


def load_released(folder: str | Path) -> ReleasedModel:
    """Return the model that was saved in a folder."""
    place = Path(folder)
    try:
        facts = json.loads((place / FACTS).read_text(encoding="utf-8"))
        with np.load(place / WEIGHTS, allow_pickle=False) as arrays:
            weights = arrays["weights"]
    except (OSError, ValueError, KeyError) as error:
        raise SeedscopeError(f"{place} has no published model: {error}.") from None
    require(facts.get("format") == FORMAT, f"{place / FACTS} is not a published model.")
    return ReleasedModel(
        weights, facts["model"], facts["linear"], tuple(facts["features"]), tuple(facts["classes"]),
        _scaling_from(facts["scaling"]), facts["mechanism"], Guarantee.from_description(facts["guarantee"]),
        noise_scale=facts.get("noise_scale"),
    )  # fmt: skip


def _archive(arrays: dict[str, np.ndarray]) -> bytes:
    """Return arrays as an .npz file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _scaling_arrays(scaling: FittedScaling) -> dict[str, np.ndarray]:
    """Return the arrays of a scaling, by name."""
    arrays = {name: getattr(scaling, name) for name in ARRAYS}
    return {name: values for name, values in arrays.items() if values is not None}


def _scaling_facts(scaling: FittedScaling) -> dict[str, Any]:
    """Return a scaling as plain values: (value cut to lower and upper, less mean) / deviation, rows to norm_bound.

    With `fill` an empty cell gets its feature's value first.
    """
    arrays = {name: values.tolist() for name, values in _scaling_arrays(scaling).items()}
    return {**arrays, "norm_bound": scaling.norm_bound, "learned": scaling.learned, "spent": list(scaling.spent)}


def _scaling_from(facts: dict[str, Any]) -> FittedScaling:
    """Return the scaling that was written down."""
    arrays: Any = {name: np.asarray(facts[name]) for name in ARRAYS if name in facts}
    epsilon, delta = facts["spent"]
    return FittedScaling(norm_bound=facts["norm_bound"], learned=facts["learned"], spent=(epsilon, delta), **arrays)
