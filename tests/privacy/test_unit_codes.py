"""Columns that go to the engine as codes: one unit's rows do not choose among those of others.

Codes are ranks among all values of a column, so that one value more moves those of the others.
"""

from __future__ import annotations

import pandas as pd
import pytest

from dfprivacy.measurement.binning import Edges
from dfprivacy.unit import Unit
from tests.privacy.test_units import added, bins, same, sums

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
UNIT = Unit("u", 1, 1)
EDGES = Edges((-0.5, 0.5, 1.5, 2.5, 3.5))


def texts(numbers):
    return [f"k{10 + number}" for number in numbers]


def rows(units, groups):
    """Return rows of units by number: all but the first are in two groups of two, twice in each."""
    own = [(unit, unit % (groups - 1) + 1 + more) for unit in range(1, units) for more in (0, 1)]
    own = [(unit, (group - 1) % (groups - 1) + 1) for unit, group in own]
    return [(0, 0), *own, *own]


def frames(unit_kind, key_kind):
    """Return the whole table, that of its first unit, and that of the others."""
    table = rows(40, 12)
    values = [float(place % 4) for place in range(len(table))]
    for chosen in (range(len(table)), range(1), range(1, len(table))):
        units, keys = ([table[row][side] for row in chosen] for side in (0, 1))
        columns = {"u": KINDS[unit_kind](units), "g": KINDS[key_kind](keys)}
        numbers = {"x": [values[row] for row in chosen], "i": [1 for _ in chosen]}
        yield sorted(set(keys)), pd.DataFrame({**columns, **numbers})


def named(numbers, found):
    """Return statistics by the number of their group, which the keys and codes stand for."""

    def number(key):
        return int(key[1:]) - 10 if isinstance(key, str) else numbers[key]

    return {
        number(key[0]) if len(key) == 1 else (number(key[0][0]), key[1]): vector
        for key, vector in found.items()
    }


@pytest.mark.parametrize("side", ["unit", "key"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_add_up_whatever_else_is_in_a_column(kind, side):
    """What is added up for a table is that of its first unit and that of the others, by group."""
    kinds = (kind, "text") if side == "unit" else ("text", kind)
    whole, *parts = (named(numbers, sums(frame, UNIT)) for numbers, frame in frames(*kinds))
    same({k: v for k, v in whole.items() if v.any()}, added(parts))


@pytest.mark.parametrize("side", ["unit", "key"])
@pytest.mark.parametrize("kind", KINDS)
def test_bins_add_up_whatever_else_is_in_a_column(kind, side):
    """The rows of a unit that count by bin are the same, whichever other units there are."""
    kinds = (kind, "text") if side == "unit" else ("text", kind)
    whole, *parts = (
        named(numbers, {((key[0],), bin_): v for (key, bin_), v in bins(f, UNIT, EDGES).items()})
        for numbers, f in frames(*kinds)
    )
    same(whole, added(parts))
