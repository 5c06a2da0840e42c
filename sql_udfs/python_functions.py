"""Hold the Python functions that macros call: a check, public numbers of a call, and answers.

The check and the numbers see no row. Every refusal depends on the text of the query and the
declared types of its columns alone, and comes on an empty table as on any other.

An answer is made at the end of an aggregate: exact sums or values come in, noisy answers go out,
one for each group of an Arrow chunk. No group takes anything from another, because nothing in SQL
says which groups may be shown. Two calls draw twice.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, reduce
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.accounting.loss import Contribution, Epsilon, positive_number, read_delta
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.engine.histograms import HistogramQuery, count_values
from dfprivacy.errors import (
    InvalidBoundsError,
    InvalidLossError,
    InvalidQuestionError,
    MissingDeltaError,
    MissingLedgerError,
    UnsupportedDtypeError,
    boundary,
)
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.linear import Equal, OnGrid, Source
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import add_to
from dfprivacy.release.answers import Answer, Estimated
from dfprivacy.release.pipeline import permit
from dfprivacy.release.terms import interval_level
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.forms import Form, build_part, example_calls, functions, list_forms
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.octaves import MeasuredOctaves
from dfprivacy.statistics.quantile import QuantilePart

Column = Any  # a pyarrow.ChunkedArray: the rows of one DuckDB vector, at most 2048


@dataclass(frozen=True)
class Function:
    """A function over Arrow columns, or `of_constants` over values; NULLs are handed to it.

    A function that `draws` noise is paid by its statement. DuckDB learns that two calls give two
    answers, and never shares or folds them.
    """

    name: str
    call: Callable[..., Any]
    parameters: tuple[str, ...]
    returns: str
    draws: bool = False
    of_constants: bool = False

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the function in the connection's database, unless another connection has."""
        kind = "native" if self.of_constants else "arrow"
        options: dict[str, Any] = {"type": kind, "null_handling": "special"}
        options["side_effects"] = self.draws
        with suppress(duckdb.CatalogException, duckdb.NotImplementedException):
            connection.create_function(
                self.name, _guard(self), list(self.parameters), self.returns, **options
            )


@cache
def _guard(function: Function) -> Callable[..., Any]:
    """Return the call with a signature that DuckDB can count the parameters of.

    The cache keeps it alive after the connection that created it is gone, because other
    connections to the same database may still call it.
    """

    def run_paid(*columns: Column) -> Any:
        if not function.draws:
            return function.call(*columns)
        check_account()
        with permit("the epsilon of the statement, on a connection that no account is kept of"):
            return function.call(*columns)

    guarded = boundary(run_paid)
    kind = inspect.Parameter.POSITIONAL_ONLY
    names = [inspect.Parameter(f"column_{n}", kind) for n in range(len(function.parameters))]
    guarded.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return guarded


def check_account() -> None:
    """Refuse a call that its statement pays for, if this process requires a ledger."""
    if NoAccount.required:
        raise MissingLedgerError(
            "a dp_ call on a connection is charged to no ledger, and this process requires one",
            hint="dfp.sql('SELECT dp_count(*) FROM t', con=con, ledger=ledger, dataset='t')",
        )


_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMBERS = {*_WHOLE, *(f"U{name}" for name in _WHOLE), "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN"}
_MOMENTS = {"DATE", "TIME", "TIME_NS", "TIME WITH TIME ZONE", "INTERVAL"}
_MOMENTS |= {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}


def is_ranked(form: Form) -> bool:
    """Check whether an answer about a column of integers is an integer."""
    return isinstance(form.part, QuantilePart)


Constant = tuple[str, tuple[float | None, ...] | None]
"""A constant argument: its type in the query, and its value as a list of floats."""


def _read_constant(sql_type: str, values: tuple[float | None, ...] | None) -> Any:
    """Return the number or the numbers; None or the type's name where it is neither."""
    if sql_type.endswith("]"):
        element = sql_type.rpartition("[")[0]
        return [_read_constant(element, (value,)) for value in values or ()]
    head = type_head(sql_type)
    if head not in _NUMBERS or not values:
        return None if head == "NULL" else head
    return bool(values[0]) if head == "BOOLEAN" else values[0]


def type_head(sql_type: str) -> str:
    """Return the first word of a type: DECIMAL(9,2) is DECIMAL, and an ENUM hides its values."""
    return sql_type.strip('"').split("(")[0]


def form_for(name: str, constants: int, *, about_rows: bool) -> Form:
    """Return the form of a call by the number of its constants, an epsilon not among them."""
    statistic = functions()[name.removesuffix("_interval")]
    return next(
        form
        for form in list_forms(statistic)
        if len(form.constants) == constants and form.about_rows == about_rows
    )


@lru_cache(maxsize=1024)  # public facts only; DuckDB asks several times a statement
def check_call(name: str, sql_types: tuple[str, ...], arguments: tuple[Constant, ...]) -> None:
    """Refuse columns by their declared types, and constants that are out of range."""
    *constants, epsilon, limit = arguments
    values = [_read_constant(*argument) for argument in constants]
    amount = _read_constant(*epsilon)
    if name == "dp_keep":
        positive_number("epsilon", amount)
        _require_small(name, epsilon, limit)
        least_rows(values[0], amount)
        return
    form = form_for(name, len(constants), about_rows=not sql_types)
    numbers = any(form.part.columns.values())
    for position, sql_type in zip(("first", "second"), sql_types if numbers else (), strict=False):
        head = type_head(sql_type)
        if sql_type.endswith("]") or head not in _NUMBERS:
            number = "epoch(x)" if sql_type in _MOMENTS else "TRY_CAST(x AS DOUBLE)"
            call = example_calls(name, form.statistic)[0].replace("(x", f"({number}")
            raise UnsupportedDtypeError(
                f"{name} needs numbers; its {position} argument is declared {head}",
                hint=f"convert it first, e.g. {call}",
            )
    if form.ends and any(sql_type in _MOMENTS for sql_type, _ in constants):
        raise InvalidBoundsError(
            "bounds are dates or times, and what they bound is declared to hold numbers",
            hint=f"write {example_calls(name, form.statistic)[-2]}",
        )
    try:
        question = form.question(dict(zip(form.constants, values, strict=True)))
    except InvalidQuestionError as error:
        calls = " or ".join(example_calls(name, form.statistic)[::2])
        raise InvalidQuestionError(error.message, hint=f"call {calls}") from None
    loss = positive_number("epsilon", amount)
    _require_small(name, epsilon, limit)
    part = build_part(question)
    if not isinstance(part, LinearPart):
        return
    terms = part.vectors.linears[0].source.terms
    if any(isinstance(term, Equal) for term in terms) and type_head(sql_types[0]) != "BOOLEAN":
        raise UnsupportedDtypeError(
            f"{name} needs true or false; its first argument is declared {type_head(sql_types[0])}",
            hint=f"compare it: {name}(x = 3), {name}(city = 'Rome'), {name}(delay > 60)",
        )
    if numbers:
        part.vectors.noises(Epsilon(loss))


def _require_small(name: str, epsilon: Constant, limit: Constant) -> None:
    """Refuse an epsilon above the limit of the connection."""
    amount, largest = (values[0] for _, values in (epsilon, limit) if values)
    if amount is not None and largest is not None and amount > largest:
        raise InvalidLossError(
            f"{name} with the epsilon {amount:g}, and this connection allows {largest:g} at most",
            hint="give both bounds, dp_mean(x, 0, 240), or register(con, max_epsilon=240)",
        )


@lru_cache(maxsize=1024)
def least_rows(delta: float, epsilon: float) -> int:
    """Return the noisy number of rows from which on dp_keep is true.

    A group that one row alone has made reaches it with probability at most delta.
    """
    exact = read_delta(delta)
    if exact is None:
        raise MissingDeltaError("dp_keep needs a delta", hint="call dp_keep(1e-6)")
    return Contribution().key_rule(exact).threshold(read_loss(epsilon).noise(1, 1), 1, 1)


def _check_calls(name: Column, sql_types: Column, types: Column, values: Column) -> Any:
    check_account()
    texts, numbers = types[0].as_py(), values[0].as_py()
    arguments = [
        (text, None if entries is None else tuple(entries))
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


def is_summed(form: Form) -> bool:
    """Check whether DuckDB adds up the input of a form; else it collects values."""
    return isinstance(form.part, LinearPart)


def finalizer(form: Form, suffix: str = "") -> str:
    """Name the function that answers one form of a macro."""
    source = "" if is_summed(form) else "_of_list"
    return f"dfprivacy_{form.statistic.kind}_{len(form.constants)}{suffix}{source}"


def part_for(form: Form, suffix: str) -> Any:
    """Return the mechanism of a form; intervals and clip counts are paid for where they show."""
    return build_part(form.sample.with_ends(interval=bool(suffix)))


def read_setting(column: Column) -> Any:
    """Return the number, or the numbers, that an argument has in every row, or refuse it."""
    value: Any
    if pa.types.is_list(column.type):
        values = column.to_pylist()
        is_constant, value = all(value == values[0] for value in values), tuple(values[0])
    else:
        values = column.to_numpy()
        is_constant = not column.null_count and (values == values[0]).all()
        value = float(values[0])
    if not is_constant:
        raise InvalidQuestionError(
            "bounds, quantiles, epsilon, delta and level must be constants",
            hint="write them as numbers in the query",
        )
    return value


@lru_cache(maxsize=1024)
def read_loss(epsilon: float) -> Epsilon:
    """Return the privacy loss of a call; it is read for each chunk of groups."""
    return Epsilon(positive_number("epsilon", epsilon))


@lru_cache(maxsize=1024)
def _part(form: Form, values: tuple[Any, ...], suffix: str) -> Any:
    question = form.question(dict(zip(form.constants, values, strict=True)))
    return build_part(question.with_ends(interval=bool(suffix)))


def compute_answers(
    form: Form, measured: Sequence[Column], values: tuple[Any, ...], loss: Epsilon, suffix: str
) -> tuple[Answer, ...]:
    """Return the answers of each group, each by itself.

    Each group has an entry in the columns that are `measured`: the sums of the statistic, or a list
    of values. `values` are the constants. The loss is that of all groups together, if each row is
    in one of them. A group that reaches the public limit of rows is an error.
    """
    part = _part(form, values, suffix)
    if isinstance(part, LinearPart):
        source = part.vectors.linears[0].source
        sums = whole_sums(measured, source)
        table = pa.table(sums, names=[sum_name(0, index) for index in range(len(sums))])
        exact = MeasuredSums(part, Statistics(table, 0, (source,)).check_rows())
        (answers,) = exact.answer(loss, None).answers.values()
        return answers
    if is_ranked(form):
        part = replace(part, integers=bool(pc.any(measured[1]).as_py()))
    ((binning, moments), *_) = part.tables
    sizes = _sizes(measured[0])
    group, flat = np.repeat(np.arange(len(sizes)), sizes), measured[0].combine_chunks().flatten()
    query = HistogramQuery("", binning, moments)
    bins = part.read_measurement(count_values(group, flat, query, len(sizes)))
    if isinstance(bins, MeasuredOctaves):
        answered = bins.answer_apart(loss, ends=bool(suffix))
    else:
        answered = bins.answer(loss, None)
    (answers,) = answered.answers.values()
    return answers


def build_finalizer(form: Form, suffix: str) -> Function:
    """Return the finalizer of a form: of sums or values, constants, epsilon, and a level if any."""
    lists = [form.is_list(name) for name in form.constants]
    if is_summed(form):
        terms = part_for(form, suffix).vectors.linears[0].source.terms
        inputs = ("BIGINT",) * (1 + len(terms))
    else:
        inputs = ("DOUBLE[]", "BOOLEAN") if is_ranked(form) else ("DOUBLE[]",)

    def answer(*columns: Column) -> Any:
        settings = columns[len(inputs) :]
        *constants, epsilon = map(read_setting, settings[: len(lists) + 1])
        loss = read_loss(epsilon)
        answers = compute_answers(form, columns[: len(inputs)], tuple(constants), loss, suffix)
        if not suffix:
            return _join_answers(form.sample, answers)
        ends = answers[0].columns(interval_level(read_setting(settings[-1])))
        return _struct(dict(zip(("value", "low", "high", "note"), ends, strict=False)))

    returns = _returns(form.sample)
    settings = [*("DOUBLE[]" if is_list else "DOUBLE" for is_list in lists), "DOUBLE"]
    if suffix:
        note = ", note VARCHAR" if form.sample.with_ends(interval=True).has_note else ""
        returns = f"STRUCT(value {returns}, low DOUBLE, high DOUBLE{note})"
        settings.append("DOUBLE")
    call = answer if is_summed(form) else in_parts(answer)
    return Function(finalizer(form, suffix), call, (*inputs, *settings), returns, draws=True)


def _returns(question: Statistic) -> str:
    """Return the SQL type of an answer: a number, a struct of named ends, or a list."""
    if question.suffixes == ("",):
        return "BIGINT" if question.is_whole else "DOUBLE"
    if question.suffixes[0] == "_0":
        return "DOUBLE[]"
    return f"STRUCT({', '.join(f'{end[1:]} DOUBLE' for end in question.suffixes)})"


def _join_answers(question: Statistic, answers: Sequence[Answer]) -> Any:
    columns = [_values(answer) for answer in answers]
    if question.suffixes == ("",):
        return pa.array(columns[0])
    if question.suffixes[0] == "_0":
        matrix = np.stack(columns, axis=1)
        offsets = np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1]
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix.reshape(-1)))
    ends = {end[1:]: column for end, column in zip(question.suffixes, columns, strict=True)}
    return _struct(ends, from_pandas=True)


def _values(answer: Answer) -> Any:
    """Return the value of each group; intervals are worked out only where they are shown."""
    if not isinstance(answer, Estimated):
        return answer.columns(0.5)[0]
    values = np.full(answer.groups, answer.blank[0])
    for piece in answer.pieces:
        values[piece.groups] = piece.estimator.value(piece.vector)
    return values


def _struct(columns: Mapping[str, Any], *, from_pandas: bool = False) -> Any:
    arrays = [
        pa.array(column, pa.string() if column.dtype == object else None, from_pandas=from_pandas)
        for column in columns.values()
    ]
    return pa.StructArray.from_arrays(arrays, names=list(columns))


def _keep(rows: Column, delta: Column, epsilon: Column) -> Any:
    """Return whether each group's noisy number of rows reaches the threshold."""
    spent = read_setting(epsilon)
    threshold = least_rows(read_setting(delta), spent)
    exact = np.asarray(rows.to_numpy(), dtype=np.int64)
    noisy = add_to(exact, read_loss(spent).noise(1, 1))
    return pa.array(np.asarray(noisy >= threshold, dtype=bool))


_KEEP = Function("dfprivacy_keep", _keep, ("BIGINT", "DOUBLE", "DOUBLE"), "BOOLEAN", draws=True)


def finalizers() -> tuple[Function, ...]:
    """Return the functions that answer, one for each way to measure a statistic."""
    functions_by_name = {_KEEP.name: _KEEP}
    for statistic in dict.fromkeys(functions().values()):
        for form in list_forms(statistic):
            for suffix in ("", "_interval") if statistic.has_interval else ("",):
                functions_by_name.setdefault(finalizer(form, suffix), build_finalizer(form, suffix))
    return tuple(functions_by_name.values())


_PART = 2**20  # values of whole groups that are answered at once: new memory costs more than work


def in_parts(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of lists that answers some groups at a time, if they have many values."""

    def answer_chunk(*columns: Column) -> Any:
        ends = np.cumsum([0, *_sizes(columns[0])])
        cuts = np.searchsorted(ends, np.arange(_PART, ends[-1], _PART))
        pieces = itertools.pairwise(sorted({0, *cuts.tolist(), len(ends) - 1}))
        return pa.chunked_array(
            [
                answer(*(column.slice(first, stop - first) for column in columns))
                for first, stop in pieces
            ]
        )

    return answer_chunk


def whole_sums(measured: Sequence[Column], source: Source) -> list[Integers]:
    """Return the rows and the sums of each group, where DuckDB has added up doubled integers.

    Of terms on a grid it sees twice the integer, less both ends: see `duckdb_on_grid`.
    """
    rows, *totals = (np.asarray(column.fill_null(0).to_numpy(), np.int64) for column in measured)
    for index, term in enumerate(source.terms):
        if isinstance(term, OnGrid):
            half, odd = divmod(term.minimum + term.maximum, 2)
            totals[index] = (totals[index] + odd * rows >> 1) + half * rows
    return [rows, *totals]


def _sizes(lists: Column) -> Integers:
    sizes = pc.fill_null(pc.list_value_length(lists), 0)
    return np.asarray(sizes.to_numpy(), dtype=np.int64)
