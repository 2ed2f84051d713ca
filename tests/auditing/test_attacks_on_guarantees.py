"""Each attack here broke a guarantee that was called proved; now it fails, or the guarantee says that it may not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import seedscope as ss
from seedscope.accounting import dpsgd_epsilon
from seedscope.analyses.membership import likelihood_ratio_tests
from seedscope.auditing.audit import audit
from seedscope.auditing.levels import paired_losses
from seedscope.commands.mechanism_options import MechanismOptions, level
from seedscope.core import BASE
from seedscope.datasets import MOST_ROWS, Part, from_frame
from seedscope.datasets.rounded_noise import seeded_normals
from seedscope.planning import make_plan
from seedscope.report import model_card
from seedscope.training import SystemDraws
from seedscope.training.dpsgd.publishing import _Grid
from tests.helpers.present import present
from tests.helpers.small_data import given_scaling, table

EPSILON, SEEDS = 0.5, 240


def with_outlier(rows: int = 200, value: float = 3000.0) -> ss.Dataset:
    """Return people of whom the first has a value far beyond everybody else's; two features separate the classes."""
    draw = np.random.default_rng(0)
    labels = np.arange(rows + 40) % 2
    features = draw.normal(size=(rows + 40, 3)) + 2.0 * labels[:, None]
    features[0] = value
    found = ss.from_arrays(features[:rows], labels[:rows], features[rows:], labels[rows:])
    return replace(found, spare=("test", 0))


def shown_by_weights(data: ss.Dataset, mechanism: Any, scaling: Any, people: list[int], relation: Any = None) -> float:
    """Return the ε that the best threshold along the means' difference of weights shows, on seeds kept for that."""
    grid = ss.Grid(seeds=SEEDS, people=people, relation=relation)
    ensemble = ss.train(data, mechanism, grid=grid, records=ss.Records(probes=()), scaling=scaling, jobs=1)
    weights = ensemble.weights.values[:, :, 0, -1].astype(float)
    members, others = weights[:, 0], weights[:, 1]
    return shown_between(members, others)


def shown_between(members: np.ndarray, others: np.ndarray) -> float:
    """Return the ε that one threshold, chosen on the first half of the models, shows on the second."""
    half = len(members) // 2
    direction = (members[:half].mean(0) - others[:half].mean(0)) / (members[:half].std(0) + others[:half].std(0))
    inside, outside = members @ direction, others @ direction
    threshold = (inside[:half].mean() + outside[:half].mean()) / 2
    hits, errors = int((inside[half:] > threshold).sum()), int((outside[half:] > threshold).sum())
    return float(ss.membership.epsilon_lower(hits, len(inside) - half, errors, len(outside) - half, 0.95))


class TestOutlierInScaling:
    mechanism = ss.ObjectivePerturbation(EPSILON, l2=0.05)

    def test_weights_give_the_outlier_away_where_scaling_is_learned_and_the_guarantee_says_so(self) -> None:
        data = with_outlier()
        learned = ss.Standardised(norm_bound=1.0)
        assert shown_by_weights(data, self.mechanism, learned, [0]) > EPSILON
        assert not make_plan(data, self.mechanism, scaling=learned).guarantee.is_proved

    def test_public_ranges_hide_the_outlier_and_the_guarantee_is_proved(self) -> None:
        data = with_outlier()
        public = ss.Bounded((-4.0,) * 3, (6.0,) * 3)
        assert shown_by_weights(data, self.mechanism, public, [0]) <= EPSILON
        assert make_plan(data, self.mechanism, scaling=public).guarantee.is_proved

    def test_the_audit_of_that_person_sees_it(self) -> None:
        data = with_outlier()
        grid = ss.Grid(seeds=SEEDS, people=[0])
        trained = ss.train(data, self.mechanism, grid=grid, scaling=ss.Standardised(), jobs=1)
        found = ss.audit(trained)
        assert found.alarms
        assert "the scaling, learned from their rows" in found.alarms[0]
        assert "what was learned from the rows gives people away" in found.verdict.headline
        assert "rests on what was learned" in found.as_dict(public=True)["alarms"][0]

    def test_private_moments_hide_the_outlier_within_what_they_cost(self) -> None:
        private = ss.PrivateMoments((-4.0,) * 3, (6.0,) * 3, epsilon=0.25, delta=1e-5)
        plan = make_plan(with_outlier(), self.mechanism, scaling=private)
        assert plan.guarantee.is_proved
        assert float(plan.guarantee.epsilon or 0) == EPSILON + 0.25
        assert plan.guarantee.delta == 1e-5
        moments = [
            np.concatenate([one.mean, one.deviation])
            for rows in (plan.data.base.features, plan.data.base.features[1:])
            for one in [private.refit(rows, seeded_normals(np.random.default_rng(k))) for k in range(1500)]
        ]
        assert shown_between(np.array(moments[:1500]), np.array(moments[1500:])) <= 0.25


class TestSharedNoise:
    def test_two_levels_do_not_give_the_noiseless_minimiser(self) -> None:
        data = ss.load("breast-cancer")
        levels = [ss.OutputPerturbation(epsilon, 1e-5, l2=0.01) for epsilon in (1.0, 4.0)]
        plans = [make_plan(data, one) for one in levels]
        noises = [one.noise(plan.conditions) for one, plan in zip(levels, plans, strict=True)]
        quiet = ss.train(
            data, ss.OutputPerturbation(noise_scale=0.0, l2=0.01), grid=ss.Grid(1), jobs=1
        ).weights.values.ravel()
        loud = [ss.train(data, one, grid=ss.Grid(1), jobs=1).weights.values.ravel() for one in levels]
        solved = (noises[1] * loud[0] - noises[0] * loud[1]) / (noises[1] - noises[0])
        assert np.abs(solved - quiet).max() > noises[1] / 10

    @pytest.mark.parametrize("other", [{"noise_multiplier": 2.0}, {"steps": 4}])
    def test_levels_of_dpsgd_draw_other_noise(self, other: dict[str, Any]) -> None:
        given = {"steps": 3, "batch_size": 20, "noise_multiplier": 1.0}
        jobs = [make_plan(ss.load("breast-cancer"), ss.DPSGD(**options)).job for options in (given, given | other)]
        assert jobs[0].noise_seed != jobs[1].noise_seed
        assert jobs[0].root_seed == jobs[1].root_seed

    def test_growth_does_not_change_the_noise(self) -> None:
        data, mechanism = ss.load("breast-cancer"), ss.ObjectivePerturbation(1.0)
        small, large = (make_plan(data, mechanism, grid=ss.Grid(seeds, neighbours=2)) for seeds in (2, 200))
        assert small.job.noise_seed == large.job.noise_seed


class TestFloatingPoint:
    """One step of DP-SGD on one row more or less: which weights are possible must not depend on the row."""

    mechanism = ss.DPSGD(learning_rate=1.0, batch_size=8, steps=1, noise_multiplier=4.0, delta=1e-9, public_size=8)

    def sums(self, rows: int, seed: int) -> np.ndarray:
        """Return a released model's noisy sum of gradients in steps of the grid, the start taken off."""
        data = people(9)
        data = replace(data, train=data.train.take(np.arange(rows)))
        quiet = replace(self.mechanism, clipping_norm=2.0**-60)  # the same start, and hardly a step from it
        start, moved = (
            ss.release(data, one, draws=SystemDraws(np.random.default_rng(seed).bytes)).weights
            for one in (quiet, self.mechanism)
        )
        step = _Grid.of(self.mechanism.private_steps(), len(moved)).step
        steps: np.ndarray = (moved - start) * self.mechanism.batch_size / step
        return steps

    def test_every_released_step_is_a_step_of_one_grid_with_and_without_a_person(self) -> None:
        found = np.concatenate([self.sums(rows, seed) for rows in (9, 8) for seed in range(10, 14)])
        assert np.abs(found - np.round(found)).max() < 1e-3  # a grid of 2⁻²⁴ deviations: no weight tells what it was
        assert np.abs(found).max() > 2**20


def people(rows: int) -> ss.Dataset:
    """Return this many people to train on."""
    draw = np.random.default_rng(1)
    features = np.clip(draw.normal(size=(rows, 2)), -1, 1)
    labels = np.arange(rows) % 2
    return ss.from_arrays(features, labels, features[:4], labels[:4], norm_bound=2.0)


class TestNumberOfRows:
    def test_a_public_size_makes_the_mechanism_the_same_whoever_is_missing(self) -> None:
        for options in (MechanismOptions(public_size=40), MechanismOptions(public_size=40, epochs=3.0)):
            twenty, nineteen = (options.make("dpsgd", rows) for rows in (20, 19))
            assert twenty == nineteen
            assert twenty.sampling_probability(20) == nineteen.sampling_probability(19)

    def test_without_one_batch_and_noise_follow_the_number_of_rows(self) -> None:
        twenty, nineteen = (MechanismOptions(batch_size=5).make("dpsgd", rows) for rows in (20, 19))
        assert twenty != nineteen
        assert twenty.delta == nineteen.delta  # a public constant all the same

    @pytest.mark.parametrize(("size", "told"), [(None, True), (32, False)])
    def test_eight_people_cannot_be_told_from_seven_by_the_noise_on_many_weights(
        self, size: int | None, told: bool
    ) -> None:
        lengths = []
        for rows in (8, 7):
            features, labels = np.zeros((rows, 100)), np.arange(rows) % 2
            features[:, 0] = labels - 0.5  # the other 99 weights are noise alone
            data = ss.from_arrays(features, labels, features, labels, norm_bound=1.0)
            mechanism = MechanismOptions(public_size=size, epsilon=1.0, steps=20).make("dpsgd", rows)
            trained = ss.train(data, mechanism, grid=ss.Grid(80), records=ss.Records(probes=()), jobs=1)
            assert ("small enough to show in the weights" in make_plan(data, mechanism).guarantee.reason) == told
            lengths.append(np.linalg.norm(trained.weights.values[:, 0, 0, -1, 1:].astype(float), axis=1))
        shown = shown_between(*(one[:, None] for one in lengths))
        assert (shown > 1.0) == told


class TestRowsOfOnePerson:
    def several_rows(self, rows: int = 60, each: int = 3) -> ss.Dataset:
        """Return people of several rows each."""
        data = people(rows)
        owners = np.arange(rows) // each
        return replace(data, train=replace(data.train, persons=owners), rows_per_person=each)

    @pytest.mark.parametrize(
        "mechanism",
        [ss.SGD(steps=5, batch_size=10), ss.DPSGD(steps=5, batch_size=10), ss.OutputPerturbation(noise_scale=0.1)],
    )
    def test_a_neighbour_lacks_all_rows_of_a_person(self, mechanism: Any) -> None:
        data = self.several_rows()
        grid = ss.Grid(seeds=2, people=[6], relation="replace_one")
        trained = ss.train(data, mechanism, grid=grid, records=ss.Records(probes=()), jobs=1)
        replaced = data.train.features.copy(), data.train.labels.copy()
        replaced[0][6:9], replaced[1][6:9] = data.spare_example.features, data.spare_example.labels
        other = replace(data, train=Part(*replaced, data.train.ids, data.train.rows, {}, data.train.persons))
        plan = make_plan(other, mechanism, grid=ss.Grid(2, relation="replace_one"), records=ss.Records(probes=()))
        job = replace(plan.job, noise_key=make_plan(data, mechanism).noise_key)
        expected = mechanism.trainer(job)(np.arange(2), np.array([BASE]))["weights"]
        np.testing.assert_allclose(trained.weights.sel(neighbour=6).values, expected[:, 0], atol=1e-5)

    def test_neighbours_are_different_people(self) -> None:
        plan = make_plan(self.several_rows(), ss.SGD(steps=1), grid=ss.Grid(1, neighbours=20))
        assert len(np.unique(plan.neighbours[1:] // 3)) == 20
        with pytest.raises(ss.SeedscopeError, match="neighbours must be at most 20"):
            _ = make_plan(self.several_rows(), ss.SGD(steps=1), grid=ss.Grid(1, neighbours=21)).neighbours

    def of_many_kinds(self, each: int = 12) -> ss.Dataset:
        """Return people each of whose rows is about something else: one row tells little of what all tell."""
        rows = np.arange(10 * each)
        kinds, labels = np.eye(each)[rows % each], (rows // each + rows % each) % 2
        data = ss.from_arrays(kinds, labels, kinds[: 2 * each], labels[: 2 * each], norm_bound=1.0)
        return replace(data, train=replace(data.train, persons=rows // each), rows_per_person=each)

    def test_all_rows_of_a_person_are_attacked_together(self) -> None:
        mechanism = ss.OutputPerturbation(noise_scale=0.5, delta=1e-5, l2=0.01)
        grid = ss.Grid(seeds=400, people=[24], relation="add_or_remove")
        trained = ss.train(self.of_many_kinds(), mechanism, grid=grid, jobs=1)
        found = audit(trained).levels[0]
        assert found.audited.tolist() == [24]
        alone = likelihood_ratio_tests(*(one[:, :1] for one in paired_losses(trained)))
        moved = [trained.weights.sel(neighbour=one).values[:, 0, -1].mean(0) for one in (BASE, 24)]
        best = float(ss.accounting.trade_off(mu=float(np.linalg.norm(moved[0] - moved[1])) / 0.5).advantage)
        assert alone.advantage[0] < 0.5 * best
        assert present(found.membership).advantage[0] > 0.75 * best

    def test_twenty_rows_of_one_person_show_more_than_a_rows_epsilon(self) -> None:
        draw, rows = np.random.default_rng(1), np.arange(102)
        features = np.column_stack([draw.choice([-1.0, 1.0], 102), np.zeros(102)])
        lonely = (rows < 20) | (rows >= 100)
        features[lonely], labels = [0.0, 1.0], np.where(rows < 20, 1, rows % 2)
        data = ss.from_arrays(features[:100], labels[:100], features[100:], labels[100:], norm_bound=1.0)
        data = replace(data, train=replace(data.train, persons=rows[:100] // 20), rows_per_person=20)
        grid = ss.Grid(seeds=200, people=[0])
        found = audit(ss.train(data, ss.ObjectivePerturbation(1.0), grid=grid, jobs=1))
        assert float(present(found.levels[0].membership).set_epsilon_lower) > 1.39
        assert found.levels[0].claimed_epsilon == 20
        assert not found.alarms

    def test_what_is_known_of_rows_only_is_not_said_of_people(self) -> None:
        data = self.several_rows(each=4)
        mechanism = ss.DPSGD(steps=5, batch_size=10, noise_multiplier=8.0)
        grid, records = ss.Grid(seeds=10, neighbours=3), ss.Records(norms=ss.Norms(), losses_of="train")
        found = audit(ss.train(data, mechanism, grid=grid, records=records, jobs=1), data=data)
        assert found.levels[0].per_instance is None
        assert found.levels[0].privacy_loss is None  # 10 seeds are too few, and norms are about rows
        assert sum("people have up to 4" in left.reason for left in found.levels[0].left_out) >= 2

    def test_the_best_possible_attack_is_on_a_person_and_not_on_a_row(self) -> None:
        data, mechanism = self.several_rows(each=4), ss.OutputPerturbation(1.0)
        found = audit(ss.train(data, mechanism, grid=ss.Grid(seeds=10, neighbours=3), jobs=1), data=data)
        rows = replace(data, train=replace(data.train, persons=None), rows_per_person=1)
        single = audit(ss.train(rows, mechanism, grid=ss.Grid(seeds=10, neighbours=3), jobs=1), data=rows)
        persons, alone = present(found.levels[0].privacy_loss), present(single.levels[0].privacy_loss)
        assert len(persons.people) == data.base.people < len(alone.people)
        assert persons.advantage.min() > 2 * np.median(alone.advantage)

    def test_what_is_about_a_person_stands_in_each_of_their_rows(self) -> None:
        data = self.several_rows(each=4)
        found = audit(ss.train(data, ss.OutputPerturbation(1.0), grid=ss.Grid(10, neighbours=3), jobs=1), data=data)
        table = found.individuals.query("part == 'train'")
        by_person = table.groupby(data.train.persons)
        for column in ("advantage", "advantage_upper", "rank_advantage"):
            assert table[column].notna().all()
            assert (by_person[column].nunique() == 1).all()
        attacked = by_person["membership_advantage"].agg(lambda values: values.notna().mean())
        assert sorted(attacked.unique()) == [0, 1]
        assert attacked.sum() == 3
        assert table["rank_advantage"].max() == data.base.people

    def test_under_dpsgd_too_the_best_possible_attack_is_on_a_person(self) -> None:
        data, mechanism = self.several_rows(each=4), ss.DPSGD(steps=20, batch_size=15, noise_multiplier=2.0)
        rows = replace(data, train=replace(data.train, persons=None), rows_per_person=1)
        records = ss.Records(losses_of="train")
        by_unit = [
            present(audit(ss.train(one, mechanism, grid=ss.Grid(40), records=records, jobs=1)).levels[0].privacy_loss)
            for one in (data, rows)
        ]
        persons, alone = by_unit
        assert len(persons.people) == data.base.people < len(alone.people)
        assert np.median(persons.advantage) > 1.5 * np.median(alone.advantage)

    def test_delta_is_held_against_people_not_rows(self) -> None:
        found = audit(ss.train(self.several_rows(each=4), ss.OutputPerturbation(1.0, 1e-5), grid=ss.Grid(8), jobs=1))
        assert float(present(found.facts[0]["delta_people"])) == pytest.approx(found.levels[0].guarantee.delta * 15)

    def test_a_delta_of_one_is_no_guarantee(self) -> None:
        guarantee = make_plan(self.several_rows(each=20), ss.OutputPerturbation(1.0, 1e-5)).guarantee
        assert guarantee.epsilon is None
        assert "for all rows of a person that leaves δ at 1" in guarantee.reason

    def test_a_largest_number_of_rows_that_was_learned_is_not_told(self) -> None:
        known = self.several_rows(each=4)
        learned = replace(known, learned=(MOST_ROWS,))
        words = [make_plan(one, ss.ObjectivePerturbation(1.0)).guarantee.reason for one in (known, learned)]
        assert "of at most 4 rows" in words[0]
        assert "4" not in words[1]

    def test_a_persons_guarantee_is_that_of_the_group(self) -> None:
        data = self.several_rows(each=20)
        guarantee = make_plan(data, ss.ObjectivePerturbation(1.0)).guarantee
        assert (float(guarantee.epsilon or 0), guarantee.unit) == (20.0, "person")

    @pytest.mark.parametrize("name", ["objective", "output", "dpsgd"])
    def test_the_epsilon_asked_for_is_the_persons(self, name: str) -> None:
        data = self.several_rows(rows=120, each=4)
        chosen = level(MechanismOptions(), name, 2.0, data)
        guarantee = make_plan(data, chosen.mechanism).guarantee
        assert float(guarantee.epsilon or 0) == pytest.approx(2.0, abs=1e-3)
        assert guarantee.delta <= 1e-6 * (1 + 1e-3)
        assert guarantee.unit == "person"

    @pytest.mark.parametrize("name", ["objective", "output", "gaussian_objective"])
    def test_the_least_useful_epsilon_is_told_for_the_person_too(self, name: str) -> None:
        data = self.several_rows(each=4)
        chosen = level(MechanismOptions(), name.replace("_", "-"), 0.1, data)
        with pytest.raises(ss.SeedscopeError, match=r"for each of a person's 4 rows, .* for the person"):
            make_plan(data, chosen.mechanism)


STEPS: dict[str, Any] = {"steps": 20, "batch_size": 20, "noise_multiplier": 8.0, "delta": 1e-6}
SPENT = [dpsgd_epsilon(8.0, 20 / rows, 20, 1e-6) for rows in (99, 102)]
BUDGET = ss.DPSGD(**STEPS, personal_budget=float(np.mean(SPENT).round(2)))  # as people ask for it


class TestPublicReport:
    def report(self, rows: int, category: str = "", broken: bool = False, mechanism: Any = None) -> dict[str, Any]:
        """Return the public report of a table but for its time."""
        report = self.audited(rows, category, broken, mechanism).as_dict(public=True)
        return report | {"provenance": report["provenance"] | {"made": ""}}

    def audited(self, rows: int, category: str = "", broken: bool = False, mechanism: Any = None) -> ss.Audit:
        """Return the audit of a table; an alarm is planted by noise that is forgotten."""
        import pandas

        draw = np.random.default_rng(3)
        frame = pandas.DataFrame({"age": draw.normal(50, 10, rows), "place": ["a", "b", "c"] * (rows // 3)})
        frame["ill"] = (frame.age + 5 * draw.normal(size=rows) > 50).astype(int)
        frame["test"] = ["train"] * (rows - 12) + ["test"] * 12
        if category:
            frame.loc[0, "place"] = category
        data = from_frame(frame, target="ill", test="test")
        mechanism = mechanism or ss.OutputPerturbation(1.0, 1e-6)
        mechanism = ss.OutputPerturbation(noise_scale=1e-9, delta=1e-6) if broken else mechanism
        trained = ss.train(data, mechanism, grid=ss.Grid(60, people=[0]), jobs=1)
        if broken:
            claim = replace(trained.guarantee, epsilon=ss.Number(0.01, "proved"))
            description = replace(trained.description, guarantee=claim)
            trained = ss.Ensemble(trained.dataset.assign_attrs(description=description.text()))
        return ss.audit(trained)

    def test_neither_a_new_category_nor_another_person_changes_it(self) -> None:
        usual = self.report(90)
        assert usual == self.report(90, category="d") == self.report(93)
        assert "alarms" not in usual
        assert usual["levels"][0]["delta"] == 1e-6
        assert usual["levels"][0]["epsilon"] == 1.0

    @pytest.mark.parametrize("mechanism", [ss.OutputPerturbation(1.0), ss.GaussianObjectivePerturbation(2.0)])
    def test_a_delta_that_follows_the_number_of_rows_is_not_told(self, mechanism: Any) -> None:
        below, above = (self.report(rows, mechanism=mechanism) for rows in (111, 114))  # 99 and 102 are trained on
        assert below == above
        assert below["levels"][0]["epsilon"] is None
        assert "taken from the number of rows" in below["levels"][0]["guarantee"]["reason"]

    @pytest.mark.parametrize(
        "mechanism",
        [
            ss.DPSGD(**STEPS),
            ss.OutputPerturbation(noise_scale=0.05, delta=1e-6),
            pytest.param(BUDGET, id="a budget that some numbers of rows use up and others do not"),
        ],
    )
    def test_an_epsilon_that_follows_the_number_of_rows_is_not_told(self, mechanism: Any) -> None:
        below, above = (self.report(rows, mechanism=mechanism) for rows in (111, 114))
        assert below == above
        assert below["levels"][0]["epsilon"] is None
        assert "follows from the number of rows" in below["levels"][0]["guarantee"]["reason"]

    def test_the_card_of_a_whole_report_tells_no_more_than_the_public_one(self) -> None:
        cards = []
        for rows in (111, 114):
            mechanism = MechanismOptions(epsilon=2.0, steps=20).make("dpsgd", rows - 12)  # a quarter of them in a batch
            audited = self.audited(rows, mechanism=mechanism)
            cards.append(model_card(audited.as_dict()))
            assert cards[-1] == model_card(audited.as_dict(public=True))
        assert cards[0] == cards[1]
        assert "| ε | 2 (estimate) |" in cards[0]

    def test_whether_the_number_of_rows_could_show_is_not_told(self) -> None:
        data = table(120)
        mechanism = ss.DPSGD.calibrated(2.0, 1e-6, examples=120, batch_size=20, steps=60)
        trained = ss.train(data, mechanism, grid=ss.Grid(8), scaling=given_scaling(data), jobs=1)
        assert "small enough to show in the weights" in trained.guarantee.reason
        told = ss.audit(trained).as_dict(public=True)["levels"][0]["guarantee"]["reason"]
        assert "small enough" not in told
        assert told.endswith("the number of rows counts as public.")

    def test_after_an_alarm_no_epsilon_is_claimed(self) -> None:
        report = self.report(90, broken=True)
        assert report["alarms"]
        assert "But for the alarm" in report["notice"]
        assert report["levels"][0]["epsilon"] is None
        assert report["levels"][0]["guarantee"]["epsilon"] is None
