"""Passes of estimators over a source of vectors: one reading serves all groups at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.engine.progress import watched
from dfprivacy.engine.vector_rows import by_group, prepared
from dfprivacy.engine.vector_source import VectorSource
from dfprivacy.estimators.clipped_mean import ClippedMean, NoisyMean, Passes, ShiftedMean
from dfprivacy.estimators.plan import PlanItems, PlanMean
from dfprivacy.estimators.private_quantiles import CHOOSERS, RELATIONS, Mechanics, NoisyRows
from dfprivacy.exact import decimal_number
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.vector_grid import VectorGrid, vector_grid
from dfprivacy.measurement.vector_tables import VectorTable
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.vector_question import MeanVector

Labels = npt.NDArray[np.int64]
Labelled = Callable[[pa.Table], Labels]
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
