"""Releases find limits of a unit themselves where none are given: one charge, one promise."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho
from dfprivacy.frames.releasing import histogram_request, request_of
from dfprivacy.release.request import SEARCH
from dfprivacy.release.terms import PublicKeys, Sought, Terms
from dfprivacy.statistics.histogram import Histogram
from tests.privacy.unit_tables import FRAMES, table

PLACES = [(u, g) for u in range(900) for g in "ab" for _ in range(3)]
ROWS = [{"u": u, "g": g, "x": u % 9, "i": 0} for u, g in PLACES]
KEYS = PublicKeys((("a",), ("b",), ("c",)))


@pytest.mark.parametrize("name", FRAMES)
def test_a_release_answers_within_the_limits_that_it_has_found(engines, name):
    """Units of 3 rows in 2 groups each: all of them count, whole and by group."""
    private = dfp.frame(engines[name](table(ROWS)))(unit="u", epsilon=1e5, delta=1e-9)
    counted = private.count()
    assert (int(counted), counted.limits, counted.epsilon) == (5400, dfp.Unit("u", 6), 1e5)
    assert private(max_rows=2).count().limits is None
    by_group = private.group_by("g")
    for found in (by_group.count(), private(max_rows=3).group_by("g").count()):
        assert column(found, "count") == [2700, 2700]
    listed = private.group_by("g", keys=["a", "b", "c"]).sum("x", (0, 8))
    assert [round(x / 100) for x in column(listed, "x")] == [108, 108, 0]


def column(frame, name):
    """Return a column of a frame of any library as a list."""
    if hasattr(frame, "to_arrow_table"):
        frame = frame.to_arrow_table()
    return list(frame[name]) if not hasattr(frame[name], "to_pylist") else frame[name].to_pylist()


def test_a_reader_is_read_once_for_all_passes():
    """Rows that can be read once only are kept for the passes over units and within limits."""
    counted = dfp.frame(table(ROWS).to_reader())(unit="u", epsilon=1e5).count()
    assert int(counted) == 5400
    query = "SELECT dp_count(*) AS n FROM t"
    found = dfp.sql(query, t=table(ROWS).to_reader(), unit="u", epsilon=1e5)
    assert found["n"][0].as_py() == 5400


def test_what_is_found_costs_nothing_on_top(tmp_path):
    """The ledger pays the loss that was named, once; a refusal pays nothing."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=1e-5)
    frame = pl.from_arrow(table(ROWS))
    private = frame.dp(unit="u", epsilon=1, delta=1e-6, ledger=ledger, dataset="d")
    private.group_by("g").agg(dfp.mean("x", (0, 8)), dfp.median("i"))
    assert ledger.remaining("d") == dfp.Budget(epsilon=9, delta=9e-6)
    with pytest.raises(dfp.UnsupportedDtypeError):
        private.mean("g", (0, 8))
    assert ledger.remaining("d").epsilon == 9
    assert "limits found" in ledger.history("d")["question"][0]


@pytest.mark.parametrize("loss", [{"epsilon": 2}, {"rho": 0.5}])
@pytest.mark.parametrize("by", [((), None), (("g",), None), (("g",), KEYS)])
@pytest.mark.parametrize("limits", [(1, 1), (3, 2), (50, 7)])
def test_the_parts_of_a_release_that_finds_limits_add_up_to_its_charge(loss, by, limits):
    """Search and rest are exactly the whole; within limits each row pays what a unit leaves it."""
    terms = Terms(unit=Sought("u"), delta=1e-6).updated(**loss)
    questions = {"m": dfp.mean("x", (0, 8)), "n": dfp.count("i")}
    for request in (
        request_of(questions, terms, *by),
        histogram_request(Histogram("x", bins=2, edges=(0, 1, 2)), terms, *by),
    ):
        search, whole = request.search, request.charge.loss
        assert (search.loss.value, search.rest.value) == (
            whole.value * SEARCH, whole.value * (1 - SEARCH),
        )  # fmt: skip
        settled = search.settle(dfp.Unit("u", limits[0], limits[1] if by[0] else None))
        assert settled.charge.loss == search.rest
        groups = 1 if not by[0] else limits[1] if by[1] is None else min(limits[1], 3)
        paid = Contribution(limits[0], groups).row_loss(search.rest)
        assert sum((own.value for own in settled.row_losses), start=Fraction(0)) == paid.value
        assert {type(own) for own in settled.row_losses} <= {Epsilon, Rho}


def test_a_recalled_release_is_the_same_again(tmp_path):
    """A ledger that remembers answers gives the one within the limits that were found, for free."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, remember=True)
    private = pl.from_arrow(table(ROWS)).dp(unit="u", ledger=ledger, dataset="d", version="1")
    first, second = (private.mean("x", (0, 8)) for _ in range(2))
    assert float(first) == float(second)
    assert ledger.remaining("d").epsilon == 9
    assert private(max_rows=1, epsilon=0.875).mean("x", (0, 8)) != first


def test_the_number_of_units_needs_no_limits():
    """Nunique of the unit's own column spends nothing on limits: a unit is one row."""
    frame = pl.from_arrow(table(ROWS))
    assert frame.dp(unit="u").explain.nunique("u").draws[0].epsilon == 1


def test_different_values_are_counted_with_one_of_each_unit():
    """Many units have each value: no more than one value a unit is worth its noise."""
    frame = pl.from_arrow(table(ROWS))
    counted = frame.dp(unit="u", epsilon=50).nunique("x")
    assert (int(counted), counted.limits.max_rows) == (9, 1)
