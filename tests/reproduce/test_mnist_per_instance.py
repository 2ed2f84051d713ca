"""On MNIST, LeNet-5: after the first steps people are better protected than the guarantee, most of all correct ones."""

from dataclasses import replace

import numpy as np
import pytest

import seedscope as ss


@pytest.mark.slow
@pytest.mark.paper_data
def test_contributions_fall_below_the_baseline_and_correct_points_ten_times() -> None:
    data = ss.load("mnist")
    data = replace(data, train=data.train.take(slice(3000)), test=data.test.take(slice(200)), spare=("test", 0))
    mechanism = ss.DPSGD.calibrated(10.0, 1e-5, examples=3000, batch_size=128, steps=190, learning_rate=1.0)
    ensemble = ss.train(
        data,
        mechanism,
        model=ss.lenet5(),
        grid=ss.Grid(seeds=2, init="fixed"),
        records=ss.Records(probes=("spare",), norms=ss.Norms("test", every="epoch")),
    )
    _, contributions = ss.per_instance.contribution_shares(ensemble)
    mean = contributions.mean(0)
    assert mean[0] > 1  # the growth of orders costs more than the first, equal, states gain
    assert np.all(mean[-2:] < 0.8)
    found = ss.per_instance.step_shares(ensemble)
    shares, correct = found.shares[:, -1], found.correct[:, -1] == 1
    assert correct.mean() > 0.8
    assert np.median(shares[correct]) <= 0.1
    assert np.mean(shares[correct]) < np.mean(shares[~correct])
    privacy = ss.per_instance.per_instance_privacy(ensemble, orders=(1.5, 2.0, 2.4, 4.0, 8.0))
    assert float(privacy.epsilon_baseline_pld) < float(privacy.epsilon_baseline)
    best = float(privacy.epsilon_baseline_pld)
    always_right = np.all(found.correct[:, 1:] == 1, axis=(0, 1))  # after the first epoch, in both runs
    assert np.median(privacy.epsilon[always_right]) < np.median(privacy.epsilon[~always_right])
    assert np.quantile(privacy.epsilon, 0.1) < best - 0.5  # a gain that no accountant gives to all
    assert np.median(privacy.shares(8.0)) < 0.9
