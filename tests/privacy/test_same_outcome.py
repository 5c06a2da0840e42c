"""The kind of outcome (a result's schema, or an error's message) is the same for any rows."""

import itertools

import duckdb
import pandas as pd
import pytest

import dfprivacy as dfp
from benchmarks import boundary

COLUMNS = [(front, kind) for front, (kinds, _) in boundary.FRONTS.items() for kind in kinds]
ALWAYS = ["count by key", "mean", "presence"]
IN_TURN = [
    "clipped by key", "median", "different values", "ends", "unit", "describe",
    "without bounds by key",
]  # fmt: skip
DIFFERED = {
    ("arrow", "timestamp[s]"): ["describe"],
    ("duckdb", "timestamp[ms]"): ["describe"],
    ("pandas", "decimal[pyarrow]"): ["cursor"],
}
"""Questions about columns of which one row has changed the outcome before."""


@pytest.mark.parametrize(
    ("front", "kind", "turn"),
    [(*column, turn) for column, turn in zip(COLUMNS, itertools.cycle(IN_TURN), strict=False)],
)
def test_a_column_has_one_outcome(front, kind, turn):
    """Grouping by a column, and asking about it, end the same way whatever the column holds.

    Of every declared type in every kind of frame: no rows, one, many, and many with one that is
    missing, far away or of any class.
    """
    report = boundary.Found()
    for ask in (*ALWAYS, turn, *DIFFERED.get((front, kind), ())):
        boundary.compare(boundary.Cell(front, kind, ask, "as it is"), report)
    assert not report.different, report.different


@pytest.mark.parametrize("terms", [{}, {"unit": "g", "max_rows": 2, "max_groups": 2}])
def test_the_largest_integers_of_duckdb_are_no_keys(terms):
    """A UHUGEINT is refused by its type: the largest would come out in another order."""
    texts = set()
    for largest in ("18014398509481984", "340282366920938463463374607431768211455"):
        rows = duckdb.connect().sql(
            f"SELECT unnest([1, 1, {largest}])::UHUGEINT AS g, 0.5 AS x, 'a' AS h"
        )
        private = dfp.frame(rows)(**terms) if terms else dfp.frame(rows)
        with pytest.raises(dfp.UnsupportedDtypeError, match="UHUGEINT") as caught:
            private.group_by("h" if terms else "g").agg(dfp.count(), dfp.median("x"), delta=0.1)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_missing_keys_keep_their_own_group():
    """A released NULL key is shown as missing, never as another key's value."""
    categories = [pd.CategoricalDtype(values) for values in (["x", "y"], [True, False])]
    for dtype in ("boolean", *categories, "str", "float64", "datetime64[ns]"):
        frame = pd.DataFrame({"g": pd.Series([None] * 9, dtype=dtype)})
        assert frame.dp.group_by("g").count(epsilon=1e12, delta=0.5)["g"].isna().tolist() == [True]


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "int64[pyarrow]"])
def test_large_keys_are_not_rounded_beside_a_missing_one(dtype):
    """The NULL group does not change how another group's key is shown."""
    keys = pd.Series([2**60 + 1] * 9 + [None] * 9, dtype=dtype)
    shown = pd.DataFrame({"g": keys}).dp.group_by("g").count(epsilon=1e12, delta=0.5)["g"]
    assert shown.tolist()[0] == 2**60 + 1
