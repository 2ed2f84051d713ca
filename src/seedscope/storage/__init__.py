"""How an ensemble is kept: named axes, a folder that survives being killed, what analyses read."""

from seedscope.storage.archive import Archived, export_store, import_store
from seedscope.storage.ensemble import Ensemble, note_looks
from seedscope.storage.folder import FolderStore, open_store
from seedscope.storage.from_scores import as_scores, log_losses
from seedscope.storage.kept import Kept, kept_stores, remove_store
from seedscope.storage.layout import region, variables
from seedscope.storage.memory import MemoryStore
from seedscope.storage.plan_file import stored_chunk_shape
from seedscope.storage.store import Store
from seedscope.storage.verification import Finding, Verified, verify_store

__all__ = [
    "Archived",
    "Ensemble",
    "Finding",
    "FolderStore",
    "Kept",
    "MemoryStore",
    "Store",
    "Verified",
    "as_scores",
    "export_store",
    "import_store",
    "kept_stores",
    "log_losses",
    "note_looks",
    "open_store",
    "region",
    "remove_store",
    "stored_chunk_shape",
    "variables",
    "verify_store",
]
