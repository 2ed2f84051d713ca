"""SACRO-ML's LiRA on a target model, run by an environment of its own: `python _sacro_peer.py data.npz forest`."""

import json
import logging
import os
import sys
import tempfile
from typing import Any

import numpy as np


def main(path: str, kind: str, mode: str) -> dict[str, float]:
    """Return processor seconds, AUC and true-positive rate at 1 % of an attack with 100 shadow models."""
    from sacroml.attacks.likelihood_attack import LIRAAttack
    from sacroml.attacks.target import Target
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    logging.disable(logging.CRITICAL)
    data: Any = np.load(path)
    X, y, train = data["X"], data["y"], data["train"]
    made: dict[str, Any] = {"forest": RandomForestClassifier(100, random_state=0), "linear": LogisticRegression()}
    model = made[kind].fit(X[train], y[train])
    target = Target(
        model=model, dataset_name="rows", X_train=X[train], y_train=y[train], X_test=X[~train], y_test=y[~train]
    )
    for k in range(X.shape[1]):
        target.add_feature(f"f{k}", [k], "float")
    with tempfile.TemporaryDirectory() as folder:  # of its own: shadow models of another target would be used again
        start = os.times()
        attack = LIRAAttack(output_dir=folder, write_report=False, n_shadow_models=100, mode=mode)
        attack.attack(target)
        seconds = sum(os.times()[:4]) - sum(start[:4])
    metrics = attack.attack_metrics[0]
    return {"seconds": seconds, "auc": metrics["AUC"], "tpr": float(np.interp(0.01, metrics["fpr"], metrics["tpr"]))}


if __name__ == "__main__":
    print("RESULT" + json.dumps(main(*sys.argv[1:])))
