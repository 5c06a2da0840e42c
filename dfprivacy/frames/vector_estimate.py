"""A private mean of vectors: numbers that know their noise and their cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfprivacy.frames.numbers import Release
from dfprivacy.frames.viz.charts import Dot, vector_chart
from dfprivacy.frames.viz.numbers import plain_card
from dfprivacy.frames.viz.text import MeasuredIn, chart_text
from dfprivacy.measurement.vector_grid import Floats
from dfprivacy.release.terms import interval_level
from dfprivacy.statistics.estimators.vector_means import NoisyMean
from dfprivacy.statistics.mean_vector import MeanVector


@dataclass(frozen=True, eq=False, repr=False)
class VectorEstimate:
    """A private mean of vectors. It behaves like a sequence of floats and like a numpy array.

    >>> import dfprivacy as dfp, numpy as np, polars as pl
    >>> frame = pl.DataFrame({"x": np.linspace(0, 1, 5000), "y": np.linspace(1, 2, 5000)})
    >>> mean = frame.dp.mean_vector(["x", "y"], rho=0.5, radius=10)
    >>> len(mean), bool(abs(np.asarray(mean) - [0.5, 1.5]).max() < 0.2)
    (2, True)
    """

    question: MeanVector
    noisy: NoisyMean
    release: Release

    @property
    def values(self) -> Floats:
        """The mean, one float64 a coordinate, in units of the columns."""
        return self.noisy.value()

    def interval(self, level: float | None = None) -> tuple[Floats, Floats]:
        """Return ends, one a coordinate, that cover the noise with probability `level` each.

        They cover what noise does to the clipped mean: not sampling error, and not what clipping
        and quantisation have done. No interval is wider than what clipping allows.

        Raises
        ------
        InvalidQuestionError
            When `level` does not lie between 0 and 1.
        """
        chosen = self.release.level if level is None else interval_level(level)
        return self.noisy.interval(chosen)

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals at the level asked for."""
        return self.interval()[0]

    @property
    def high(self) -> Floats:
        """Upper ends of the intervals at the level asked for."""
        return self.interval()[1]

    @property
    def std_error(self) -> Floats:
        """Standard deviation of the noise in each coordinate, to first order."""
        return self.noisy.standard_error()

    @property
    def count(self) -> int:
        """The number of whole vectors, noisy; public and exact under neighbours="replace"."""
        return self.noisy.rows.value

    @property
    def rho(self) -> float | None:
        """What the call spent (zCDP)."""
        return self.release.rho

    @property
    def method(self) -> str:
        """How the mean was found; what "auto" has chosen."""
        return self.question.chosen_method

    @property
    def neighbours(self) -> str:
        """What the call protects: "add-remove", or "replace" with a public number of rows."""
        return self.question.neighbours

    def __len__(self) -> int:
        """Return the dimension."""
        return len(self.noisy.sums)

    def __iter__(self) -> Iterator[float]:
        """Yield the coordinates."""
        return iter(self.values.tolist())

    def __getitem__(self, index: Any) -> Any:
        """Return a coordinate, or several."""
        return self.values[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001 numpy's protocol
        """Return the mean as an array."""
        return np.array(self.values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        """Show the first coordinates, how far noise moves the whole, and the cost, on one line."""
        return f"{self.question.name} {self._first()}, {self._about()}"

    def _first(self) -> str:
        shown = ", ".join(f"{value:.6g}" for value in self.values[:4])
        return f"[{shown}{', ...' if len(self) > 4 else ''}]"

    def _about(self) -> str:
        noise = math.hypot(*self.std_error.tolist())
        return (
            f"{len(self)} coordinates, noise {noise:.3g} in norm, {self.method}, "
            f"{self.neighbours}, {self.release.cost}"
        )

    def _repr_html_(self) -> str:
        return plain_card(self.question.name, self._first(), self._about())

    def plot(self, *, measured_in: MeasuredIn = None) -> Any:
        """Return a chart of all coordinates with their intervals (an altair chart).

        Up to 40 coordinates are dots, more of them a line with a band; 2,000 are shown at most.
        `measured_in` names the unit of the columns for the axis.

        Raises
        ------
        PictureError
            When altair is not installed: pip install 'dfprivacy[plot]'.
        """
        low, high = self.interval()
        names = self.question.labels if self.question.wide else range(len(self))
        rows = zip(names, self.values.tolist(), low.tolist(), high.tolist(), strict=True)
        dots = [Dot(chart_text(name), value, (a, b)) for name, value, a, b in rows]
        level = self.release.level
        return vector_chart(dots, self.question.name, self._about(), level, measured_in)
