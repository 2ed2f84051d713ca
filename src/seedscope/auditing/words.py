"""The words of the report: mechanisms and relations in sentences, a glossary, and who may see the page."""

from __future__ import annotations

import math

from seedscope.planning import ModelFacts

NOTICE = (
    "Sensitive: these numbers were computed from everybody's data, and a person's row depends on the others. Keep the "
    "page with those who may see the data; for everybody else make the public report. The models of an audit must not "
    "be released: whoever knows the seed can take their noise off. 'seedscope release' trains the one that may."
)
PUBLIC_DELTA = "δ was taken from the number of rows, which is not told here: give delta, and an ε can be claimed."
PUBLIC_ALARM = "An attack beat what is guaranteed, so the training has a bug: no ε is claimed for it."
PUBLIC_LEAK = (
    "An attack beat the ε that would be claimed, which rests on what was learned from the rows: none is claimed."
)
PUBLIC_NOTICE = "This page has only facts that do not depend on anybody's data."
ALARM_NOTICE = "But for the alarm, which an attack on the people trained on rang, facts here depend on nobody's data."
PUBLIC_SIZE = "ε follows from the number of rows, which is not told here: give public_size or ε, and it can be claimed."
TIGHTER = "the same guarantee by a tighter accountant (privacy-loss distribution)"
LAST = "of the last weights alone: if no step before them is ever seen"
NOT_OWN = "nobody's own: a tighter accountant gives it to everybody"
NO_OWN = "Not known for this person: they were not audited for it, or nothing below what everybody has is known."

GLOSSARY = {
    "proved": "Holds by a theorem whose conditions were checked.",
    "statistical": "Holds with the stated confidence over the re-trainings drawn.",
    "estimate": "A point estimate, no guarantee.",
    "ε (epsilon)": "How much one person's data can change what training produces: the probability of any outcome "
    "changes by a factor of at most e^ε, and by δ besides. Smaller is more private.",
    "δ (delta)": "What is added to that probability. It is not the chance that the promise fails: a loss above ε can "
    "be several times as probable as δ.",
    "re-training": "The same model trained again with another seed: other initial weights, batches or privacy noise.",
    "disagreement": "How often re-trainings decide differently about a person, from 0 (never) to 1 (a fair coin toss): "
    "4p(1 − p) where a share p decides one way. Two re-trainings differ with half that probability.",
    "arbitrary decision": "A disagreement of at least 0.5: two re-trainings differ at least one time in four.",
    "close to a coin toss": "Fewer than 60 % of the re-trainings agree about this person.",
    "consensus": "What most re-trainings decide, and the share of them that do.",
    "membership advantage": "How much more often an attacker says 'was in the training data' of a person who was than "
    "of the same person left out; 0 is guessing, 1 is certainty. Who must guess between the two with even chances is "
    "right with probability (1 + advantage)/2.",
    "ε lower bound": "The smallest ε that an attack which worked this well still allows.",
    "ε of a person": "How well this person is hidden among these data: from their own gradients along the runs, "
    "smaller than what is proved for anybody. An estimate, and beside it a bound that holds statistically.",
    "sandwich": "Both sides of privacy together: what an attack proves from below, what accounting says from above. If "
    "they cross, the training does not do what its accounting assumes.",
    "ceiling": "The most that this many held-out seeds can prove, were the attack never wrong.",
    "reconstruction error": "The least mean squared error of an unbiased guess of a person's features, each in "
    "standard deviations, averaged over them. Guessing the average has 1, but is not unbiased.",
    "uncertainty left": "The share of what is unknown about a person's features that the model leaves to any attacker, "
    "biased or not, who starts from the population's spread τ and knows everything else: 1/(1 + τ²I), I the Fisher "
    "information of the released model about the feature. 1: the model tells nothing; 0: it tells the value.",
    "chance to guess": "Of a column of categories: how often the best guess is right without the model, and at most "
    "with it, whatever the attacker does.",
    "neighbouring data": "The training data with one person replaced or taken out.",
    "intrinsic privacy": "The privacy that plain SGD's own randomness would amount to if it were Gaussian noise.",
}


def probability_factor(epsilon: float) -> str:
    """Return e^ε in words.

    >>> [probability_factor(one) for one in (1.0, 5.0, 800.0)]
    ['2.72', '148', '1e+304']
    """
    factor = math.exp(min(epsilon, 700))
    return f"{factor:,.2f}" if factor < 100 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.0e}"


def guarantee_meaning(epsilon: float | None, delta: float) -> str:
    """Return what a guarantee means for a person: of probabilities, and where δ is 0 of the odds of membership too.

    >>> guarantee_meaning(1.0, 0.0)
    "Nobody's data make any outcome more than 2.72 times as probable; nor do the odds that they are there grow by more."
    >>> guarantee_meaning(1.0, 1e-5)
    "Nobody's data make any outcome more probable than 2.72 times what it is without them, plus 1e-05."
    """
    if epsilon is None:
        return "Nothing limits what the model may tell about a person."
    factor = probability_factor(epsilon)
    if delta:
        more = f"more probable than {factor} times what it is without them, plus {delta:.2g}"
        return f"Nobody's data make any outcome {more}."
    more = f"more than {factor} times as probable; nor do the odds that they are there grow by more"
    return f"Nobody's data make any outcome {more}."


def describe_model(model: ModelFacts) -> str:
    """Return a model in words."""
    return f"{model.name}, {model.parameters:,} weights" if model.parameters else model.name
