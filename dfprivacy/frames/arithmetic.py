"""Intervals of sums, differences, products, ratios and changes of numbers that have intervals.

Of independent numbers the squares of the distances to the ends add up (Zou and Donner 2008), which
for a ratio is Fieller's interval; of numbers that may share their noise the distances themselves
add up, which holds for any dependence between sums of the same draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any


@dataclass(frozen=True)
class Range:
    """A value, the ends of its interval and its standard error."""

    value: float
    low: float
    high: float
    error: float = 0.0

    @property
    def below(self) -> float:
        """How far the lower end lies below the value."""
        return max(self.value - self.low, 0.0)

    @property
    def above(self) -> float:
        """How far the upper end lies above the value."""
        return max(self.high - self.value, 0.0)


def negate_range(number: Range) -> Range:
    """Return the range of the negative number."""
    return Range(-number.value, -number.high, -number.low, number.error)


def add_ranges(first: Range, other: Range, *, independent: bool) -> Range:
    """Return the range of a sum; numbers may be `independent`.

    >>> add_ranges(Range(10, 7, 13), Range(5, 1, 9), independent=True)
    Range(value=15, low=10.0, high=20.0, error=0.0)
    >>> add_ranges(Range(10, 7, 13), Range(5, 1, 9), independent=False)
    Range(value=15, low=8, high=22, error=0.0)
    """
    both = math.hypot if independent else add
    value = first.value + other.value
    low, high = both(first.below, other.below), both(first.above, other.above)
    return Range(value, value - low, value + high, both(first.error, other.error))


def multiply_ranges(first: Range, other: Range, *, independent: bool) -> Range:
    """Return the range of a product: all products of numbers within both ranges."""
    both = math.hypot if independent else add
    ends = [_times(a, b) for a in (first.low, first.high) for b in (other.low, other.high)]
    error = both(_times(abs(other.value), first.error), _times(abs(first.value), other.error))
    return Range(first.value * other.value, min(ends), max(ends), error)


def divide_ranges(first: Range, other: Range, *, independent: bool) -> Range:
    """Return the range of a ratio; everything where the divisor's range holds 0."""
    if other.high < 0:
        return divide_ranges(negate_range(first), negate_range(other), independent=independent)
    if not other.low > 0:
        value = first.value / other.value if other.value else math.nan
        return Range(value, -math.inf, math.inf, math.inf)
    value, both = first.value / other.value, math.hypot if independent else add
    error = both(first.error, value * other.error) / other.value
    if not independent:
        ends = [end / by for end in (first.low, first.high) for by in (other.low, other.high)]
        return Range(value, min(ends), max(ends), error)
    high = _highest(first, other)
    low = -_highest(negate_range(first), other)
    return Range(value, low, high, error)


def split_range(part: Range, rest: Range) -> Range:
    """Return the range of a number as a part of itself and an independent rest.

    The parts p that go with both are those for which (1 - p) one - p rest is within its noise;
    everything where the total may be 0.

    >>> round(split_range(Range(30, 27, 33), Range(70, 66, 74)).high, 4)
    0.3241
    """
    total = part.value + rest.value
    value = part.value / total if total else math.nan
    if not (total > math.hypot(part.below, rest.below)):
        return Range(value, -math.inf, math.inf, math.inf)
    error = math.hypot((1 - value) * part.error, value * rest.error) / total
    return Range(value, _part(part, rest, up=False), _part(part, rest, up=True), error)


def _part(part: Range, rest: Range, *, up: bool) -> float:
    """Return the least or largest part p: (one - p total)^2 = ((1-p) off)^2 + (p other)^2."""
    off, other = (part.above, rest.below) if up else (part.below, rest.above)
    total = part.value + rest.value
    a = total**2 - off**2 - other**2
    half_b = part.value * total - off**2
    root = math.sqrt(max(half_b**2 - a * (part.value**2 - off**2), 0.0))
    return (half_b + (root if up else -root)) / a if a > 0 else (math.inf if up else -math.inf)


def _highest(first: Range, other: Range) -> float:
    """Return the largest ratio t that goes with both: t b - a is the root of the squares added."""
    off = other.below if first.high >= 0 else other.above
    widest = first.high / (other.low if first.high >= 0 else other.high)
    square = other.value**2 - off**2
    if not (square > 0 and math.isfinite(first.above)):
        return widest
    half = first.value * other.value
    root = half**2 - square * (first.value**2 - first.above**2)
    return min((half + math.sqrt(max(root, 0.0))) / square, widest)


def _times(first: float, other: float) -> float:
    return 0.0 if 0 in {first, other} else first * other


def difference(first: Range, other: Range, *, independent: bool) -> Range:
    """Return the range of a difference."""
    return add_ranges(first, negate_range(other), independent=independent)


def change(first: Range, other: Range, *, independent: bool) -> Range:
    """Return the range of a relative change: 0.05 for one that is 5 % more than the other."""
    return add_ranges(
        divide_ranges(first, other, independent=independent),
        Range(-1.0, -1.0, -1.0),
        independent=True,
    )


def parts_of_total(ranges: Sequence[Range], *, independent: bool) -> list[Range]:
    """Return the range of each number as a part of the sum of all."""
    start, both = Range(0.0, 0.0, 0.0), partial(add_ranges, independent=True)
    before = itertools.accumulate(ranges, both, initial=start)
    behind = list(itertools.accumulate(reversed(ranges), both, initial=start))[-2::-1]
    rests = [both(low, high) for low, high in zip(before, behind, strict=False)]
    pairs = zip(ranges, rests, strict=True)
    if independent:
        return [split_range(number, rest) for number, rest in pairs]
    return [
        divide_ranges(number, add_ranges(number, rest, independent=False), independent=False)
        for number, rest in pairs
    ]


_OPERATIONS: Mapping[str, Callable[..., Range]] = {
    "+": add_ranges,
    "-": difference,
    "*": multiply_ranges,
    "/": divide_ranges,
}


@dataclass(frozen=True)
class Expression:
    """A computation with estimates: numbers, estimates, and each operation behind its two."""

    steps: tuple[Any, ...]

    def value(self, left: float, right: float) -> float:
        """Return the result of the last operation."""
        sides = (Range(side, side, side) for side in (left, right))
        return _OPERATIONS[self.steps[-1]](*sides, independent=True).value

    def range_at(self, value: float, level: float) -> Range:  # noqa: ARG002 it is computed anew
        """Return the result with its interval at a level, operation by operation."""
        stack: list[tuple[Range, list[Any]]] = []
        for step in self.steps:
            if isinstance(step, str):
                (right, others), (left, estimates) = stack.pop(), stack.pop()
                independent = not any(a.may_share_noise_with(b) for a in others for b in estimates)
                result = _OPERATIONS[step](left, right, independent=independent)
                stack.append((result, estimates + others))
            elif hasattr(step, "range_at"):
                stack.append((step.range_at(level), [step]))
            else:
                stack.append((Range(step, step, step), []))
        return stack[0][0]
