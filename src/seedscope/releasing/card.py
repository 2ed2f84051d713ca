"""The card of a published model, in Markdown: what is guaranteed, for whom, and what is not."""

from __future__ import annotations

from typing import Any

from seedscope.core import RELATION_WORDS
from seedscope.mechanisms import NOT_COVERED

RANDOM = "Random numbers came from the operating system and were kept nowhere."
KNOWN = (
    "Counted as public knowledge: the columns' names, ranges and levels, the target's classes, how the file is "
    "written, how many rows there are after those with empty cells are left out, and the settings of the training."
)


def model_card(facts: dict[str, Any]) -> str:
    """Return the card from what is public about the model."""
    parts = [_front_matter(facts), "# Model card", _about(facts), _guarantee(facts), _limits(facts), _use(facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(facts: dict[str, Any]) -> str:
    """Return the lines that model hubs read: only what is proved is called private there."""
    epsilon = facts["guarantee"]["epsilon"]
    private = ["- differential-privacy"] if epsilon is not None and epsilon["kind"] == "proved" else []
    return "\n".join(["---", "tags:", *private, "- tabular-classification", "library_name: seedscope", "---"])


def _about(facts: dict[str, Any]) -> str:
    """Return what the model is."""
    classes = " or ".join(facts["classes"])
    return (
        f"{facts['model']}, trained by {facts['mechanism']}. It predicts {classes} from {len(facts['features'])} "
        "features, whose names and scaling are in `model.json`; weights are in `model.npz` too. A `model.onnx`, if "
        "there is one, is the same model and scales rows itself."
    )


def _guarantee(facts: dict[str, Any]) -> str:
    """Return what is guaranteed, as a table."""
    guarantee, curve = facts["guarantee"], facts["curve"]
    if guarantee["epsilon"] is None:
        return f"## Privacy\n\n**Nothing is guaranteed:** {guarantee['reason']}"
    kind = guarantee["epsilon"]["kind"]
    rows = [("ε", f"{guarantee['epsilon']['value']:.6g} ({kind})"), ("δ", f"{guarantee['delta']:.3g}")]
    if curve is not None:
        rows += [("μ (Gaussian privacy)", f"{curve['mu']['value']:.4g}")]
        rows += [("best membership attack's advantage, at most", f"{curve['advantage']['value']:.3g}")]
        rows += [
            (
                f"its true-positive rate at {rate['false_positive_rate']:g} false positives, at most",
                f"{rate['at_most']:.3g}",
            )
            for rate in curve["true_positive_rates"]
        ]
    unit = "a person, with all of their rows" if guarantee.get("unit") == "person" else "one row of the table"
    if facts.get("noise_scale") is not None:
        rows += [("noise on each weight, standard deviation", f"{facts['noise_scale']:.6g}")]
    rows += [("neighbouring data", RELATION_WORDS[guarantee["relation"]]), ("unit", unit)]
    table = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    return f"## Privacy\n\n{table}\n\nBy {guarantee['reason']} The whole curve is in `model.json`."


def _limits(facts: dict[str, Any]) -> str:
    """Return what is not covered."""
    learned = facts["guarantee"].get("assumes", [])
    warned = [f"Learned from the rows and not covered: {', '.join(learned)}."] if learned else []
    said = "\n".join(f"- {sentence}" for sentence in (*warned, *NOT_COVERED))
    return f"{RANDOM} {KNOWN}\n\n## Not covered\n\n{said}"


def _use(facts: dict[str, Any]) -> str:
    """Return how to use the model."""
    if not facts["linear"]:
        return ""
    return (
        '## Use\n\n```python\nimport seedscope as ss\n\nmodel = ss.load_released("model")\n'
        "chances = model.predict_proba(rows)   # features as in the table\n"
        "estimator = model.as_scikit_learn()   # for rows scaled by model.scaling.apply\n```" + _abstaining(facts)
    )


def _abstaining(facts: dict[str, Any]) -> str:
    """Return how to abstain where a decision would be arbitrary, if the model alone can tell."""
    if facts.get("noise_scale") is None:
        return ""
    return (
        "\n\nWhose decision hangs on the noise that was drawn is told by this model alone, at no privacy cost:\n\n"
        "```python\nfound = model.arbitrariness(rows)\ndecided_about = found.certain(0.75)  # abstain on others\n```"
    )
