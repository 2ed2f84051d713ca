"""Membership of everybody beside SACRO-ML 2.0's LiRA with 100 shadow models: processor seconds, AUC, TPR at 1 % FPR.

Both attack the same target models about everybody they were trained on and as many others as there are; rates are means
over targets, each trained on a share of the rows of its own. SACRO-ML runs in an environment of its own: `python3 -m
venv .venv-sacro && .venv-sacro/bin/pip install sacroml==2.0.1`. The quicker of its two modes counts for its time, the
better one for AUC and rate. Ours: forests with and without everybody come from the trees of a few; what 100 logistic
regressions of random samples would show is computed from one (`ss.membership.linear_shadows`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, report

PEER = Path(os.environ.get("SACRO_PYTHON", ".venv-sacro/bin/python"))
FORESTS = 16
MODES = ("offline", "online-carlini")
TARGETS = {"breast-cancer": 5, "adult": 1}  # one in a hundred strangers is one or two of 142, and 12 of 1,250
GOALS = {"forest": "at most 0.33×", "linear": "at most 0.05×"}


def rows_and_labels(name: str, target: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels and which rows a target is trained on: three in four of at most 5,000."""
    from sklearn.preprocessing import scale

    import seedscope as ss

    data = ss.load(name)
    parts = [data.train, data.test]
    X, y = (np.concatenate([getattr(part, kind) for part in parts]) for kind in ("features", "labels"))
    chosen = np.random.default_rng(0).permutation(len(y))[:5000]
    train = np.random.default_rng(1 + target).random(len(chosen)) < 0.75
    return scale(np.asarray(X[chosen], float)), y[chosen].astype(int), train


def forest_scores(X: np.ndarray, y: np.ndarray, share: float, target: np.ndarray) -> np.ndarray:
    """Return everybody's score, from forests of all rows and those of the trees that lack each."""
    from sklearn.ensemble import RandomForestClassifier

    import seedscope as ss
    from seedscope.integrations.forests import grow
    from seedscope.integrations.own_data import own_data

    everything, labels = np.concatenate([X, X[:2]]), np.append(y, [0, 1])  # two rows as the test part that it wants
    marks = np.arange(len(labels)) >= len(y)
    data, table, truth = own_data(everything, labels, test=marks)
    found = grow(RandomForestClassifier(100), table, truth, data, FORESTS, 0, jobs=1)
    true, inside, outside = (
        np.where(y == 1, one, 1 - one)
        for one in (target, found.scores[:, : len(y)].mean(0), found.without_row[:, : len(y)].mean(0))
    )
    trees = 100 * len(found.without_row)
    return ss.membership.vote_log_ratios(true, inside, outside, trees=100, seen=trees, share=share)


def linear_scores(X: np.ndarray, y: np.ndarray, share: float, target: np.ndarray) -> np.ndarray:
    """Return everybody's score, from shadow margins without shadow models."""
    import seedscope as ss

    return ss.membership.linear_shadows(X, y, share).log_ratios(np.log(target / (1 - target)))


def ours(path: str, kind: str) -> dict[str, float]:
    """Return our processor seconds, AUC and true-positive rate at 1 %."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score, roc_curve
    from threadpoolctl import threadpool_limits

    data: Any = np.load(path)
    X, y, train = data["X"], data["y"], data["train"]
    made: dict[str, Any] = {"forest": RandomForestClassifier(100, random_state=0), "linear": LogisticRegression()}
    target = made[kind].fit(X[train], y[train]).predict_proba(X)[:, 1]

    linear_scores(X[:50], y[:50], 0.5, target[:50])  # what is imported is not measured, neither here nor there
    start = os.times()
    with threadpool_limits(1):
        attack = forest_scores if kind == "forest" else linear_scores
        scores = attack(X, y, float(train.mean()), target)
    seconds = sum(os.times()[:4]) - sum(start[:4])
    false, true, _ = roc_curve(train, scores)
    return {"seconds": seconds, "auc": roc_auc_score(train, scores), "tpr": float(np.interp(0.01, false, true))}


def peers(path: str, kind: str, mode: str) -> dict[str, float]:
    """Return SACRO-ML's."""
    script = Path(__file__).with_name("_sacro_peer.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(PEER), "-W", "ignore", str(script), path, kind, mode], capture_output=True, text=True, env=environment,
        check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(lines[-1].removeprefix("RESULT"))
    return found


def attacked(name: str, kind: str, folder: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return our means over targets, and those of SACRO-ML at its best."""
    own, every = [], []
    for target in range(TARGETS[name]):
        path = f"{folder}/{name}-{target}.npz"
        X, y, train = rows_and_labels(name, target)
        np.savez(path, X=X, y=y, train=train)
        own.append(in_fresh_process("benchmarks.sacro", "ours", path, kind))
        every.append([peers(path, kind, mode) for mode in MODES])
    means = [_means([runs[k] for runs in every]) for k in range(len(MODES))]
    best = {what: max(one[what] for one in means) for what in ("auc", "tpr")}
    return _means(own), best | {"seconds": min(one["seconds"] for one in means)}


def _means(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure."""
    return {what: float(np.mean([one[what] for one in runs])) for what in runs[0]}


def main(*wanted: str) -> None:
    """Print both: a small set and, where it is at hand, 5,000 rows of `adult`; or only those sets and kinds named."""
    if not PEER.exists():
        print(f"no {PEER}: python3 -m venv .venv-sacro && .venv-sacro/bin/pip install sacroml==2.0.1")
        return
    at_hand = [name for name in TARGETS if name != "adult" or os.environ.get("SEEDSCOPE_DATA")]
    with tempfile.TemporaryDirectory() as folder:
        for name in [one for one in at_hand if one in wanted] or at_hand:
            for kind in [one for one in GOALS if one in wanted] or GOALS:
                own, peer = attacked(name, kind, folder)
                what = f"{name}, {kind}: everybody, mean of {TARGETS[name]}"
                report(what, own["seconds"], peer["seconds"], "processor s", GOALS[kind])
                for rate, words in {"auc": "AUC", "tpr": "true positives at 1 % false ones"}.items():
                    print(f"    {words}: ours {own[rate]:.3f}, SACRO-ML {peer[rate]:.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
