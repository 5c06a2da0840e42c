"""Cases of tests of several parameters, without all of their products."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any


def take_turns(
    first: Iterable[Any], second: Iterable[Any], *others: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """List all pairs of two parameters, each with one value of every other parameter.

    Any two values of different parameters meet if the first two have the most values, and if the
    nth other parameter has a number of values without a factor in common with n.
    """
    pairs = itertools.product(enumerate(first), enumerate(second))
    return [
        (row, column, *(turns[(i + step * j) % len(turns)] for step, turns in enumerate(others, 1)))
        for (i, row), (j, column) in pairs
    ]
