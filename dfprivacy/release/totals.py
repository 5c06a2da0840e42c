"""Add up the noisy vectors of cells: totals for ROLLUP, CUBE and GROUPING SETS.

The cells of all keys together carry the whole loss. A total is read off the sum of the noisy
vectors of the cells that are shown, so that it agrees with them and costs nothing. Its noise is the
sum of as many draws as it has cells.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.runs import list_distinct
from dfprivacy.noise.additive import NoisyVector, add_up_columns
from dfprivacy.noise.laws import Summed
from dfprivacy.release.answers import (
    NO_COUNT,
    Answers,
    Counted,
    Estimated,
    Piece,
    join_notes,
)

Set = tuple[int, ...]
"""The keys by which the rows of a grouping set are grouped, by their places."""


def totals(answers: Answers, by: Set) -> Answers:
    """Return the answers about the groups of a grouping set: all keys, those added up are NULL."""
    keys, group_of_cell = _groups(answers.keys, by)
    groups = keys.num_rows
    totals_by_name = {
        name: tuple(_total(answer, group_of_cell, groups) for answer in parts)
        for name, parts in answers.answers.items()
    }
    counted = Counted(groups, ())
    return replace(
        answers, keys=keys, answers=totals_by_name, counted=counted, groups_shown=np.arange(groups)
    )


def _groups(cells: pa.Table, by: Set) -> tuple[pa.Table, Integers]:
    """Return the groups of some cells, sorted, and the number of the group of each cell."""
    codes = np.zeros((cells.num_rows, max(len(by), 1)), dtype=np.int64)
    for column, index in enumerate(by):
        codes[:, column] = _ranks(cells.column(index))
    first = group_of_cell = np.zeros(0, dtype=np.int64)
    if cells.num_rows:
        _, first, group_of_cell = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    rows = len(first) if by else 1  # a total of no cells is a total, too
    shown = pa.array(first, pa.int64())
    columns = [
        column.take(shown) if index in by else pa.nulls(rows, column.type)
        for index, column in enumerate(cells.columns)
    ]
    return pa.table(columns, names=cells.column_names), group_of_cell.reshape(-1)


def _ranks(keys: pa.ChunkedArray) -> Integers:
    """Return the place of each key among the sorted different ones. NULL comes last."""
    values = keys.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    coded = pc.dictionary_encode(values)
    order = pc.sort_indices(coded.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, dtype=np.int64)
    ranks[order], ranks[-1] = np.arange(len(order)), len(order)
    return np.asarray(ranks[pc.fill_null(coded.indices, len(order)).to_numpy()])


def has_order(kind: pa.DataType) -> bool:
    """Check that keys of a type can be sorted, which totals by them need."""
    with suppress(pa.ArrowException):
        _ranks(pa.chunked_array([], kind))
        return True
    return False


def _total(answer: Any, group_of_cell: Integers, groups: int) -> Estimated:
    """Return an answer about groups of cells, with the notes of these: a piece a size."""
    assert isinstance(answer, Estimated)  # noqa: S101 others are refused before they are measured
    (piece,), shown = answer.pieces, answer.shown
    assert shown is not None  # noqa: S101 they have been selected
    cells = np.bincount(group_of_cell, minlength=groups)
    indices = np.searchsorted(piece.groups, shown)
    cell_vector = piece.vector.of_groups(indices)
    texts: list[dict[str, None]] = [{} for _ in range(groups)]
    cell_notes = [] if piece.notes is None else [piece.notes[index] or "" for index in indices]
    for note, group in zip(cell_notes, group_of_cell, strict=False):
        texts[group] |= dict.fromkeys(note.split("; "))
    notes = [join_notes(parts) for parts in texts]
    sums = add_up_columns(cell_vector.coordinates, group_of_cell, groups)
    pieces = []
    for many in list_distinct(cells) if groups else [1]:
        members = np.flatnonzero(cells == many)
        cell_noise = piece.vector.noise
        noise = Summed(cell_noise, many * cell_noise.variance, int(many))
        vector, members_notes = NoisyVector(sums[:, members], noise), [notes[i] for i in members]
        pieces.append(Piece(members, piece.estimator, vector, members_notes))
    is_count = piece.estimator.value(piece.vector).dtype.kind == "i"
    blank = NO_COUNT if is_count else answer.blank
    return replace(answer, groups=groups, pieces=tuple(pieces), blank=blank, shown=None)
