"""Columns that go to the engine as codes: one unit's rows do not choose among those of others.

Codes are ranks among all values of a column, so that one value more moves those of the others.
"""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dfp

ODD = " \ud800"  # no UTF-8 form
KINDS = {
    "text": lambda numbers: pd.Series(texts(numbers), dtype="str"),
    "objects": lambda numbers: pd.Series(texts(numbers), dtype=object),
    "mixed objects": lambda numbers: pd.Series([(n, str(n)) for n in numbers], dtype=object),
    "categories": lambda numbers: pd.Series(texts(numbers), dtype="category"),
    "periods": lambda numbers: pd.Series(pd.PeriodIndex.from_ordinals(numbers, freq="D")),
    "differences": lambda numbers: pd.Series(pd.to_timedelta(numbers, unit="D")),
    "odd text": lambda numbers: pd.Series(
        [text if n else ODD for n, text in zip(numbers, texts(numbers), strict=True)],
        dtype=pd.StringDtype("python"),
    ),
}


def texts(numbers):
    return [f"k{10 + number}" for number in numbers]


def rows(units, groups):
    """Return rows of units by number: all but the first are in two groups, twice in each."""
    pairs = [(unit, unit % (groups - 1) + 1 + more) for unit in range(1, units) for more in (0, 1)]
    pairs = [(unit, (group - 1) % (groups - 1) + 1) for unit, group in pairs]
    return [(0, 0), *pairs, *pairs]


def frames(unit_kind, key_kind):
    """Return the whole table, and that without its first unit."""
    table = rows(400, 12)
    for chosen in (range(len(table)), range(1, len(table))):
        units, keys = ([table[row][side] for row in chosen] for side in (0, 1))
        columns = {"u": KINDS[unit_kind](units), "g": KINDS[key_kind](keys)}
        yield pd.DataFrame({**columns, "x": [float(row % 4) for row in chosen]})


def shown(frame):
    """Return the release, with next to no noise, of groups of more than one row."""
    private = frame.dp(unit="u", max_rows=1, max_groups=1, epsilon=2**60, delta=0.5)
    groups = private.group_by("g")
    sums = groups.agg(n=dfp.count(), s=dfp.sum("x", (0, 3)), v=dfp.var("x", (0, 3)))
    bins = groups.histogram("x", [0, 1, 2, 3, 4])
    assert sums["n"].sum() > 350
    return [[list(map(str, row)) for row in table.to_numpy().tolist()] for table in (sums, bins)]


@pytest.mark.parametrize("side", ["unit", "key"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_alone_in_its_group_moves_no_other(kind, side):
    """Without the first unit, which is alone in a group, sums and bins of all others are the same.

    Its value, its key and its unit are the least of their columns, so that all codes move.
    """
    kinds = (kind, "text") if side == "unit" else ("text", kind)
    full, without = (shown(frame) for frame in frames(*kinds))
    assert full == without


SAME = {
    "1": [1, 1.0, True, Decimal("1.00"), Fraction(1), "1", np.int8(1), 1 + 0j, np.float32(1)],
    "1/8": [0.125, Decimal("0.125"), Fraction(1, 8), np.float16(0.125), "0.125"],
    "1/10": [Decimal("0.1"), Fraction(1, 10), "0.1", Decimal("0.100")],
    "0": [0, -0.0, Decimal("-0.0"), False, "0"],
    "large": [10**6000, Decimal("1e6000"), Fraction(10**6000)],
    "infinite": [float("inf"), Decimal("inf"), np.float32("inf")],
}


@pytest.mark.parametrize("values", SAME.values(), ids=SAME)
def test_equal_numbers_in_a_column_of_objects_are_one_unit(values):
    """A unit is written as any number, or as its text: a unit's rows and units are counted once."""
    frame = pd.DataFrame({"u": pd.Series([*values, None, "other"], dtype=object)})
    private = frame.dp(unit="u", max_rows=1, epsilon=2**60)
    assert round(private.count()) == round(private.nunique("u")) == 2
