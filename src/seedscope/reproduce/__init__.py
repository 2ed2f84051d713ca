"""The papers' tables and figures, ours beside theirs: one module for each paper, public names only."""

from seedscope.reproduce.comparison import print_comparisons

__all__ = ["SCALES", "STUDIES", "print_comparisons"]

STUDIES = {
    "intrinsic": "Intrinsic privacy of SGD, both versions: IP1 Tables 3–7, IP2 Tables 2, 4–6, Figures 2, 3, 6.",
    "multiplicity": "Predictive multiplicity of private training: AD Table 2, Figures 1–8.",
    "per-instance": "Per-instance privacy of DP-SGD: GLA Figures 1–5 and the trends of 6–35.",
    "reconstruction": "Reconstruction of training records: BR Figures 2–6.",
}
SCALES = dict.fromkeys(STUDIES, ("small", "paper")) | {"reconstruction": ("small", "medium", "paper")}
