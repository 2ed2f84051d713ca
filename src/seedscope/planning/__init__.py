"""Which models are trained, in which chunks, and what is recorded of them."""

from seedscope.planning.chunks import WORK_PER_CHUNK, Chunk, ChunkShape, choose_chunk_shape, load_of, model_work
from seedscope.planning.description import DataFacts, Description, GridFacts, ModelFacts, Preprocessing
from seedscope.planning.grid import Grid
from seedscope.planning.identity import differences, environment, fingerprint_of, software_versions
from seedscope.planning.plan import Plan, make_plan
from seedscope.planning.records import Norms, Probed, Records

__all__ = [
    "WORK_PER_CHUNK",
    "Chunk",
    "ChunkShape",
    "DataFacts",
    "Description",
    "Grid",
    "GridFacts",
    "ModelFacts",
    "Norms",
    "Plan",
    "Preprocessing",
    "Probed",
    "Records",
    "choose_chunk_shape",
    "differences",
    "environment",
    "fingerprint_of",
    "load_of",
    "make_plan",
    "model_work",
    "software_versions",
]
