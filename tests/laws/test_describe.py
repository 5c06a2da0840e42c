"""Descriptions of whole frames: what is asked of each column, what it costs, and what may show."""

import datetime as dt
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.frame_types import to_arrow

HUGE = {"epsilon": 1e7, "delta": 1e-6}
N = 6000
FRAME = pl.DataFrame(
    {
        "x": [float(k % 100) for k in range(N)],
        "k": [None if k % 4 == 0 else k % 10 for k in range(N)],
        "late": [k % 5 == 0 for k in range(N)],
        "city": [None if k % 3 == 0 else "Rome" if k % 3 == 1 else "Oslo" for k in range(N)],
        "day": [dt.date(2020, 1, 1) + dt.timedelta(days=k % 101) for k in range(N)],
        "span": [dt.timedelta(seconds=k) for k in range(N)],
    }
)
FRAME = FRAME.with_columns(when=pl.col("day").cast(pl.Datetime("us")) + pl.duration(hours=23))
FRAME = FRAME.select("x", "k", "late", "city", "day", "when", "span")
KINDS = ["number", "integer", "boolean", "text", "date", "time", "duration"]


def frames(path) -> dict[str, object]:
    """Return the same rows in every type of frame that declares its columns."""
    table = FRAME.to_arrow()
    pq.write_table(table, path / "rows.parquet")
    zoned = FRAME.to_pandas()
    zoned["when"] = zoned["when"].dt.tz_localize("UTC")
    return {
        "polars": FRAME,
        "lazy": FRAME.lazy(),
        "pandas": FRAME.to_pandas(),
        "pandas of Arrow": table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas with a zone": zoned.astype({"city": "category"}),
        "duckdb": duckdb.from_arrow(table),
        "arrow": table,
        "reader": table.to_reader(),
        "file": str(path / "rows.parquet"),
    }


def test_each_column_is_described_by_its_type_in_every_frame(tmp_path):
    """Counts, shares, means, deviations, quantiles and values are those of the rows."""
    for name, frame in frames(tmp_path).items():
        description = dfp.frame(frame).describe(quantiles=(0.25, 0.5), **HUGE)
        x, k, late, city, day, when, span = to_arrow(description).to_pylist()
        kinds = [row["type"] for row in (x, k, late, city, day, when, span)]
        kinds[1] = "integer" if name.startswith("pandas") else kinds[1]  # NULL makes them floats
        days = "time" if name in {"pandas", "pandas with a zone"} else "date"  # it has no dates
        kinds[4] = "date" if kinds[4] == days else kinds[4]
        assert kinds == KINDS, name
        assert [row["count"] for row in (x, k, late, city, span)] == [N, 4500, N, 4000, N], name
        assert k["missing"] == pytest.approx(0.25, abs=1e-3)
        assert city["missing_low"] - 1e-9 <= 1 / 3 <= city["missing_high"] + 1e-9
        assert x["mean"] == pytest.approx(49.5, abs=0.01)
        assert x["std"] == pytest.approx(28.866, abs=0.01)
        assert 24 <= x["25%"] <= 25
        assert 49 <= x["50%"] <= 50
        assert late["mean"] == pytest.approx(0.2, abs=1e-3)
        assert late["values"].startswith("true 20%")
        assert (city["top_count"], city["values"].count("2,000")) == (2000, 2)
        middle = {dt.date(2020, 1, 1) + dt.timedelta(days=days) for days in (48, 49, 50, 51)}
        assert pd.Timestamp(day[f"50% {days}"]).date() in middle
        late_evening = {dt.datetime.combine(date, dt.time(23)) for date in middle}
        assert pd.Timestamp(when["50% time"]).to_pydatetime() in late_evening
        assert (when["note"] == "times in UTC") == (name == "pandas with a zone"), name
        middle_span = span["50% duration"]
        middle_span = getattr(middle_span, "nanoseconds", None) or pd.Timedelta(middle_span).value
        assert abs(middle_span / 1e9 - N / 2) < 2


def test_text_files_are_numbers_where_the_caller_says_so(tmp_path):
    """A CSV file declares no types: columns with bounds and those listed are read as numbers."""
    path = tmp_path / "rows.csv"
    FRAME.select("x", "k", "city").write_csv(path)
    private = dfp.frame(str(path))(bounds={"x": (0, 100)})
    x, k, city = to_arrow(private.describe(numbers=["k"], **HUGE)).to_pylist()
    assert [row["type"] for row in (x, k, city)] == ["number", "number", "text"]
    assert (k["count"], city["top_count"]) == (4500, 2000)
    assert to_arrow(private.describe(["k"], **HUGE)).to_pylist()[0]["type"] == "text"


@pytest.mark.parametrize(
    "terms",
    [{"epsilon": 1, "delta": 1e-6}, {"rho": 0.25, "delta": 1e-6}, {"epsilon": 300, "delta": 1e-3}],
    ids=str,
)
@pytest.mark.parametrize("unit", [None, "k"])
def test_the_charge_is_the_sum_of_what_the_parts_spend(terms, unit, tmp_path):
    """One charge: the losses of all releases add up to it, and so do explain's shares."""
    measure = "rho" if "rho" in terms else "epsilon"
    ledger = dfp.Ledger(tmp_path / "budget.db", **{measure: 1000, "delta": 0.1})
    limits = {} if unit is None else {"unit": unit, "max_rows": 3, "max_groups": 2}
    private = FRAME.dp(ledger=ledger, dataset="d", **limits)
    plan = private.explain.describe(**terms)
    before = ledger.remaining("d")
    private.describe(**terms)
    spent = getattr(before, measure) - getattr(ledger.remaining("d"), measure)
    assert spent == pytest.approx(terms[measure], abs=1e-8)
    assert before.delta - ledger.remaining("d").delta == pytest.approx(terms["delta"], rel=1e-6)
    named = [getattr(draw, measure) for draw in plan.draws]
    if None not in named:
        assert sum(named) == pytest.approx(terms[measure])
    assert getattr(plan, measure) == terms[measure]
    assert plan.delta == terms["delta"]


def least_epsilon(rho: float, delta: float) -> float:
    """Return the least epsilon of rho-zCDP at delta over orders (Canonne, Kamath, Steinke 2020)."""
    order = 1 + np.geomspace(1e-3, 1e6, 100_000)
    rest = (math.log(1 / delta) - np.log(order)) / (order - 1)
    return float((order * rho + np.log1p(-1 / order) + rest).min())


@pytest.mark.parametrize("wide", [2, 120])
def test_a_wide_frame_spends_the_rho_that_epsilon_and_delta_allow(wide):
    """The parts never spend more than what is charged, in whichever measure."""
    names = [f"c{index}" for index in range(wide)]
    frame = pl.DataFrame({name: ["a"] if index % 2 else [1.0] for index, name in enumerate(names)})
    draws = frame.dp.explain.describe(epsilon=1, delta=1e-6).draws
    assert len(draws) == 1 + wide
    if wide == 2:
        assert sum(draw.epsilon for draw in draws) == pytest.approx(1)
    else:
        spent = sum(draw.rho for draw in draws)
        assert 0.99 < least_epsilon(spent, 5e-7) <= 1  # the other half of delta is for values
        parts = 1 + 3 * wide // 2 + wide // 2
        assert draws[1].rho > (1 / parts) ** 2 / 8


def test_every_epsilon_beside_a_delta_describes():
    """The least epsilons allow no rho that can be named: a search for epsilon begins with them."""
    frame = pl.DataFrame({"x": [1.0, 2.0] * 50, "g": ["a", "b"] * 50})
    assert len(frame.dp.describe(epsilon=1e-12, delta=1e-6)) == 2
    assert 1e-3 < frame.dp.explain.within("5%").describe(delta=1e-6).epsilon < 1e3


@pytest.mark.parametrize("size", [300, 20_000])
@pytest.mark.parametrize("terms", [{}, {"delta": 1e-6}, {"rho": 0.05}], ids=str)
def test_a_note_names_the_quantiles_that_are_unknown(terms, size):
    """All of them and no others: none of 20,000 rows, some of 300."""
    rows = pl.DataFrame({name: [float(k % 997) for k in range(size)] for name in "abcdef"})
    for row in to_arrow(rows.dp.describe(**terms)).to_pylist():
        unknown = [name for name in row if name.endswith("%") and math.isnan(row[name])]
        assert bool(unknown) == (size == 300)
        note_names = (
            (row["note"] or "").partition("too few rows for this loss: ")[2].partition(" (")[0]
        )
        assert note_names == ", ".join(unknown)


def test_only_what_is_declared_shapes_the_answer(replayed):
    """Rows or none, all of them missing or not: columns and types of the answer are the same.

    Noise is the same in every run: it finds bounds of nothing in one release of some thousands.
    """
    full = FRAME.dp.describe(rho=1, delta=1e-6)
    missing = pl.DataFrame({name: [None] * 50 for name in FRAME.columns}, FRAME.schema)
    for other in (FRAME.clear(), missing):
        description = replayed(lambda o=other: o.dp.describe(rho=1, delta=1e-6))
        assert description.schema == full.schema
        assert description["type"].to_list() == KINDS
        assert description["mean"].is_nan().to_list()[:2] == [True, True]
        assert description["top"].to_list() == [None] * 7


def test_hostile_names_are_values_of_a_column():
    """A column may be called as those of the answer are, or hold markup, quotes and labels."""
    names = ["count", "column", "note", "rows", '"; DROP', "<b>", "0_mean", "low", "é\n"]
    frame = pl.DataFrame({name: ["a"] * 50 if index % 2 else [1.5] * 50
                          for index, name in enumerate(names)})  # fmt: skip
    for table in (frame, frame.to_pandas(), duckdb.from_arrow(frame.to_arrow()), frame.to_arrow()):
        assert to_arrow(dfp.frame(table).describe(**HUGE))["column"].to_pylist() == names
    labels = pd.DataFrame({0: [1.0] * 9, (1, 2): ["a"] * 9})
    assert to_arrow(labels.dp.describe(**HUGE)).to_pylist()[1]["column"] == "(1, 2)"


def test_units_are_limited_in_every_part(tmp_path):
    """With a unit its own column is left out, and a unit's rows and values have their limits."""
    rows = pl.DataFrame({"who": ["u"] * 900 + ["v"] * 2, "x": [1.0] * 902, "c": ["a"] * 902})
    private = rows.dp(unit="who", max_rows=4, max_groups=2, bounds={"x": (0, 2)})
    x, c = to_arrow(private.describe(**HUGE)).to_pylist()
    assert (x["column"], c["column"]) == ("x", "c")
    assert (x["count"], c["count"], c["top_count"]) == (6, 6, 6)
    page = repr(dfp.show(private.describe(**HUGE)))
    assert "and rows beyond max_rows or without a unit." in page
    assert "\na unit with more than 4 rows counts as 4\n" in page
    assert "one in more than 2 groups counts in 2" in page
    for limits in ({"max_rows": 4}, {}):
        with pytest.raises(dfp.errors.InvalidUnitError):
            rows.dp(unit="who", **limits).describe(**HUGE)


@pytest.mark.parametrize("columns", [["x"], ["x", "c"]])
def test_the_hint_at_limits_names_calls_that_work(columns):
    """The advice of a refused description, limits named or found, describes the frame."""
    df = pl.DataFrame({"who": [*range(90)] * 9, "x": [1.0] * 810, "c": ["a"] * 810})
    with pytest.raises(dfp.errors.InvalidUnitError) as refusal:
        df.dp(unit="who").describe(columns)
    named, search = refusal.value.hint.split(", or find max_rows first: ")
    for arguments in (named.removeprefix("pass ").rpartition(", chosen")[0], search):
        terms = eval(f"dict({arguments})", {"dfp": dfp, "df": df})
        assert len(df.dp(**{"unit": "who", **terms}).describe(columns, **HUGE)) == len(columns)
