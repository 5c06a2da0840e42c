"""What Dask frames bring along: dtypes, labels, laziness and failures, none of which leaks."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.unit import Unit

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

COUNT = {"n": dfp.count()}
MEAN = {"m": dfp.mean("x", (0, 8))}


def grouped(frame, by="g", **options):
    """Return how many rows each group has, as nearly no noise shows it."""
    released = dfp.frame(frame).group_by(by, **options).count(epsilon=1e6, delta=0.5)
    released = released.compute() if hasattr(released, "compute") else released
    return released.drop(columns=["low", "high"])


KEYS = {
    "str": pd.Series(["b", "a", None, "é", "b", ""] * 20),
    "string": pd.Series(["b", "a", None, "é", "b", ""] * 20, dtype="string"),
    "arrow text": pd.Series(["b", "a", None, "é", "b", ""] * 20, dtype="string[pyarrow]"),
    "categories": pd.Series(["b", "a", None, "c"] * 30, dtype="category"),
    "numbers of categories": pd.Series(pd.Categorical([3, 1, None, 2] * 30)),
    "int64": pd.Series([3, 1, 2] * 40),
    "Int64": pd.Series([3, None, 2**62 + 1] * 40, dtype="Int64"),
    "float64": pd.Series([0.0, -0.0, np.nan, np.inf] * 30),
    "Float64": pd.Series([0.0, None, 1.5] * 40, dtype="Float64"),
    "bool": pd.Series([True, False] * 60),
    "boolean": pd.Series([True, None] * 60, dtype="boolean"),
    "datetime": pd.Series(pd.to_datetime(["2020-01-01", None] * 60)),
    "zone": pd.Series(pd.to_datetime(["2020-01-01", None] * 60, utc=True)),
    "timedelta": pd.Series(pd.to_timedelta([3, 1, None] * 40, unit="D")),
    "period": pd.Series(pd.period_range("2020-01", periods=4, freq="M").repeat(30)),
    "decimal": pd.Series([1, 2, None] * 40, dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
    "date": pd.Series([1, 2, None] * 40, dtype=pd.ArrowDtype(pa.date32())),
}


@pytest.mark.parametrize("kind", KEYS)
def test_groups_and_dtypes_are_those_of_pandas(kind, ask):
    """A key of any dtype is grouped, ordered and given back as in pandas, from every partition."""
    frame = pd.DataFrame({"g": KEYS[kind]})
    found, expected = grouped(ask.cut(frame, [1, 1, 50])), grouped(frame)
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    "kind", ["str", "categories", "numbers of categories", "float64", "timedelta"]
)
def test_listed_keys_are_those_of_pandas(kind, ask):
    """Public keys come out exactly, also those that no partition has."""
    frame = pd.DataFrame({"g": KEYS[kind]})
    keys = [None, *[value for value in KEYS[kind].unique() if not pd.isna(value)][:1]]
    found, expected = grouped(ask.cut(frame, [1, 50]), keys=keys), grouped(frame, keys=keys)
    pd.testing.assert_frame_equal(found, expected)
    empty = ask.cut(frame.iloc[:0], [])
    assert grouped(empty, keys=keys)["count"].tolist() == [0] * len(keys)


NO_TYPE = {
    "objects": pd.Series([1, None], dtype=object),
    "unknown categories": pd.Series(pd.Categorical(["__UNKNOWN_CATEGORIES__"] * 2)),
    "complex": pd.Series([1j, 1]),
    "intervals": pd.Series(pd.interval_range(0, 2)),
}


@pytest.mark.parametrize("kind", NO_TYPE)
@pytest.mark.parametrize("column", ["key", "unit"])
def test_keys_and_units_of_no_type_are_refused(kind, column, monkeypatch):
    """Where one row can turn the integers of its partition into floats, no partition is read.

    Values are still counted, and known categories and text are keys and units.
    """
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dfp.frame(unread(pd.DataFrame({"k": NO_TYPE[kind], "x": 1.0})))
    paid = []
    monkeypatch.setattr("dfprivacy.accounting.spending.NoAccount.pay", paid.append)
    asked = frame.group_by("k") if column == "key" else frame(unit="k", max_rows=1)
    with pytest.raises(dfp.UnsupportedDtypeError, match=r"'k'(?s:.*)Hint"):
        asked.count(epsilon=1, delta=0.1)
    assert paid == []


def test_known_categories_and_text_take_the_place_of_objects(ask):
    """What the hint says works; objects are counted all the same."""
    texts = pd.DataFrame({"g": np.array(["a", "b", "a", None] * 30, dtype=object)})
    frame = ask.cut(texts, [40, 80])
    assert ask.sums(frame, {"n": dfp.count("g")}) == [[90]]
    expected = [["a", 60], ["b", 30], [None, 30]]
    known = frame.assign(g=frame["g"].astype("category").cat.as_known())
    for own in (frame.astype({"g": "string"}), known):
        found = grouped(own)
        shown = [[None if pd.isna(g) else g, n] for g, n in found.to_numpy().tolist()]
        assert sorted(shown, key=repr) == sorted(expected, key=repr)


ONE_ROW = {
    "integer categories": (pd.Categorical([1, 2]), [1], None, 1),
    "float categories": (pd.Categorical([1.0, 2.5]), [1], None, 1.0),
    "times": (
        pd.Categorical(pd.to_datetime(["2020-01-01"])),
        [pd.Timestamp(2020, 1, 1).to_pydatetime()],
        "a",
        pd.Timestamp(2020, 1, 1),
    ),
    "differences": (pd.to_timedelta([1], unit="D"), [timedelta(1)], "a", pd.Timedelta(days=1)),
    "integers": (pd.array([1], dtype="int64"), [1], None, 1),
    "texts": (pd.array(["a"], dtype="str"), ["a"], 1, "a"),
}


@pytest.mark.parametrize("kind", ONE_ROW)
def test_one_row_changes_no_key_and_no_unit_of_others(kind, ask):
    """A row that gives its partition another dtype leaves the keys and units of others alone."""
    declared, value, odd, shown = ONE_ROW[kind]
    declared = pd.DataFrame({"k": declared})
    for rows in (value * 600, [*value * 600, odd]):
        parts = [pd.DataFrame({"k": value * 600}), pd.DataFrame({"k": rows})]
        frame = ask.in_partitions(parts, declared)
        found = grouped(frame, "k")
        assert found["count"].tolist()[0] == 1200
        assert found["k"].tolist()[0] == shown
        strangers = kind == "times" and len(rows) > 600
        assert ask.sums(frame, COUNT, unit=Unit("k", 1)) == [[1 + strangers]]


def test_values_of_another_kind_count_as_missing(ask):
    """A partition of complex numbers where integers are declared has none, and does not fail."""
    parts = [pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [1 + 2j, 0j]})]
    frame = ask.in_partitions(parts)
    assert dfp.frame(frame).count("x", epsilon=1e12) == 4
    assert dfp.frame(frame).mean("x", (0, 9), epsilon=1e12) == pytest.approx(1.5)


def test_known_categories_have_no_others(ask):
    """What is no declared category is NULL, by itself, and does not fail."""
    declared = pd.DataFrame({"g": pd.Categorical(["a"], categories=["a", "b"])})
    odd = pd.DataFrame({"g": pd.Categorical(["zz"] * 7 + ["b"] * 50)})
    found = grouped(ask.in_partitions([odd, odd], declared))
    assert found["g"].tolist()[:1] == ["b"]
    assert found["count"].tolist() == [100, 14]


def test_text_without_a_utf8_form_is_null(ask):
    """A lone surrogate in one partition is NULL by itself, and does not fail."""
    declared = pd.DataFrame({"g": pd.Series(["b"], dtype="string")})
    odd = pd.DataFrame({"g": pd.Series(["a\ud800", "b"] * 60, dtype=object)})
    frame = ask.in_partitions([declared, odd], declared)
    assert ask.sums(frame, COUNT, ("g",)) == [["b", 61], [None, 60]]


DECLARED = {
    "int64": (pd.Series([1, 2]), [1.0, None, 2.0], [2, 1]),
    "float64": (pd.Series([0.5]), [1, 2, 2], [3, 0]),
    "bool": (pd.Series([True]), [True, None, False], [2, 1]),
    "Int64": (pd.Series([1], dtype="Int64"), np.array([1, None, "x"], dtype=object), [1, 2]),
}


@pytest.mark.parametrize("kind", DECLARED)
def test_partitions_of_other_dtypes_count_as_declared(kind, ask):
    """One missing value changes the dtype of a partition, and nothing about the other rows."""
    declared, values, (known, missing) = DECLARED[kind]
    whole = pd.DataFrame({"g": declared, "x": declared})
    odd = pd.DataFrame({"g": values, "x": values})
    frame = ask.in_partitions([whole, odd], whole)
    assert ask.sums(frame, {"n": dfp.count("x")}) == [[len(whole) + odd["x"].notna().sum()]]
    assert ask.sums(frame, MEAN)[0][0] == len(whole) + known
    groups = ask.sums(frame, COUNT, ("g",))
    assert sum(rows for _, rows in groups) == len(whole) + 3
    assert [rows for key, rows in groups if key is None] == [missing] * bool(missing)


def test_units_of_other_dtypes_are_the_same_units(ask):
    """A unit is one unit in partitions of integers, floats and objects."""
    parts = [
        pd.DataFrame({"u": [7, 8], "x": 1.0}),
        pd.DataFrame({"u": [7.0, None], "x": 1.0}),
        pd.DataFrame({"u": np.array([7, None], dtype=object), "x": 1.0}),
    ]
    assert ask.sums(ask.in_partitions(parts), COUNT, unit=Unit("u", 1)) == [[2]]


def test_labels_need_not_be_text(ask):
    """Numbers and tuples are labels of columns, and so are names that the pass uses itself."""
    frame = pd.DataFrame({3: [1.0, 2.0], ("a", 1): ["x", "y"], "unit": [1, 1], "value_0": [5, 5]})
    cut = ask.cut(frame, [1])
    assert ask.sums(cut, {"n": dfp.count(3)}, (("a", 1),)) == [["x", 1], ["y", 1]]
    assert ask.sums(cut, {"n": dfp.count(3)}, ("value_0",), unit=Unit("unit", 1)) == [[5, 1]]


def test_columns_that_are_there_twice_or_not_at_all_are_refused(ask):
    """A column named twice is refused by its name, before a partition is read."""
    frame = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    for label in ("x", "y"):
        with pytest.raises(dfp.MissingColumnError, match=repr(label)):
            dfp.frame(unread(frame)).count(label)


def unread(frame):
    """Return a Dask frame whose partitions fail when they are read."""
    return dd.from_map(lambda _: 1 // 0, [0], meta=frame.iloc[:0])


@pytest.mark.parametrize(
    ("error", "ask_for"),
    [
        (dfp.UnsupportedDtypeError, lambda f: f.mean("g", bounds=(0, 1))),
        (dfp.UnsupportedDtypeError, lambda f: f.median("g")),
        (
            dfp.InvalidKeysError,
            lambda f: f(unit="u", max_rows=1).group_by("i", keys=["a"]).count(),
        ),
        (dfp.InvalidBoundsError, lambda f: f.mean("i", bounds=(0, 2**60))),
        (dfp.UnsupportedFrameError, lambda f: f.mean_vector(["x", "i"], radius=1, rho=1)),
        (dfp.UnsupportedFrameError, lambda f: f.local.gaussian_mean("x", epsilon=1, sigma=1)),
        (dfp.UnsupportedFrameError, lambda f: f.shuffle.sum("x", (0, 1), epsilon=1, delta=1e-6)),
    ],
)
def test_refusals_read_no_partition(error, ask_for, monkeypatch):
    """What dtypes or the engine do not allow is refused by name, and costs nothing."""
    frame = unread(pd.DataFrame({"g": ["a"], "x": [1.0], "i": [1], "u": [1]}))
    paid = []
    monkeypatch.setattr("dfprivacy.accounting.spending.NoAccount.pay", paid.append)
    with pytest.raises(error, match="Hint"):
        ask_for(dfp.frame(frame))
    assert paid == []


def test_failures_of_a_partition_are_withheld():
    """A column that fails on a row fails with a message that says nothing of the row."""
    frame = dd.from_pandas(pd.DataFrame({"x": ["1", "secret 4711"] * 5}), npartitions=2)
    failing = frame.assign(x=frame["x"].map(float, meta=("x", "float64")))
    with pytest.raises(dfp.EngineError) as caught:
        dfp.frame(failing).mean("x", bounds=(0, 1))
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_frame_that_changes_between_passes_is_refused():
    """Groups that another pass does not have are an error, not an answer."""
    turns = iter(range(10**6))

    def part(_):
        return pd.DataFrame({"g": pd.to_timedelta([next(turns)] * 30, unit="D"), "x": 1.0})

    frame = dd.from_map(part, [0], meta=part(0).iloc[:0])
    with pytest.raises(dfp.EngineError, match="changed while it was read"):
        dfp.frame(frame).group_by("g").agg(a=dfp.median("x"), b=dfp.mean("x"), epsilon=9, delta=0.1)


def test_a_result_holds_numbers_and_draws_nothing(ask, monkeypatch):
    """A released Dask frame is the same however often it is computed, and reads no source again."""
    reads = []

    def part(place):
        reads.append(place)
        return pd.DataFrame({"g": ["a", "b"] * 50, "x": 1.0})

    frame = dd.from_map(part, [0, 1], meta=pd.DataFrame({"g": ["a"], "x": [1.0]}))
    released = dfp.frame(frame).group_by("g").mean("x", bounds=(0, 2), epsilon=1, delta=1e-2)
    seen = len(reads)
    monkeypatch.setattr("dfprivacy.noise.entropy.os", None)
    first = released.compute()
    pd.testing.assert_frame_equal(released.compute(), first)
    pd.testing.assert_frame_equal(released.assign(y=1).compute().drop(columns="y"), first)
    assert len(reads) == seen == 2


def test_empty_frames_have_no_groups_and_all_questions(ask):
    """No rows at all: secret keys show nothing, a whole frame counts zero rows."""
    frame = pd.DataFrame({"g": pd.Series([], dtype="str"), "x": pd.Series([], dtype=float)})
    empty = ask.cut(frame, [0, 0])
    assert ask.sums(empty, COUNT | MEAN) == [[0, 0, 0]]
    assert len(grouped(empty)) == 0
    assert ask.sums(empty, COUNT, unit=Unit("x", 1)) == [[0]]
