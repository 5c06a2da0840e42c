"""Answer at the end of an aggregate: exact sums or values come in, noisy answers go out.

Every function is vectorised over an Arrow chunk with one entry a group. No group takes anything
from another, because nothing in SQL says which groups may be shown. Two calls draw twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, positive_number
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import add_to
from dfprivacy.release.answers import Answer, Estimated
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.forms import Form, forms_of, functions, part_of
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.octaves import MeasuredOctaves
from dfprivacy.statistics.part import Answered
from dfprivacy.terms import interval_level
from sql_udfs.checks import least_rows
from sql_udfs.function import Column, Function
from sql_udfs.lists import table_of

VALUES = "DOUBLE[]"
"""The values of a group, NULL and NaN among them; NULL for a group without rows."""


def finalizer(form: Form, suffix: str = "") -> str:
    """Name the function that answers one form of a macro."""
    source = "" if isinstance(form.part, LinearPart) else "_of_list"
    return f"dfprivacy_{form.statistic.kind}_{len(form.constants)}{suffix}{source}"


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
    if any(own != lists[0] for own in lists):
        raise _not_constant()
    return tuple(lists[0])


def _not_constant() -> InvalidQuestionError:
    return InvalidQuestionError(
        "bounds, quantiles, epsilon, delta and level must be constants",
        hint="write them as numbers in the query",
    )


def loss_of(epsilon: object) -> Epsilon:
    """Return what a call spends.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    """
    return Epsilon(positive_number("epsilon", epsilon))


def answers_of(
    form: Form, measured: Sequence[Column], values: tuple[Any, ...], loss: Epsilon
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

    Raises
    ------
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    part = _part(form, values)
    if isinstance(part, LinearPart):
        names = [sum_name(0, place) for place in range(len(measured))]
        table = pa.table(list(measured), names=names)
        source = part.vectors.linears[0].source
        exact = MeasuredSums(part, Statistics(table, 0, (source,)).checked())
        (own,) = exact.answer(loss, None).answers.values()
        return own
    ((binning, moments), *_) = part.tables
    binned = part.measured(table_of(measured[0], binning, moments))
    apart = isinstance(binned, MeasuredOctaves)
    answered: Answered = binned.answer_apart(loss) if apart else binned.answer(loss, None)
    (own,) = answered.answers.values()
    return own


@lru_cache(maxsize=1024)
def _part(form: Form, values: tuple[Any, ...]) -> Any:
    return part_of(form.question(dict(zip(form.constants, values, strict=True))))


def _functions(form: Form) -> list[Function]:
    """Return the finalizers of a form: sums or values, constants, epsilon (, level)."""
    part, sample = form.part, form.sample
    linear = isinstance(part, LinearPart)
    sums = 1 + len(part.vectors.linears[0].source.terms) if linear else 1
    kinds = ["DOUBLE[]" if form.is_list(name) else "DOUBLE" for name in form.constants]
    lists = [form.is_list(name) for name in form.constants]

    def answered(columns: Sequence[Column]) -> tuple[Answer, ...]:
        given = columns[sums : sums + len(lists)]
        values = tuple(
            constants(own) if is_list else constant(own)
            for own, is_list in zip(given, lists, strict=True)
        )
        loss = loss_of(constant(columns[sums + len(lists)]))
        return answers_of(form, columns[:sums], values, loss)

    def value(*columns: Column) -> Any:
        return _gathered(sample, answered(columns))

    def interval(*columns: Column) -> Any:
        level = interval_level(constant(columns[-1]))
        ends = answered(columns)[0].columns(level)
        return _struct(dict(zip(("value", "low", "high"), ends, strict=True)))

    returns = _returns(sample)
    parameters = (*(("BIGINT",) * sums if linear else (VALUES,)), *kinds, "DOUBLE")
    made = [Function(finalizer(form), value, parameters, returns, draws=True)]
    if sample.has_interval:
        struct = f"STRUCT(value {returns}, low DOUBLE, high DOUBLE)"
        name = finalizer(form, "_interval")
        made.append(Function(name, interval, (*parameters, "DOUBLE"), struct, draws=True))
    return made


def _returns(question: Statistic) -> str:
    """Return the SQL type of an answer: a number, a struct of named ends, or a list."""
    if question.suffixes == ("",):
        return "BIGINT" if question.is_whole else "DOUBLE"
    if question.suffixes[0] == "_0":
        return "DOUBLE[]"
    return f"STRUCT({', '.join(f'{end[1:]} DOUBLE' for end in question.suffixes)})"


def _gathered(question: Statistic, answers: Sequence[Answer]) -> Any:
    columns = [_values(answer) for answer in answers]
    if question.suffixes == ("",):
        return pa.array(columns[0])
    if question.suffixes[0] == "_0":
        found = np.stack(columns, axis=1)
        offsets = np.arange(len(found) + 1, dtype=np.int32) * found.shape[1]
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(found.reshape(-1)))
    ends = {end[1:]: own for end, own in zip(question.suffixes, columns, strict=True)}
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
    arrays = [pa.array(column, from_pandas=from_pandas) for column in columns.values()]
    return pa.StructArray.from_arrays(arrays, names=list(columns))


def _keep(rows: Column, delta: Column, epsilon: Column) -> Any:
    """Return whether each group's noisy number of rows reaches the threshold."""
    spent = constant(epsilon)
    least = least_rows(constant(delta), spent)
    exact = np.asarray(rows.to_numpy(), dtype=np.int64)
    return pa.array(np.asarray(add_to(exact, loss_of(spent).noise(1, 1)) >= least, dtype=bool))


_KEEP = Function("dfprivacy_keep", _keep, ("BIGINT", "DOUBLE", "DOUBLE"), "BOOLEAN", draws=True)


def finalizers() -> tuple[Function, ...]:
    """Return the functions that answer, one for each way to measure a statistic."""
    made = {_KEEP.name: _KEEP}
    for statistic in dict.fromkeys(functions().values()):
        for form in forms_of(statistic):
            made |= {own.name: own for own in _functions(form) if own.name not in made}
    return tuple(made.values())
