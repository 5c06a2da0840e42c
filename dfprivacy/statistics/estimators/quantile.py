"""Select private quantiles by group from the integers of a grid, by the ranks of the data.

Each level is one selection, about a noisy number of rows; several are sorted. For an interval, ends
are selected at public distances in rank, then counted: an end that the noisy count does not show to
be on its side is infinite, or a bound where there are some. docs/explanation/quantiles.md has the
proofs.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, Magnitudes, Steps, codes_of
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import compute_heights
from dfprivacy.noise.laws import Noise, reach_of
from dfprivacy.noise.race import LARGEST_LOSS, Runs
from dfprivacy.noise.selection import PermuteAndFlip, Selection
from dfprivacy.release.estimator import to_floats

FARTHEST = 64
"""Losses end at 64 / rate: 2**30 candidates there win with a probability below 1e-18."""

CHUNK = 2**17
"""Points a selection handles at once, unless one group has more: bounds its memory."""

OUTSIDE = 0.01
"""Answers of a group are beyond all its rows, or further off than the rule allows, this rarely."""

_LARGEST_COUNT = 2**40

_ODDS = 0.5 ** (np.arange(33) / 2)
"""The size of noise exceeds the edge of each of these strata so rarely."""


@dataclass(frozen=True, eq=False, repr=False)
class RankedRows:
    """The entries of a bin table with the rows before them. Secret.

    Group i has the entries `first[i]` to `stop[i]`. `edges` are one below the first bin of the grid
    and one beyond its last, with which `bins` ends; `before` has the rows of all entries before
    each, and of all at the end.
    """

    edges: tuple[int, int]
    bins: Integers
    before: Integers
    first: Integers
    stop: Integers

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "RankedRows(secret)"

    def totals(self) -> Integers:
        """Return the rows of each group."""
        return np.asarray(self.before[self.stop] - self.before[self.first], dtype=np.int64)

    def part(self, groups: slice) -> RankedRows:
        """Return some of the groups."""
        return RankedRows(self.edges, self.bins, self.before, self.first[groups], self.stop[groups])


def ranked_rows(table: BinTable) -> RankedRows:
    """Return the rows of a table by their ranks."""
    grid, starts = table.binning, table.starts
    ends = (grid.first, grid.most) if isinstance(grid, Steps) else (-grid.last, grid.last)
    edges = ends[0] - 1, ends[1] + 1
    before = np.concatenate([[0], np.cumsum(table.rows)]).astype(np.int64)
    return RankedRows(edges, np.append(table.bins, edges[1]), before, starts[:-1], starts[1:])


def select_rank(
    ranked: RankedRows, targets: Integers, law: Selection, entropy: EntropySource
) -> Integers:
    """Return a bin for each group, selected by the losses of `rank_runs`."""
    cap = largest_loss(law)
    slices = entries_near(ranked, targets, cap)
    answers = np.empty(len(ranked.first), np.int64)
    for chunk in _chunks(slices[1] - slices[0]):
        runs = rank_runs(ranked.part(chunk), targets[chunk], cap)
        answers[chunk] = law.select(runs, entropy)
    return answers


def largest_loss(law: Selection) -> int:
    """Return where losses end. Public; the lesser of a loss and a constant moves no more."""
    return min(LARGEST_LOSS - 1, -(-FARTHEST // law.rate))


def rank_runs(ranked: RankedRows, targets: Integers, cap: int) -> Runs:
    """Return each group's bins; losses are max(0, 2 #{x<c} - target, target - 2 #{x<=c})."""
    values, below, upto, starts = points(ranked, *entries_near(ranked, targets, cap))
    tails = np.append(starts, len(values))[1:] - 1
    aims = np.repeat(targets, tails + 1 - starts)
    loss = np.empty((len(values), 2), np.int64)  # of each point, and of the gap behind it
    np.maximum(2 * below - aims, aims - 2 * upto, out=loss[:, 0])
    np.abs(2 * upto - aims, out=loss[:, 1])
    return build_runs(values, starts, tails, np.clip(loss, 0, cap))


def entries_near(ranked: RankedRows, targets: Integers, cap: int) -> tuple[Integers, Integers]:
    """Return the slice of each group's entries with losses below `cap`; others are at it."""
    base, before = ranked.before[ranked.first], ranked.before
    lower_rank = base + (targets - cap) // 2 + 1
    upper_rank = base - (-targets - cap) // 2
    first = np.searchsorted(before, lower_rank) - 1
    stop = np.searchsorted(before, upper_rank)
    return np.clip(first, ranked.first, ranked.stop), np.clip(stop, ranked.first, ranked.stop)


def points(
    ranked: RankedRows, first: Integers, stop: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return lower edge, entries and upper edge of each group; rows below, up to them; starts."""
    sizes = stop - first + 2
    starts = np.cumsum(sizes) - sizes
    entry = np.arange(sizes.sum()) + np.repeat(first - starts - 1, sizes)
    values = ranked.bins.take(entry, mode="clip")
    tails = starts + sizes - 1
    values[starts], values[tails] = ranked.edges
    before, base = ranked.before, np.repeat(ranked.before[ranked.first], sizes)
    below, upto = before.take(entry, mode="clip") - base, before.take(entry + 1, mode="clip") - base
    upto[tails] = below[tails]
    return values, below, upto, starts


def build_runs(values: Integers, starts: Integers, tails: Integers, loss: Integers) -> Runs:
    """Return each point but the edges, and each gap behind a point, that has candidates."""
    length = np.ones_like(loss)
    length[:-1, 1] = values[1:] - values[:-1] - 1
    length[tails] = length[starts, 0] = 0
    nonempty = np.flatnonzero(length > 0)
    first = np.stack([values, values + 1], axis=1)
    heads = np.searchsorted(nonempty, 2 * starts).astype(np.int64)
    return Runs(
        heads, first.reshape(-1)[nonempty], length.reshape(-1)[nonempty], loss.reshape(-1)[nonempty]
    )


def _chunks(sizes: Integers) -> Iterator[slice]:
    points = np.cumsum(sizes + 2)
    total = int(points[-1]) if len(points) else 0
    cuts = np.unique(np.searchsorted(points, np.arange(0, total, CHUNK), side="right")).tolist()
    for low, high in itertools.pairwise([*cuts, len(sizes)]):
        yield slice(low, high)


@dataclass(frozen=True)
class RankLaw:
    """How `levels` quantiles are selected from `candidates`, about a count with `noise`. Public.

    `loss` is what one level pays. Answers may be off by `allowed` + n / 20 + 1/2 ranks.
    """

    loss: Epsilon | Rho
    noise: Noise
    candidates: int
    levels: int
    allowed: float

    @cached_property
    def selection(self) -> Selection:
        """The selection of one level: a row moves its losses by at most 1."""
        return self.loss.selection(1)

    @cached_property
    def rate(self) -> float:
        """The rate of the selection for a rank; losses are twice the ranks."""
        return 2 * float(self.selection.rate)

    @cached_property
    def inwards(self) -> int:
        """How far from an end of the rows a target must be, the count's noise included."""

        def is_enough(rows: int) -> bool:
            return self._risk(lambda off: rows - np.maximum(off, 0) / 2) <= OUTSIDE / 2

        return _first(is_enough)

    def aims(self, q: Fraction, rows: Integers) -> Integers:
        """Return twice the rank that is aimed at: q of so many rows, moved `inwards`."""
        ranks = rows * q.numerator
        twice = ranks // q.denominator - -ranks // q.denominator
        ends = np.minimum(2 * self.inwards, rows)
        return np.asarray(np.clip(twice, ends, 2 * rows - ends), dtype=np.int64)

    def least(self, q: Fraction) -> int:
        """Return the least noisy count for which an answer is shown, whatever the rows are.

        From there on an answer is beyond all n rows of its group, or its rank more than
        allowed + n / 20 + 1/2 from q n, with a probability of at most `OUTSIDE`.
        """
        if q not in self._known:
            self._known[q] = _first(lambda rows: self._is_sound(rows, q))
        return self._known[q]

    @cached_property
    def _known(self) -> dict[Fraction, int]:
        return {}

    @cached_property
    def _edges(self) -> Floats:
        """How large the noise of the count is at the edges of its strata."""
        return np.array([self.noise.quantile(odds) for odds in _ODDS[1:]], dtype=np.float64)

    def _is_sound(self, rows: int, q: Fraction) -> bool:
        aim = float(self.aims(q, np.array([rows]))[0]) / 2
        moved = abs(aim - float(q) * rows)
        inside = min(aim, rows - aim)
        spare = self.allowed + 0.05 * rows + 0.5 - moved
        leans = abs(float(q) - 0.5) + 0.05
        slack = lambda off: np.minimum(inside - np.maximum(off, 0) / 2, spare - leans * np.abs(off))  # noqa: E731
        return self._risk(slack) <= OUTSIDE

    def _risk(self, slack: Callable[[Floats], Floats]) -> float:
        """Bound the probability that one of the levels is at least `slack` ranks off its target.

        `slack` falls with the size of the noise. In each stratum of the noise it is taken at the
        edge. All candidates may be that far off but one, which permute-and-flip has before each of
        them with probability 1/2.
        """
        edges = self._edges
        ahead = self.candidates / (2 if isinstance(self.selection, PermuteAndFlip) else 1)
        exponents = math.log(ahead) - self.rate * slack(np.stack([edges, -edges]))
        failed = np.exp(np.minimum(exponents, 0)).mean(axis=0)
        return self.levels * float(failed @ -np.diff(_ODDS) + _ODDS[-1])


def _first(is_enough: Callable[[int], bool]) -> int:
    """Return the least positive integer that is enough, as all above it are."""
    high = 1
    while not is_enough(high) and high < _LARGEST_COUNT:
        high *= 2
    return bisect_left(range(high), True, high // 2 + 1, key=is_enough)  # noqa: FBT003 looked for


STANDS = 12.0
"""How tall an octave of all groups together must be: noise alone lifts one in 1,000 releases."""

BEYOND, COARSE = 8, 8
"""Octaves on either side of those that stand out that have candidates, and their bits."""


def find_magnitudes(
    table: BinTable,
    noise: Noise,
    entropy: EntropySource = system_entropy,
    *,
    integers: bool = False,
) -> Magnitudes | None:
    """Return the part of a grid where all groups together show values; None where they show none.

    Sizes of values are counted in octaves, whatever their sign, all groups as one: each row moves
    one count by 1 at most, which `noise` is for. What is read off noisy counts costs no more. Where
    values are known to be `integers`, others are left out.
    """
    grid = table.binning
    assert isinstance(grid, SignificantBits)  # noqa: S101 ranks are of values
    bins_per_octave = 1 << (grid.bits - 1)
    counts = np.zeros(-(-grid.last // bins_per_octave), np.int64)
    nonzero = np.flatnonzero(table.bins)
    np.add.at(counts, (np.abs(table.bins[nonzero]) - 1) // bins_per_octave, table.rows[nonzero])
    noisy = add_to(counts, noise, entropy).astype(np.float64)
    first_octave = int(grid.numbers(np.ones(1))[0]) // bins_per_octave if integers else 0
    seen = (
        np.flatnonzero(compute_heights(noisy, noise)[first_octave:] >= STANDS) + first_octave
    ).tolist()
    if not seen:
        return None
    first, low = (max(seen[0] - octaves, 0) * bins_per_octave + 1 for octaves in (BEYOND, 0))
    high, stop = (
        min((seen[-1] + 1 + octaves) * bins_per_octave + 1, grid.last) for octaves in (0, BEYOND)
    )
    step = max(bins_per_octave >> (COARSE - 1), 1)
    starts = np.concatenate(
        [np.arange(first, low, step), np.arange(low, high), np.arange(high, stop, step)]
    )
    sizes = grid.values(starts)
    if integers:
        is_integer = sizes == np.floor(sizes)
        starts, sizes = starts[is_integer], sizes[is_integer]
    smaller = [] if integers and sizes[0] == 1 else [1]
    starts = np.concatenate([smaller, starts[len(smaller) :], [stop]]).astype(np.int64)
    sizes = np.concatenate([[np.nan] * len(smaller), sizes[len(smaller) :], [np.nan]])
    return Magnitudes(grid, starts, sizes)


def select_quantiles(
    table: BinTable,
    qs: Sequence[Fraction],
    rows: Integers,
    law: RankLaw,
    entropy: EntropySource = system_entropy,
) -> Integers:
    """Return private quantiles of each group: one selection a distinct level, sorted.

    `rows` is the noisy number of rows m of each group, public by now. Twice the rank aimed at, a,
    follows from it. Bin c has the loss max(0, 2 #{x < c} - t, t - 2 #{x <= c}) with t = a + n - m,
    n the number of rows (Smith 2011; with intervals of ranks for atoms, Dick, Kulesza, Sun and
    Suresh 2023, Algorithm 2). Adding a row moves 2 #{x < c} and 2 #{x <= c} by 0 or 2 and t by 1,
    so that the loss moves by at most 1. The selected bins of a group are sorted: answers never fall
    while the level rises, and the largest distance of an answer from its aim does not grow.
    """
    levels = sorted(set(qs))
    ranked = ranked_rows(table)
    row_counts = np.array([min(max(int(count), 0), _LARGEST_COUNT) for count in rows], np.int64)
    extra = ranked.totals() - row_counts
    chosen = [
        select_rank(ranked, law.aims(q, row_counts) + extra, law.selection, entropy) for q in levels
    ]
    return np.sort(np.stack(chosen), axis=0)[[levels.index(q) for q in qs]]


def far_rows(q: Fraction, rows: int) -> int:
    """Return how many rows a group needs so that what lies beyond it is `rows` rows off.

    Where all rows hold one value, the nearer of both ends is min(q, 1 - q) of them away; rows that
    come or go on the other side count max(q, 1 - q).
    """
    return math.ceil(max(q, 1 - q) / min(q, 1 - q) * rows)


def outer_rows(law: Selection, candidates: int) -> int:
    """Return (2 / epsilon) * log(10 candidates) rows, beyond which one selection in ten errs."""
    rows = 2 * Fraction(math.log(10 * candidates)) / law.epsilon(1)
    return min(int(rows), _LARGEST_COUNT)


USUAL = 0.95
"""The level whose intervals the distances of ends are made for; others have the same ends."""

ORDINARY = 0.05
"""A selection among values that are spread evenly is further off than is allowed for this rarely,
and one near an end of the rows beyond all of them."""


@dataclass(frozen=True)
class EndsLaw:
    """How the ends about `levels` quantiles are selected from `candidates`, and counted. Public.

    `loss` is what one end pays; `counted` is the noise of the number of rows m that the ranks
    follow from, `noise` that of the count of rows between all ends.
    """

    loss: Epsilon | Rho
    noise: Noise
    counted: Noise
    candidates: int
    levels: int

    @cached_property
    def selection(self) -> Selection:
        """The selection of one end: a row moves its losses by at most 1."""
        return self.loss.selection(1)

    @property
    def reach(self) -> int:
        """How far from the ends of the rows a rank must be, for answers among the rows."""
        return math.ceil(math.log(self.candidates / ORDINARY) / self._rate)

    @property
    def _rate(self) -> float:
        return 2 * float(self.selection.rate)

    def apart(self, q: Fraction, index: int, side: int) -> int:
        """Return how many ranks from q m an end is aimed at: -1 is the lower side, 1 the upper one.

        Twice what the noise of the count may hide, and what a selection ordinarily errs; `index` is
        that of the level among all. The noise of m moves ranks as far as q is from 1/2.
        """
        hidden = reach_of(self.noise, 1 - USUAL) * weight_norm(
            2 * index + (3 + side) // 2, self.levels, q
        )
        count_error = abs(float(q) - 0.5) * self.counted.quantile(2 * ORDINARY)
        return math.ceil(2 * hidden + math.log(1 / ORDINARY) / self._rate + count_error)


def weight_norm(below: int, levels: int, q: Fraction) -> float:
    """Return the length of the weights of F - q n, F the rows of so many of the 2 k + 1 parts."""
    return math.sqrt(below * (1 - q) ** 2 + (2 * levels + 1 - below) * q**2)


@dataclass(frozen=True, eq=False)
class RankEnds:
    """The ends of one level of each group: bins, and what counts the rows below or up to them.

    `below` is how many parts of the count the lower end has below it, `upto` how many lie up to the
    upper one; `is_far` marks ends that are no answer, as they are aimed too near an end of the
    rows. Public.
    """

    low: Integers
    high: Integers
    below: Integers
    upto: Integers
    is_far: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]


_MOST_ROWS = 2**40
"""The largest number of rows that ranks are worked out for."""


def select_ends(
    table: BinTable,
    levels: Sequence[Fraction],
    rows: Integers,
    law: EndsLaw,
    entropy: EntropySource = system_entropy,
) -> tuple[list[RankEnds], NoisyVector]:
    """Return the ends of each level, ascending, by group; then the noisy rows between all ends.

    `rows` is the noisy number of rows m of each group. The rank of an end is q m, moved by
    `EndsLaw.apart`; it is selected as a quantile is. Each row lies in one of the parts between
    the selected ends, which are public by then: the count has sensitivity 1.
    """
    ranked, row_counts = ranked_rows(table), np.clip(rows, 0, _MOST_ROWS).astype(np.int64)
    extra = ranked.totals() - row_counts
    ends, is_far = [], []
    for index, q in enumerate(levels):
        for side in (-1, 1):
            distance = min(law.apart(q, index, side), 2 * _MOST_ROWS)  # the rank is clipped anyway
            rank = row_counts * q.numerator // q.denominator + side * distance
            aims = 2 * np.clip(rank, 0, row_counts)
            ends.append(select_rank(ranked, aims + extra, law.selection, entropy))
            inside = rank if side < 0 else row_counts - rank
            is_far.append(inside < law.reach)
    cuts = np.stack(ends) - np.tile([1, 0], len(levels))[:, None]
    order = np.argsort(cuts, axis=0, kind="stable")
    parts = rows_between(table, np.take_along_axis(cuts, order, axis=0))
    noisy = NoisyVector(add_to(parts, law.noise, entropy), law.noise)
    parts_before = np.argsort(order, axis=0) + 1
    rank_ends = [
        RankEnds(
            ends[i], ends[i + 1], parts_before[i], parts_before[i + 1], (is_far[i], is_far[i + 1])
        )
        for i in range(0, len(ends), 2)
    ]
    return rank_ends, noisy


def rows_between(table: BinTable, cuts: Integers) -> Integers:
    """Return the rows of each group between its ascending cuts: each row is in one part. Secret."""
    before = np.concatenate([[0], np.cumsum(table.rows)])
    codes = codes_of(np.arange(table.groups), cuts, table.binning.last)
    starts = before[table.starts[:-1]]
    upto = before[np.searchsorted(table.codes, codes, side="right")] - starts
    parts = np.diff(upto, axis=0, prepend=0, append=table.totals()[None, :])
    return np.asarray(parts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class QuantileEstimator:
    """A selected quantile of each group, between ends certified by a count of all parts."""

    q: Fraction
    values: Floats
    low: Floats
    high: Floats
    ends: RankEnds
    open_ends: tuple[float, float] = (-math.inf, math.inf)

    def value(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return the selected value of each group."""
        return self.values

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return ends that hold the quantile of the rows with probability `level`.

        The lower end is on its side where #{x < low} is below q n, the upper one where #{x <= high}
        is at least that: shown where the noise does not explain it, with half of the rest each.
        """
        upto = np.cumsum(to_floats(vector.coordinates), axis=0)
        target_rank, many = float(self.q) * upto[-1], len(upto)
        off = reach_of(vector.noise, 1 - level)
        ends = []
        for side, parts, end, is_far, open_end in (
            (-1, self.ends.below, self.low, self.ends.is_far[0], self.open_ends[0]),
            (1, self.ends.upto, self.high, self.ends.is_far[1], self.open_ends[1]),
        ):
            rows = np.take_along_axis(upto, parts[None, :] - 1, axis=0)[0]
            q = float(self.q)
            length = np.sqrt(parts * (1 - q) ** 2 + (many - parts) * q**2)
            certain = (
                (side * (rows - target_rank) >= off * length) & ~is_far & ~np.isnan(self.values)
            )
            outwards = np.fmin(end, self.values) if side < 0 else np.fmax(end, self.values)
            ends.append(np.where(certain, outwards, open_end))
        return ends[0], ends[1]

    def standard_error(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return that it is not known: the law of a selection depends on the data."""
        return np.full_like(self.values, np.nan)
