"""Answer at the end of an aggregate: exact sums or values come in, noisy answers go out.

Every function is vectorized over an Arrow chunk with one entry a group. No group takes anything
from another, because nothing in SQL says which groups may be shown. Two calls draw twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.accounting.loss import Epsilon, positive_number
from dfprivacy.engine.histograms import HistogramQuery, count_values
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import (
    Integers,
    Octaves,
    SignificantBits,
)
from dfprivacy.measurement.linear import OnGrid, Source
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import add_to
from dfprivacy.release.answers import Answer, Answered, Estimated
from dfprivacy.release.terms import interval_level
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.forms import Form, build_part, functions, list_forms
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.octaves import MeasuredOctaves
from sql_udfs.checks import is_ranked, least_rows
from sql_udfs.function import Column, Function

VALUES = "DOUBLE[]"
"""The values of a group, NULL and NaN among them; NULL for a group without rows."""


def is_summed(form: Form) -> bool:
    """Check whether DuckDB adds up the input of a form; else it collects values, or pairs."""
    return isinstance(form.part, LinearPart) and len(form.columns) < 2


def finalizer(form: Form, suffix: str = "") -> str:
    """Name the function that answers one form of a macro."""
    source = "" if is_summed(form) else "_of_list"
    return f"dfprivacy_{form.statistic.kind}_{len(form.constants)}{suffix}{source}"


def part_for(form: Form, suffix: str) -> Any:
    """Return the mechanism of a form; intervals and clip counts are paid for where they show."""
    return build_part(form.sample.with_ends(interval=bool(suffix)))


def constant(column: Column) -> float:
    """Return the value that an argument has in every row of a chunk.

    Raises
    ------
    InvalidQuestionError
        When it is not the same number in every row.
    """
    values = column.to_numpy()
    if column.null_count or not (values == values[0]).all():
        raise _not_constant()
    return float(values[0])


def constants(column: Column) -> tuple[float, ...]:
    """Return the list of numbers that an argument has in every row of a chunk.

    Raises
    ------
    InvalidQuestionError
        When it is not the same list in every row.
    """
    lists = column.to_pylist()
    if any(numbers != lists[0] for numbers in lists):
        raise _not_constant()
    return tuple(lists[0])


def _not_constant() -> InvalidQuestionError:
    return InvalidQuestionError(
        "bounds, quantiles, epsilon, delta and level must be constants",
        hint="write them as numbers in the query",
    )


@lru_cache(maxsize=1024)
def read_loss(epsilon: float) -> Epsilon:
    """Return the privacy loss of a call; it is read for each chunk of groups.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    """
    return Epsilon(positive_number("epsilon", epsilon))


def compute_answers(
    form: Form,
    measured: Sequence[Column],
    values: tuple[Any, ...],
    loss: Epsilon,
    suffix: str = "",
) -> tuple[Answer, ...]:
    """Return the answers of each group, each by itself.

    Parameters
    ----------
    form : Form
        How the function was called.
    measured : sequence of columns
        The sums of the statistic, one entry a group; or one column, a list of values a group.
    values : tuple
        The constants of the form.
    loss : Epsilon
        What all groups together cost, if each row is in one of them.
    suffix : str
        What the name of the function ends with: "_interval", or nothing.

    Raises
    ------
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    part = _part(form, values, suffix)
    if isinstance(part, LinearPart):
        source = part.vectors.linears[0].source
        if not is_summed(form):
            measured = pair_sums(measured[0], source)
        else:
            measured = whole_sums(measured, source)
        names = [sum_name(0, index) for index in range(len(measured))]
        table = pa.table(list(measured), names=names)
        exact = MeasuredSums(part, Statistics(table, 0, (source,)).check_rows())
        (answers,) = exact.answer(loss, None).answers.values()
        return answers
    if is_ranked(form):
        part = replace(part, integers=bool(pc.any(measured[1]).as_py()))
    ((binning, moments), *_) = part.tables
    table = part.read_measurement(build_table(measured[0], binning, moments))
    answered: Answered
    if isinstance(table, MeasuredOctaves):
        answered = table.answer_apart(loss, ends=bool(suffix))
    else:
        answered = table.answer(loss, None)
    (answers,) = answered.answers.values()
    return answers


@lru_cache(maxsize=1024)
def _part(form: Form, values: tuple[Any, ...], suffix: str) -> Any:
    question = form.question(dict(zip(form.constants, values, strict=True)))
    return build_part(question.with_ends(interval=bool(suffix)))


def _functions(form: Form) -> list[Function]:
    """Return the finalizers of a form: sums or values, constants, epsilon (, level)."""
    sample, summed = form.sample, is_summed(form)
    kinds = ["DOUBLE[]" if form.is_list(name) else "DOUBLE" for name in form.constants]
    lists = [form.is_list(name) for name in form.constants]

    columns_held = {suffix: _count_columns(form, suffix) for suffix in ("", "_interval")}

    def answer_chunk(columns: Sequence[Column], suffix: str) -> tuple[Answer, ...]:
        sums = columns_held[suffix]
        arguments = columns[sums : sums + len(lists)]
        values = tuple(
            constants(argument) if is_list else constant(argument)
            for argument, is_list in zip(arguments, lists, strict=True)
        )
        loss = read_loss(constant(columns[sums + len(lists)]))
        return compute_answers(form, columns[:sums], values, loss, suffix)

    def value(*columns: Column) -> Any:
        return _join_answers(sample, answer_chunk(columns, ""))

    def interval(*columns: Column) -> Any:
        level = interval_level(constant(columns[-1]))
        ends = answer_chunk(columns, "_interval")[0].columns(level)
        return _struct(dict(zip(("value", "low", "high", "note"), ends, strict=False)))

    if not summed:
        value, interval = in_parts(value), in_parts(interval)

    returns = _returns(sample)
    pairs = f"STRUCT({', '.join(f'{column} DOUBLE' for column in form.columns)})[]"
    collected = VALUES if len(form.columns) < 2 else pairs

    def parameters(suffix: str) -> tuple[str, ...]:
        sums = ("BIGINT",) * columns_held[suffix]
        values = (collected, "BOOLEAN") if is_ranked(form) else (collected,)
        return (*(sums if summed else values), *kinds, "DOUBLE")

    finals = [Function(finalizer(form), value, parameters(""), returns, draws=True)]
    if sample.has_interval:
        note = ", note VARCHAR" if sample.with_ends(interval=True).has_note else ""
        struct = f"STRUCT(value {returns}, low DOUBLE, high DOUBLE{note})"
        types = (*parameters("_interval"), "DOUBLE")
        name = finalizer(form, "_interval")
        finals.append(Function(name, interval, types, struct, draws=True))
    return finals


def _count_columns(form: Form, suffix: str) -> int:
    """Return how many columns of sums or values a finalizer takes."""
    if not is_summed(form):
        return 1 + is_ranked(form)
    return 1 + len(part_for(form, suffix).vectors.linears[0].source.terms)


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
    spent = constant(epsilon)
    threshold = least_rows(constant(delta), spent)
    exact = np.asarray(rows.to_numpy(), dtype=np.int64)
    return pa.array(
        np.asarray(add_to(exact, read_loss(spent).noise(1, 1)) >= threshold, dtype=bool)
    )


_KEEP = Function("dfprivacy_keep", _keep, ("BIGINT", "DOUBLE", "DOUBLE"), "BOOLEAN", draws=True)


def finalizers() -> tuple[Function, ...]:
    """Return the functions that answer, one for each way to measure a statistic."""
    functions_by_name = {_KEEP.name: _KEEP}
    for statistic in dict.fromkeys(functions().values()):
        for form in list_forms(statistic):
            functions_by_name |= {
                function.name: function
                for function in _functions(form)
                if function.name not in functions_by_name
            }
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


_PAIRS = 2**16


def build_table(lists: Column, binning: Octaves | SignificantBits, moments: int) -> BinTable:
    """Return the bins of each list, as a part of the frame API would have them.

    Parameters
    ----------
    lists : column
        One list of floats a group; a group without rows is NULL. NULL and NaN are no values.
    binning : Octaves or SignificantBits
        The bins.
    moments : int
        How many powers of the values are added up, of octaves: 0, 1 or 2.

    Raises
    ------
    TooManyRowsError
        When a bin of a group reaches the public limit of rows.
    """
    sizes = _sizes(lists)
    values = lists.combine_chunks().flatten()
    group = np.repeat(np.arange(len(sizes)), sizes)
    return count_values(group, values, HistogramQuery("", binning, moments), len(sizes))


def whole_sums(measured: Sequence[Column], source: Source) -> list[Integers]:
    """Return the rows and the sums of each group, where DuckDB has added up doubled integers.

    Of terms on a grid it sees twice the integer, less both ends: see `duckdb_on_grid`.
    """
    rows, *totals = map(_integers, measured)
    for index, term in enumerate(source.terms):
        if isinstance(term, OnGrid):
            half, odd = divmod(term.minimum + term.maximum, 2)
            totals[index] = (totals[index] + odd * rows >> 1) + half * rows
    return [rows, *totals]


def _integers(column: Column) -> Integers:
    """Return a column of integers, 0 where it is NULL."""
    filled = column.fill_null(0) if column.null_count else column
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def pair_sums(lists: Column, source: Source) -> list[Any]:
    """Return the rows of each list that hold a value in every column, and the sums of the terms."""
    sizes = _sizes(lists)
    pairs = lists.combine_chunks().flatten()
    ends, columns = np.cumsum(sizes), list(map(str, source.columns))
    totals = np.zeros((1 + len(source.terms), len(sizes)), dtype=np.int64)
    for start in range(0, len(pairs), _PAIRS):
        block = pairs.slice(start, _PAIRS)
        columns_of_block = np.stack(
            [
                np.asarray(block.field(column).to_numpy(zero_copy_only=False), dtype=np.float64)
                for column in columns
            ]
        )
        there = ~np.isnan(columns_of_block).any(axis=0)
        stop = start + len(block)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        inner = np.clip(ends[first : last + 1], None, stop)
        group = np.repeat(np.arange(first, last + 1), np.diff(inner, prepend=start))[there]
        if not len(group):
            continue
        values = dict(zip(source.columns, columns_of_block[:, there], strict=True))
        span = slice(group[0], group[-1] + 1)
        index, size = group - group[0], group[-1] + 1 - group[0]
        totals[0, span] += np.bincount(index, minlength=size)
        for total, term in zip(totals[1:], source.terms, strict=True):
            # whole numbers below 2**30, 2**16 of them: floats add them up exactly
            total[span] += np.bincount(index, term.of(values), size).astype(np.int64)
    return [pa.array(total) for total in totals]


def _sizes(lists: Column) -> Integers:
    sizes = pc.fill_null(pc.list_value_length(lists), 0)
    return np.asarray(sizes.to_numpy(), dtype=np.int64)
