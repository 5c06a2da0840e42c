"""What is known of one answer before it is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from dfprivacy.forecast.reaching import Reach

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""The sizes of groups, in rows as they count, that half-widths are given for."""

HalfWidths = tuple[float | None, ...]

UNTOLD: HalfWidths = (None,) * len(SIZES)
"""Half-widths where nothing can be said before there is data."""


@dataclass(frozen=True)
class Forecast:
    """One answer before it is made: its noise, and how far that moves it. Public facts alone.

    Attributes
    ----------
    name : str
        What the answer is called.
    question : str
        The question as it was asked.
    mechanism : str
        What makes it private, in words.
    scale : float or None
        The noise on the sums behind it, in `scale_unit`: the scale of discrete Laplace noise, the
        standard deviation of discrete Gaussian noise.
    scale_unit : str
        In what it is measured.
    unit : str
        In what half-widths are measured.
    rows : tuple of int
        Sizes of groups, in rows as they count.
    certain : tuple of float or None
        For each size a distance from the answer without noise that holds with probability `level`
        for all data within the bounds; None where nothing can be said.
    ordinary : tuple of float or None
        The same for ordinary data: means in the middle of the bounds, variances as of values spread
        evenly over them, quantiles among values that are spread evenly.
    answered : Reach or None
        Sizes from which on there is an answer, where small groups get none.
    halve : tuple of str
        Each of these changes makes the ordinary half-width half as large.
    remarks : tuple of str
        What else to know.
    """

    name: str
    question: str
    mechanism: str
    scale: float | None = None
    scale_unit: str = ""
    unit: str = ""
    rows: tuple[int, ...] = SIZES
    certain: HalfWidths = UNTOLD
    ordinary: HalfWidths = UNTOLD
    answered: Reach | None = None
    halve: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    @property
    def told(self) -> bool:
        """Tell whether any half-width is known beforehand."""
        return any(half is not None for half in self.certain + self.ordinary)

    def noted(self, *remarks: str) -> Forecast:
        """Return the forecast with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))

    def measured(self, certain: HalfWidths, ordinary: HalfWidths | None = None) -> Forecast:
        """Return the forecast with half-widths; ordinary ones are the certain ones unless given."""
        return replace(self, certain=certain, ordinary=certain if ordinary is None else ordinary)

    def records(self) -> Iterator[dict[str, object]]:
        """Yield one record a size: answer, question, rows, certain, ordinary, unit."""
        for rows, certain, ordinary in zip(self.rows, self.certain, self.ordinary, strict=True):
            yield {
                "answer": self.name, "question": self.question, "rows": rows,
                "certain": certain, "ordinary": ordinary, "unit": self.unit,
            }  # fmt: skip


def number(value: float | None) -> str:
    """Return a number with three digits, as it is read best.

    >>> number(0.0123456), number(12345.0), number(1e-9), number(None)
    ('0.0123', '12,345', '1e-09', '-')
    """
    if value is None:
        return "-"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def by_size(values: Iterable[float]) -> HalfWidths:
    """Return half-widths as plain floats, None for NaN."""
    return tuple(None if math.isnan(value) else float(value) for value in values)
