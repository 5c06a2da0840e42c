"""Run the passes of a mean of vectors: one reading of the source serves all groups at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.keys import align
from dfprivacy.engine.progress import watched
from dfprivacy.estimators.clipped_mean import ClippedMean, NoisyMean, Passes, ShiftedMean
from dfprivacy.estimators.plan import PlanItems, PlanMean
from dfprivacy.estimators.private_quantiles import CHOOSERS, RELATIONS, Mechanics, NoisyRows
from dfprivacy.exact import decimal_number
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.linear import ROWS
from dfprivacy.measurement.sums import Statistics, key_name, merge, sum_name
from dfprivacy.measurement.vector_grid import VectorGrid, vector_grid
from dfprivacy.measurement.vector_tables import VectorTable
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.vectors.question import MeanVector
from dfprivacy.vectors.source import VectorSource, by_group, prepared

Integers = npt.NDArray[np.int64]
Labelled = Callable[[pa.Table], Integers]
"""The number of each row's group; -1 for rows of no group."""


def estimator(
    question: MeanVector, dimension: int, rho: Fraction, entropy: EntropySource = system_entropy
) -> Callable[[NoisyRows | None], Passes]:
    """Return the passes of the question's method, as a function of the number of rows if known."""
    mechanics = Mechanics(RELATIONS[question.neighbours], CHOOSERS["search"], entropy)
    p = decimal_number(question.p)
    assert p is not None  # noqa: S101 checked with the question
    if question.binary:
        scaled = question.chosen_method == "plan"
        return PlanItems(dimension, rho, mechanics, p if scaled else None).passes
    grid = grid_of(question, dimension)
    if question.chosen_method == "plan":
        return PlanMean(grid, rho, mechanics, p, question.deviations).passes
    method = ClippedMean if question.chosen_method == "clipped" else ShiftedMean
    return method(grid, rho, mechanics).passes


def grid_of(question: MeanVector, dimension: int) -> VectorGrid:
    """Return the grid of the question's vectors."""
    assert question.radius is not None  # noqa: S101 checked with the question
    return vector_grid(dimension, float(question.radius))


def run_estimators(
    source: VectorSource,
    question: MeanVector,
    estimators: Mapping[int, Passes],
    labelled: Labelled | None = None,
) -> dict[int, NoisyMean]:
    """Run estimators side by side, one a group: a pass of the source fills a table of each.

    Without labels all rows belong to the only estimator, number 0.
    """
    means: dict[int, NoisyMean] = {}
    tables = _advanced(estimators, list(estimators), means)
    while tables:
        with watched():
            _fill(source, question, tables, labelled)
        tables = _advanced(estimators, list(tables), means)
    return means


def _advanced(
    estimators: Mapping[int, Passes], numbers: list[int], means: dict[int, NoisyMean]
) -> dict[int, VectorTable]:
    """Let estimators go on to their next table; keep the means of those that are done."""
    tables: dict[int, VectorTable] = {}
    for number in numbers:
        try:
            tables[number] = next(estimators[number])
        except StopIteration as done:
            means[number] = done.value
    return tables


def _fill(
    source: VectorSource,
    question: MeanVector,
    tables: Mapping[int, VectorTable],
    labelled: Labelled | None,
) -> None:
    keeps = RELATIONS[question.neighbours].keeps_incomplete
    buffers, grid = Buffers(), None if question.binary else grid_of(question, source.dimension)
    for block in source.read():
        ready = prepared(block, grid, buffers, keeps_incomplete=keeps)
        if labelled is None:
            tables[0].add(ready.rows, buffers)
            continue
        for number, rows in by_group(ready.rows, ready.labels(labelled(block.keys))):
            if number in tables:
                tables[number].add(rows, buffers)


_MERGED = 64


def group_rows(
    source: VectorSource, question: MeanVector, columns: int, *, public: bool
) -> Statistics:
    """Return the number of whole vectors of each group, sorted by key. Secret.

    With public keys exactly these are the groups, whatever the rows are.
    """
    names = [key_name(index) for index in range(columns)]
    parts: list[Statistics] = []
    grid = None if question.binary else grid_of(question, source.dimension)
    buffers = Buffers()
    for block in source.read():
        ready = prepared(block, grid, buffers, keeps_incomplete=False)
        parts.append(_counted(block.keys, ready.kept, names))
        if len(parts) == _MERGED:
            parts = [merge(parts)]
    parts = parts or [_counted(source.keys.empty_table(), None, names)]
    together = merge(parts).checked()
    return align(together, source.listed) if public else together


def _counted(keys: pa.Table, kept: npt.NDArray[np.bool_] | None, names: list[str]) -> Statistics:
    rows = keys if kept is None else keys.filter(pa.array(kept))
    ones = rows.append_column(sum_name(0), pa.array(np.ones(rows.num_rows, np.int64)))
    counted = ones.group_by(names).aggregate([(sum_name(0), "sum")])
    return Statistics(counted.rename_columns([*names, sum_name(0)]), len(names), (ROWS.source,))


def labels_among(keys: pa.Table) -> Labelled:
    """Return a function that finds the group of each row: its place in `keys`, or -1.

    Keys are numbered column by column, and numbers stay below those of `keys` times a column's.
    """
    numbering, codes = [], np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        values = pc.unique(column)
        found, codes = np.unique(_joined(codes, column, values), return_inverse=True)
        numbering.append((values, found))
    place = np.full(keys.num_rows, -1, np.int64)
    place[codes] = np.arange(keys.num_rows)

    def labelled(rows: pa.Table) -> Integers:
        own = np.zeros(rows.num_rows, np.int64)
        for column, (values, found) in zip(rows.columns, numbering, strict=True):
            own = _rank(_joined(own, column, values), found)
        return np.where(own >= 0, place[own], -1) if len(place) else own

    return labelled


def _joined(codes: Integers, column: pa.ChunkedArray, values: pa.Array) -> Integers:
    """Return a number for each code and value together; -1 where one of them is not known."""
    index = pc.index_in(column, value_set=values).fill_null(-1).to_numpy().astype(np.int64)
    return np.where((codes < 0) | (index < 0), -1, codes * len(values) + index)


def _rank(codes: Integers, found: Integers) -> Integers:
    """Return the place of each code among those found, ascending; -1 for others."""
    if not len(found):
        return np.full(len(codes), -1, np.int64)
    place = np.minimum(np.searchsorted(found, codes), len(found) - 1)
    return np.where(found[place] == codes, place, -1)
