"""Means of vectors: what one row changes costs no more than rho, and shows nowhere else.

The idea is Re:cord-play's (arXiv 2602.17454): a release on a data set is recorded, and its draws
are repeated on the neighbor.
"""

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from benchmarks.releases import plain
from tests.replayed_draws import replay

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
