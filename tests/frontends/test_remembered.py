"""A ledger that remembers gives the same answer again, in every front end, and charges once."""

import datetime as dt
from decimal import Decimal
from functools import partial

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.frame_types import to_polars
from tests.laws.empty_tables import QUESTIONS

ASKED = {name: ask for name, ask in QUESTIONS.items() if name not in {"vectors", "sets"}} | {
    "crosstab": lambda p, **terms: p.crosstab("g", "h", margins=True, delta=1e-6, **terms),
    "share of flags": lambda p, **terms: p.share("b", **terms),
    "describe": lambda p, **terms: p.describe(["x", "g"], delta=1e-6, **terms),
}
"""Every question that is remembered, as a function of the private table and its loss."""


@pytest.fixture
def memory(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=1e-3, remember=True)


@pytest.fixture
def data(table_of):
    rows = [{"g": "ab"[i % 2], "h": i % 3, "x": float(i % 100), "i": i % 2} for i in range(8000)]
    table = table_of(rows)
    flags = pa.array([i % 5 == 0 for i in range(8000)])
    return table.append_column("y", table["x"]).append_column("b", flags)


def shown(answer):
    """Return everything a caller can see of an answer, but for the word that it is remembered."""
    if isinstance(answer, dict):
        return {name: shown(item) for name, item in answer.items()}
    if isinstance(answer, list | tuple):
        return [shown(item) for item in answer]
    if isinstance(answer, float) or not hasattr(answer, "columns"):
        ends = [getattr(answer, name, None) for name in ("low", "high", "std_error", "epsilon")]
        return str(list(map(str, ends))), repr(answer).replace(", remembered", "")
    if isinstance(answer, pd.DataFrame):
        return str(answer.dtypes), str(answer.to_dict())
    return type(answer), str(to_polars(answer).to_dict(as_series=False))


@pytest.mark.parametrize("by", [None, "secret", "public"])
@pytest.mark.parametrize("question", ASKED)
def test_the_same_request_gets_the_same_answer(engines, memory, data, question, by):
    """Asked twice about one version, every question is answered and charged once.

    Frames of three engines take turns.
    """
    name = ("pandas", "polars", "duckdb")[list(ASKED).index(question) % 3]
    loss = {"epsilon": 0.25}
    private = dfp.frame(engines[name](data))(ledger=memory, dataset="d", version="1")
    if by:
        private = private.group_by("g", keys=["a", "zz"] if by == "public" else None)
    if by == "secret" or question in {"value_counts", "top", "mode"}:
        loss["delta"] = 1e-6
    try:
        first = shown(ASKED[question](private, **loss))
    except dfp.DPError:
        assert memory.datasets() == []  # no such question by group, or about such a column
        return
    assert shown(ASKED[question](private, **loss)) == first
    assert len(memory.history()) == 1


@pytest.mark.parametrize("by", [None, "secret", "public"])
def test_limits_that_were_found_come_out_again(memory, data, by):
    """A release that found limits shows them, their notes and its threshold when asked again."""
    private = dfp.frame(data)(ledger=memory, dataset="d", version="1", unit="x")
    if by:
        private = private.group_by("g", keys=["a", "b"] if by == "public" else None)
    terms = {"epsilon": 4} | ({"delta": 1e-6} if by == "secret" else {})
    questions = dfp.mean("i", (0, 1)), dfp.count()
    first, again = (private.agg(*questions, **terms) for _ in range(2))
    assert str(dfp.show(again)).replace(", remembered", "") == str(dfp.show(first))
    assert "max_rows=" in str(dfp.show(first))
    if not by:
        assert {name: answer.limits for name, answer in again.items()} == {
            name: answer.limits for name, answer in first.items()
        }


def test_another_request_is_another_release(memory, data):
    """Another version, form, level, unit or loss is charged by itself."""
    private = dfp.frame(data)(ledger=memory, dataset="d", version="1", delta=1e-6)
    for other in (
        private,
        private(version="2"),
        private(interval=0.9),
        private(unit="i", max_rows=2),
        private(unit="i", max_rows=3),
    ):
        other.mean("x", (0, 100), epsilon=0.25)
    private.mean("x", (0, 100), epsilon=0.5)
    private.agg(other=dfp.mean("x", (0, 100)), epsilon=0.25)
    dfp.sql(
        "SELECT dp_mean(x, 0, 100) AS x FROM d", d=data, epsilon=0.25,
        ledger=memory, dataset="d", version="1",
    )  # fmt: skip
    assert memory.spent("d").epsilon == 5 * 0.25 + 0.5 + 2 * 0.25


def test_a_remembered_number_knows_one_interval(memory, data):
    """The level that was asked for comes out again; another is refused with a hint."""
    private = dfp.frame(data)(ledger=memory, dataset="d", version="1", interval=0.9)
    first, again = private.count(epsilon=0.25), private.count(epsilon=0.25)
    assert again.interval(0.9) == again.interval() == first.interval(0.9)
    with pytest.raises(dfp.errors.InvalidQuestionError, match=r"interval\(0\.9\)"):
        again.interval(0.99)


def test_an_exhausted_budget_still_repeats(tmp_path, data):
    """An answer that was released comes out again when nothing is left; a new one is refused."""
    memory = dfp.Ledger(tmp_path / "small.db", epsilon=0.25, remember=True)
    private = dfp.frame(data)(ledger=memory, dataset="d", version="1")
    first = private.count(epsilon=0.25)
    assert float(private.count(epsilon=0.25)) == float(first)
    with pytest.raises(dfp.BudgetExceededError):
        private.count("x", epsilon=0.25)


def counts(memory, frame, keys=None):
    """Ask for counts by `g` of one version, at a loss that shows every group of fifty rows."""
    private = dfp.frame(frame)(ledger=memory, dataset="d", version="1", epsilon=50, delta=1e-6)
    return private.group_by("g", keys=keys).count()


@pytest.fixture
def wide(tmp_path):
    return dfp.Ledger(tmp_path / "wide.db", epsilon=1000, delta=1e-3, remember=True)


def fifty(values, dtype=object):
    return pd.DataFrame({"g": pd.Series([v for v in values for _ in range(50)], dtype=dtype)})


COLUMNS = {
    "Int64": fifty([2**53 + 1, None], "Int64"),
    "Int8": fifty([1, None], "Int8"),
    "boolean": fifty([True, None], "boolean"),
    "string": fifty(["a", None], pd.StringDtype("python")),
    "Arrow text": fifty(["a", None], pd.ArrowDtype(pa.string())),
    "Arrow decimal": fifty([Decimal("1.5")], pd.ArrowDtype(pa.decimal128(5, 2))),
    "float32": fifty([0.1, None], "float32"),
    "objects: text": fifty(["a", "b", None]),
    "objects: integers": fifty([1, None]),
    "objects: dates": fifty([dt.date(2026, 1, 1)]),
    "objects: bytes": fifty([b"a"]),
    "categories: text": fifty(["a", None], "category"),
    "categories: integers": fifty([2**53 + 1, None], pd.CategoricalDtype([2**53 + 1])),
    "categories: objects": fifty(["a", None], pd.CategoricalDtype(pd.Index(["a"], dtype=object))),
    "categories: dates": fifty([dt.date(2024, 1, 10), dt.date(2024, 1, 2)], "category"),
    "ordered categories": fifty(["b", "a"], pd.CategoricalDtype(["b", "a"], ordered=True)),
    "cut": fifty([pd.Interval(0, 1)], pd.CategoricalDtype(pd.interval_range(0, 3), ordered=True)),
    "periods": fifty([pd.Period("2026-01", "M")], "period[M]"),
    "intervals": fifty([pd.Interval(0, 1)], "interval[int64]"),
    "durations": fifty([pd.Timedelta(5)], "timedelta64[ns]"),
    "times": fifty([pd.Timestamp("2026-01-01", tz="Europe/Rome")], "datetime64[us, Europe/Rome]"),
}


def assert_same(first, again):
    """Frames are the same: dtypes, values, and the Python types of the keys."""
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    assert list(map(type, first["g"])) == list(map(type, again["g"]))


@pytest.mark.parametrize("name", COLUMNS)
def test_remembered_keys_have_their_own_dtype(wide, name):
    """Keys of pandas come back as they were: their dtype, their values, none through floats."""
    first, again = counts(wide, COLUMNS[name]), counts(wide, COLUMNS[name])
    assert_same(first, again)
    assert wide.stored("d") == 1
    assert wide.spent("d").epsilon == 50


def test_listed_keys_come_back(wide):
    """A public NULL among integers, and keys that no row has, come back as they were."""
    frame, keys = fifty([1, 2], "int64"), [2**53 + 1, None]
    assert_same(counts(wide, frame, keys), counts(wide, frame, keys))
    assert wide.spent("d").epsilon == 50


NOT_KEPT = {
    "integers beyond 64 bits": [2**70],
    "text without a UTF-8 form": ["\ud800"],
    "numbers and text": [1, "a"],
    "tuples": [(1, 2)],
    "timestamps": [pd.Timestamp("2026-01-01")],
    "durations finer than Arrow guesses": [pd.Timedelta(5)],
}


@pytest.mark.parametrize("values", NOT_KEPT.values(), ids=NOT_KEPT)
def test_keys_that_would_come_back_as_others(wide, values):
    """Keys that Arrow can't hold, or gives back as others, come out and are not remembered."""
    first, again = counts(wide, fifty(values)), counts(wide, fifty(values))
    assert len(first) == len(values)
    assert_same(first[["g"]], again[["g"]])
    assert wide.stored("d") == 0
    assert wide.spent("d").epsilon == 100


OTHER_FRAMES = {
    "integers, no floats": (pd.DataFrame({"g": [1.5]}), pd.ArrowDtype(pa.int64())),
    "no such column": (pd.DataFrame({"h": [1]}), pd.ArrowDtype(pa.int64())),
    "a smaller integer": (pd.DataFrame({"g": pd.Series([1], dtype="int8")}), None),
    "a dtype that holds them": (fifty([1], "Int64"), pd.Int64Dtype()),
}


@pytest.mark.parametrize("name", OTHER_FRAMES)
def test_keys_in_a_frame_of_another_kind(wide, name):
    """Keys are in the dtype of the frame that asks if it holds them, else in that of Arrow."""
    frame, dtype = OTHER_FRAMES[name]
    first = counts(wide, pl.DataFrame({"g": [2**53 + 1] * 50}))
    again = counts(wide, frame)
    assert again["g"].dtype == (dtype or pd.ArrowDtype(pa.int64()))
    assert again["g"].to_list() == first["g"].to_list()
    assert again["count"].to_list() == first["count"].to_list()
    assert wide.spent("d").epsilon == 50


def test_a_name_that_can_not_be_written(wide):
    """Numbers whose names have no UTF-8 form come out, and are remembered."""
    private = fifty([1]).dp(ledger=wide, dataset="d", version="1", epsilon=50)
    first, again = (private.agg(**{"\ud800": dfp.count()})["\ud800"] for _ in range(2))
    assert float(first) == pytest.approx(50, abs=5)
    assert (again, wide.stored("d")) == (first, 1)


TWICE = "WITH a AS (SELECT count(*) AS n FROM d), b AS (SELECT g, count(*) AS m FROM d GROUP BY g) "
SHOWN = {
    "by group": lambda p, s: p.group_by("g").count(delta=1e-6),
    "values": lambda p, s: p.value_counts("g", delta=1e-6),
    "crosstab": lambda p, s: p.crosstab("g", "h", delta=1e-6),
    "describe": lambda p, s: p.describe(["x", "g"], delta=1e-6),
    "statement": lambda p, s: s("SELECT g, count(*) AS n FROM d GROUP BY g"),
    "two releases": lambda p, s: s(TWICE + "SELECT g, m / n AS part FROM a, b"),
}


@pytest.mark.parametrize("question", SHOWN)
def test_a_table_that_a_ledger_has_remembered_says_so(memory, data, question):
    """`dfp.show` has the word beside the cost, as other rows under one version get old answers."""
    terms = {"ledger": memory, "dataset": "d", "version": "1"}
    pages = []
    for rows in (data, data.slice(4000)):
        ask = partial(dfp.sql, d=rows, delta=1e-6, **terms)
        pages.append(repr(dfp.show(SHOWN[question](dfp.frame(rows)(**terms), ask))))
    assert ", remembered" not in pages[0]
    assert pages[1].replace(", remembered", "", 1) == pages[0]
    assert ", remembered" in pages[1]
