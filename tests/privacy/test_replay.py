"""The measured privacy loss of a release on neighboring tables is at most its charge.

A group of one unit is shown with probability 1e-10 at most, so that all pairs together fail by
chance with a probability below 1e-6.
"""

import importlib
import itertools
import sys
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

import duckdb
import pytest

import dfprivacy as dfp
from benchmarks import replay_cases
from benchmarks.replay import LoudTape, Meter
from benchmarks.replay_cases import ALONE, DELTA, UNITS, Case, Places, cases, hidden_cases
from benchmarks.replay_questions import CALLS, QUESTIONS, Question
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.errors import EntropyError
from dfprivacy.noise.laws import DiscreteLaplace, KeyRule
from dfprivacy.noise.recording import record_draws
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics import STATISTICS, Linear
from tests.privacy.test_static_rules import both_trees, names_used


def measure_losses(cases, folder):
    """Return the pair of releases of each case."""
    meter, places = Meter(folder), Places(folder)
    pairs = []
    for case in cases:
        larger, smaller = case.releases(places)
        terms = {"stated": case.stated, "lost_groups": case.lost_groups}
        pairs.append(meter.compare(larger, smaller, case.measure, **terms))
    return pairs


def measure_loss(case, folder):
    """Return the pair of releases of one case."""
    return measure_losses([case], folder)[0]


PARTS = 6
"""The law is checked in parts, which several processes can share."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_release_loses_more_than_its_charge(part, tmp_path):
    """Every question at every entry point loses at most its charge, in pairs of all choices."""
    some = list(itertools.islice(cases(), part, None, PARTS))
    pairs = check_losses(some, tmp_path)
    assert sum(pair.draws > 0 for pair in pairs) > 0.85 * len(pairs)


def test_every_statistic_is_compared_at_every_entry_point():
    """Each statistic has ten pairs and more, and each entry point that answers it has one."""
    pairs = Counter(case.statistic for case in cases())
    assert pairs.keys() == {question.statistic for question in QUESTIONS.values()}
    assert min(pairs.values()) >= 10
    covered = {(case.statistic, case.entry) for case in cases()}
    possible = {
        (question.statistic, entry)
        for (name, question), entry in itertools.product(QUESTIONS.items(), replay_cases.ENTRIES)
        if replay_cases.is_possible({"question": name, "entry": entry})
    }
    assert covered == possible
    assert STATISTICS.keys() <= pairs.keys()


@pytest.mark.parametrize("entry", replay_cases.ENTRIES)
def test_some_releases_lose_no_more_than_their_charge(entry, tmp_path):
    """A few pairs of releases of each entry point lose at most their charge."""
    some = list(itertools.islice((case for case in cases() if case.entry == entry), 2))
    check_losses(some, tmp_path)


def test_releases_that_are_no_statistics_lose_no_more_than_their_charge(tmp_path):
    """A pair of each method that is no statistic loses at most its charge."""
    some = {case.statistic: case for case in cases() if case.question in CALLS}
    check_losses(some.values(), tmp_path)


def check_losses(some, folder):
    """Require that these pairs of releases lose at most their charge."""
    pairs = measure_losses(some, folder)
    for case, pair in zip(some, pairs, strict=True):
        assert not pair.fault, case
        assert pair.ratio <= 1, case
    return pairs


@pytest.mark.battery
def test_groups_beyond_a_threshold_lose_no_more_than_their_charge(tmp_path):
    """A pair of each kind of hidden groups with each kind of limits loses at most its charge."""
    some = {(case.groups, case.unit): case for case in hidden_cases() if case.entry == "frame"}
    assert {groups for groups, _ in some} == set(replay_cases.GROUPS)
    check_losses(some.values(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_group_of_one_unit_is_hidden_by_noise_that_is_likelier_than_delta(part, tmp_path):
    """Noise that comes with a probability just above delta does not lift a unit's own groups."""
    meter, places = Meter(tmp_path), Places(tmp_path)
    hidden = [case for case in hidden_cases() if is_of_one_unit(case)]
    for case in hidden[part::PARTS]:
        outcome = show_loudly(case, meter, places)
        assert ALONE not in outcome, case


def is_of_one_unit(case):
    """Check whether one of the tables has a group of one unit, by its key."""
    return case.groups in {"only unit", "no rows"} and case.change != "missing key"


def show_loudly(case, meter, places, factor=1.0):
    """Return the text of a release with noise that is just likelier than delta by a factor."""
    delta = factor * DELTA / UNITS[case.unit].get("max_groups", 1)
    larger, _ = case.releases(places)
    return str(meter.run(larger, case.measure, LoudTape(delta))[0])


@pytest.mark.parametrize("loss", ["epsilon 1", "rho 0.5"])
@pytest.mark.parametrize("unit", ["rows", "max_groups"])
def test_noise_beyond_delta_shows_a_group_of_one_unit(unit, loss, tmp_path):
    """Noise a hundredth as likely as delta lifts a unit's own groups: the law above is sharp."""
    case = Case("count", "frame", "polars", unit, "secret", loss, "spread", "ordinary")
    case = replace(case, groups="no rows")
    assert [
        ALONE in show_loudly(case, Meter(tmp_path), Places(tmp_path), factor)
        for factor in (1.0, 0.01)
    ] == [False, True]


def test_a_threshold_that_is_lost_is_reported(tmp_path, monkeypatch):
    """A group that its only unit shows is a fault, and so is one whose noise is likely."""
    monkeypatch.setattr(KeyRule, "threshold", lambda *_: 0)
    case = replace(PLAIN, keys="secret", groups="only unit", change="ordinary")
    assert "outcomes differ" in measure_loss(case, tmp_path).fault
    assert ALONE in show_loudly(case, Meter(tmp_path), Places(tmp_path))


def test_a_unit_that_decides_how_others_are_added_up_loses_no_more_than_its_charge(tmp_path):
    """DuckDB adds rows up where few of its first 131,072 are of different units and groups.

    One unit of 200 rows decides that here, and all others count in the groups that they had.
    """
    others = "SELECT i // 6 AS u, i // 2 % 4 AS g, sin(i) AS x FROM range(131_072) AS rows(i)"
    heavy = "SELECT -1 AS u, i % 3 AS g, 0.7 AS x FROM range(200) AS rows(i)"
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE larger AS {heavy} UNION ALL {others}")
    connection.execute("CREATE TABLE smaller AS FROM larger WHERE u >= 0")

    def release(table):
        def ask(ledger, dataset):
            private = dfp.frame(connection.table(table))(unit="u", max_rows=2, max_groups=2)
            groups = private(ledger=ledger, dataset=dataset).group_by("g", keys=[0, 1, 2, 3])
            return groups.agg(n=dfp.count(), x=dfp.sum("x", (0, 1)), epsilon=1)

        return ask

    pair = Meter(tmp_path).compare(release("larger"), release("smaller"))
    assert not pair.fault
    assert 0 < pair.ratio <= 1


PLAIN = Case("mean in bounds", "frame", "polars", "rows", "whole", "epsilon 1", "spread", "outlier")


def test_the_whole_charge_is_measured(tmp_path):
    """A mean within bounds loses exactly its charge."""
    assert measure_loss(PLAIN, tmp_path).ratio == 1


@pytest.mark.parametrize(
    ("keys", "unit", "bound"),
    [("whole", "rows", Fraction(3, 2)), ("secret", "rows", Fraction(3, 2)), ("secret", "found", 1)],
)
def test_too_little_noise_is_reported(keys, unit, bound, tmp_path, monkeypatch):
    """Noise of half the scale shows as twice the loss, where limits are found too."""
    true_noise = Epsilon.noise

    def halve(loss, l1, l2_squared):
        noise = true_noise(loss, l1, l2_squared)
        return replace(noise, scale=noise.scale / 2)

    monkeypatch.setattr(Epsilon, "noise", halve)
    assert measure_loss(replace(PLAIN, keys=keys, unit=unit), tmp_path).ratio > bound


def test_a_unit_that_terms_forget_is_reported(tmp_path, monkeypatch):
    """A unit of several rows loses more than the charge of a release that protects rows."""
    monkeypatch.setitem(replay_cases.UNITS, "max_rows", {})
    assert measure_loss(replace(PLAIN, unit="max_rows"), tmp_path).ratio > 1


def test_an_understated_sensitivity_is_reported(tmp_path, monkeypatch):
    """A statistic that declares half of its sensitivity loses twice its charge."""
    for kind in ("second_moment", "half_moment"):
        monkeypatch.setitem(STATISTICS, kind, None)  # is taken out again when the test ends
    monkeypatch.delitem(sys.modules, "examples.statistics.second_moment", raising=False)
    second_moment = importlib.import_module("examples.statistics.second_moment")

    @dataclass(frozen=True)
    class HalfMoment(second_moment.SecondMoment):
        """Squares with noise for half of what a row adds."""

        kind = "half_moment"

        def linear(self, *, grouped):
            honest = super().linear(grouped=grouped)
            return replace(honest, l1=honest.l1 // 2, l2_squared=honest.l2_squared // 4)

    assert isinstance(HalfMoment("x", (-5, 5)).linear(grouped=False), Linear)
    question = Question("half_moment", (HalfMoment("x", (-5, 5)),))
    monkeypatch.setitem(QUESTIONS, "half moment", question)
    pair = measure_loss(replace(PLAIN, question="half moment"), tmp_path)
    assert pair.ratio > Fraction(3, 2)


def test_an_outcome_that_depends_on_a_row_is_reported(tmp_path):
    """A value beside the noisy numbers that one row changes is a fault."""

    def ask(rows):
        frame = replay_cases.pl.DataFrame({"x": [1.0] * rows})
        return lambda ledger, dataset: (
            float(frame.dp(ledger=ledger, dataset=dataset).mean("x", (0, 2), epsilon=1)),
            rows,
        )

    assert "outcomes differ" in Meter(tmp_path).compare(ask(9), ask(8)).fault


def test_no_draw_escapes_the_recorder():
    """The system's random bytes are refused outside of recordable functions."""

    class Recorder:
        def draw(self, _mechanism, _inputs, sample):
            return sample()

    with permit("a test"), record_draws(Recorder()), pytest.raises(EntropyError):
        DiscreteLaplace(Fraction(1)).sample(1)


def test_the_package_records_nothing():
    """No module of the package sets a recorder."""
    users = {name for name, tree in both_trees().items() if "record_draws" in names_used(tree)}
    assert users <= {"noise/recording.py"}
    assert "record_draws" not in dir(dfp)
