"""Trains a plan: chunks go to workers, each result is written once as it arrives."""

from seedscope.execution.cost import Cost, measure_cost
from seedscope.execution.dispatch import on_cluster
from seedscope.execution.estimate import Estimate
from seedscope.execution.in_workers import in_workers
from seedscope.execution.run import default_jobs, train
from seedscope.execution.stand_ins import stand_ins_of
from seedscope.execution.until import seeds_needed, train_until, watched

__all__ = [
    "Cost",
    "Estimate",
    "default_jobs",
    "in_workers",
    "measure_cost",
    "on_cluster",
    "seeds_needed",
    "stand_ins_of",
    "train",
    "train_until",
    "watched",
]
