"""What DuckDB calls at the end of a list of values: tables of bins, then noisy answers.

Sums and means without bounds, bounds themselves, quantiles: each vectorised over an Arrow chunk
with one list a group. No group takes anything from another, because nothing in SQL says which
groups may be shown. Two calls draw twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.answers import Estimated
from dfprivacy.estimators.octave_bounds import find_bounds
from dfprivacy.measurement.binning import Floats
from dfprivacy.statistics.octaves import MeasuredOctaves
from dfprivacy.statistics.quantile import MeasuredRanks, QuantilePart, value_grid
from dfprivacy.terms import interval_level
from sql_udfs.finalize import answer_pair, constant, constants, finalizer, struct_of
from sql_udfs.function import Column, Function
from sql_udfs.lists import octave_table, value_table
from sql_udfs.settings import MOMENTS, loss_of, octave_part, quantiles_of

VALUES = "DOUBLE[]"
"""The values of a group, NULL and NaN among them; NULL for a group without rows."""


def list_finalizer(macro: str) -> str:
    """Name the function that answers a macro without bounds from a list of values."""
    return f"{finalizer(macro)}_of_list"


def octave_answer(function: str, lists: Column, loss: Epsilon) -> Estimated:
    """Return the answer of each list to a function without bounds, each by itself.

    Parameters
    ----------
    function : str
        One of `MOMENTS`.
    lists : column
        One list of values a group.
    loss : Epsilon
        What all groups together cost, if each row is in one of them.

    Raises
    ------
    TooManyRowsError
        When an octave of a group reaches the public limit of rows.
    """
    part, moments = octave_part(function)
    answered = MeasuredOctaves(part, octave_table(lists, moments)).answer_apart(loss)
    (answer,) = answered.answers[function]
    assert isinstance(answer, Estimated)  # noqa: S101 moments are estimated
    return answer


def _moment(function: str) -> tuple[Function, Function]:
    """Return the finalizers of a function without bounds: values, epsilon (, level)."""

    def value(lists: Column, epsilon: Column) -> Any:
        answer = octave_answer(function, lists, loss_of(constant(epsilon)))
        values = np.full(answer.groups, np.nan)
        for piece in answer.pieces:
            values[piece.groups] = piece.estimator.value(piece.vector)
        return pa.array(values)

    def interval(lists: Column, epsilon: Column, level: Column) -> Any:
        answer = octave_answer(function, lists, loss_of(constant(epsilon)))
        return struct_of(answer.columns(interval_level(constant(level))))

    name = list_finalizer(function)
    return answer_pair(
        (name, list_finalizer(f"{function}_interval")),
        (value, interval),
        (VALUES, "DOUBLE"),
        "DOUBLE",
    )


def quantile_values(lists: Column, levels: Sequence[float], loss: Epsilon) -> Floats:
    """Return quantiles of each list: one row a group, one column a level, in the order given."""
    part = QuantilePart("x", quantiles_of(levels), grouped=False)
    table = value_table(lists, value_grid(coarse=False))
    answered = MeasuredRanks(part, table).answer(loss, None)
    return np.stack([answer.columns(0.5)[0] for answer in answered.answers["x"]], axis=1)


def _quantile(lists: Column, level: Column, epsilon: Column) -> Any:
    found = quantile_values(lists, [constant(level)], loss_of(constant(epsilon)))
    return pa.array(found[:, 0])


def _quantiles(lists: Column, levels: Column, epsilon: Column) -> Any:
    found = quantile_values(lists, constants(levels), loss_of(constant(epsilon)))
    offsets = np.arange(len(found) + 1, dtype=np.int32) * found.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(found.reshape(-1)))


def _bounds(lists: Column, epsilon: Column) -> Any:
    """Return the bounds of each list; both ends are NULL where too few rows stand out."""
    found = find_bounds(octave_table(lists, 0), loss_of(constant(epsilon)).pure())
    ends = [pa.array(end, from_pandas=True) for end in (found.lower, found.upper)]
    return pa.StructArray.from_arrays(ends, names=["lower", "upper"])


_RANKS = (
    Function(
        list_finalizer("dp_quantile"), _quantile, (VALUES, *("DOUBLE",) * 2), "DOUBLE", draws=True
    ),
    Function(
        list_finalizer("dp_quantiles"),
        _quantiles,
        (VALUES, "DOUBLE[]", "DOUBLE"),
        "DOUBLE[]",
        draws=True,
    ),
    Function(
        list_finalizer("dp_bounds"),
        _bounds,
        (VALUES, "DOUBLE"),
        "STRUCT(lower DOUBLE, upper DOUBLE)",
        draws=True,
    ),
)

LIST_FINALIZERS = (*_RANKS, *(made for function in MOMENTS for made in _moment(function)))
"""The functions that answer from lists of values."""
