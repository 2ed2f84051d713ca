"""Stopping by validation loss: against a loop, and its limit cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedscope.analyses import intrinsic
from seedscope.core.errors import SeedscopeError


def stopped_by_hand(losses: list[float], steps: list[int], fails: int) -> int:
    """Return when a training loop with patience would stop."""
    best, failed = losses[0], 0
    for loss, step in zip(losses[1:], steps[1:], strict=True):
        failed = 0 if loss < best else failed + 1
        best = min(best, loss)
        if failed == fails:
            return step
    return -1


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 5))
def test_it_stops_where_a_loop_with_patience_stops(losses: list[int], fails: int) -> None:
    steps = [50 * place for place in range(1, len(losses) + 1)]
    found = intrinsic.convergence_point(losses, steps, fails=fails).item()
    assert found == stopped_by_hand([float(loss) for loss in losses], steps, fails)


def test_every_model_stops_by_itself() -> None:
    losses = np.array([[3.0, 2.0, 2.0, 2.0], [4.0, 3.0, 2.0, 1.0]])
    assert intrinsic.convergence_point(losses, [1, 2, 3, 4], fails=2).tolist() == [4, -1]


def test_a_loss_that_diverges_stops() -> None:
    assert intrinsic.convergence_point([1.0, np.nan, np.nan, np.nan], [1, 2, 3, 4]).item() == 4


def test_steps_must_be_those_of_the_losses() -> None:
    with pytest.raises(SeedscopeError, match="for each of the 3 steps"):
        intrinsic.convergence_point([1.0, 2.0], [1, 2, 3])
