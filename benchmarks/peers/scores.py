"""From private answers to a mean squared error, and from two of them to a ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Score:
    """A mean squared error over independent answers, with its standard error."""

    mse: float
    error: float
    releases: int

    @classmethod
    def of(cls, result: dict[str, Any]) -> Score:
        return cls(result["mse"], result["error"], result["releases"])

    def ratio_to(self, other: Score) -> tuple[float, float]:
        """Return the ratio to another and its standard error."""
        ratio = self.mse / other.mse
        relative = math.hypot(self.error / self.mse, other.error / other.mse)
        return ratio, ratio * relative


def score(answers: Sequence[float], truth: float) -> Score:
    """Return the error of answers; what is no number is an error of its own and not counted."""
    values = np.array(answers, dtype=float)
    squares = (values[np.isfinite(values)] - truth) ** 2
    error = squares.std(ddof=1) / math.sqrt(len(squares)) if len(squares) > 1 else math.inf
    return Score(float(squares.mean()), float(error), len(squares))


def pool_ratios(ratios: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the geometric mean of ratios with its standard error."""
    logs = [math.log(ratio) for ratio, _ in ratios]
    relative = [error / ratio for ratio, error in ratios]
    middle = math.exp(sum(logs) / len(logs))
    return middle, middle * math.sqrt(sum(value**2 for value in relative)) / len(ratios)
