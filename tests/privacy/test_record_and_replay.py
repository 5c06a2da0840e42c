"""Record on a data set, replay on its neighbor: nothing but the noisy numbers may tell them apart.

The idea is Re:cord-play's (arXiv 2602.17454): the one mechanism writes down what it was given on D
and what it answered; on the neighbor it gives the same answers again, so that any difference left
in the output is a leak, and what it was given may differ by the declared sensitivity only.

Means of vectors: what one row changes costs no more than rho, and shows nowhere else.

Every draw of noise is recorded on a data set with what was given to it, and repeated on its
neighbor. Then all that is left must be equal, and what the mechanisms were given may differ by no
more than the noise pays for: the sum over all draws of (L2 distance)^2 / (2 sigma^2) is the rho
that was really spent.
"""

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from benchmarks.releases import plain
from dfprivacy.measurement.binning import Octaves
from dfprivacy.release import answers
from dfprivacy.statistics.estimators import group_bounds
from dfprivacy.statistics.estimators.bounds_search import Found, Look, ruler_about_zero
from tests.privacy.unbounded_questions import ASKED as UNBOUNDED
from tests.privacy.unbounded_questions import frame
from tests.replayed_draws import replay


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("keys", ["whole", None, ["a", "b", "c"]])
def test_the_parts_of_a_release_that_finds_limits_add_up_to_its_charge(measure, keys):
    """The search for limits and the answers cost exactly the whole, however it is measured."""
    private = frame([], []).with_columns(u=1).dp(unit="u", delta=None if keys else 1e-6)
    groups = private if keys == "whole" else private.group_by("g", keys=keys)
    loss, questions = {measure: 2}, {"m": dfp.mean("x", (0, 8)), "n": dfp.count("i")}
    explain = groups.explain
    for plan in (explain.agg(**questions, **loss), explain.histogram("x", [0, 1, 2], **loss)):
        assert sum(getattr(draw, measure) for draw in plan.draws) == pytest.approx(2, rel=1e-12)


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
    "questions",
    [
        {"m": dfp.mean("x")},
        {"m": dfp.mean("x"), "n": dfp.count("x")},
        {"m": dfp.mean("x"), "n": dfp.count()},
        {"m": dfp.mean("x"), "i": dfp.mean("i")},
        {"m": dfp.mean("x"), "i": dfp.sum("i"), "n": dfp.count()},
        {"m": dfp.mean("x", (0, 9)), "n": dfp.count()},
    ],
)
def test_one_count_of_each_group_has_all_of_delta(questions, monkeypatch):
    """One noisy count decides of each group whether it is shown, for all of delta."""
    judged = set()  # a count that is looked at again is one count
    true = answers.Counted.select_groups

    def watch_groups(self, rule):
        for piece in self.pieces:
            totals = piece.vector.total(piece.weights.indices).tolist()
            counts = zip(piece.groups, totals, strict=True)
            judged.update((group, n, rule.delta) for group, n in counts)
        return true(self, rule)

    monkeypatch.setattr(answers.Counted, "select_groups", watch_groups)
    delta = Fraction(1, 4)
    rows = [[5.0] * 60, [1.0], [0.1, 3.0]]
    frame(rows, list("abc")).dp.group_by("g").agg(**questions, epsilon=3, delta=0.25)
    assert sorted((group, part) for group, _, part in judged) == [
        (0, delta),
        (1, delta),
        (2, delta),
    ]


# Means of vectors


METHODS = {
    "recentered": {"method": "recentered"},
    "clipped": {"method": "clipped"},
    "shifted": {"method": "shifted"},
    "plan": {"method": "plan"},
    "plan, l1": {"method": "plan", "p": 1},
    "plan, generic": {"method": "plan", "p": 3, "deviations": "generic"},
}
RELATIONS = ["add-remove", "replace"]


def spend(ask, larger, smaller):
    """Return the rho that the difference between two tables has cost, where nothing else shows."""
    mean, same, tape = replay(ask, larger, smaller)
    assert plain(mean) == plain(same)
    assert repr(mean) == repr(same)
    return tape.loss.rho


def ask_dense(rows, rho, **options):
    """Ask for the mean of rows of numbers."""
    frame = pl.DataFrame(rows, schema=[*"abcde"[: len(rows[0])]], orient="row")
    return frame.dp.mean_vector(frame.columns, 8, rho=rho, **options)


VALUES = st.one_of(
    st.floats(-9, 9), st.sampled_from([0.0, 8.0, -8.0, np.inf, -np.inf, np.nan, 1e300, 5e-324])
)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=12)
@given(data=st.data())
def test_dense_means_cost_rho(method, relation, data):
    """A row more, or another one in its place, costs at most rho; nothing else shows it.

    The last row is left out, so that public coins fall for the others as they did.
    """
    dimension = data.draw(st.sampled_from([1, 2, 3, 5]))
    row = st.lists(VALUES, min_size=dimension, max_size=dimension)
    rows = data.draw(st.lists(row, min_size=2, max_size=14))
    rho = data.draw(st.sampled_from([Fraction(1, 2), Fraction(50), Fraction(10**9)]))
    other = rows[:-1]
    if relation == "replace":
        position = data.draw(st.integers(0, len(rows) - 1))
        other = [*rows[:position], data.draw(row), *rows[position + 1 :]]

    def ask(table):
        return ask_dense(table, rho, neighbors=relation, **METHODS[method])

    assert spend(ask, rows, other) <= rho


SETS = st.lists(st.integers(0, 6), max_size=7, unique=True)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("options", [{"method": "clipped"}, {"p": 1}, {"p": 2}], ids=str)
@given(data=st.data())
def test_item_means_cost_rho(relation, options, data):
    """A set more, or another one in its place, costs at most rho; full sets are the worst."""
    sets = data.draw(st.lists(SETS, min_size=1, max_size=12))
    sets[-1] = data.draw(st.sampled_from([[*range(7)], [], sets[-1]]))
    other = sets[:-1] + ([data.draw(SETS)] if relation == "replace" else [])

    def ask(table):
        frame = pl.DataFrame({"s": pl.Series(table, dtype=pl.List(pl.Int64))})
        return frame.dp.mean_vector("s", universe=7, rho=3, neighbors=relation, **options)

    assert spend(ask, sets, other) <= 3
