"""What DuckDB calls while it plans: constants and declared types are checked, grids looked up.

Nothing here sees a row. Every refusal depends on the text of the query and the declared types of
its columns alone, and comes on an empty table as on any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import pyarrow as pa
from narwhals.dtypes import DType

from dfprivacy.accounting.loss import positive_number
from dfprivacy.engine.columns import check_term_column
from dfprivacy.errors import InvalidQuestionError, MissingDeltaError, UnsupportedDtypeError
from dfprivacy.terms import Bounds
from sql_udfs.function import Column, Function
from sql_udfs.settings import bounded_vectors, grid_of, least_rows, quantiles_of, setting_of

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_DTYPES: dict[str, DType] = {
    **{name: nw.Int128() for name in _WHOLE},
    **{f"U{name}": nw.UInt128() for name in _WHOLE},
    "FLOAT": nw.Float32(),
    "DOUBLE": nw.Float64(),
    "DECIMAL": nw.Decimal(),
    "BOOLEAN": nw.Boolean(),
}


@dataclass(frozen=True)
class Argument:
    """A constant argument: its type in the query, its value as a float or a list of floats."""

    sql_type: str
    value: Any

    def python(self) -> Any:
        """Return the number; a boolean, None or the type's name where it is no number."""
        head = type_head(self.sql_type)
        if head == "BOOLEAN":
            return bool(self.value)
        if head in _DTYPES:
            return self.value
        return None if head == "NULL" else head

    def numbers(self) -> Any:
        """Return the numbers of a list; None or the type's name where it is no list."""
        if not self.sql_type.endswith("]"):
            head = type_head(self.sql_type)
            return None if head == "NULL" else head
        element = self.sql_type.rpartition("[")[0]
        return [Argument(element, value).python() for value in self.value or ()]


def type_head(sql_type: str) -> str:
    """Return the first word of a type: DECIMAL(9,2) is DECIMAL, and an ENUM hides its values."""
    return sql_type.strip('"').split("(")[0]


def check_bounded(
    function: str, sql_type: str, lower: Argument, upper: Argument, epsilon: Argument
) -> None:
    """Refuse a column that can't be averaged, and constants that are not bounds and an epsilon.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError, InvalidLossError
        By the declared type and the constants alone.
    """
    dtype = _number_type(function, sql_type, "(TRY_CAST(x AS DOUBLE), 0, 100)")
    bounds = Bounds(lower.python(), upper.python())
    vectors = bounded_vectors(function, bounds.lower, bounds.upper)
    for term in setting_of(vectors, epsilon.python()).linear.source.terms:
        check_term_column("x", dtype, term)


def _number_type(function: str, sql_type: str, call: str) -> DType:
    """Return the type of a column of numbers."""
    head = type_head(sql_type)
    dtype = None if sql_type.endswith("]") else _DTYPES.get(head)
    if dtype is None:
        raise UnsupportedDtypeError(
            f"{function} needs numbers; its first argument is declared {head}",
            hint=f"convert it first, e.g. {function}{call}",
        )
    return dtype


def check_unbounded(function: str, sql_type: str, epsilon: Argument) -> None:
    """Refuse a column that holds no numbers, and an epsilon that no noise can pay for.

    Raises
    ------
    UnsupportedDtypeError, InvalidLossError
        By the declared type and the constant alone.
    """
    _number_type(function, sql_type, "(TRY_CAST(x AS DOUBLE))")
    check_epsilon(epsilon)


def check_quantile(function: str, sql_type: str, level: Argument, epsilon: Argument) -> None:
    """Refuse a column that can't be ranked, and constants that are no level and no epsilon.

    Raises
    ------
    UnsupportedDtypeError, InvalidQuestionError, InvalidLossError
        By the declared type and the constants alone.
    """
    _number_type(function, sql_type, "(TRY_CAST(x AS DOUBLE), 0.9)")
    _check_levels(
        [level.python()], f"call {function}(x, 0.9) for what nine values in ten reach up to"
    )
    check_epsilon(epsilon)


def check_quantiles(function: str, sql_type: str, levels: Argument, epsilon: Argument) -> None:
    """Refuse a column that can't be ranked, and constants that are no levels and no epsilon.

    Raises
    ------
    UnsupportedDtypeError, InvalidQuestionError, InvalidLossError
        By the declared type and the constants alone.
    """
    _number_type(function, sql_type, "(TRY_CAST(x AS DOUBLE), [0.25, 0.5, 0.75])")
    _check_levels(levels.numbers(), f"call {function}(x, [0.25, 0.5, 0.75]); list each number once")
    check_epsilon(epsilon)


def _check_levels(levels: Any, hint: str) -> None:
    """Refuse what the frame API refuses, with a hint that is SQL."""
    try:
        quantiles_of(levels)
    except InvalidQuestionError as error:
        raise InvalidQuestionError(error.message, hint=hint) from None


def check_epsilon(epsilon: Argument) -> None:
    """Refuse an epsilon that no noise can pay for.

    Raises
    ------
    InvalidLossError
        By the constant alone.
    """
    positive_number("epsilon", epsilon.python())


def check_keep(delta: Argument, epsilon: Argument) -> None:
    """Refuse a delta or an epsilon that is out of range.

    Raises
    ------
    InvalidLossError
        By the constants alone.
    """
    check_epsilon(epsilon)
    if delta.python() is None:
        raise MissingDeltaError("dp_keep needs a delta", hint="call dp_keep(1e-6)")
    least_rows(delta.python(), epsilon.python())


def _arguments(pairs: tuple[Column, ...]) -> list[Argument]:
    types, values = pairs[::2], pairs[1::2]
    return [Argument(t[0].as_py(), v[0].as_py()) for t, v in zip(types, values, strict=True)]


def _passed(column: Column) -> Any:
    return pa.array(["checked"] * len(column))


def _bounded(function: Column, sql_type: Column, *pairs: Column) -> Any:
    check_bounded(function[0].as_py(), sql_type[0].as_py(), *_arguments(pairs))
    return _passed(function)


def _epsilon(*pairs: Column) -> Any:
    check_epsilon(*_arguments(pairs))
    return _passed(pairs[0])


def _keep(*pairs: Column) -> Any:
    check_keep(*_arguments(pairs))
    return _passed(pairs[0])


def _unbounded(function: Column, sql_type: Column, *pairs: Column) -> Any:
    check_unbounded(function[0].as_py(), sql_type[0].as_py(), *_arguments(pairs))
    return _passed(function)


def _quantile(function: Column, sql_type: Column, *pairs: Column) -> Any:
    check_quantile(function[0].as_py(), sql_type[0].as_py(), *_arguments(pairs))
    return _passed(function)


def _quantiles(function: Column, sql_type: Column, *pairs: Column) -> Any:
    check_quantiles(function[0].as_py(), sql_type[0].as_py(), *_arguments(pairs))
    return _passed(function)


def _grid(function: Column, part: Column, lower: Column, upper: Column) -> Any:
    """Return one public number of a grid: its origin, inverse step, first or last integer."""
    grid = grid_of(function[0].as_py(), lower[0].as_py(), upper[0].as_py())
    return pa.array([float(getattr(grid, part[0].as_py()))] * len(function))


_COLUMN = ("VARCHAR", "VARCHAR")
_ARGUMENT = ("VARCHAR", "DOUBLE")

CHECKS = (
    Function("dfprivacy_check_bounded", _bounded, (*_COLUMN, *_ARGUMENT * 3), "VARCHAR"),
    Function("dfprivacy_check_epsilon", _epsilon, _ARGUMENT, "VARCHAR"),
    Function("dfprivacy_check_keep", _keep, _ARGUMENT * 2, "VARCHAR"),
    Function("dfprivacy_check_unbounded", _unbounded, (*_COLUMN, *_ARGUMENT), "VARCHAR"),
    Function("dfprivacy_check_quantile", _quantile, (*_COLUMN, *_ARGUMENT * 2), "VARCHAR"),
    Function(
        "dfprivacy_check_quantiles",
        _quantiles,
        (*_COLUMN, "VARCHAR", "DOUBLE[]", *_ARGUMENT),
        "VARCHAR",
    ),
)
"""Each returns the text 'checked', or raises."""

GRID = Function("dfprivacy_grid", _grid, ("VARCHAR", "VARCHAR", "DOUBLE", "DOUBLE"), "DOUBLE")
"""The grid of a function with bounds; DuckDB folds it into constants."""
