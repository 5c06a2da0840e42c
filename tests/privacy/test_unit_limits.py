"""Limits of a unit are checked before anything is read, and can be suggested."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.engine.units import UNIT_MEAN
from dfprivacy.frames.limit_finding import measured_sizes, valued
from dfprivacy.frames.releasing import named_columns, read
from tests.privacy.unit_tables import FRAMES, table


@pytest.mark.parametrize(
    "terms",
    [
        {"unit": "u", "max_rows": 0},
        {"unit": "u", "max_rows": 2.5},
        {"unit": "u", "max_rows": 2**20 + 1},
        {"unit": "u", "max_rows": True},
        {"max_rows": 3},
        {"max_groups": 3},
        {"unit": "u", "max_rows": 1, "max_groups": 0},
        {"unit": "u", "max_groups": 0},
    ],
)
def test_limits_that_are_wrong_are_refused(terms):
    """Limits are whole numbers of a unit: an error before anything."""
    frame = dfp.frame(pa.table({"u": [1], "g": ["a"]}))
    with pytest.raises(dfp.InvalidUnitError, match="Hint"):
        frame(**terms, delta=1e-6).group_by("g").count()


def test_a_unit_that_is_no_column_is_refused():
    """A unit is a column of the frame."""
    with pytest.raises(dfp.MissingColumnError, match="'user'"):
        dfp.frame(pa.table({"u": [1]}))(unit="user", max_rows=1).count()


@pytest.mark.parametrize("name", FRAMES)
def test_suggested_limits_hold_for_nearly_all_units(engines, name):
    """The limits of a table in which most units have 3 rows in 2 groups each are 3 and 2."""
    rows = [{"u": u, "g": g, "x": 1.0, "i": i} for u in range(600) for g in "ab" for i in range(3)]
    heavy = [{"u": 1000, "g": str(i), "x": 1.0, "i": i} for i in range(90)]
    frame = engines[name](table(rows + heavy))
    assert dfp.suggest_limits(frame, unit="u", by="g", epsilon=20) == dfp.Unit("u", 3, 2)
    assert dfp.suggest_limits(frame, unit="u", epsilon=20) == dfp.Unit("u", 6)


def test_too_few_units_have_the_smallest_limits():
    """Where nothing can be told of the units, limits are 1, and no error says so."""
    frame = pa.table({"u": pa.array([], pa.int64()), "g": pa.array([], pa.string())})
    found = {dfp.suggest_limits(frame, unit="u", by="g", epsilon=0.1) for _ in range(5)}
    assert dfp.Unit("u", 1, 1) in found


def histograms(frame, by, question):
    """Return what limits are found from, before there is noise."""
    columns = dict.fromkeys(valued([question]).columns, True)
    columns = named_columns(by, None, columns, dfp.Unit("u", 1))
    return read(frame, columns, lambda adopted: measured_sizes(adopted, by, [question]))[1]


ODD = [None, float("nan"), float("inf"), -float("inf"), -1e300, 0.0, 3.7, 99.99, 100.0, 1e300]


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("by", [[], ["g"]])
@pytest.mark.parametrize("question", [dfp.mean("x", (0, 100)), dfp.sum("x", (-3, 9)), dfp.count()])
def test_no_unit_moves_what_limits_are_found_from_by_more_than_noise_is_for(
    engines, name, by, question
):
    """By brute force: a unit less moves each histogram by 1, coordinates by their constant."""
    drawn = np.random.default_rng(len(by)).integers(0, [3, 4, len(ODD)], (40, 3))
    rows = [{"u": int(u), "g": str(g), "x": ODD[x], "i": 0} for u, g, x in drawn]
    rows += [{"u": 9, "g": str(i % 7), "x": 50.0, "i": 0} for i in range(200)]
    rows += [{"u": None, "g": "a", "x": 1.0, "i": 0}, {"u": 10, "g": None, "x": None, "i": 0}]
    whole = histograms(engines[name](table(rows)), by, question)
    for unit in (0, 1, 9, 10, None):
        others = [row for row in rows if row["u"] != unit]
        left, most = histograms(engines[name](table(others)), by, question), int(unit is not None)
        assert abs(whole.rows - left.rows).sum() <= most
        assert abs(whole.groups - left.groups).sum() <= most
        assert abs(whole.number - left.number) <= most
        if whole.means is not None:
            assert abs(whole.means - left.means).sum() <= most * UNIT_MEAN
            assert (whole.means >= left.means).all()


def units_of(sizes, values):
    """Return a frame of units that have so many rows of one value each."""
    users = np.repeat(np.arange(len(sizes)), sizes)
    return pl.DataFrame({"u": users, "x": np.repeat(values, sizes)})


SIZES = np.tile([1, 2, 4, 300], 2500)


def test_a_mean_of_units_that_are_alike_counts_each_of_them_once():
    """Where large units are like the others, limits only cost noise: 1 row, not what most have."""
    frame = units_of(SIZES, np.repeat([20.0, 80.0], 5000)[np.arange(10_000) * 7919 % 10_000])
    found = dfp.suggest_limits(frame, unit="u", question=dfp.mean("x", (0, 100)))
    assert found.max_rows <= 4
    assert dfp.suggest_limits(frame, unit="u").max_rows > 200


def test_a_mean_of_units_that_differ_by_size_counts_most_of_their_rows():
    """Where large units have other values, scaling them down is a bias above the noise."""
    frame = units_of(SIZES, np.where(SIZES > 4, 90.0, 10.0))
    question = dfp.mean("x", (0, 100))
    assert dfp.suggest_limits(frame, unit="u", question=question).max_rows >= 100


def test_limits_of_sums_grow_with_what_they_may_spend():
    """A count leaves out more where its noise is larger."""
    frame = units_of(np.arange(1, 3000), np.ones(2999))
    small, large = (
        dfp.suggest_limits(frame, unit="u", question=dfp.count(), epsilon=5, spending=spending)
        for spending in (1e-4, 10)
    )
    assert small.max_rows < 1000 < large.max_rows


@pytest.mark.parametrize("name", FRAMES)
def test_limits_for_a_question_are_found_in_every_engine(engines, name):
    """Units of 3 rows in 2 groups each have these limits for a mean, a sum and a count."""
    rows = [
        {"u": u, "g": g, "x": u % 9, "i": 0} for u in range(900) for g in "ab" for i in range(3)
    ]
    frame = engines[name](table(rows))
    for question in (dfp.sum("x", (0, 8)), dfp.count()):
        found = dfp.suggest_limits(frame, unit="u", by="g", question=question, epsilon=20)
        assert found == dfp.Unit("u", 3, 2)
    mean = dfp.mean("x", (0, 8))
    found = dfp.suggest_limits(frame, unit="u", by="g", question=mean, rho=20)
    assert found.max_rows <= 3
    assert found.max_groups == 2


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"question": "x"}, dfp.InvalidQuestionError),
        ({"spending": 1.0}, dfp.InvalidLossError),
        ({"question": dfp.count(), "spending": 0}, dfp.InvalidLossError),
        ({"question": dfp.mean("y", (0, 1))}, dfp.MissingColumnError),
    ],
)
def test_what_limits_are_for_is_checked_before_anything_is_charged(tmp_path, terms, error):
    """A question that can't be asked is refused, and the ledger pays nothing."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    frame = pl.DataFrame({"u": [1], "x": [1.0]})
    with pytest.raises(error, match="Hint"):
        dfp.suggest_limits(frame, unit="u", **terms, ledger=ledger, dataset="d")
    assert ledger.remaining("d").epsilon == 1
