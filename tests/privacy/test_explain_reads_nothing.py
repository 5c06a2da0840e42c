"""Explanations read no data, draw nothing and charge nothing; what they say is public."""

import os

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

TERMS = {"epsilon": 1, "delta": 1e-6}


def everything(private):
    """Explain every question, whole and by group, and return what is said."""
    explanations = []
    for source in (private, private.group_by("g")):
        explain = source.explain
        explanations += [
            explain(dfp.count(), dfp.mean("x", (0, 1)), dfp.var("x", (0, 1)), dfp.sum("x", (0, 1)),
                    y=dfp.std("x", (0, 1)), **TERMS),
            explain(dfp.mean("x"), dfp.center("i", 2), dfp.median("i"), **TERMS),
            explain.subset_mean("x", **TERMS), explain.dick_mean("x", **TERMS),
            explain.quantiles("i", [0.2, 0.4], **TERMS), explain.center("x", 1.5, **TERMS),
            explain.bounds("x", **TERMS), explain.bounds("x", 9, **TERMS),
            explain.histogram("x", 9, **TERMS), explain.histogram("x", [0, 1], **TERMS),
            explain.mean_vector(["x", "i"], rho=0.5, delta=1e-6, radius=1),
        ]  # fmt: skip
    return explanations


@pytest.fixture
def forbidden(monkeypatch):
    """Let every random byte and every charge fail."""

    def fail(*_, **__):
        raise AssertionError("an explanation went too far")

    monkeypatch.setattr(os, "urandom", fail)
    monkeypatch.setattr(dfp.Ledger, "charge", fail)


def broken(frame):
    """Fail when the frame is read."""
    raise ZeroDivisionError


LAZY = pl.LazyFrame({"g": ["a"], "x": [1.0], "i": [1]})


@pytest.mark.usefixtures("forbidden")
def test_a_frame_that_fails_when_it_is_read():
    """A lazy frame whose rows can't be had is explained like any other."""
    frame = LAZY.map_batches(broken, schema=LAZY.collect_schema())
    assert len(everything(frame.dp)) == 22
    assert len(frame.dp.explain.describe(**TERMS).draws) == 4
    with pytest.raises(ZeroDivisionError):
        frame.collect()


@pytest.mark.usefixtures("forbidden")
def test_a_reader_is_left_unread():
    """A reader of batches still has all its rows."""
    table = pa.table({"g": ["a"] * 5, "x": [1.0] * 5, "i": [1] * 5})
    reader = table.to_reader()
    everything(dfp.frame(reader))
    assert reader.read_all().num_rows == 5


@pytest.mark.usefixtures("forbidden")
def test_a_file_need_not_be_there():
    """A file is explained by its name alone."""
    everything(dfp.frame("nowhere.csv"))
    everything(dfp.frame("nowhere.parquet"))


@pytest.mark.usefixtures("forbidden")
def test_explanations_are_the_same_for_all_data(tmp_path):
    """Frames of the same columns and types are explained alike, whatever their rows."""
    frames = [
        {"g": ["a"], "x": [1.0], "i": [1]},
        {"g": ["b", None] * 50, "x": [float("nan"), -1e300] * 50, "i": [0, 2**62] * 50},
    ]
    tables = [pa.table(frame, pa.schema({"g": "str", "x": "f8", "i": "i8"})) for frame in frames]
    for make in (pl.from_arrow, lambda t: t, lambda t: t.to_pandas(
            types_mapper={pa.int64(): pd.Int64Dtype()}.get)):  # fmt: skip
        first, other = (everything(dfp.frame(make(table))) for table in tables)
        assert first == other


def test_integers_and_floats_are_ranked_alike():
    """A median by group of integers has the forecast of floats, whatever engine declares them."""
    table = pa.table({"g": ["a"], "x": [1.0], "i": [1]})
    connection = duckdb.connect()
    relation = connection.from_arrow(table)
    for frame in (table, pl.from_arrow(table), table.to_pandas(), relation):
        explain = dfp.frame(frame).group_by("g").explain
        real, integer = (explain.median(column, **TERMS).answers[0] for column in ("x", "i"))
        assert integer.answered.half == real.answered.half


def test_a_missing_column_is_refused():
    """A column that a frame does not declare is refused, with no word about rows."""
    for explain in (LAZY.dp.explain, LAZY.dp.group_by("g").explain, LAZY.dp(
            unit="who", max_rows=1).explain):  # fmt: skip
        with pytest.raises(dfp.MissingColumnError):
            explain.mean("who", (0, 1), **TERMS)


@pytest.mark.parametrize(
    "ask",
    [
        lambda private: private.value_counts("x", **TERMS),
        lambda private: private.top("x", 2, **TERMS),
        lambda private: private.histogram("x", [0, 1], **TERMS),
        lambda private: private.mean_vector(["x"], rho=0.5, delta=1e-6, radius=1),
    ],
)
def test_names_that_are_taken_are_refused(ask):
    """A key that is called like a column of the result is refused by release and explanation."""
    private = LAZY.rename({"g": "count"}).dp.group_by("count")
    for source in (private, private.explain):
        with pytest.raises(dfp.errors.InvalidQuestionError, match=r"name|called"):
            ask(source)
