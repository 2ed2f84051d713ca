"""The one model to publish: trained with random numbers that are kept nowhere, with a card that says what is proved."""

from seedscope.releasing.model import ReleasedModel, load_released
from seedscope.releasing.release import SMOOTHING, all_rows, release

__all__ = ["SMOOTHING", "ReleasedModel", "all_rows", "load_released", "release"]
