"""Private quantiles by group: selected from the integers of the grid by the ranks of the data.

One quantile costs one selection. Many share one loss in a recursion: the middle one splits the
rows of each group in two, and the halves go on in parallel. docs/quantiles.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.quantile_ranks import Cells, cells_of, inherit, select_rank
from dfprivacy.exact import quantile_fraction
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.selection import Selection

COUNT_SHARE = Fraction(1, 3)
"""What the counts of a layer cost, of the layer's loss: the selection pays the rest."""

INNER = Fraction(1, 4), Fraction(3, 4)
"""Quantiles between them are far from the ends in any group that can be ranked at all."""

_LARGEST_COUNT = 2**40

Node = tuple[int, int]


def select_quantile(
    table: BinTable,
    q: Fraction,
    loss: Epsilon | Rho,
    entropy: EntropySource = system_entropy,
) -> Integers:
    """Return a private quantile of each group, chosen among all bins of the grid.

    With q = a / b and n rows, bin c has loss max(0, b #{x < c} - a n, a n - b #{x <= c}). One row
    added or removed moves it by at most max(a, b - a): the choices together are epsilon-DP, or
    rho-zCDP, as the rows of a group are its own. Groups without rows choose uniformly.

    Beyond the outermost row lie all magnitudes there are, and a selection can't tell an end from
    what is `outer_rows` inside it: a target nearer to an end than that, for a q outside [1/4, 3/4],
    is moved so far inwards (with sensitivity b).

    Parameters
    ----------
    table : BinTable
        Rows by group and bin.
    q : Fraction
        From 0 to 1, as `quantile_fraction` returns it.
    loss : Epsilon or Rho
        What all groups together cost.
    entropy : callable
        Source of random bytes; the operating system, unless a test hands in its own.

    Returns
    -------
    numpy.ndarray
        int64, one a group: the number of a bin.

    Raises
    ------
    EntropyError
        When the random source fails. Nothing was chosen then.

    Notes
    -----
    The rank score of Smith 2011 with intervals of ranks for atoms, as in Dick, Kulesza, Sun and
    Suresh 2023, Algorithm 2, times b; selection as in docs/selection.md.
    """
    cells = cells_of(table)
    return _relative(cells, quantile_fraction(q), loss, entropy)


def select_quantiles(
    table: BinTable,
    qs: Sequence[Fraction],
    loss: Epsilon | Rho,
    entropy: EntropySource = system_entropy,
) -> Integers:
    """Return private quantiles of each group, all together at one loss.

    Kaplan, Schnapp and Stemmer 2022, Algorithm 1 (ApproximateQuantiles), but for the targets: the
    middle quantile is selected, the rows strictly below and strictly above it go on in parallel,
    and noisy counts beside the answers tell at which rank of the group each part begins, so that
    many equal values shift no target. The floor(log2 m) + 1 layers of m distinct levels share the
    loss equally. One row is in at most one part of a layer and moves losses and counts there by at
    most 1: all answers of all groups together are epsilon-DP, or rho-zCDP.

    Parameters
    ----------
    table : BinTable
        Rows by group and bin.
    qs : sequence of Fraction
        From 0 to 1, in any order; equal ones get one answer. One alone is `select_quantile`.
    loss : Epsilon or Rho
        What all levels and groups together cost.
    entropy : callable
        Source of random bytes; the operating system, unless a test hands in its own.

    Returns
    -------
    numpy.ndarray
        int64, of shape (levels, groups): numbers of bins, never falling while the level rises.

    Raises
    ------
    EntropyError
        When the random source fails. Nothing was chosen then.
    """
    wanted = [quantile_fraction(q) for q in qs]
    levels = sorted(set(wanted))
    answers = np.empty((len(levels), table.groups), np.int64)
    if levels:
        _recurse(cells_of(table), levels, loss, answers, entropy)
    return answers[[levels.index(q) for q in wanted]]


def rankable_rows(qs: Sequence[Fraction], loss: Epsilon | Rho, candidates: int) -> int:
    """Return how many rows a group needs, at least, for answers among its values.

    With fewer rows of one value, a candidate beyond them is chosen with a probability of more than
    about 1/10 (docs/quantiles.md).
    """
    layers = len(set(qs)).bit_length()
    if layers == 1:
        law, _ = relative_score(qs[0], np.zeros(1, np.int64), loss, candidates)
        a, b = qs[0].as_integer_ratio()
        if INNER[0] <= qs[0] <= INNER[1]:
            return far_rows(qs[0], outer_rows(law, max(a, b - a), candidates))
        return 2 * outer_rows(law, b, candidates)
    pay = loss.share(Fraction(1, layers)).share(1 - COUNT_SHARE)
    return 2 * outer_rows(pay.selection(2), 2, candidates)


def far_rows(q: Fraction, rows: int) -> int:
    """Return how many rows a group needs so that what lies beyond it is `rows` rows off.

    Where all rows hold one value, the nearer of both ends is min(q, 1 - q) of them away; rows that
    come or go on the other side count max(q, 1 - q).
    """
    return math.ceil(max(q, 1 - q) / min(q, 1 - q) * rows)


def tree_layers(levels: int) -> list[list[Node]]:
    """Return the layers of the tree: half-open ranges of levels, each split at its middle.

    >>> tree_layers(4)
    [[(0, 4)], [(0, 2), (3, 4)], [(0, 1)]]
    """
    layers = [[(0, levels)]]
    for _ in range(levels.bit_length() - 1):
        halves = [half for node in layers[-1] for half in _halves(node)]
        layers.append([(first, stop) for first, stop in halves if first < stop])
    return layers


def _middle(node: Node) -> int:
    return sum(node) // 2


def _halves(node: Node) -> tuple[Node, Node]:
    return (node[0], _middle(node)), (_middle(node) + 1, node[1])


def _children(nodes: list[Node]) -> Integers:
    """Return the columns of each node's halves in the next layer, -1 for an empty half."""
    halves = np.array([[first < stop for first, stop in _halves(node)] for node in nodes])
    return np.where(halves, np.cumsum(halves).reshape(halves.shape) - 1, -1).T.astype(np.int64)


def _recurse(
    cells: Cells,
    levels: list[Fraction],
    loss: Epsilon | Rho,
    answers: Integers,
    entropy: EntropySource,
) -> None:
    """Fill in the answers, layer by layer; each layer pays its share."""
    layers = tree_layers(len(levels))
    share = loss.share(Fraction(1, len(layers)))
    choice, count = share.share(1 - COUNT_SHARE), share.share(COUNT_SHARE)
    before = total = np.zeros(len(cells.low), np.int64)
    for depth, nodes in enumerate(layers):
        final = depth == len(layers) - 1
        pay = share if final else choice
        middles = [_middle(node) for node in nodes]
        if depth:
            law = pay.selection(2)
            outer = 2 * outer_rows(law, 2, 2 * cells.held.edge - 1)
            targets = _targets(total, [levels[m] for m in middles], outer) - 2 * before
            found = select_rank(cells, 2, targets, law, entropy)
        else:
            found = _relative(cells, levels[middles[0]], pay, entropy)
        answers[middles] = found.reshape(-1, len(nodes)).T
        if not final:
            upto, above = _noisy_counts(cells, found, count, entropy)
            total = total if depth else upto + above
            children = _children(nodes)
            cells = cells.split(found, children)
            before = inherit(before, before + upto, children)


def outer_rows(law: Selection, sensitivity: int, candidates: int) -> int:
    """Return (2 / epsilon) * log(10 candidates): a selection's rank is off by so many rows."""
    rows = 2 * Fraction(math.log(10 * candidates)) / law.epsilon(sensitivity)
    return min(int(rows), _LARGEST_COUNT)


def _relative(cells: Cells, q: Fraction, loss: Epsilon | Rho, entropy: EntropySource) -> Integers:
    """Select a level of the rows of each cell: their number is secret, and moves with a row."""
    law, targets = relative_score(q, cells.totals(), loss, 2 * cells.held.edge - 1)
    return select_rank(cells, q.denominator, targets, law, entropy)


def relative_score(
    q: Fraction, rows: Integers, loss: Epsilon | Rho, candidates: int
) -> tuple[Selection, Integers]:
    """Return the selection for a level of so many rows, and the targets, times b. Secret."""
    a, b = q.as_integer_ratio()
    inner = INNER[0] <= q <= INNER[1]
    sensitivity = max(a, b - a) if inner else b
    law = loss.selection(sensitivity)
    if inner:
        return law, a * rows
    return law, _inwards(a * rows, b * rows, b * outer_rows(law, sensitivity, candidates))


def _inwards(targets: Integers, total: Integers, outer: int) -> Integers:
    """Return targets at least `outer` from 0 and from the total, or from the nearer half of it."""
    return np.clip(targets, np.minimum(outer, total // 2), np.maximum(total - outer, total // 2))


def _targets(total: Integers, levels: list[Fraction], outer: int) -> Integers:
    """Return twice q * total of each group and level, as one array of cells, moved `_inwards`.

    Between two integers all targets fit the same candidates: the half between them stands for all.
    """
    above = np.array([q.numerator for q in levels], np.int64)
    below = np.array([q.denominator for q in levels], np.int64)
    known = np.maximum(total, 0)[:, None]
    ranks = known * above
    twice = np.asarray(ranks // below - -ranks // below, dtype=np.int64)
    return _inwards(twice, 2 * known, outer).reshape(-1)


def _noisy_counts(
    cells: Cells, answers: Integers, loss: Epsilon | Rho, entropy: EntropySource
) -> Integers:
    """Return noisy rows at or below the answers, and above: one row of data moves one by 1."""
    noisy = add_to(cells.counts(answers), loss.noise(1, 1), entropy)
    return np.asarray(np.clip(noisy, -_LARGEST_COUNT, _LARGEST_COUNT), dtype=np.int64)
