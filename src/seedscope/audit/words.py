"""The words of the report: mechanisms and relations in sentences, a glossary, and who may see the page."""

from __future__ import annotations

import math
from typing import Any

RELATIONS = {
    "replace_one": "one person replaced by another (replace-one)",
    "add_or_remove": "one person added or taken out (add-or-remove)",
}

NOTICE = (
    "Sensitive: these numbers were computed from everybody's data, and a person's row depends on the others. Keep the "
    "page with those who may see the data; for the public there is --public."
)

GLOSSARY = {
    "proved": "Holds by a theorem whose conditions were checked.",
    "statistical": "Holds with the stated confidence over the re-trainings drawn.",
    "estimate": "A point estimate, no guarantee.",
    "ε (epsilon)": "How much one person's data can change what training produces: the odds of any outcome change by a "
    "factor of at most e^ε. Smaller is more private.",
    "δ (delta)": "The chance that is left out of that statement.",
    "re-training": "The same model trained again with another seed: other initial weights, batches or privacy noise.",
    "disagreement": "How often re-trainings decide differently about a person, from 0 (never) to 1 (a fair coin toss): "
    "4p(1 − p) where a share p decides one way. Two re-trainings differ with half that probability.",
    "arbitrary decision": "A disagreement of at least 0.5: two re-trainings differ at least one time in four.",
    "consensus": "What most re-trainings decide, and the share of them that do.",
    "membership advantage": "How much more often an attacker says 'was in the training data' of a person who was than "
    "of the same person left out; 0 is guessing, 1 is certainty.",
    "ε lower bound": "The smallest ε that an attack which worked this well still allows.",
    "ε of a person": "How well this person is hidden among these data: from their own gradients along the runs, "
    "smaller than what is proved for anybody. An estimate, and beside it a bound that holds statistically.",
    "sandwich": "Both sides of privacy together: what an attack proves from below, what accounting says from above. If "
    "they cross, the training does not do what its accounting assumes.",
    "ceiling": "The most that so many held-out seeds can prove, were the attack never wrong.",
    "reconstruction error": "The least mean squared error of an unbiased guess of a person's features, each in "
    "standard deviations: from 1 on the model helps no more than the average.",
    "neighbouring data": "The training data with one person replaced or taken out.",
    "intrinsic privacy": "The privacy that plain SGD's own randomness would amount to if it were Gaussian noise.",
}


def odds_factor(epsilon: float) -> str:
    """Return e^ε in words.

    >>> [odds_factor(one) for one in (1.0, 5.0, 800.0)]
    ['2.72', '148', '1e+304']
    """
    factor = math.exp(min(epsilon, 700))
    return f"{factor:,.2f}" if factor < 100 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.0e}"


def guarantee_meaning(epsilon: float | None, delta: float) -> str:
    """Return what a guarantee means for a person.

    >>> guarantee_meaning(1.0, 0.0)
    "Nobody's data can change the odds of any outcome by more than a factor of 2.72."
    """
    if epsilon is None:
        return "Nothing limits what the model may tell about a person."
    but = f", but for a chance of {delta:.2g}" if delta else ""
    return f"Nobody's data can change the odds of any outcome by more than a factor of {odds_factor(epsilon)}{but}."


def describe_mechanism(mechanism: dict[str, Any]) -> str:
    """Return a mechanism in words."""
    words = {
        "SGD": "plain stochastic gradient descent, {steps:,} steps of {batch_size} rows at rate {learning_rate:g}",
        "DPSGD": "DP-SGD, {steps:,} steps of {batch_size} rows on average, gradients clipped to {clipping_norm:g}",
        "OutputPerturbation": "output perturbation (Gaussian noise on the regularised solution)",
        "ObjectivePerturbation": "objective perturbation (a random tilt of the regularised objective)",
        "AugmentedOutputPerturbation": "SGD plus the noise that its own randomness lacks",
    }
    return words[mechanism["type"]].format(**mechanism)


def describe_model(model: dict[str, Any]) -> str:
    """Return a model in words."""
    return f"{model['name']}, {model['parameters']:,} weights"
