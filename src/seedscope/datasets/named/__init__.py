"""The named sets: which there are, where their originals come from, and how they are made ready."""
