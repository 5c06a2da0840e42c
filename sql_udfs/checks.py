"""Check constants and declared types while DuckDB plans, and look up the numbers of grids.

Nothing here sees a row. Every refusal depends on the text of the query and the declared types of
its columns alone, and comes on an empty table as on any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa

from dfprivacy.accounting.loss import Contribution, Epsilon, positive_number, read_delta
from dfprivacy.errors import (
    InvalidBoundsError,
    InvalidLossError,
    InvalidQuestionError,
    MissingDeltaError,
    UnsupportedDtypeError,
)
from dfprivacy.measurement.linear import Equal
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.forms import Form, build_part, example_calls, functions, list_forms
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.statistics.quantile import QuantilePart
from sql_udfs.function import Column, Function, check_account

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMBERS = {*_WHOLE, *(f"U{name}" for name in _WHOLE), "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN"}
_MOMENTS = {"DATE", "TIME", "TIME_NS", "TIME WITH TIME ZONE", "INTERVAL"}
_MOMENTS |= {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}


def is_ranked(form: Form) -> bool:
    """Check whether an answer about a column of integers is an integer."""
    return isinstance(form.part, QuantilePart)


@dataclass(frozen=True)
class Argument:
    """A constant argument: its type in the query, and its value as a list of floats."""

    sql_type: str
    values: tuple[float | None, ...] | None

    def python(self) -> Any:
        """Return the number or the numbers; None or the type's name where it is neither."""
        if self.sql_type.endswith("]"):
            element = self.sql_type.rpartition("[")[0]
            return [Argument(element, (value,)).python() for value in self.values or ()]
        head = type_head(self.sql_type)
        if head not in _NUMBERS or not self.values:
            return None if head == "NULL" else head
        return bool(self.values[0]) if head == "BOOLEAN" else self.values[0]


def type_head(sql_type: str) -> str:
    """Return the first word of a type: DECIMAL(9,2) is DECIMAL, and an ENUM hides its values."""
    return sql_type.strip('"').split("(")[0]


def form_for(name: str, constants: int, *, about_rows: bool) -> Form:
    """Return the form of a call by the number of its constants, an epsilon not among them."""
    return next(
        form
        for form in list_forms(_statistic(name))
        if len(form.constants) == constants and form.about_rows == about_rows
    )


def _statistic(name: str) -> type[Statistic]:
    """Return the statistic that a function asks, with its interval or without."""
    statistic = functions().get(name.removesuffix("_interval"))
    assert statistic is not None  # noqa: S101 its macro calls it by a name that is there
    return statistic


@lru_cache(maxsize=1024)  # public facts only; DuckDB asks several times a statement
def check_call(name: str, sql_types: tuple[str, ...], arguments: tuple[Argument, ...]) -> None:
    """Refuse columns that can't be asked about, and constants that are out of range.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError, InvalidQuestionError, InvalidLossError
        By the declared type and the constants alone.
    """
    *constants, epsilon, limit = arguments
    if name == "dp_keep":
        (delta,) = constants
        positive_number("epsilon", epsilon.python())
        _require_small(name, epsilon, limit)
        least_rows(delta.python(), epsilon.python())
        return
    form = form_for(name, len(constants), about_rows=not sql_types)
    numbers = any(form.part.columns.values())
    if numbers:
        for position, sql_type in zip(("first", "second"), sql_types, strict=False):
            head = type_head(sql_type)
            if sql_type.endswith("]") or head not in _NUMBERS:
                statistic = _statistic(name)
                number = "epoch(x)" if sql_type in _MOMENTS else "TRY_CAST(x AS DOUBLE)"
                call = example_calls(name, statistic)[0].replace("(x", f"({number}")
                raise UnsupportedDtypeError(
                    f"{name} needs numbers; its {position} argument is declared {head}",
                    hint=f"convert it first, e.g. {call}",
                )
    values = [constant.python() for constant in constants]
    if form.ends and any(constant.sql_type in _MOMENTS for constant in constants):
        raise InvalidBoundsError(
            "bounds are dates or times, and what they bound is declared to hold numbers",
            hint=f"write {example_calls(name, form.statistic)[-2]}",
        )
    try:
        question = form.question(dict(zip(form.constants, values, strict=True)))
    except InvalidQuestionError as error:
        calls = " or ".join(example_calls(name, form.statistic)[::2])
        raise InvalidQuestionError(error.message, hint=f"call {calls}") from None
    positive_number("epsilon", epsilon.python())
    _require_small(name, epsilon, limit)
    part = build_part(question)
    terms = part.vectors.linears[0].source.terms if isinstance(part, LinearPart) else ()
    if any(isinstance(term, Equal) for term in terms) and type_head(sql_types[0]) != "BOOLEAN":
        raise UnsupportedDtypeError(
            f"{name} needs true or false; its first argument is declared {type_head(sql_types[0])}",
            hint=f"compare it: {name}(x = 3), {name}(city = 'Rome'), {name}(delay > 60)",
        )
    if isinstance(part, LinearPart) and numbers:
        part.vectors.noises(Epsilon(positive_number("epsilon", epsilon.python())))


def _require_small(name: str, epsilon: Argument, limit: Argument) -> None:
    """Refuse an epsilon above the limit of the connection."""
    amount, largest = (argument.values[0] for argument in (epsilon, limit) if argument.values)
    if amount is not None and largest is not None and amount > largest:
        raise InvalidLossError(
            f"{name} with the epsilon {amount:g}, and this connection allows {largest:g} at most",
            hint="give both bounds, dp_mean(x, 0, 240), or register(con, max_epsilon=240)",
        )


@lru_cache(maxsize=1024)
def least_rows(delta: float, epsilon: float) -> int:
    """Return the noisy number of rows from which on dp_keep is true.

    A group that one row alone has made reaches it with probability at most delta.

    Raises
    ------
    InvalidLossError
        When delta or epsilon is out of range.
    """
    exact = read_delta(delta)
    if exact is None:
        raise MissingDeltaError("dp_keep needs a delta", hint="call dp_keep(1e-6)")
    noise = Epsilon(positive_number("epsilon", epsilon)).noise(1, 1)
    return Contribution().key_rule(exact).threshold(noise, 1, 1)


def _check_calls(name: Column, sql_types: Column, types: Column, values: Column) -> Any:
    check_account()
    texts, numbers = types[0].as_py(), values[0].as_py()
    arguments = [
        Argument(text, None if entries is None else tuple(entries))
        for text, entries in zip(texts, numbers, strict=True)
    ]
    check_call(name[0].as_py(), tuple(sql_types[0].as_py()), tuple(arguments))
    return pa.array(["checked"] * len(name))


def _constant(name: str, values: list[list[float]], path: str) -> float:
    """Return one public number of a term: of its grid, its threshold or its divisor."""
    return _number_at(name, tuple(map(tuple, values)), path)


@lru_cache(maxsize=4096)
def _number_at(name: str, values: tuple[tuple[float, ...], ...], path: str) -> float:
    form = form_for(name, len(values), about_rows=False)
    arguments = {
        constant: list(value) if form.is_list(constant) else value[0]
        for constant, value in zip(form.constants, values, strict=True)
    }
    terms: tuple[Any, ...] = build_part(form.question(arguments)).vectors.linears[0].source.terms
    first, *attributes = path.split(".")
    return float(reduce(getattr, attributes, terms[int(first)]))


_VALUES = "DOUBLE[][]"

CHECK = Function(
    "dfprivacy_check", _check_calls, ("VARCHAR", "VARCHAR[]", "VARCHAR[]", _VALUES), "VARCHAR"
)
"""It returns the text 'checked', or raises."""

CONSTANT = Function(
    "dfprivacy_constant", _constant, ("VARCHAR", _VALUES, "VARCHAR"), "DOUBLE", of_constants=True
)
"""The numbers of a function's terms; DuckDB folds them into constants."""
