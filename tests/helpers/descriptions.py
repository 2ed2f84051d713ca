"""Descriptions of ensembles that were never trained, for analyses of arrays that a test makes itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seedscope import SGD
from seedscope.mechanisms import Conditions, Mechanism
from seedscope.planning.description import DataFacts, Description, GridFacts, ModelFacts, Preprocessing


def described(
    mechanism: Mechanism | None = None,
    *,
    examples: int = 200,
    norm_bound: float | None = 1.0,
    convex: bool = True,
    **grid: Any,
) -> Description:
    """Return the description of models of a two-class table, trained by SGD unless another mechanism is given."""
    mechanism = mechanism or SGD(learning_rate=0.5, batch_size=10, steps=100)
    facts = GridFacts(
        1, 0, (), ("varied",), (mechanism.last_step,), mechanism.relation, 0, {"seeds": 1, "neighbours": 1}
    )
    return Description(
        data=DataFacts("table", "0" * 16, "a test", examples, 0, (2,), ("0", "1"), (), norm_bound),
        described_mechanism=mechanism.describe(),
        guarantee=mechanism.guarantee(Conditions(examples, norm_bound)),
        model=ModelFacts("Logistic()" if convex else "MLP()", 3, convex),
        grid=replace(facts, **grid),
        preprocessing=Preprocessing({"type": "Unscaled"}, norm_bound, False),
        records={},
        versions={},
    )
