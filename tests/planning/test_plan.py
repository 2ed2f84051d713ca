"""Plans: what does not go together is refused before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import seedscope as ss
from seedscope.models import Model
from seedscope.planning import make_plan
from tests.helpers.small_data import table


@dataclass(frozen=True)
class Stretched(Model):
    """A model of somebody's own that says its loss is convex: it may be, and bend more than logistic regression."""

    @property
    def convex(self) -> bool:
        return True


@pytest.mark.parametrize("mechanism", [ss.SGD(), ss.DPSGD(), ss.ObjectivePerturbation(1.0)])
def test_bounds_for_logistic_regression_are_lent_to_no_other_model(mechanism: ss.SGD) -> None:
    with pytest.raises(ss.SeedscopeError, match=r"only logistic regression is taken as convex.*Stretched\(\) must not"):
        make_plan(table(), mechanism, Stretched())
