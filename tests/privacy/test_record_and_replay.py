"""Record on a data set, replay on its neighbor: nothing but the noisy numbers may tell them apart.

The idea is Re:cord-play's (arXiv 2602.17454): the one mechanism writes down what it was given on D
and what it answered; on the neighbor it gives the same answers again, so that any difference left
in the output is a leak, and what it was given may differ by the declared sensitivity only.

Means of vectors: what one row changes costs no more than rho, and shows nowhere else.

Every draw of noise is recorded on a data set with what was given to it, and repeated on its
neighbor. Then all that is left must be equal, and what the mechanisms were given may differ by no
more than the noise pays for: the sum over all draws of (L2 distance)^2 / (2 sigma^2) is the rho
that was really spent. Under add-remove the last row is left out, so that public coins (signs,
buckets) fall for the other rows as they did; under replace any row is replaced.
"""

from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy.accounting.loss import Contribution
from dfprivacy.frames.planning import plan_histogram, plan_statistics
from dfprivacy.measurement.binning import Octaves
from dfprivacy.measurement.vectors import Buffers, ItemRows, incomplete, vector_grid
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.selection import ExponentialMechanism
from dfprivacy.release import answers
from dfprivacy.release.pipeline import permit
from dfprivacy.release.plan import SEARCH, add_losses
from dfprivacy.release.terms import PublicKeys, Terms, UnlimitedUnit
from dfprivacy.statistics.estimators import (
    group_bounds,
    private_quantiles,
    vector_means,
)
from dfprivacy.statistics.estimators.bounds_search import Found, Look, ruler_about_zero
from dfprivacy.statistics.estimators.private_quantiles import RELATIONS, Mechanics
from dfprivacy.statistics.estimators.vector_means import (
    ClippedMean,
    PlanItems,
    PlanMean,
    RecenteredMean,
    ShiftedMean,
)
from dfprivacy.statistics.histogram import Histogram
from tests.privacy.unbounded_questions import ASKED as UNBOUNDED
from tests.privacy.unbounded_questions import frame


@pytest.mark.parametrize("loss", [{"epsilon": 2}, {"rho": 0.5}])
@pytest.mark.parametrize(
    "by", [((), None), (("g",), None), (("g",), PublicKeys((("a",), ("b",), ("c",))))]
)
@pytest.mark.parametrize("limits", [(1, 1), (3, 2), (50, 7)])
def test_the_parts_of_a_release_that_finds_limits_add_up_to_its_charge(loss, by, limits):
    """Search and rest are exactly the whole; within limits each row pays what a unit leaves it."""
    terms = Terms(unit=UnlimitedUnit("u"), delta=1e-6).updated(**loss)
    questions = {"m": dfp.mean("x", (0, 8)), "n": dfp.count("i")}
    for plan in (
        plan_statistics(questions, terms, *by),
        plan_histogram(Histogram("x", (0, 1, 2)), None, terms, *by),
    ):
        search, whole = plan.search, plan.charge.loss
        rest = add_losses(plan.losses)
        assert (search.loss.value, rest.value) == (
            whole.value * SEARCH, whole.value * (1 - SEARCH),
        )  # fmt: skip
        rows = [limits[0] + index for index in range(len(plan.parts))]
        within = plan.within(rows, limits[1] if by[0] else None)
        groups = 1 if not by[0] else limits[1]
        for limit, unit_loss, row_loss in zip(rows, plan.losses, within.row_losses, strict=True):
            assert row_loss == Contribution(limit, groups).row_loss(unit_loss)


def found_together(*_, **__):
    """Return bounds of all groups together from 0 to 4096, whatever these hold."""
    ruler, zero = ruler_about_zero(Octaves(), 0, Octaves().last), np.zeros(1, int)
    heights = np.zeros((1, len(ruler.starts) - 1))
    heights[:, ruler.middle + 128 : ruler.middle + 139] = 99.0
    look, reach = Look(ruler, heights, np.array([0.001])), np.array([[0.0], [4096.0]])
    first, last = zero + ruler.middle + 1, zero + ruler.middle + 138
    return [Found(look, first, last, zero + 200, reach, zero)], zero[:0]


@pytest.mark.parametrize("others", [1, 2, 5])
@pytest.mark.parametrize("ask", ["mean", "sum", "var", "std and count", "several"])
def test_a_group_takes_from_others_what_noisy_counts_together_say(ask, others, monkeypatch):
    """A group takes from others what noisy counts of all groups together say, and nothing else.

    Where these are the same, so is what is said of a group, whichever bounds of their own others
    have, shown or not. Only the note on far rows reads the noisy counts of others that are shown.
    """
    monkeypatch.setattr(group_bounds, "search", found_together)
    levels = lambda _, distances, *__: (9.0, *np.zeros((2, distances.pooled + 1)))  # noqa: E731
    monkeypatch.setattr(group_bounds, "_read_levels", levels)
    shown = []
    for extra, copies in ((0, 0), (others, 1), (others, 30)):
        named = {"a": [5.0] * 40, "no bounds": [3.0, 6.0] * 30}
        named |= {f"one {k}": [2.0 ** (33 + k)] * copies for k in range(extra)}
        grouped = frame(list(named.values()), list(named)).dp.group_by("g")
        released = grouped.agg(**UNBOUNDED[ask], epsilon=2**59, delta=1e-9)
        shown.append(released.filter(pl.col("g") == "no bounds").to_dicts())
        assert set(released["g"]) == {"a", "no bounds"} | (set(named) if copies > 1 else set())
    assert shown[0] == shown[1]
    without_notes = [
        [{name: value for name, value in row.items() if "note" not in name} for row in rows]
        for rows in shown
    ]
    assert without_notes[0] == without_notes[2]


@pytest.mark.parametrize(
    "asked",
    [
        {"m": dfp.mean("x")},
        {"m": dfp.mean("x"), "n": dfp.count("x")},
        {"m": dfp.mean("x"), "n": dfp.count()},
        {"m": dfp.mean("x"), "i": dfp.mean("i")},
        {"m": dfp.mean("x"), "i": dfp.sum("i"), "n": dfp.count()},
        {"m": dfp.mean("x", (0, 9)), "n": dfp.count()},
    ],
)
def test_one_count_of_each_group_has_all_of_delta(asked, monkeypatch):
    """One noisy count decides of each group whether it is shown, for all of delta."""
    judged = set()  # a count that is looked at again is one count
    true = answers.CountPiece.kept

    def kept(self, rule):
        totals = self.vector.total(self.weights.indices).tolist()
        judged.update((group, n, rule.delta) for group, n in zip(self.groups, totals, strict=True))
        return true(self, rule)

    monkeypatch.setattr(answers.CountPiece, "kept", kept)
    delta = Fraction(1, 4)
    rows = [[5.0] * 60, [1.0], [0.1, 3.0]]
    frame(rows, list("abc")).dp.group_by("g").agg(**asked, epsilon=3, delta=0.25)
    assert sorted((group, part) for group, _, part in judged) == [
        (0, delta),
        (1, delta),
        (2, delta),
    ]


# Means of vectors


SELECT = ExponentialMechanism.select
MODULES = (vector_means, private_quantiles)


class VectorTape:
    """What the mechanisms were given, and the answers to repeat."""

    def __init__(self, answers=None):
        self.answers = None if answers is None else iter(answers)
        self.calls = []

    def add_to(self, exact, noise, _entropy=system_entropy):
        noisy = add_to(exact, noise) if self.answers is None else next(self.answers)
        self.calls.append((np.array(exact), noise, noisy))
        return noisy.copy()

    def selecting(self):
        def select(mechanism, runs, entropy=system_entropy):
            return self.select(mechanism, runs, entropy)

        return select

    def select(self, mechanism, runs, _entropy=system_entropy):
        chosen = SELECT(mechanism, runs) if self.answers is None else next(self.answers)
        assert (runs.length == 1).all()
        self.calls.append((runs.loss.reshape(len(runs.group_starts), -1), mechanism, chosen))
        return chosen.copy()


@contextmanager
def on(tape):
    """Put every mechanism on tape."""
    patches = [mock.patch.object(module, "add_to", tape.add_to) for module in MODULES]
    patches.append(mock.patch.object(ExponentialMechanism, "select", tape.selecting()))
    for patch in patches:
        patch.start()
    try:
        with permit("a test"):
            yield
    finally:
        for patch in patches:
            patch.stop()


def counting_bytes():
    """Return a byte source that gives the same bytes to every run."""
    draws = np.random.default_rng(11)
    return draws.bytes


def run(passes, blocks):
    buffers = Buffers()
    try:
        table = next(passes)
        while True:
            for block in blocks:
                table.add(block, buffers)
            table = next(passes)
    except StopIteration as done:
        return done.value


METHODS = {
    "recentered": RecenteredMean,
    "clipped": ClippedMean,
    "shifted": ShiftedMean,
    "shifted, one pass": lambda g, rho, how: ShiftedMean(g, rho, how, (6,), 2),
    "plan": PlanMean,
    "plan, l1": lambda g, rho, how: PlanMean(g, rho, how, Fraction(1)),
    "plan, generic": lambda g, rho, how: PlanMean(g, rho, how, Fraction(3), "generic"),
}


def mean_on(tape, x, method, relation, rho):
    grid = vector_grid(x.shape[1], 8.0)
    whole = grid.integers(x, np.empty(x.shape))
    bad = incomplete(whole)
    if relation == "replace":
        whole[bad] = 0.0
    rows = whole if relation == "replace" else whole[~bad]
    blocks = [rows[first : first + 5] for first in range(0, len(rows), 5)]
    how = Mechanics(RELATIONS[relation], counting_bytes())
    with on(tape):
        return run(METHODS[method](grid, rho, how).passes(), blocks)


def shown_mean(mean):
    """Return everything that a caller can see of a mean."""
    low, high = mean.interval(0.9)
    arrays = (mean.value(), low, high, mean.standard_error(), mean.center, mean.scale)
    return [array.tolist() for array in arrays] + [mean.rows, mean.threshold, mean.noise]


def rho_spent(recorded, replayed):
    """Return the rho that the difference between two recordings has cost."""
    assert len(recorded.calls) == len(replayed.calls)
    total = Fraction(0)
    for (left, law, _), (right, same, _) in zip(recorded.calls, replayed.calls, strict=True):
        assert law == same
        assert left.shape == right.shape
        if isinstance(law, ExponentialMechanism):  # bounded range: 2 * rate * gap for each choice
            gaps = np.abs(left - right).max(axis=1).tolist()
            total += sum((2 * law.rate * gap) ** 2 / 8 for gap in gaps)
        else:
            gap = [int(a) - int(b) for a, b in zip(left.flat, right.flat, strict=True)]
            total += Fraction(sum(g * g for g in gap)) / (2 * law.sigma_squared)
    return total


VALUES = st.one_of(
    st.floats(-9, 9), st.sampled_from([0.0, 8.0, -8.0, np.inf, -np.inf, np.nan, 1e300, 5e-324])
)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=12)
@given(data=st.data())
def test_dense_means_cost_rho(method, relation, data):
    """A row more, or another one in its place, costs at most rho; nothing else shows it."""
    dimension = data.draw(st.sampled_from([1, 2, 3, 5]))
    rows = st.lists(VALUES, min_size=dimension, max_size=dimension)
    x = np.array(data.draw(st.lists(rows, min_size=1, max_size=14)), float)
    rho = data.draw(st.sampled_from([Fraction(1, 2), Fraction(50), Fraction(10**9)]))
    if relation == "replace":
        other = x.copy()
        other[data.draw(st.integers(0, len(x) - 1))] = data.draw(rows)
    else:
        other = x[:-1]
    recorded = VectorTape()
    first = mean_on(recorded, x, method, relation, rho)
    replayed = VectorTape(answer for *_, answer in recorded.calls)
    second = mean_on(replayed, other, method, relation, rho)
    assert shown_mean(first) == shown_mean(second)
    assert rho_spent(recorded, replayed) <= rho


SETS = st.sets(st.integers(0, 6), max_size=7)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("p", [None, Fraction(1), Fraction(2)])
@given(data=st.data())
def test_item_means_cost_rho(relation, p, data):
    """A set more, or another one in its place, costs at most rho; full sets are the worst."""
    sets = data.draw(st.lists(SETS, min_size=1, max_size=12))
    sets[-1] = data.draw(st.sampled_from([set(range(7)), set(), sets[-1]]))
    other = sets[:-1] + ([data.draw(SETS)] if relation == "replace" else [])

    def mean(tape, part):
        row = np.repeat(np.arange(len(part)), [len(own) for own in part])
        item = np.array([i for own in part for i in sorted(own)], np.int64)
        how = Mechanics(RELATIONS[relation], counting_bytes())
        with on(tape):
            return run(PlanItems(7, Fraction(3), how, p).passes(), [ItemRows(len(part), row, item)])

    recorded = VectorTape()
    first = mean(recorded, sets)
    replayed = VectorTape(answer for *_, answer in recorded.calls)
    second = mean(replayed, other)
    assert shown_mean(first) == shown_mean(second)
    assert rho_spent(recorded, replayed) <= 3


def test_the_tape_sees_an_overspent_budget():
    """Accounting with half of a sum's sensitivity is found out: the test has power."""
    x = np.array([[8.0, 8.0]] * 3)

    careless = replace(RELATIONS["add-remove"], sum_factor=Fraction(1, 4))
    with mock.patch.dict(RELATIONS, {"add-remove": careless}):
        recorded = VectorTape()
        mean_on(recorded, x, "clipped", "add-remove", Fraction(10**9))
        replayed = VectorTape(answer for *_, answer in recorded.calls)
        mean_on(replayed, x[:-1], "clipped", "add-remove", Fraction(10**9))
    assert rho_spent(recorded, replayed) > 10**9
