"""What every room uses: errors, numbers with their kind, relations, plain values, units, files, threads, progress."""

from seedscope.core.axes import last_step, varied_init
from seedscope.core.described import Described, from_description
from seedscope.core.errors import (
    ClusterError,
    DamageError,
    DiskError,
    OutOfMemoryError,
    SeedscopeError,
    SeedscopeWarning,
    TrainingError,
    require,
    require_count,
    require_numbers,
    require_path,
    require_positive,
    require_probability,
    require_type,
    unknown_name,
)
from seedscope.core.extras import NETWORKS, has_networks, networks_missing, require_networks
from seedscope.core.files import (
    PRIVATE,
    PUBLIC,
    cache_folder,
    cannot_write,
    disk_error,
    private_folder,
    read_error,
    sweep,
    synchronise,
    write_durably,
    write_together,
)
from seedscope.core.machine import available_memory, machine_memory, processor
from seedscope.core.number import Kind, Number
from seedscope.core.plain import (
    as_read_back,
    number_or_none,
    plain_list,
    plain_values,
    printable,
    without_places,
)
from seedscope.core.plots import interval_plot, ranked_plot
from seedscope.core.progress import model_progress, shown_progress
from seedscope.core.relations import BASE, DELTA, RELATION_WORDS, RELATIONS, Relation
from seedscope.core.settled import settled
from seedscope.core.shown import Shown
from seedscope.core.threads import map_in_threads, one_blas_thread
from seedscope.core.units import in_bytes, in_time, parse_bytes

__all__ = [
    "BASE",
    "DELTA",
    "NETWORKS",
    "PRIVATE",
    "PUBLIC",
    "RELATIONS",
    "RELATION_WORDS",
    "ClusterError",
    "DamageError",
    "Described",
    "DiskError",
    "Kind",
    "Number",
    "OutOfMemoryError",
    "Relation",
    "SeedscopeError",
    "SeedscopeWarning",
    "Shown",
    "TrainingError",
    "as_read_back",
    "available_memory",
    "cache_folder",
    "cannot_write",
    "disk_error",
    "from_description",
    "has_networks",
    "in_bytes",
    "in_time",
    "interval_plot",
    "last_step",
    "machine_memory",
    "map_in_threads",
    "model_progress",
    "networks_missing",
    "number_or_none",
    "one_blas_thread",
    "parse_bytes",
    "plain_list",
    "plain_values",
    "printable",
    "private_folder",
    "processor",
    "ranked_plot",
    "read_error",
    "require",
    "require_count",
    "require_networks",
    "require_numbers",
    "require_path",
    "require_positive",
    "require_probability",
    "require_type",
    "settled",
    "shown_progress",
    "sweep",
    "synchronise",
    "unknown_name",
    "varied_init",
    "without_places",
    "write_durably",
    "write_together",
]
