"""One chunk in, arrays out: jobs, random numbers by coordinate, batches, clipping, schedules, minimisers.

The gradient steps are in `training.gradient` and `training.dpsgd`, which load JAX; nothing else here does.
"""

from seedscope.training.clipping import Clipping, FlatClipping, SmoothClipping
from seedscope.training.convex import (
    Blur,
    NoisyMinimiser,
    Problem,
    Release,
    TiltedMinimiser,
    convex_trainer,
    linear_scores,
    minimiser,
)
from seedscope.training.job import Arrays, ChunkTrainer, FiledJob, Job
from seedscope.training.noise_laws import Noise, NoiseLaw
from seedscope.training.publishing import published_minimiser
from seedscope.training.sampling import (
    SUBSET_ROWS,
    Poisson,
    Sampling,
    Shuffled,
    WithoutReplacement,
    poisson_capacity,
)
from seedscope.training.schedules import (
    Cosine,
    Drops,
    Linear,
    Momentum,
    Schedule,
    WarmUp,
    require_learning_rate,
    transformation,
)
from seedscope.training.streams import (
    NOISE_STREAM,
    gammas,
    generator,
    normals,
    poisson_batches,
    shuffled_batches,
    subset_batches,
)
from seedscope.training.surrogates import KnownShares, LinearSurrogate, Surrogate, linear_surrogate, spherical_share
from seedscope.training.system_draws import SystemDraws
from seedscope.training.trainers import train_chunk

__all__ = [
    "NOISE_STREAM",
    "SUBSET_ROWS",
    "Arrays",
    "Blur",
    "ChunkTrainer",
    "Clipping",
    "Cosine",
    "Drops",
    "FiledJob",
    "FlatClipping",
    "Job",
    "KnownShares",
    "Linear",
    "LinearSurrogate",
    "Momentum",
    "Noise",
    "NoiseLaw",
    "NoisyMinimiser",
    "Poisson",
    "Problem",
    "Release",
    "Sampling",
    "Schedule",
    "Shuffled",
    "SmoothClipping",
    "Surrogate",
    "SystemDraws",
    "TiltedMinimiser",
    "WarmUp",
    "WithoutReplacement",
    "convex_trainer",
    "gammas",
    "generator",
    "linear_scores",
    "linear_surrogate",
    "minimiser",
    "normals",
    "poisson_batches",
    "poisson_capacity",
    "published_minimiser",
    "require_learning_rate",
    "shuffled_batches",
    "spherical_share",
    "subset_batches",
    "train_chunk",
    "transformation",
]
