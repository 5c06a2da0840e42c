"""Quantiles from counts near their ranks are those from the counts of all values, byte for byte.

Which rows are read depends on the data. The release does not: from the same random bytes both ways
select the same candidates, so the proofs of docs/explanation/quantiles.md hold for either. Arrow
tables are counted near ranks; within a limit of memory the engine counts all their values.
"""

import datetime as dt

import duckdb
import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.frame_types import to_polars

QUESTIONS = {
    "magnitudes": {
        "m": dfp.median("x"),
        "q": dfp.quantiles("x", [0.1, 0.25, 0.5, 0.9, 0.99]),
        "i": dfp.quantile("x", 0.25, ends=True),
    },
    "integers": {"m": dfp.median("n", ends=True), "q": dfp.quantiles("n", [0.1, 0.5, 0.99])},
    "bounds": {"m": dfp.median("x", (-3, 700), ends=True), "q": dfp.quantiles("x", [0.2, 0.6])},
    "even steps": {
        "one": dfp.quantiles("x", [0.25, 0.5, 0.9], (0, 900), step=1),
        "quarter": dfp.quantile("x", 0.9, (-1000, 1000), step=0.25, ends=True),
    },
}
SHAPES = {
    "spread": lambda random, group: random.uniform(-60, 240, len(group)),
    "groups apart": lambda random, group: random.normal(1000 * group, 1 + group),
    "octaves": lambda random, group: (
        np.exp(random.normal(0, 9, len(group))) * random.choice([-1, 1], len(group))
    ),
    "whole numbers": lambda random, group: random.integers(0, 1000, len(group)) * 1.0,
    "a heap": lambda random, group: np.where(
        random.uniform(size=len(group)) < 0.4, 7.0, random.normal(0, 5, len(group))
    ),
    "far off": lambda random, group: np.where(
        random.uniform(size=len(group)) < 0.999, 1e9 + random.normal(size=len(group)), 1e-30
    ),
    "zeros": lambda _, group: np.zeros(len(group)),
    "missing": lambda random, group: np.where(
        np.arange(len(group)) % 7, random.gamma(2.0, 30.0, len(group)), np.nan
    ),
}


def release(frame, questions, **terms):
    """Return the answers of each group as text, whichever frame they come in."""
    keys = {"keys": range(8)} if "delta" not in terms else {}
    released = to_polars(dfp.frame(frame).group_by("k", **keys).agg(**questions, **terms))
    return str(sorted(released.rows())).replace("nan", "None")


def release_by_engine(frame, questions, **terms):
    """Release from counts of all values."""
    with dfp.Engine(memory="100MB"):
        return release(frame, questions, **terms)


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", [1, 9, 150])
@pytest.mark.parametrize("kind", QUESTIONS)
def test_answers_are_those_of_all_values(shape, epsilon, kind, replayed):
    """Every answer, end and note is the same, for all grids, shapes of data and sizes of groups."""
    random = np.random.default_rng(9)
    for rows, groups in ((20_000, 3), (3_000, 7), (40, 3), (0, 2), (900, 1)):
        group = random.integers(0, groups, rows)
        values = SHAPES[shape](random, group)
        integers = np.rint(np.nan_to_num(values)).clip(-(2.0**62), 2.0**62).astype(np.int64)
        table = pl.DataFrame({"k": group, "x": values, "n": integers}).to_arrow()
        answers, expected = (
            replayed(lambda ask=ask, t=table: ask(t, QUESTIONS[kind], epsilon=epsilon))
            for ask in (release, release_by_engine)
        )
        assert answers == expected


@pytest.mark.parametrize("rows", [9_000, 50])
@pytest.mark.parametrize(("largest", "step"), [(10, 1), (86_399, 1), (2**38, 1), (2**50, 2**12)])
def test_times_have_the_same_answers(largest, step, rows, replayed):
    """Dates and times are whole numbers: answers are those of all values for every range."""
    random, start = np.random.default_rng(3), dt.datetime(2000, 1, 1)  # noqa: DTZ001 as the column
    bounds = (start, start + dt.timedelta(microseconds=largest))
    questions = {"m": dfp.median("t", bounds, dt.timedelta(microseconds=step), ends=True)}
    for shape in (
        random.uniform(size=rows),
        random.normal(0.3, 1e-6, rows),
        random.beta(0.1, 9, rows),
    ):
        moments = np.datetime64(start) + np.rint(shape.clip(0, 1) * largest).astype("m8[us]")
        table = pl.DataFrame({"k": random.integers(0, 3, rows), "t": moments}).to_arrow()
        answers, expected = (
            replayed(lambda ask=ask, t=table: ask(t, questions, epsilon=9))
            for ask in (release, release_by_engine)
        )
        assert answers == expected


def test_memory_and_files_release_the_same(replayed, tmp_path):
    """Large groups with missing values: polars, pandas, DuckDB and Parquet agree byte for byte."""
    random = np.random.default_rng(8)
    group = np.append(random.integers(0, 3, 6_000), np.full(900, 9))
    values = SHAPES["missing"](random, group)
    values[6_000:] = np.nan
    frame = pl.DataFrame({"k": group, "x": values})
    frame.write_parquet(tmp_path / "t.parquet")
    sources = [
        frame,
        frame.lazy(),
        frame.to_pandas(),
        duckdb.from_arrow(frame.to_arrow()),
        tmp_path / "t.parquet",
    ]
    for terms in ({"epsilon": 8}, {"epsilon": 8, "delta": 1e-6}):
        first, *others = [
            replayed(lambda s=s, t=terms: release(s, QUESTIONS["magnitudes"], **t)) for s in sources
        ]
        assert others == [first] * 4


@pytest.mark.slow
def test_many_groups_of_fine_moments_are_counted_by_the_engine(replayed, tmp_path):
    """Where numbers of groups and moments don't fit 63 bits, the release is that of files."""
    number = np.arange(2**22 + 2_000)
    start = np.datetime64("2013-01-01T00:00:00", "us")
    frame = pl.DataFrame({"k": np.maximum(number - 2_000, 0), "t": start + number * 10**5})
    frame.write_parquet(tmp_path / "t.parquet")
    bounds = (start.item(), start.item() + dt.timedelta(days=12))
    question = {"m": dfp.median("t", bounds, dt.timedelta(microseconds=1))}
    memory, files = (
        replayed(lambda s=s: release(s, question, epsilon=9))
        for s in (frame, tmp_path / "t.parquet")
    )
    assert memory == files
    assert "datetime" in memory
