"""Select private quantiles by group from the integers of the grid, by the ranks of the data.

One quantile costs one selection. Many share one loss in a recursion: the middle one splits the
rows of each group in two, and the halves go on in parallel. A cell holds rows strictly between two
public ends, each an earlier answer or an end of the grid; at first a group is one cell, and every
answer splits its cell in two. docs/quantiles.md has the proofs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.exact import quantile_fraction
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.race import LARGEST_LOSS, Runs
from dfprivacy.noise.selection import Selection

FARTHEST = 64
"""Losses end at 64 / rate: 2**30 candidates there win with a probability below 1e-18."""

CHUNK = 2**17
"""Points a selection handles at once, unless one cell has more: bounds its memory."""


@dataclass(frozen=True, eq=False, repr=False)
class RankedRows:
    """The entries of a bin table with the rows before them. Secret.

    Parameters
    ----------
    edge : int
        One beyond the last bin of the grid. Public.
    bins : numpy.ndarray
        int64, one an entry, sorted by group and bin; then `edge`, so that it is never empty.
    before : numpy.ndarray
        int64: the rows of all entries before each, and of all entries at the end.
    keys : numpy.ndarray
        int64, one an entry, ascending: `key` of its group and bin.
    """

    edge: int
    bins: Integers
    before: Integers
    keys: Integers

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "RankedRows(secret)"


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """Cells of the rows of groups. Secret but for their ends.

    Parameters
    ----------
    held : RankedRows
        All rows.
    group, low, high : numpy.ndarray
        int64, one a cell: its group and its ends, low <= high. Public. An end of size `held.edge`
        is no candidate; any other is an earlier answer, and a candidate still.
    first, stop : numpy.ndarray
        int64, one a cell: the slice of its entries, with low < bin < high. Secret.
    """

    held: RankedRows
    group: Integers
    low: Integers
    high: Integers
    first: Integers
    stop: Integers

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "Cells(secret)"

    def totals(self) -> Integers:
        """Return the rows of each cell."""
        return self._rows(self.first, self.stop)

    def counts(self, answers: Integers) -> Integers:
        """Return rows at or below each cell's answer, and above: one row of data moves one by 1."""
        cut = self._cut(answers, "right")
        return np.stack([self._rows(self.first, cut), self._rows(cut, self.stop)])

    def split(self, answers: Integers, children: Integers) -> Cells:
        """Return the rows strictly below and above the answers as new cells; see `inherit`."""
        below = (self.group, self.low, answers, self.first, self._cut(answers, "left"))
        above = (self.group, answers, self.high, self._cut(answers, "right"), self.stop)
        sides = zip(below, above, strict=True)
        return Cells(self.held, *(inherit(*pair, children) for pair in sides))

    def part(self, cells: slice) -> Cells:
        """Return some of the cells."""
        columns = (self.group, self.low, self.high, self.first, self.stop)
        return Cells(self.held, *(column[cells] for column in columns))

    def _rows(self, first: Integers, stop: Integers) -> Integers:
        return np.asarray(self.held.before[stop] - self.held.before[first], dtype=np.int64)

    def _cut(self, answers: Integers, side: str) -> Integers:
        """Return the first entry at or above ("left"), or above ("right"), each answer."""
        keys = key(self.group, answers, self.held.edge)
        found = np.searchsorted(self.held.keys, keys, side=side)  # type: ignore[call-overload]
        return np.asarray(np.clip(found, self.first, self.stop), dtype=np.int64)


def key(group: Integers, bins: Integers, edge: int) -> Integers:
    """Return one integer for a group and a bin, in their order."""
    return np.asarray(group * (2 * edge + 1) + (bins + edge), dtype=np.int64)


def cells_of(table: BinTable) -> Cells:
    """Return the groups of a table, one cell each, between the ends of the grid."""
    edge = table.binning.last + 1
    before = np.concatenate([[0], np.cumsum(table.rows)]).astype(np.int64)
    held = RankedRows(edge, np.append(table.bins, edge), before, key(table.group, table.bins, edge))
    ends, starts = np.full(table.groups, edge, np.int64), table.starts()
    group = np.arange(table.groups, dtype=np.int64)
    return Cells(held, group, -ends, ends, starts[:-1], starts[1:])


def inherit(below: Integers, above: Integers, children: Integers) -> Integers:
    """Return what each new cell has from the old one: `below` or `above`, by its side.

    Cells are ordered by group, then by the node of the tree they belong to. `children` holds, for
    every node (columns), its halves below and above (rows) as nodes of the next layer, or -1.
    """
    nodes, wanted = children.shape[1], int(children.max()) + 1
    new = np.empty((len(below) // nodes, wanted), np.int64)
    for side, values in enumerate((below, above)):
        kept = np.flatnonzero(children[side] >= 0)
        new[:, children[side, kept]] = values.reshape(-1, nodes)[:, kept]
    return new.reshape(-1)


def select_rank(
    cells: Cells, scale: int, targets: Integers, law: Selection, entropy: EntropySource
) -> Integers:
    """Return a candidate of each cell, selected by the losses of `rank_runs`."""
    cap = largest_loss(law)
    near = cells_near(cells, scale, targets, cap)
    answers = np.empty(len(cells.low), np.int64)
    for chunk in _chunks(near[1] - near[0]):
        runs = rank_runs(cells.part(chunk), scale, targets[chunk], cap)
        answers[chunk] = law.select(runs, entropy)
    return answers


def largest_loss(law: Selection) -> int:
    """Return where losses end. Public; the lesser of a loss and a constant moves no more."""
    return min(LARGEST_LOSS - 1, -(-FARTHEST // law.rate))


def rank_runs(cells: Cells, scale: int, targets: Integers, cap: int) -> Runs:
    """Return the candidates of cells with their losses: how far a target is from scale * ranks.

    A candidate c between the ends has max(0, scale #{x < c} - target, target - scale #{x <= c}),
    at most `cap`, counting rows of its cell. At an answer below, #{x < c} is minus infinity,
    as the rows there are not the cell's; at an answer above, #{x <= c} is infinity.
    """
    values, below, upto, starts = _points(cells, *cells_near(cells, scale, targets, cap))
    tails = np.append(starts[1:], len(values)) - 1
    aims = np.repeat(targets, tails + 1 - starts)
    loss = np.empty((len(values), 2), np.int64)  # of each point, and of the gap behind it
    np.maximum(scale * below - aims, aims - scale * upto, out=loss[:, 0])
    np.abs(scale * upto - aims, out=loss[:, 1])
    loss[starts, 0] = targets
    loss[tails, 0] = scale * cells.totals() - targets
    return _runs(cells, values, starts, tails, np.clip(loss, 0, cap))


def cells_near(cells: Cells, scale: int, targets: Integers, cap: int) -> tuple[Integers, Integers]:
    """Return the slice of each cell's entries whose losses are below `cap`; all others are at it.

    Entry i has a loss below it if scale #{x <= i} > target - cap and scale #{x < i} < target + cap.
    """
    base, before = cells.held.before[cells.first], cells.held.before
    least = base + (targets - cap) // scale + 1
    most = base - (-targets - cap) // scale
    first = np.searchsorted(before, least) - 1
    stop = np.searchsorted(before, most)
    return np.clip(first, cells.first, cells.stop), np.clip(stop, cells.first, cells.stop)


def _points(
    cells: Cells, first: Integers, stop: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return low end, entries and high end of each cell; rows below and up to them; starts."""
    sizes = stop - first + 2
    starts = np.cumsum(sizes) - sizes
    entry = np.arange(sizes.sum()) + np.repeat(first - starts - 1, sizes)
    values = cells.held.bins.take(entry, mode="clip")
    tails = starts + sizes - 1
    values[starts], values[tails] = cells.low, cells.high
    before, base = cells.held.before, np.repeat(cells.held.before[cells.first], sizes)
    below, upto = before.take(entry, mode="clip") - base, before.take(entry + 1, mode="clip") - base
    upto[tails] = below[tails]
    return values, below, upto, starts


def _runs(
    cells: Cells, values: Integers, starts: Integers, tails: Integers, loss: Integers
) -> Runs:
    """Return each point, and each gap behind it, that has candidates."""
    edge = cells.held.edge
    length = np.ones_like(loss)
    length[:-1, 1] = values[1:] - values[:-1] - 1
    length[tails, 1] = 0
    length[starts, 0] = cells.low > -edge
    length[tails, 0] = (cells.high < edge) & (cells.high > cells.low)
    kept = np.flatnonzero(length > 0)
    first = np.stack([values, values + 1], axis=1)
    heads = np.searchsorted(kept, 2 * starts).astype(np.int64)
    return Runs(heads, first.reshape(-1)[kept], length.reshape(-1)[kept], loss.reshape(-1)[kept])


def _chunks(sizes: Integers) -> Iterator[slice]:
    points = np.cumsum(sizes + 2)
    total = int(points[-1]) if len(points) else 0
    cuts = np.unique(np.searchsorted(points, np.arange(0, total, CHUNK), side="right")).tolist()
    for low, high in itertools.pairwise([*cuts, len(sizes)]):
        yield slice(low, high)


COUNT_SHARE = Fraction(1, 3)
"""What the counts of a layer cost, of the layer's loss: the selection pays the rest."""

INNER = Fraction(1, 4), Fraction(3, 4)
"""Quantiles between them are far from the ends in any group that can be ranked at all."""

_LARGEST_COUNT = 2**40

Node = tuple[int, int]


def select_quantiles(
    table: BinTable,
    qs: Sequence[Fraction],
    loss: Epsilon | Rho,
    entropy: EntropySource = system_entropy,
) -> Integers:
    """Return private quantiles of each group, chosen among all bins of the grid, at one loss.

    One level, q = a / b, of n rows: bin c has loss max(0, b #{x < c} - a n, a n - b #{x <= c}), the
    rank score of Smith 2011 with intervals of ranks for atoms (Dick, Kulesza, Sun and Suresh 2023,
    Algorithm 2), times b. One row added or removed moves it by at most max(a, b - a): the choices
    together are epsilon-DP, or rho-zCDP, as the rows of a group are its own. Groups without rows
    choose uniformly. Beyond the outermost row lie all magnitudes there are, and a selection can't
    tell an end from what is `outer_rows` inside it: a target nearer to an end than that, for a q
    outside [1/4, 3/4], is moved so far inwards (with sensitivity b).

    Several levels: Kaplan, Schnapp and Stemmer 2022, Algorithm 1 (ApproximateQuantiles), but for
    the targets: the middle quantile is selected, the rows strictly below and strictly above it go
    on in parallel, and noisy counts beside the answers tell at which rank of the group each part
    begins, so that many equal values shift no target. The floor(log2 m) + 1 layers of m distinct
    levels share the loss equally. One row is in at most one part of a layer and moves losses and
    counts there by at most 1: all answers of all groups together are epsilon-DP, or rho-zCDP.

    Parameters
    ----------
    table : BinTable
        Rows by group and bin.
    qs : sequence of Fraction
        From 0 to 1, in any order; equal ones get one answer.
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
