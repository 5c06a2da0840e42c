"""Answers say within which bounds values count, where bounds were found."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp

RNG = np.random.default_rng(7)
FRAME = pl.DataFrame(
    {
        "x": RNG.normal(100, 15, 4000),
        "y": RNG.normal(-5, 1, 4000),
        "g": np.arange(4000) % 4,
    }
)
LINE = re.compile(r"Bounds found: \S+ to \S+ for (.*)\.")


def _mean_by_group(frame: pl.DataFrame, **terms: Any) -> str:
    return str(dfp.show(frame.dp(**terms).group_by("g").mean("x", epsilon=1, delta=1e-6)))


def _sql(statement: str) -> str:
    return str(dfp.show(dfp.sql(statement, t=FRAME, epsilon=2, delta=1e-6)))


@pytest.mark.parametrize("kind", ["mean", "sum", "std", "var"])
def test_a_number_says_the_bounds_that_were_found(kind: str) -> None:
    """The repr of a number names the bounds of its values; where they were given it does not."""
    number = getattr(FRAME.dp, kind)("x", epsilon=1)
    bounds = number.bounds
    assert f"bounds found: {bounds.lower:g} to {bounds.upper:g}" in repr(number)
    assert "bounds found" not in repr(getattr(FRAME.dp, kind)("x", (0, 200), epsilon=1))


def test_a_correlation_says_the_bounds_of_both_columns() -> None:
    """An answer about two columns names the bounds of each."""
    number = FRAME.dp.corr("x", "y", epsilon=1)
    assert re.search(r"bounds found: \S+ to \S+ and -\S+ to \S+", repr(number))


def test_a_frame_says_the_bounds_that_were_found() -> None:
    """The caption of answers by group names bounds; of a count and given bounds there are none."""
    assert LINE.search(_mean_by_group(FRAME)).group(1) == "mean('x')"  # type: ignore[union-attr]
    groups = FRAME.dp.group_by("g")
    for frame in (
        groups.count(delta=1e-6, epsilon=1),
        groups.mean("x", (0, 200), delta=1e-6, epsilon=1),
    ):
        assert not LINE.search(str(dfp.show(frame)))


def test_statements_say_the_bounds_that_were_found() -> None:
    """A result of SQL names bounds, of one release or of several."""
    by_group = "SELECT g, avg(x) AS m FROM t GROUP BY g"
    two_releases = f"WITH a AS ({by_group}), b AS (SELECT g, sum(y) AS s FROM t GROUP BY g) "
    assert LINE.search(_sql(by_group))
    assert len(LINE.findall(_sql(f"{two_releases} SELECT g, m, s FROM a JOIN b USING (g)"))) == 2


def test_a_remembered_release_says_the_same_bounds(tmp_path: Path) -> None:
    """A remembered answer has the caption of the first one, and says that it is remembered."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=1e-3, remember=True)
    ledger.announce("d")
    terms = {"ledger": ledger, "dataset": "d", "version": "1"}
    first, again = (_mean_by_group(FRAME, **terms) for _ in range(2))
    assert LINE.search(first)
    assert first == again.replace(", remembered", "")
    number, same_number = (FRAME.dp(**terms).mean("x", epsilon=1) for _ in range(2))
    assert number.info.bounds == same_number.info.bounds != {}


def test_bounds_of_hidden_groups_are_not_told() -> None:
    """Where no group is shown nothing is said of the bounds of any.

    One of 4,000 groups is shown with probability below 1e-8.
    """
    hidden = FRAME.with_columns(g=pl.int_range(pl.len()))
    means = hidden.dp.group_by("g").mean("x", epsilon=1, delta=1e-12)
    assert not LINE.search(str(dfp.show(means)))


def test_a_histogram_says_that_no_edges_were_found() -> None:
    """Where too few rows leave the edges unknown, the caption says so; else there is no note."""
    note = "too few rows to find the edges"
    few_rows, many_rows = (FRAME.head(rows).dp.histogram("x", 3, epsilon=1) for rows in (5, 4000))
    assert note in str(dfp.show(few_rows))
    assert note not in str(dfp.show(many_rows))


def test_the_schema_of_a_result_says_nothing_of_bounds() -> None:
    """Bounds stand in captions alone: the schema of a frame follows from the question."""
    private = dfp.frame(FRAME.to_arrow()).group_by("g", keys=[0, 1])
    table = private.mean("x", epsilon=1)
    assert LINE.search(str(dfp.show(table)))
    assert table.schema.metadata is None
