"""Forecast answers before their release: noise and error."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dfprivacy.engine.columns import Declared
from dfprivacy.noise.laws import Noise
from dfprivacy.release.terms import Unit

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""The sizes of groups, in rows as they count, that half-widths are given for."""

HalfWidths = tuple[float | None, ...]

UNTOLD: HalfWidths = (None,) * len(SIZES)
"""Half-widths that are unknown before there is data."""


@dataclass(frozen=True)
class Reach:
    """The least sizes of groups, in rows as they count, that reach a noisy threshold.

    `rarely` is reached with probability 5 %, `half` with 50 %, `mostly` with 95 %. With a
    `condition` the sizes hold under it alone.

    >>> from dfprivacy.noise.laws import DiscreteLaplace
    >>> reaching(30, DiscreteLaplace(Fraction(1)))
    Reach(rarely=28, half=30, mostly=32)
    """

    rarely: int
    half: int
    mostly: int
    condition: str = field(default="", repr=False)

    def __str__(self) -> str:
        text = (
            f"with probability 5% from {self.rarely:,} rows on, 50% from {self.half:,}, "
            f"95% from {self.mostly:,}"
        )
        more = ", and from more within the limits that the release finds"
        return f"{text} {self.condition}{more}" if self.condition else text


@lru_cache(maxsize=256)
def reaching(threshold: int, noise: Noise, divisor: int = 1, terms: int = 1) -> Reach:
    """Return the sizes at which divisor * rows + Z_1 + ... + Z_terms >= threshold."""

    def smallest(chance: Fraction) -> int:
        def is_reached(rows: int) -> bool:
            return noise.tail(threshold - rows * divisor, terms) >= chance

        high = 1
        while not is_reached(high):
            high *= 2
        return bisect_left(range(high), True, high // 2, key=is_reached)  # noqa: FBT003 looked for

    rarely, half, mostly = (smallest(Fraction(percent, 100)) for percent in (5, 50, 95))
    return Reach(rarely, half, mostly)


@dataclass(frozen=True)
class Forecast:
    """Forecast of one answer from public facts: its noise and its half-widths.

    `mechanism` says in words what makes it private; `scale`, in `scale_unit`, is that of discrete
    Laplace noise on the sums behind it, or the standard deviation of discrete Gaussian noise. For
    each of `rows`, the sizes of groups in rows as they count, `typical` half-widths in `unit` are
    distances from the answer without noise that hold with probability `level` for expected data:
    values in the middle of the bounds or spread evenly over them; None if unknown. `whole` is what
    100 % of one is: the rows, the width of the bounds. `answered` are sizes from which on there is
    an answer, where small groups get none; `remarks` are what else to know. `open_limits` are those
    of a unit that the release finds: units and sizes then name the limits that they hold for.
    `bounds_from` is the size from which on bounds are mostly found.
    """

    name: str
    mechanism: str
    question: str = ""
    scale: float | None = None
    scale_unit: str = ""
    unit: str = ""
    rows: tuple[int, ...] = SIZES
    typical: HalfWidths = UNTOLD
    answered: Reach | None = None
    remarks: tuple[str, ...] = ()
    percent_base: HalfWidths = UNTOLD
    open_limits: tuple[str, ...] = ()
    bounds_from: int = 0

    @property
    def is_known(self) -> bool:
        """True if a half-width is known beforehand."""
        return any(half is not None for half in self.typical)

    def with_sizes(self, sizes: tuple[int, ...], percent_base: HalfWidths) -> Forecast:
        """Return the forecast with the sizes that it was made for, and what 100 % is for each."""
        half_widths = (None,) * len(sizes) if self.typical is UNTOLD else self.typical
        return replace(self, rows=sizes, typical=half_widths, percent_base=percent_base)

    def with_open_limits(self, limits: tuple[str, ...]) -> Forecast:
        """Return the forecast as one for limits of 1, where the release finds these limits."""
        if not limits:
            return self
        condition, answered = name_condition(limits), self.answered
        return replace(
            self,
            scale_unit=f"{self.scale_unit} {condition}" if self.scale_unit else "",
            unit=f"{self.unit} {condition}" if self.unit else "",
            answered=answered and replace(answered, condition=condition),
            open_limits=limits,
        ).add_remarks(
            f"the release finds {' and '.join(limits)}: noise, half-widths and the rows that "
            "groups need grow with them, about in proportion; name limits to know these figures"
        )

    def add_remarks(self, *remarks: str) -> Forecast:
        """Return the forecast with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))


def name_condition(limits: tuple[str, ...]) -> str:
    """Return the condition that limits are 1.

    >>> name_condition(("max_rows", "max_groups"))
    'if max_rows=1 and max_groups=1'
    """
    return f"if {' and '.join(f'{limit}=1' for limit in limits)}"


def by_size(values: Iterable[float]) -> HalfWidths:
    """Return half-widths as plain floats, None for NaN."""
    return tuple(None if math.isnan(value) else float(value) for value in values)


@dataclass(frozen=True)
class Circumstances:
    """Public facts that a forecast depends on besides its mechanism.

    `declared` says what columns are declared to hold, as far as that is known; `sizes` are the
    groups that half-widths are for.
    """

    level: float
    unit: Unit | None
    declared: Declared = field(default_factory=dict)
    sizes: tuple[int, ...] = SIZES

    @property
    def each_size(self) -> npt.NDArray[np.float64]:
        """The sizes as numbers to compute with."""
        return np.array(self.sizes, dtype=np.float64)
