"""What DuckDB calls at the end of an aggregate: exact sums come in, noisy answers go out.

Every function is vectorised over an Arrow chunk with one entry a group. Two calls draw twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.terms import interval_level
from sql_udfs.function import Column, Function
from sql_udfs.settings import (
    MOMENTS,
    Setting,
    bounded_setting,
    count_setting,
    least_rows,
    moments_of,
)

_BASES = tuple(sum_name(0, place) for place in range(3))


def finalizer(macro: str) -> str:
    """Name the function that adds the noise of a macro."""
    return f"dfprivacy_{macro.removeprefix('dp_')}"


def constant(column: Column) -> float:
    """Return the value that an argument has in every row of a chunk.

    Raises
    ------
    InvalidQuestionError
        When it is not the same number in every row.
    """
    values = column.to_numpy()
    if column.null_count or not (values == values[0]).all():
        raise InvalidQuestionError(
            "bounds, epsilon, delta and level must be constants",
            hint="write them as numbers in the query",
        )
    return float(values[0])


def constants(column: Column) -> list[float]:
    """Return the list of numbers that an argument has in every row of a chunk.

    Raises
    ------
    InvalidQuestionError
        When it is not the same list in every row.
    """
    lists = column.to_pylist()
    if any(own != lists[0] for own in lists):
        raise InvalidQuestionError(
            "quantiles must be constants", hint="write them as a list in the query"
        )
    return list(lists[0])


def noisy_vector(setting: Setting, bases: tuple[Column, ...]) -> NoisyVector:
    """Return the noisy vectors of a chunk of groups.

    Parameters
    ----------
    setting : Setting
        The query, and the noise that pays for it.
    bases : tuple of columns
        The number of values, the sum of grid integers and, for a variance, of their squares
        divided by K: one entry a group. NULL stands for an empty sum.

    Raises
    ------
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    table = pa.table(list(bases), names=list(_BASES[: len(bases)]))
    statistics = Statistics(table, 0, (setting.linear.source,)).checked()
    return NoisyVector(add_to(statistics.coordinates(setting.linear), setting.noise), setting.noise)


def _value(setting: Setting, bases: tuple[Column, ...]) -> Any:
    return pa.array(setting.estimator.value(noisy_vector(setting, bases)))


def _interval(setting: Setting, bases: tuple[Column, ...], level: Column) -> Any:
    vector = noisy_vector(setting, bases)
    low, high = setting.estimator.interval(vector, interval_level(constant(level)))
    return struct_of((setting.estimator.value(vector), low, high))


def struct_of(columns: Sequence[Any]) -> Any:
    """Return an answer and the ends of its interval as one column."""
    return pa.StructArray.from_arrays(
        [pa.array(column) for column in columns], names=["value", "low", "high"]
    )


def _bounded(function: str) -> tuple[Function, Function]:
    """Return the finalizers of a function with bounds: sums, lower, upper, epsilon (, level)."""
    sums = 1 + moments_of(function)

    def value(*columns: Column) -> Any:
        lower, upper, epsilon = map(constant, columns[sums:])
        return _value(bounded_setting(function, lower, upper, epsilon), columns[:sums])

    def interval(*columns: Column) -> Any:
        lower, upper, epsilon = map(constant, columns[sums:-1])
        setting = bounded_setting(function, lower, upper, epsilon)
        return _interval(setting, columns[:sums], columns[-1])

    parameters = ("BIGINT",) * sums + ("DOUBLE",) * 3
    return answer_pair(_names(function), (value, interval), parameters, "DOUBLE")


def _count() -> tuple[Function, Function]:
    """Return the finalizers of a count: rows, epsilon (, level)."""

    def value(rows: Column, epsilon: Column) -> Any:
        return _value(count_setting(constant(epsilon)), (rows,))

    def interval(rows: Column, epsilon: Column, level: Column) -> Any:
        return _interval(count_setting(constant(epsilon)), (rows,), level)

    parameters = ("BIGINT", "DOUBLE")
    return answer_pair(_names("dp_count"), (value, interval), parameters, "BIGINT")


def answer_pair(
    names: tuple[str, str],
    calls: tuple[Callable[..., Any], Callable[..., Any]],
    parameters: tuple[str, ...],
    returns: str,
) -> tuple[Function, Function]:
    """Return a function that answers, and its companion that takes a level and has an interval."""
    struct = f"STRUCT(value {returns}, low DOUBLE, high DOUBLE)"
    return (
        Function(names[0], calls[0], parameters, returns, draws=True),
        Function(names[1], calls[1], (*parameters, "DOUBLE"), struct, draws=True),
    )


def _names(function: str) -> tuple[str, str]:
    return finalizer(function), finalizer(f"{function}_interval")


def _keep(rows: Column, delta: Column, epsilon: Column, held: Column) -> Any:
    """Return whether each group's noisy number of rows reaches the threshold.

    `held` is how many rows one unit can have, in one group or in as many.
    """
    least = least_rows(constant(delta), constant(epsilon), int(constant(held)))
    noisy = noisy_vector(count_setting(constant(epsilon)), (rows,)).total((0,))
    return pa.array(np.asarray(noisy >= least, dtype=bool))


_KEEP = Function(
    finalizer("dp_keep"), _keep, ("BIGINT", "DOUBLE", "DOUBLE", "BIGINT"), "BOOLEAN", draws=True
)

FINALIZERS = (_KEEP, *_count(), *(made for function in MOMENTS for made in _bounded(function)))
"""One function a macro that answers, and one for its companion with an interval."""
