"""Add up the noisy vectors of cells: totals for ROLLUP, CUBE and GROUPING SETS.

The cells of all keys together carry the whole loss; a total is read off the sum of the noisy
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
from dfprivacy.noise.additive import NoisyVector, added_up
from dfprivacy.noise.laws import Summed
from dfprivacy.release.answers import NO_COUNT, Answers, Counted, Estimated, Piece, everyone

Set = tuple[int, ...]
"""The keys by which the rows of a grouping set are grouped, by their places."""


def totals(made: Answers, by: Set) -> Answers:
    """Return the answers about the groups of a grouping set: all keys, those added up are NULL."""
    cells = made.keys.take(pa.array(made.kept))
    keys, place = _groups(cells, by)
    answers = {
        name: tuple(_total(own, made.kept, place, keys.num_rows) for own in answers)
        for name, answers in made.answers.items()
    }
    groups = keys.num_rows
    return replace(
        made, keys=keys, answers=answers, counted=Counted(groups, ()), kept=everyone(groups)
    )


def _groups(cells: pa.Table, by: Set) -> tuple[pa.Table, Integers]:
    """Return the groups of some cells, sorted, and the number of the group of each cell."""
    codes = np.zeros((cells.num_rows, max(len(by), 1)), dtype=np.int64)
    for column, index in enumerate(by):
        codes[:, column] = _ranks(cells.column(index))
    first = place = np.zeros(0, dtype=np.int64)
    if cells.num_rows:
        _, first, place = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    rows = len(first) if by else 1  # a total of no cells is a total, too
    shown = pa.array(first, pa.int64())
    columns = [
        own.take(shown) if index in by else pa.nulls(rows, own.type)
        for index, own in enumerate(cells.columns)
    ]
    return pa.table(columns, names=cells.column_names), place.reshape(-1)


def _ranks(keys: pa.ChunkedArray) -> Integers:
    """Return the place of each key among the sorted different ones; NULL comes last."""
    whole = keys.combine_chunks()
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    coded = pc.dictionary_encode(whole)
    order = pc.sort_indices(coded.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, dtype=np.int64)
    ranks[order], ranks[-1] = np.arange(len(order)), len(order)
    return np.asarray(ranks[pc.fill_null(coded.indices, len(order)).to_numpy()])


def has_order(kind: pa.DataType) -> bool:
    """Tell a type of keys that can be sorted, so that totals can be made by them."""
    with suppress(pa.ArrowException):
        _ranks(pa.chunked_array([], kind))
        return True
    return False


def _total(answer: Any, kept: Integers, place: Integers, groups: int) -> Estimated:
    """Return an answer about groups of cells: a piece for each number of cells."""
    assert isinstance(answer, Estimated)  # noqa: S101 others are refused before they are measured
    (piece,) = answer.pieces
    cells = np.bincount(place, minlength=groups)
    sums = added_up(piece.vector.coordinates[:, kept], place, groups)
    pieces = []
    for many in np.unique(cells) if groups else [1]:
        own = np.flatnonzero(cells == many)
        one = piece.vector.noise
        noise = Summed(one, many * one.variance, int(many))
        pieces.append(Piece(own, piece.estimator, NoisyVector(sums[:, own], noise)))
    whole = piece.estimator.value(piece.vector).dtype.kind == "i"
    blank = NO_COUNT if whole else answer.blank
    return replace(answer, groups=groups, pieces=tuple(pieces), blank=blank)
