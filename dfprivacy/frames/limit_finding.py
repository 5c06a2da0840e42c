"""Find the limits of a privacy unit: one for each mechanism, by the least error to be expected.

A noisy histogram of units by size gives the noise and the loss of rows for each limit. The upper
confidence limit of this loss goes into the interval or a note. Proof: docs/explanation/limits.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dfprivacy.accounting.loss import Contribution, Epsilon, Rho
from dfprivacy.accounting.spending import PrepaidAccount
from dfprivacy.engine.adopt import Columns, rereadable
from dfprivacy.engine.passes import UnitTable, read_unit_table
from dfprivacy.engine.run import run_guarded
from dfprivacy.engine.units import mark_first_groups
from dfprivacy.frames.measuring import measure_plan, read, sums_from_table
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.bounds import Bounds, read_bounds
from dfprivacy.measurement.grid import grid_from_lower
from dfprivacy.measurement.linear import OnGrid, Source
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import Noise, exact_height, find_scale, is_laplace
from dfprivacy.release.answers import join_notes
from dfprivacy.release.pipeline import charge_plan, check_charge
from dfprivacy.release.plan import Lost, Plan
from dfprivacy.release.terms import LARGEST_LIMIT
from dfprivacy.statistics import Mean, Sum
from dfprivacy.statistics.covariance import PairStatistic, RatioOfSums
from dfprivacy.statistics.estimators.bounds_search import OCTAVES_OF_ROWS, POLICY, rows_for_bounds
from dfprivacy.statistics.histogram import HistogramPart
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.statistics.octaves import OctavePart, ProductPart
from dfprivacy.statistics.regression import Coefficient

CANDIDATES = np.array(
    sorted({(2 + half) * 2**power // 2 for power in range(21) for half in (0, 1)})
)
CANDIDATES = CANDIDATES[CANDIDATES <= LARGEST_LIMIT]
"""Candidate limits, 1, 2, 3, 4, 6, 8, 12 ...: each is also the end of a bin of sizes."""

SIZES: Floats = np.sqrt(np.append(1, CANDIDATES[:-1] + 1) * CANDIDATES)
"""Size that stands for each bin: the geometric mean of its ends."""

UNIT_MEAN = 2**12  # mean of a unit whose values are all at the upper bound

_MEAN_STEPS = 2.0**20
"""Steps from 0 to 1 of the mean of a unit in one group, before the mean of its groups."""

_FIRST_THRESHOLD, _GROWTH = 4.0, 1.5
"""Noise scales above which units are in a bin, and the increase for each doubling of the size."""

_SUSPICION = 1 / 50  # probability that noise alone makes some units suspects
_WINDOWS = (1, 2, 4, 8)  # numbers of adjacent bins that are searched for suspects together

_CLIFF = 1 / 16
"""Decline from one doubling to the next that ends a tail; a third of it where counts show one."""

_LEDGE = 2.0
"""Deviations of noise that units beyond such an end have to exceed to be expected there."""

_NEXT_DOUBLING = 1 / 2
"""Assumed probability that sizes go on for another doubling where noise hides the one before."""

_HIDDEN = 4.0
"""Factor by which hidden rows may exceed their expectation before an interval misses them."""

_WIDE, _NARROW = 1.5, 0.25
"""Half-widths of noise above which possible bias adds a note: in a whole frame, and by group."""

_NORMAL = 1.645  # standard deviations below which 95 % of a normal variable lie

_SHIFT = 1 / 4
"""Assumed shift of a rank or a mean for each unit of weight that limits move, where unknown."""

_UNKNOWN_MEAN = 1 / 2  # assumed distance of hidden units from the mean, in widths of the bounds
_TREND = 3.5  # standard deviations of noise from which large units are taken to have other values

_SELECTION = 8.0
"""Noise of a rank that is selected, or of values in bounds that are found, over that of a count."""

_UNIT_SPREAD, _ROW_SPREAD = 1 / 50, 1 / 7
"""Assumed deviations between units without a trend, and between rows, in widths of the bounds."""

_PAIR_SPREAD = 1 / 20
"""Assumed deviation of the values of pairs in widths of the bounds, less the noise of nine sums."""

_VISIBLE = 1 / 50
"""Share of the rows that limits may leave out without a note, where the noise is not known."""

_SKEW = 3.0  # assumed skew of the sizes of groups, in which units are free to be
_UNSEEN = 4.0  # how much more a squared error counts in a group that a threshold hides

_UNCLEAR = 1 / 2
"""Width from which the interval of a share of the rows says nothing, as a part of its upper end."""

_DOUBTFUL = 2 / 3
"""Share of the rows that may count in public groups, as far as noise shows, that has a note."""

_MOST = 0.999  # largest share that is named where limits leave rows out

_TINY = 1e-300


class Sizes(NamedTuple):
    """Exact histograms of units: rows of the array are one or two coordinates. Secret.

    `by_groups` has the evenness of units as second coordinate, `UNIT_MEAN` where all groups of a
    unit have as many rows.
    """

    by_size: dict[str, Integers]
    by_groups: Integers | None
    number: int


class GroupNumber(NamedTuple):
    """How many groups there are at least, and which numbers are possible, with their chances."""

    at_least: float
    possible: Floats
    chances: Floats

    @property
    def mean(self) -> float:
        """The expected number."""
        return float(self.chances @ self.possible)

    @property
    def square(self) -> float:
        """The expected square of the number."""
        return float(self.chances @ self.possible**2)


class CountedShare(NamedTuple):
    """The share of the rows that counts within limits, the ends of its interval, and units unseen.

    So many units may have far more rows than any that stand out: noise would hide them.
    """

    value: float
    low: float
    high: float
    unseen: int = 0

    @property
    def may_be_all(self) -> bool:
        """True if noise can't tell whether limits leave out rows."""
        return self.high > _MOST

    @property
    def text(self) -> str:
        """The share in words: unknown if the interval says nothing, its end if all may count.

        >>> CountedShare(0.25, 0.2, 0.4).text
        'about 25 %'
        >>> CountedShare(0.9, 0.8, 1.0, 42).text
        'at least about 80 % (less if up to 42 far larger units hide in the noise)'
        """
        if not self.high - self.low <= _UNCLEAR * self.high:
            return "an unknown share"
        hide = f" (less if up to {self.unseen:,} far larger units hide in the noise)"
        start, share = ("at least ", self.low) if self.may_be_all else ("", self.value)
        return f"{start}about {100 * min(share, _MOST):.3g} %{hide if self.unseen > 1 else ''}"


@dataclass(frozen=True)
class NoisySizes:
    """A noisy histogram of units by size, with expected units beyond those that stand out.

    `units` are expected numbers in each bin, `hidden` the part that noise may hide, `suspects`
    the counts of bins too large for noise and too small to choose limits by, `following` those of
    the doubling after the last bin that stands out, 0 elsewhere, `scale` the standard deviation of
    the noise, `unseen` the number of units beyond these that it may hide in one bin, and `means`
    the noisy sums of the means of units.
    """

    units: Floats
    hidden: Floats
    suspects: Floats
    following: Floats
    scale: float
    unseen: int
    means: Floats | None = None

    def rows_beyond(self, over: Floats, largest_over: Floats) -> tuple[Floats, Floats]:
        """Return the rows over some limits of units that do not stand out, and their doubt at 95 %.

        `over` has the rows of a unit of each size over each limit, `largest_over` those of the
        largest of each bin.
        """
        rows = np.maximum(_HIDDEN * over @ self.hidden, largest_over @ self.following)
        return rows, _NORMAL * self.scale * np.sqrt(largest_over**2 @ (self.following != 0))


def size_kind(part: object) -> str:
    """Return the name of the sizes that matter to a mechanism: of its rows, or of its total."""
    if not isinstance(part, LinearPart) or part.read is not None:
        return "rows"
    (question, *_) = part.questions.values()
    if isinstance(question, Sum) and question.bounds is not None:
        return f"sum {question.column!r}"
    bounded = [q for q in part.questions.values() if isinstance(q, Mean) and q.bounds is not None]
    return f"mean {bounded[0].column!r}" if bounded else "rows"


def size_kinds(parts: Sequence[Any]) -> dict[str, str]:
    """Return the histogram that each kind of sizes is read off: that of a mean has all rows."""
    kinds = [size_kind(part) for part in parts if not part.counts_units]
    means = [kind for kind in kinds if kind.startswith("mean")]
    return {kind: means[0] if kind == "rows" and means else kind for kind in kinds}


def measure_sizes(table: UnitTable, parts: Sequence[Any], *, secret: bool) -> Sizes:
    """Sort units into bins by size: adding or removing one moves one bin of each histogram.

    Where means are asked for it moves two coordinates of the bin, by `UNIT_MEAN` in all, and so it
    does with groups and how evenly rows lie in them.
    """
    rows = table.rows
    units = int(rows.units.max(initial=-1)) + 1
    groups = np.bincount(rows.units, minlength=units)
    counts = _sums(table, Source())
    by_size: dict[str, Integers] = {}
    kinds = size_kinds(parts)
    for part in parts:
        kind = size_kind(part)
        if kind in by_size or kinds.get(kind) != kind:
            continue
        sizes = counts
        source = value_source(part, kind)
        if kind.startswith("sum"):
            sizes = np.ceil(np.abs(_sums(table, source, 1)) / source.terms[0].largest).astype(
                np.int64
            )
        total, squares = _row_sums(rows.units, sizes, units)
        average = np.ceil(squares / np.maximum(total, 1) - 1e-9)  # the size around an average row
        bins = _bins(average.astype(np.int64))
        if not kind.startswith("mean"):
            by_size[kind] = np.bincount(bins, minlength=len(CANDIDATES))[None, :]
            continue
        counts_of_values = _sums(table, source).astype(np.float64)
        share = _sums(table, source, 1) / np.maximum(counts_of_values * source.terms[0].maximum, 1)
        steps = np.floor(share * _MEAN_STEPS)  # whole numbers add up to the same in any order
        weights = np.bincount(rows.units, weights=counts_of_values > 0, minlength=units)
        mean = np.bincount(rows.units, weights=steps, minlength=units) / np.maximum(weights, 1)
        by_size[kind] = _histogram_with_means(bins, mean / _MEAN_STEPS)
    if not table.adopted.keys:
        return Sizes(by_size, None, 1)
    number_of_rows, squares = _row_sums(rows.units, counts, units)
    evenness = number_of_rows**2 / np.maximum(squares * groups, 1)
    by_groups = _histogram_with_means(_bins(groups), evenness)
    number = 1
    if secret:  # groups that are left where each unit keeps one: a unit moves their number by 1
        is_first = mark_first_groups(rows.units, rows.places, rows.groups, 1)
        number = int(np.count_nonzero(np.bincount(rows.groups[is_first])))
    return Sizes(by_size, by_groups, number)


def _histogram_with_means(bins: Integers, means: Floats) -> Integers:
    """Return units by bin, in two coordinates that add up to `UNIT_MEAN` for each unit.

    The second is the mean of a unit, from 0 to 1.
    """
    second = np.clip(np.floor(means * UNIT_MEAN), 0, UNIT_MEAN).astype(np.int64)
    histogram = np.zeros((2, len(CANDIDATES)), dtype=np.int64)
    np.add.at(histogram[0], bins, UNIT_MEAN - second)
    np.add.at(histogram[1], bins, second)
    return histogram


def value_source(part: Any, kind: str) -> Source:
    """Return the sums of a unit that its size, or the mean of its values, is read off."""
    if kind == "rows":
        return Source()
    if kind.startswith("sum"):
        source: Source = part.sources[0]
        return replace(source, totals=False, rows=0)
    mean = next(q for q in part.questions.values() if isinstance(q, Mean) and q.bounds is not None)
    term = OnGrid(mean.column, grid_from_lower(mean.require_bounds()))
    return Source(term.columns, (term,))


def _sums(table: UnitTable, source: Source, position: int = 0) -> Integers:
    column = table.rows.columns.column(table.list_names(source)[position])
    filled = column.fill_null(0) if column.null_count else column
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def _row_sums(units: Integers, sizes: Integers, number: int) -> tuple[Floats, Floats]:
    """Return the sum of the sizes of each unit, and of their squares."""
    capped = np.minimum(sizes, LARGEST_LIMIT).astype(np.float64)
    total, squares = (np.bincount(units, capped**power, number) for power in (1, 2))
    return total.astype(np.float64), squares.astype(np.float64)


def _bins(sizes: Integers) -> Integers:
    return np.minimum(np.searchsorted(CANDIDATES, sizes), len(CANDIDATES) - 1)


def finding_losses(plan: Plan) -> dict[str, Epsilon | Rho]:
    """Return the loss of each noisy histogram and number that limits are found from."""
    assert plan.search is not None  # noqa: S101 the caller has looked
    weights = dict.fromkeys(size_kinds(plan.parts).values(), Fraction(7))
    weights |= {"groups": Fraction(3)} if plan.by else {}
    weights |= {"number": Fraction(5)} if _has_secret_groups(plan) else {}
    total = sum(weights.values(), start=Fraction(0))
    return {name: plan.search.loss.share(weight / total) for name, weight in weights.items()}


def _has_secret_groups(plan: Plan) -> bool:
    return bool(plan.by) and plan.keys is None


def finding_draws(plan: Plan) -> list[tuple[Epsilon | Rho, str]]:
    """Return each noisy histogram in words, with its loss."""
    words = {
        "rows": "how many rows units have in a group",
        "groups": "how many groups units are in, and how evenly their rows lie in them",
        "number": "the number of groups",
    }
    return [
        (share, words.get(name) or f"how many rows units have in a group, and their {name}")
        for name, share in finding_losses(plan).items()
    ]


def add_noise_to_sizes(
    exact: Integers, loss: Epsilon | Rho, largest: int = LARGEST_LIMIT
) -> NoisySizes:
    """Return a noisy histogram; bins beyond the last that stands out are extrapolated.

    No unit has more than the `largest` number of rows or groups.
    """
    step = 1 if len(exact) == 1 else UNIT_MEAN
    noise = loss.noise(step, step * step)
    coordinates = add_to(exact, noise).astype(np.float64) / step
    is_possible = np.append(0, CANDIDATES[:-1]) < largest
    counts = coordinates.sum(axis=0) * is_possible
    deviation = math.sqrt(len(exact) * noise.variance) / step
    units, hidden = estimate_tail(counts, deviation)
    chance = _SUSPICION / len(_WINDOWS) / np.count_nonzero(is_possible)
    heights = {
        size: exact_height(size * len(exact), chance, laplace=is_laplace(noise))
        * (find_scale(noise) / step)
        for size in _WINDOWS
    }
    means = coordinates[1] if len(exact) > 1 else None
    last = CANDIDATES[units > 0].max(initial=0)
    is_next = (last < CANDIDATES) & (2 * last >= CANDIDATES)
    following, suspects = np.where(is_next, counts, 0.0), find_suspects(counts, units, heights)
    unseen = math.floor(heights[1] + _NORMAL * deviation)
    hidden = hidden * is_possible
    return NoisySizes(units, hidden, suspects, following, deviation, unseen, means)


def find_suspects(counts: Floats, units: Floats, heights: Mapping[int, float]) -> Floats:
    """Return the counts of bins that are too high for noise, far beyond the bins that stand out.

    `heights` has a sum for each number of adjacent bins, which noise rarely exceeds. The doubling
    after the last bin that stands out belongs to its tail.
    """
    suspects = np.zeros(len(counts))
    if not units.any():
        return suspects
    last = int(np.max(np.flatnonzero(units)))
    counts_beyond = np.where(2 * CANDIDATES[last] < CANDIDATES, counts, 0.0)
    for size, height in heights.items():
        sums = np.convolve(counts_beyond, np.ones(size), "valid")
        for start in np.flatnonzero(sums > height):
            window = slice(start, start + size)
            suspects[window] = np.maximum(counts_beyond[window], 0.0)
    return suspects


def estimate_tail(counts: Floats, deviation: float) -> tuple[Floats, Floats]:
    """Return the units in each bin that stands out, and the ones expected beyond the last.

    Sizes are assumed to decline from one doubling to the next as between the last two that stand
    out, or as the next one shows, but as fast as the next one allows.
    """
    scale = deviation / math.sqrt(2)
    hidden = np.zeros(len(counts))
    last = int(np.argmax(counts))
    if counts[last] <= _FIRST_THRESHOLD * scale:
        return hidden, hidden
    for index in range(last + 1, len(counts)):
        gap = math.log2(CANDIDATES[index] / CANDIDATES[last])
        if counts[index] > (_FIRST_THRESHOLD + _GROWTH * gap) * scale:
            last = index
    units = np.where(np.arange(len(counts)) <= last, np.maximum(counts, 0), 0.0)
    sizes = CANDIDATES / CANDIDATES[last]
    below, top, following = (
        counts[(sizes > 2.0 ** (power - 1)) & (sizes <= 2.0**power)] for power in (-1, 0, 1)
    )
    units_at_top = max(top.sum(), scale)
    so_far = units_at_top / below.sum() if below.sum() > 0 else 1 / 2
    possible = max(following.sum(), 0.0) + deviation * math.sqrt(2)
    seen, possible = max(so_far, following.sum() / units_at_top), possible / units_at_top
    decline = min(seen, 1 / 2, possible)
    is_cliff = decline <= (_CLIFF if seen > possible else _CLIFF / 3)
    rest = following.sum() if is_cliff else units_at_top * decline / (1 - decline)
    if not is_cliff or rest > _LEDGE * math.sqrt(2) * deviation:
        reached = rest * decline ** np.log2(sizes[last:])
        hidden[last + 1 :] = reached[:-1] - reached[1:]
    return units, hidden


def _estimate_units(sizes: NoisySizes) -> Floats:
    """Return expected units in each bin, without the last half of a unit."""
    hidden = sizes.hidden
    if hidden.any():
        largest = CANDIDATES[np.flatnonzero(hidden)[0] - 1]
        doublings = np.ceil(np.log2(CANDIDATES / largest))
        hidden = hidden * _NEXT_DOUBLING ** np.maximum(doublings - 1, 0)
    cumulated = hidden.cumsum()
    return sizes.units + np.where(cumulated <= cumulated[-1] - 0.5, hidden, 0.0)


@dataclass(frozen=True)
class Groups:
    """Noisy facts about groups: entries of units, those within a limit, and their number.

    Without `by_groups` the whole frame is one group. Secret keys are selected with `delta`.
    """

    limit: int
    counted: CountedShare
    number: GroupNumber
    by_groups: NoisySizes | None
    delta: Fraction | None = None

    def count_of_unit(self, sizes: NoisySizes) -> tuple[Floats, Floats]:
        """Return how many groups the rows of a unit of each size fill, and how many count.

        It is the mean of two cases: sizes tell nothing about groups, or larger units are in more.
        Units that noise may hide are in as many groups as others.
        """
        entries = np.zeros(0) if self.by_groups is None else _estimate_units(self.by_groups)
        if self.by_groups is None or not entries.any() or not sizes.units.any():
            return np.ones(len(SIZES)), np.ones(len(SIZES))
        entries = entries / entries.sum()
        ranks, group_ranks = (np.append(0, n.cumsum()) for n in (sizes.units, entries))
        ranks /= ranks[-1]
        first = np.maximum.outer(ranks[:-1], group_ranks[:-1])
        common = np.maximum(np.minimum.outer(ranks[1:], group_ranks[1:]) - first, 0)
        visible = sizes.units > 0
        common /= np.maximum(common.sum(axis=1, keepdims=True), _TINY)
        common[~visible] = entries
        groups = np.minimum(SIZES, self.number.mean)
        filled = np.maximum(groups * find_evenness(self.by_groups), 1.0)
        matrix = (common + entries) / 2
        return matrix @ filled, matrix @ (filled * np.minimum(self.limit / groups, 1.0))

    def hide_rows(
        self, noise: Noise, limits: Integers, shares: Floats, rows: float, of_unit: float
    ) -> tuple[Floats, Floats]:
        """Return the share of rows that a threshold hides, and the mean square of a group's.

        The square is over that of a mean group. A share of all `rows` counts within each limit.
        Sizes of groups decline as a power of their rank, down to 0. A unit is in `of_unit` groups.
        No group has more units than there are.
        """
        if self.delta is None:
            return np.zeros(len(limits)), np.zeros(len(limits))
        number = self.number.possible[:, None]
        skew = np.clip(number / of_unit - 1, _TINY, _SKEW)
        threshold = float(noise.quantile(float(self.delta) / self.limit)) * limits
        largest = (skew + 1) * shares
        hidden = np.minimum(threshold / np.maximum(largest * rows / number, 1.0), 1.0)
        power = 1 / skew
        square = largest**2 * hidden ** (2 + power) / (2 * skew + 1)
        return self.number.chances @ hidden ** (1 + power), self.number.chances @ square


def estimate_errors(
    part: Any, sizes: NoisySizes, loss: Epsilon | Rho, limits: Integers, groups: Groups
) -> tuple[Floats, list[Lost]]:
    """Return the squared errors of a mechanism for each limit of rows, and what each loses.

    Errors of sums are over the mean of the groups. Units are in as many groups as is expected.
    """
    count = Contribution(1, groups.limit).row_loss(loss).noise(1, 1)
    selects = 1.0 if isinstance(part, LinearPart | HistogramPart) else _SELECTION / math.sqrt(2)
    noise = selects * math.sqrt(count.variance) * limits
    half = selects * float(count.quantile(0.05)) * limits
    expected = _estimate_units(sizes)
    filled, counting = groups.count_of_unit(sizes)
    capped = np.minimum(SIZES, limits[:, None])
    total = max(float((SIZES * filled) @ expected), 1.0)
    rows = np.maximum((capped * counting) @ expected, 1.0)
    without_bounds = _lack_of_rows(part, loss, rows / limits, groups)
    shares = np.minimum(rows / total, 1.0)
    of_unit = float(filled @ expected) / max(float(expected.sum()), 1.0)
    number, lost = groups.number, (SIZES - capped) * filled
    hidden_share, hidden_square = groups.hide_rows(count, limits, shares, total, max(of_unit, 1.0))
    counted = find_counted_shares(sizes, limits, shares, groups.counted)
    if _adds_up(part):
        worth = _SHIFT if isinstance(part, OctavePart) else 1.0
        over = np.maximum(CANDIDATES - limits[:, None], 0) * filled
        unsure = _NORMAL * sizes.scale * np.sqrt((over**2) @ (sizes.units > 0))
        visible = over @ sizes.units + float((SIZES * (filled - counting)) @ expected)
        upper, of_row = visible + unsure + _HIDDEN * lost @ sizes.hidden, worth / number.at_least
        unseen, doubt = sizes.rows_beyond(lost, over)
        room = np.hypot(half, of_row * np.hypot(unsure, doubt)) - half
        room += of_row * (visible + unseen)
        errors = (noise / total) ** 2 * number.square + (worth * (1 - shares)) ** 2
        errors = errors + _UNSEEN * hidden_square + without_bounds * number.square
        is_known = bool(expected.any())
        effects = zip(counted, of_row * upper, room, half, strict=True)
        return errors, [_lost_of_sum(part, *of, is_known=is_known, groups=groups) for of in effects]
    change = capped * counting / rows[:, None] - SIZES * filled / total
    hidden = lost @ sizes.hidden / total
    bias, shift = _bias_of_mean(part, sizes, change, lost / total)
    relative = noise / math.sqrt(2) if isinstance(part, LinearPart) else noise
    questions = part.questions.values() if isinstance(part, LinearPart | ProductPart) else ()
    if any(isinstance(q, PairStatistic | Coefficient) for q in questions) and not any(
        isinstance(q, RatioOfSums) for q in questions
    ):  # an answer in units of the variance of values, as correlations are
        relative = relative / _PAIR_SPREAD**2
    errors = (relative / rows) ** 2 * number.square + bias
    errors = errors + _SHIFT**2 * ((1 - groups.counted.value) ** 2 + hidden_share)
    errors = errors + total**2 * without_bounds
    is_grouped = groups.by_groups is not None
    wide = (_NARROW if is_grouped else _WIDE) * half * number.at_least / rows
    if sizes.means is None or not size_kind(part).startswith("mean"):
        silent, rooms = shares > 1 - _VISIBLE, np.zeros((2, len(limits)))
    else:
        silent = (shares > 1 - _VISIBLE) | (shift <= wide)
        unseen, doubt = (silent * rows / total for rows in sizes.rows_beyond(lost, lost))
        extra = np.maximum(unseen - _HIDDEN * hidden, 0), doubt
        rooms = _rooms_of_mean(sizes, shift, extra, half / math.sqrt(2) / rows)
        rooms *= _bounds(part).width * (not is_grouped or groups.delta is None)
    columns = zip(limits, counted, silent, *rooms.tolist(), strict=True)
    return errors, [
        Lost(share.text, below, above, None if is_silent else note_weighted(limit, share))
        for limit, share, is_silent, below, above in columns
    ]


def _rooms_of_mean(
    sizes: NoisySizes, shift: Floats, unseen: tuple[Floats, Floats], half: Floats
) -> Floats:
    """Return how far a mean of all rows may lie below and above one within limits.

    All is in widths of the bounds. `unseen` is the share of rows of units that do not stand out and
    its doubt: they may all be at one end. `half` is half the width of the noise's interval.
    """
    middle, width = find_middle(sizes), half + shift
    rooms = [
        reach * unseen[0] + np.hypot(width, reach * unseen[1]) - half
        for reach in (middle, 1 - middle)
    ]
    return np.minimum(rooms, 1.0)


def find_middle(sizes: NoisySizes) -> float:
    """Return the noisy mean of the means of units, from 0 to 1."""
    assert sizes.means is not None  # noqa: S101 the caller has looked
    visible = sizes.units > 0
    return min(max(float(sizes.means[visible].sum() / max(sizes.units.sum(), 1.0)), 0.0), 1.0)


def find_counted_shares(
    sizes: NoisySizes, limits: Integers, shares: Floats, of_groups: CountedShare
) -> list[CountedShare]:
    """Return the share of the rows that counts within each limit, if `of_groups` counts in all."""
    lows, highs = find_share_ends(sizes, limits)
    lows = np.minimum(lows * of_groups.low, shares)
    highs = np.maximum(highs * of_groups.high, shares)
    unseen = max(sizes.unseen, of_groups.unseen)
    return [CountedShare(*ends, unseen) for ends in zip(shares, lows, highs, strict=True)]


def find_share_ends(sizes: NoisySizes, limits: Integers) -> tuple[Floats, Floats]:
    """Return the ends of the share of the rows within each limit, as far as noise leaves it open.

    At least as many rows are lost as in the first bins that stand out, whichever tell most; at most
    also those of suspects. Without a bin that stands out the ends are 0 and 1.
    """
    capped = np.minimum(SIZES, limits[:, None])
    over, visible = SIZES - capped, sizes.units > 0
    doubt = _NORMAL * sizes.scale
    counted, lost = capped @ sizes.units, over @ sizes.units
    count_doubt, loss_doubt = (doubt * np.sqrt(rows**2 @ visible) for rows in (capped, over))
    unseen, unseen_doubt = sizes.rows_beyond(over, np.maximum(CANDIDATES - limits[:, None], 0))
    lowest = np.maximum(counted - count_doubt, 0)
    highest = counted + count_doubt + _HIDDEN * capped @ sizes.hidden
    most_lost = lost + unseen + np.hypot(loss_doubt, unseen_doubt) + over @ sizes.suspects
    doubts = doubt * np.sqrt(np.cumsum(over**2 * visible, axis=1))
    least_lost = np.max(np.cumsum(over * sizes.units, axis=1) - doubts, axis=1, initial=0)
    lows = lowest / np.maximum(lowest + most_lost, _TINY)
    highs = highest / np.maximum(highest + least_lost, _TINY)
    return lows, np.where(highest > 0, highs, 1.0)


def find_evenness(by_groups: NoisySizes) -> float:
    """Return the noisy part of the groups of units that would hold all rows if they were equal."""
    assert by_groups.means is not None  # noqa: S101 it is their second coordinate
    visible = by_groups.units > 0
    groups = float((SIZES * by_groups.units)[visible].sum())
    return min(max(float((SIZES * by_groups.means)[visible].sum()), 0.0) / max(groups, 1.0), 1.0)


def suspects_note(sizes: NoisySizes, limit: int, entries: str) -> str | None:
    """Return a note on units that noisy counts suspect beyond a limit; None without any.

    They are not said to have more rows than all units that stand out.
    """
    suspects = np.where(limit < CANDIDATES, sizes.suspects, 0.0)
    if not suspects.any():
        return None
    rows = SIZES @ sizes.units / suspects.sum()
    lower_end = int(CANDIDATES[np.argmax(suspects) - 1]) + 1  # of a bin that is not the first
    size = max(min(lower_end, math.floor(rows)), 2 * limit)
    return f"some units may have at least {size:,} {entries}; only {limit:,} count"


def _bias_of_mean(
    part: Any, sizes: NoisySizes, change: Floats, lost: Floats
) -> tuple[Floats, Floats]:
    """Return the square of the expected bias of a mean, and its upper limit, for each limit.

    Both are in widths of the bounds, or ranks. `change` is the change of the weight of a unit of
    each size, and `lost` the share of the rows that one loses.
    """
    expected = _estimate_units(sizes)
    moved = np.abs(change) @ expected / 2
    if sizes.means is None or not size_kind(part).startswith("mean"):
        return (_SHIFT * moved) ** 2, moved
    has_trend, distance = _find_trend(sizes)
    if not has_trend:
        spread = _UNIT_SPREAD**2 + _ROW_SPREAD**2 / SIZES
        return (change**2) @ (spread * expected), np.minimum(distance * moved, 1.0)
    units = sizes.units
    difference_by_bin = np.clip(sizes.means, 0, units) - units * find_middle(sizes)
    bias = change @ difference_by_bin
    doubt = np.sqrt((change**2) @ np.minimum(sizes.scale, units * _UNKNOWN_MEAN) ** 2)
    unknown = _UNKNOWN_MEAN * lost @ (expected - units)
    shift = np.abs(bias) + _NORMAL * doubt + _HIDDEN * _UNKNOWN_MEAN * lost @ sizes.hidden
    return np.maximum(bias**2 - doubt**2, 0) + unknown**2, np.minimum(shift, 1.0)


def _find_trend(sizes: NoisySizes) -> tuple[bool, float]:
    """Return whether large units have other values than small ones, and how far at most.

    Units are cut in two between each pair of bins; the distance is that at the cut with the least
    noise, with its upper limit of confidence.
    """
    assert sizes.means is not None  # noqa: S101 the caller has looked
    seen = int(np.max(np.flatnonzero(sizes.units > 0), initial=0)) + 1
    has_trend, least_doubt, distance = False, 1.0, 1.0
    for cut in range(1, seen):
        means, doubts = [], []
        for side in (slice(0, cut), slice(cut, seen)):
            units = max(float(sizes.units[side].sum()), 1.0)
            means.append(min(max(float(sizes.means[side].sum()) / units, 0.0), 1.0))
            doubts.append(sizes.scale * math.sqrt(len(sizes.units[side]) / 2) / units)
        difference, doubt = abs(means[1] - means[0]), math.hypot(*doubts)
        has_trend = has_trend or difference > _TREND * doubt
        if doubt < least_doubt:
            least_doubt, distance = doubt, difference + _NORMAL * doubt
    return has_trend, distance


def note_weighted(limit: int, share: CountedShare) -> str:
    """Return a note about rows that are weighted down."""
    down = f"each unit weighted down to max_rows={limit} rows"
    return f"over rows, {down}: {share.text} of all rows count"


def _adds_up(part: Any) -> bool:
    """Check whether an answer grows with the rows, as counts and sums do."""
    if isinstance(part, HistogramPart):
        return True
    questions = part.questions.values() if isinstance(part, LinearPart | OctavePart) else ()
    return any(isinstance(question, Sum) or question.is_whole for question in questions)


def _lack_of_rows(part: Any, loss: Epsilon | Rho, rows: Floats, groups: Groups) -> Floats:
    """Return the factor by which rows are too few to find bounds; 0 where they are enough.

    `rows` are those that count, over the limit. A third of them is taken to be in one octave.
    """
    if not isinstance(part, OctavePart | ProductPart):
        return np.zeros(len(rows))
    share = POLICY.looks[-1] * (1 if groups.by_groups is None else POLICY.pool)
    noise = Contribution(1, groups.limit).row_loss(loss.share(share)).noise(1, 1)
    lack = OCTAVES_OF_ROWS * rows_for_bounds(noise) / np.maximum(rows, 1.0)
    return np.where(lack > 1, lack, 0.0)


def _bounds(part: LinearPart) -> Bounds:
    bounds = [read_bounds(getattr(q, "bounds", None)) for q in part.questions.values()]
    return next((pair for pair in bounds if pair is not None), Bounds(0, 1))


def _lost_of_sum(
    part: Any,
    share: CountedShare,
    upper: float,
    room: float,
    half: float,
    *,
    is_known: bool,
    groups: Groups,
) -> Lost:
    """Return the effect of a limit on a count or a sum: the rows or totals beyond it.

    Intervals have room for it, which is shared evenly by public groups, unless bounds are found or
    ratios are asked too. The noise within bounds that are found is not known yet: visible losses
    have a note then.
    """
    low, high = (0.0, 1.0)
    is_total = size_kind(part).startswith("sum")
    if is_total:
        bounds = _bounds(part)
        largest = max(abs(bounds.lower), abs(bounds.upper))
        low, high = largest * (bounds.lower < 0), largest * (bounds.upper > 0)
    is_plain = isinstance(part, LinearPart) and groups.delta is None
    has_room = is_plain and (is_total or all(q.is_whole for q in part.questions.values()))
    note = None
    if not is_known:
        note = "too few units to find limits: rows beyond the first of each unit may be left out"
    elif (
        upper > (_WIDE if has_room and groups.by_groups is None else _NARROW) * half
        or (isinstance(part, OctavePart) and share.value < 1 - _VISIBLE)
        or groups.counted.low < _DOUBTFUL
    ):
        counted = "the total counts" if is_total else "all rows count"
        leave = "may leave" if share.may_be_all else "leave"
        note = f"limits {leave} out rows of large units: {share.text} of {counted}"
    room = room if has_room else 0.0
    return Lost(share.text, low * room, high * room, note)


def _entries_within(
    by_groups: NoisySizes | None, limit: int | None, public_groups: int | None
) -> tuple[CountedShare, str | None]:
    """Return the share of the entries of units within a limit of groups, and a note on others.

    Units that noise may hide can be in all groups, where their number is public.
    """
    if by_groups is None or limit is None or limit >= (public_groups or math.inf):
        return CountedShare(1.0, 1.0, 1.0), None
    expected, sizes = _estimate_units(by_groups), np.minimum(SIZES, public_groups or math.inf)
    counted, unseen = float(np.minimum(sizes, limit) @ expected), by_groups.unseen
    share = counted / max(float(sizes @ expected), _TINY)
    low, high = (float(end[0]) for end in find_share_ends(by_groups, np.asarray([limit])))
    if public_groups is not None:
        low = min(low, counted / max(counted + unseen * (public_groups - limit), _TINY))
        unseen = 0
    note = suspects_note(by_groups, limit, "groups")
    return CountedShare(share, min(low, share), max(high, share), unseen), note


def choose_limits(
    noisy: dict[str, NoisySizes],
    by_groups: NoisySizes | None,
    number: GroupNumber,
    plan: Plan,
) -> tuple[list[int], int | None, list[Lost | None]]:
    """Return the limit of rows of each part, that of groups, and what each loses.

    Named limits stay. The groups have the limit with the least product of the parts' errors.
    """
    assert plan.search is not None  # noqa: S101 the caller has looked
    named, public_groups = plan.search.unit, None if plan.keys is None else len(plan.keys.rows)
    limits = CANDIDATES if named.rows else np.asarray([named.max_rows])
    candidates: Sequence[int | None] = [named.max_groups]
    every = of_unit = 1.0
    if by_groups is not None:
        expected = _estimate_units(by_groups)
        every = max(float(SIZES @ expected), 1.0)
        of_unit = max(every / max(float(expected.sum()), 1.0), 1.0)
        if named.max_groups is None:
            last = int(np.max(np.flatnonzero(expected > 0), initial=0))
            candidates = list(map(int, CANDIDATES[: last + 1]))
    best: tuple[float, list[int], int | None, list[Lost | None]] | None = None
    for limit in candidates:
        share, group_note = _entries_within(by_groups, limit, public_groups)
        size = min(limit or public_groups or 1, public_groups or limit or 1)
        facts = Groups(size, share, number, by_groups, plan.rule_delta)
        chosen: list[int] = []
        lost: list[Lost | None] = []
        logarithm = 0.0
        for part, loss in zip(plan.parts, plan.losses, strict=True):
            if part.counts_units:
                noise = Contribution(1, size).row_loss(loss).noise(1, 1)
                missing = 1 - share.value if by_groups is not None else 0.0
                counted = np.array([share.value])
                _, (hidden,) = facts.hide_rows(noise, np.array([1]), counted, every, of_unit)
                error = noise.variance / every**2 * number.square + missing**2 + _UNSEEN * hidden
                logarithm += math.log(max(error, _TINY))
                chosen.append(1)
                left_out = missing * every / number.at_least > _NARROW * float(noise.quantile(0.05))
                text = f"max_groups={limit}: {share.text} counts"
                note = text if left_out else None
                note = join_notes((note, group_note))
                lost.append(None if by_groups is None else Lost(share.text, note=note))
                continue
            kind = size_kind(part)
            errors, effects = estimate_errors(part, noisy[kind], loss, limits, facts)
            index = int(np.argmin(errors))
            logarithm += math.log(max(float(errors[index]), _TINY))
            chosen.append(int(limits[index]))
            is_total = kind.startswith("sum")
            entries = "times the largest value in a group" if is_total else "rows in a group"
            unit_note = suspects_note(noisy[kind], chosen[-1], entries)
            notes = effects[index].note, unit_note, group_note
            lost.append(replace(effects[index], note=join_notes(notes)))
        if best is None or logarithm < best[0]:
            best = logarithm, chosen, limit, lost
    assert best is not None  # noqa: S101 there are candidates
    return best[1], best[2], best[3]


def find_limits(frame: object, plan: Plan) -> tuple[object, UnitTable | None, Plan]:
    """Find the limits of a unit that a plan has none of: return the frame, its table, the rest.

    The charge of the whole release is paid here, before anything is drawn. Sums of each unit in
    each group are read before that, so that types that are refused cost nothing.
    """
    remembered = plan.account.recall(plan.mark)
    if remembered is not None:
        return frame, None, plan.recall_limits(remembered)
    check_charge(plan)
    frame, table, sizes = read_units(frame, plan)
    with charge_plan(plan):
        limited = draw_limits(plan, sizes)
    account = PrepaidAccount(plan.account, plan.charge.question)
    return frame, table, replace(limited, account=account)


def read_units(frame: object, plan: Plan) -> tuple[object, UnitTable, Sizes]:
    """Return a frame that can be read again where that is needed, its table, and sizes of units."""
    others = [part for part in plan.parts if not sums_from_table(part)]
    if others:
        frame = run_guarded(lambda: rereadable(frame))
        unit = plan.unit and replace(plan.unit, max_groups=None)
        measure_plan(frame, replace(plan, unit=unit, parts=tuple(plan.parts)))
    return frame, *read_sizes(frame, plan)


def read_sizes(frame: object, plan: Plan) -> tuple[UnitTable, Sizes]:
    """Read the table of units and groups, once, and the sizes that matter to the parts."""
    linear = [part for part in plan.parts if sums_from_table(part)]
    sources = [source for part in linear for source in part.sources]
    sources += [value_source(part, size_kind(part)) for part in plan.parts]
    values = dict.fromkeys((c for source in sources for c in source.numbers), True)
    values |= {c: False for source in sources for c in source.columns if c not in values}
    categories = dict.fromkeys(category for source in sources for category in source.categories)
    columns = Columns(plan.by, plan.keys, plan.unit, values, tuple(categories))
    _, table = read(frame, columns, lambda adopted: read_unit_table(adopted, sources))
    return table, measure_sizes(table, plan.parts, secret=_has_secret_groups(plan))


def draw_limits(plan: Plan, sizes: Sizes) -> Plan:
    """Draw the noise of all histograms; return the plan within limits that they suggest."""
    shares = finding_losses(plan)
    noisy = {kind: add_noise_to_sizes(exact, shares[kind]) for kind, exact in sizes.by_size.items()}
    noisy |= {kind: noisy[source] for kind, source in size_kinds(plan.parts).items()}
    public_groups = None if plan.keys is None else len(plan.keys.rows)
    by_groups, public_number = None, float(public_groups or 1)
    number = GroupNumber(public_number, np.array([public_number]), np.ones(1))
    if sizes.by_groups is not None:
        by_groups = add_noise_to_sizes(
            sizes.by_groups, shares["groups"], public_groups or LARGEST_LIMIT
        )
    if by_groups is not None and _has_secret_groups(plan):
        noise = shares["number"].noise(1, 1)
        counted = float(add_to(np.asarray([sizes.number]), noise)[0])
        number = estimate_number(counted, noise, by_groups)
    rows, groups, lost = choose_limits(noisy, by_groups, number, plan)
    if public_groups is not None and groups is not None and groups >= public_groups:
        groups = None
    limited = plan.within(rows, groups if plan.by else None)
    return replace(limited, search=None, lost=tuple(lost))


def estimate_number(counted: float, noise: Noise, by_groups: NoisySizes) -> GroupNumber:
    """Return the possible numbers of groups after a noisy one.

    There are at least as many as units have that stand out. Beyond that a candidate is half as
    likely before the noise as one of half its size.
    """
    deviation = max(math.sqrt(noise.variance), 1e-6)
    largest = int(np.max(np.flatnonzero(by_groups.units), initial=0))
    visible = int(CANDIDATES[largest - 1]) + 1 if largest else 1
    at_least = max(counted - _NORMAL * deviation, visible)
    possible = np.append(at_least, CANDIDATES[at_least < CANDIDATES])
    distance = np.abs(counted - possible) / deviation
    logarithm = -math.sqrt(2) * distance if is_laplace(noise) else -(distance**2) / 2
    chances = np.exp(logarithm - logarithm.max()) / possible
    return GroupNumber(at_least, possible, chances / chances.sum())
