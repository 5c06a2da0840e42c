"""Count what given bounds clip: the values below, within and above them, beside what they answer.

An interval of clipped values says nothing of what was clipped. So a small part of the loss of an
answer within given bounds pays for three noisy counts, to which each value adds 1 once; where they
show that something was clipped, the answer has a note (docs/intervals.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.grid import grid_from_lower
from dfprivacy.measurement.linear import WHOLE, Above, Linear, Source
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.release.estimator import ProportionEstimator
from dfprivacy.release.terms import Bounds

CLIPPING_DOC = "Whether a twentieth of the loss tells, in a note, what given bounds have clipped."

SHARE = Fraction(1, 20)
"""The part of the loss of a vector that counts what its bounds clip."""

REMARK = "a twentieth of the loss counts what the bounds clip (clipping=False saves it)"
"""What explanations say of it."""

_ALONE = 0.02  # outside probability: noise alone is larger at one of two ends in 1 % each
_LEVEL = 0.95


def watched(linear: Linear, column: Hashable, bounds: Bounds) -> tuple[Linear, Linear]:
    """Return a vector of a column within bounds over one source with the counts, and the counts.

    These are of the values below, within and above the bounds: a row moves them by `WHOLE` in all.
    A value that lies beyond a bound by less than a step of the grid is rounded, not clipped.
    """
    step = grid_from_lower(bounds).step
    below = min(bounds.lower - step, math.nextafter(bounds.lower, -math.inf))
    above = max(bounds.upper + step, bounds.upper)
    ends = (Above(column, below, WHOLE), Above(column, above, WHOLE))
    source = Source(linear.source.columns, (*linear.source.terms, *ends))
    zeros = (0,) * len(linear.source.terms)
    counts = ((WHOLE, *zeros, -1, 0), (0, *zeros, 1, -1), (0, *zeros, 0, 1))
    wider = tuple((*row, 0, 0) for row in linear.matrix)
    return (
        replace(linear, source=source, matrix=wider),
        Linear(source, counts, WHOLE, WHOLE * WHOLE),
    )


def notes_of(counts: NoisyVector, bounds: Bounds) -> list[str]:
    """Return for each group what its bounds clip, empty where noise alone may have counted it."""
    seen = counts.coordinates > counts.noise.quantile(_ALONE)
    texts = np.full(counts.coordinates.shape[1], "", dtype=object)
    for place, side in ((0, f"below {bounds.lower:g}"), (2, f"above {bounds.upper:g}")):
        groups = np.flatnonzero(seen[place])
        own = NoisyVector(counts.coordinates[:, groups], counts.noise)
        share = ProportionEstimator(3, place, WHOLE)
        written = _percents(np.stack([share.value(own), *share.interval(own, _LEVEL)]))
        said = [
            f"{value} % [{low}, {high}] {side}" for value, low, high in zip(*written, strict=True)
        ]
        before = texts[groups]
        texts[groups] = [
            f"{old}, {new}" if old else f"clipped: {new}"
            for old, new in zip(before, said, strict=True)
        ]
    notes: list[str] = texts.tolist()
    return notes


def _percents(shares: Floats) -> list[list[str]]:
    """Write shares as percentages of three digits; many are alike, and each is written once."""
    exact = 100 * shares
    digit = 10.0 ** (np.floor(np.log10(np.maximum(exact, 1e-300))) - 2)
    alike, places = np.unique(np.rint(exact / digit) * digit, return_inverse=True)
    texts = np.array([f"{own:.3g}" for own in alike.tolist()], dtype=object)
    written: list[list[str]] = texts[places.reshape(shares.shape)].tolist()
    return written
