"""AD Figure 8b: how far an estimated disagreement is from the truth, which output perturbation has in closed form.

The paper takes the estimate from all models for the truth and draws from those models again, so that errors shrink to 0
by themselves. Here the truth is exact, and every estimate is of models of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import seedscope as ss
from seedscope.reproduce.multiplicity.models import linear_scores, released_weights

SAMPLES = 10  # of models, for each number of them; as in the paper
AIM = 0.5  # the disagreement of the example that is looked at, about
NOISE, L2 = 0.05, 0.01  # of the models; any would do


def error_rows(data: ss.Dataset, largest: int) -> list[dict[str, Any]]:
    """Return the error of one example's disagreement from up to `largest` models, against its closed form."""
    decided, truth = sampled_decisions(data, largest)
    return [
        row for models in np.geomspace(20, largest, 10).astype(int).tolist() for row in _rows(decided, truth, models)
    ]


def sampled_decisions(data: ss.Dataset, largest: int) -> tuple[np.ndarray, float]:
    """Return decisions [sample, model] about one test example, all of different models, and its true disagreement."""
    clean = released_weights(data, ss.OutputPerturbation(noise_scale=0.0, l2=L2), 1)[0].astype(float)
    norms = np.hypot(np.linalg.norm(data.test_features, axis=1), 1)
    exact = ss.multiplicity.output_perturbation_disagreement(linear_scores(clean, data.test_features), norms, NOISE)
    place = int(np.argmin(np.abs(exact - AIM)))
    noisy = released_weights(data, ss.OutputPerturbation(noise_scale=NOISE, l2=L2), SAMPLES * largest)
    decided = linear_scores(noisy.astype(float), data.test_features[place : place + 1])[:, 0] > 0
    return decided.reshape(SAMPLES, largest), float(exact[place])


def _rows(decided: np.ndarray, truth: float, models: int) -> list[dict[str, Any]]:
    """Return the mean error over samples of this many models, the paper's bound and the exact interval."""
    drawn = decided[:, :models].T
    errors = np.abs(ss.multiplicity.disagreement(drawn) - truth)
    lower, upper = ss.statistics.mean_interval(errors, 0.95)
    exact = float(ss.multiplicity.interval_error(drawn.sum(axis=0), models, 0.95).mean())
    bound = float(ss.multiplicity.disagreement_error(models, 0.95))
    return [
        {"models": models, "curve": "measured", "error": float(errors.mean()), "lower": max(1e-4, float(lower)),
         "upper": float(upper)},
        {"models": models, "curve": "the paper's bound at 95 %", "error": bound},
        {"models": models, "curve": "exact interval at 95 %", "error": exact},
    ]  # fmt: skip
