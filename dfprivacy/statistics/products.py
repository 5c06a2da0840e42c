"""Answer statistics of several columns without bounds: find the bounds, then add up within them.

A part of the loss pays for one search a column (`estimators/bounds_search.py`), over all groups
together. The rest pays for sums of products within these bounds, which a second pass adds up.
Proof: docs/explanation/octaves.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.histograms import HistogramQuery, count_bins
from dfprivacy.engine.keys import align
from dfprivacy.engine.passes import exact_sums
from dfprivacy.measurement.bin_table import FINE, BinTable
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.linear import Source
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import KeyRule, Noise
from dfprivacy.release.answers import Answered, Estimated, Measured, join_notes
from dfprivacy.release.plan import PartLimits
from dfprivacy.statistics.estimators.bounds_search import (
    LEAST_ZOOMED,
    OCTAVES_OF_ROWS,
    POLICY,
    UNITS,
    FoundBounds,
    find_column_bounds,
)
from dfprivacy.statistics.forecast import Circumstances, Forecast
from dfprivacy.statistics.linear import LinearPart, MeasuredSums, Vectors, VectorsPart
from dfprivacy.statistics.octaves import BiasAwareEstimator, UnknownEstimator, bounds_reach

SEARCH = Fraction(7, 10)
"""Fraction of the loss that the searches of all columns may use together; they return the rest."""

PRODUCTS = replace(POLICY, zoom=0.6, doubt=0.0)
"""The policy of these searches: rows outside may move a covariance by more than noise does."""

TOO_FEW = "too few rows for bounds"


@dataclass(frozen=True)
class ProductPart(VectorsPart):
    """Statistics of the same columns. The bounds of the `searched` columns are found first.

    So many parts as `sharing` says share the level of notes on what given bounds clip.
    """

    questions: Mapping[str, Any]
    searched: tuple[Hashable, ...]
    grouped: bool
    units: bool = False
    sharing: int = 1
    limits: PartLimits | None = None

    reads_again = True

    answer_share: ClassVar[Fraction] = 1 - SEARCH * (1 - LEAST_ZOOMED)
    """The share of the loss that is left for the answers, at least."""

    def within_limits(self, limits: PartLimits) -> Self:
        """Return the part for the limits of a unit."""
        return replace(self, limits=limits)

    def within(self, bounds: Mapping[Hashable, Bounds]) -> LinearPart:
        """Return the part that answers within bounds of the columns without."""
        questions = {name: question.complete(bounds) for name, question in self.questions.items()}
        part = LinearPart(
            questions,
            self.grouped,
            units=self.units,
            sharing=self.sharing,
            searched=self.searched,
        )
        return part if self.limits is None else part.within_limits(self.limits)

    @cached_property
    def linear(self) -> LinearPart:
        """The part within made-up bounds, which have no effect on the number of its answers."""
        return self.within(dict.fromkeys(self.searched, Bounds(0, 1)))

    @property
    def vectors(self) -> Vectors:
        """The vectors within made-up bounds."""
        return self.linear.vectors

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.linear.count_noise(loss.share(self.answer_share))

    def pool(self, loss: Epsilon | Rho) -> Epsilon | Rho:
        """Return the loss of the search in one column: all groups of a unit count together."""
        groups = 1 if self.limits is None else self.limits.contribution.groups
        return loss.pool(groups).share(SEARCH / len(self.searched))

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of each answer, in widths of the bounds that are found first."""
        reach = bounds_reach(self.pool(loss).share(LEAST_ZOOMED))
        remark = f"each column finds bounds {reach} in one octave, of all groups together"
        forecasts = self.linear.forecasts(loss.share(self.answer_share), circumstances)
        units = [self.questions[forecast.name].unit(found_bounds=True) for forecast in forecasts]
        return [
            replace(
                forecast.add_remarks(remark), unit=unit, bounds_from=OCTAVES_OF_ROWS * reach.mostly
            )
            for forecast, unit in zip(forecasts, units, strict=True)
        ]

    def measure(self, adopted: Adopted) -> MeasuredProducts:
        """Count the values of each column in all groups by bin; the frame adds the second pass."""
        queries = [HistogramQuery(column, FINE, pooled=True) for column in self.searched]
        tables = tuple(count_bins(adopted, queries))
        if not adopted.keys:
            return MeasuredProducts(self, tables, pa.table({}))
        rows = exact_sums(adopted, (Source(),))
        groups = rows if adopted.listed_keys is None else align(rows, adopted.listed_keys)
        return MeasuredProducts(self, tables, groups.key_table())


@dataclass(frozen=True, repr=False)
class MeasuredProducts(Measured):
    """Bins of each column, and the second pass that adds up products within bounds. Secret."""

    part: ProductPart
    tables: tuple[BinTable, ...]
    keys: pa.Table
    again: Callable[[LinearPart], MeasuredSums] | None = None
    """Function that runs the second pass, with the groups of that moment."""

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the measurement with sums of exactly the groups with these keys."""
        again = self.again
        assert again is not None  # noqa: S101 every frame has a second pass
        return replace(self, keys=keys, again=lambda part: again(part).of_groups(keys))

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Find bounds of each column, then answer within them with the loss that is left."""
        assert self.again is not None  # noqa: S101 every frame has a second pass
        searched, pooled = self.part.searched, self.part.pool(loss)
        bounds_of_columns = find_column_bounds(self.tables, pooled, PRODUCTS)
        results = dict(zip(searched, bounds_of_columns, strict=True))
        used = sum(1 - Fraction(int(result.left[0]), UNITS) for result in results.values())
        left = loss.share(1 - used * SEARCH / len(searched))
        is_found = all(result.is_found[0] for result in results.values())
        bounds = {
            column: Bounds(float(result.lower[0]), float(result.upper[0]))
            if is_found
            else Bounds(0, 1)
            for column, result in results.items()
        }
        answered = self.again(self.part.within(bounds)).answer(left, rule)
        answers = {
            name: tuple(self._state_doubt(answer, results, is_found=is_found) for answer in named)
            for name, named in answered.answers.items()
        }
        return replace(answered, answers=answers)

    def _state_doubt(
        self, answer: Any, results: Mapping[Hashable, FoundBounds], *, is_found: bool
    ) -> Estimated:
        """Return the answer with room for rows outside the bounds, and with the notes on them.

        A group has its part of them, and as many more as chance may give it.
        """
        axes = self.part.questions[answer.name].axes
        biases = np.stack(
            [results[column].bias[:, 0] if column in results else np.zeros(4) for column in axes],
            axis=1,
        )
        texts = [
            f"{column}: {text}"
            for column, result in results.items()
            for text in result.list_notes(np.zeros(1, np.int64))
            if text
        ]
        note = ("; ".join(texts) or None) if is_found else TOO_FEW
        pieces = []
        for piece in answer.pieces:
            estimator: Any = BiasAwareEstimator(piece.estimator, share_biases(biases, piece.vector))
            if not is_found:
                estimator = UnknownEstimator(np.full(len(piece.groups), np.nan))
            notes = [note] * len(piece.groups)
            if is_found and piece.notes:  # on what given bounds clip
                notes = [join_notes((text, note)) for text in piece.notes]
            pieces.append(replace(piece, estimator=estimator, notes=notes))
        ends = (np.stack([result.lower, result.upper]) for result in results.values())
        bounds = tuple(np.repeat(of_column, answer.groups, axis=1) for of_column in ends)
        noted: Estimated = replace(
            answer, pieces=tuple(pieces), has_notes=True, bounds=bounds if is_found else ()
        )
        return noted


def share_biases(biases: Floats, vector: NoisyVector) -> Floats:
    """Return the biases of each group: 4 sums, by column and group.

    Rows outside are in a group as often as other rows are, up to two deviations.
    """
    rows = np.maximum(vector.coordinates.astype(np.float64).sum(axis=0), 1.0)
    part = rows / rows.sum()
    doubt = 2 * np.sqrt(part * (1 - part))
    squares = biases[[1, 1, 3, 3], :, None]
    roots = np.stack([np.sqrt(squares[0]), squares[1], np.sqrt(squares[2]), squares[3]])
    return np.asarray(biases[:, :, None] * part + doubt * roots)
