"""Cases of tests of three parameters, without all of their products."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def cover_pairs(
    first: Iterable[Any], second: Iterable[Any], third: Iterable[Any]
) -> list[tuple[Any, Any, Any]]:
    """List cases in which any two values of different parameters meet.

    Values of the third parameter take turns. No other parameter may have fewer values.
    """
    rows, columns, turns = list(first), list(second), list(third)
    assert len(turns) <= min(len(rows), len(columns))
    return [
        (row, column, turns[(row_number + column_number) % len(turns)])
        for row_number, row in enumerate(rows)
        for column_number, column in enumerate(columns)
    ]
