"""Tools of the statistical tests: bulk releases, and limits that false alarms never reach.

ALPHA is the chance of a false alarm in one comparison. A check makes at most 500 of them, so that
its false-alarm rate stays below 1e-6.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

ALPHA = 1e-9


def _upper(hits: Any, trials: int, alpha: float = ALPHA) -> Any:
    """Clopper-Pearson: an upper limit of a probability."""
    return np.where(hits == trials, 1.0, stats.beta.isf(alpha, np.asarray(hits) + 1, trials - hits))


def _lower(hits: Any, trials: int, alpha: float = ALPHA) -> Any:
    """Clopper-Pearson: a lower limit of a probability."""
    return np.where(hits == 0, 0.0, stats.beta.ppf(alpha, hits, trials - np.asarray(hits) + 1))


@pytest.fixture(scope="session")
def upper_limit() -> Callable[..., Any]:
    """Upper limit of a probability by hits and trials."""
    return _upper


@pytest.fixture(scope="session")
def lower_limit() -> Callable[..., Any]:
    """Lower limit of a probability by hits and trials."""
    return _lower


def _violation(left: np.ndarray, right: np.ndarray, epsilon: float, delta: float) -> float:
    """Return how far P(E) certainly exceeds exp(epsilon) Q(E) + delta for some tail or point E.

    Half of the draws choose the events, the other half judges them.
    """
    worst = -math.inf
    half = len(left) // 2
    for tested, reference in ((left, right), (right, left)):
        seen = np.sort(np.concatenate([tested[:half], reference[:half]]))
        cuts = np.unique(seen[np.linspace(0, len(seen) - 1, 64).astype(int)])
        first, second = tested[half:], reference[half:]
        events = [
            (np.array([(side >= c).sum() for c in cuts]) for side in (first, second)),
            (np.array([(side <= c).sum() for c in cuts]) for side in (first, second)),
            (np.array([(side == c).sum() for c in cuts]) for side in (first, second)),
        ]
        for hits, misses in events:
            low, high = _lower(hits, len(first)), _upper(misses, len(second))
            worst = max(worst, float(np.max(low - math.exp(epsilon) * high - delta)))
    return worst


@pytest.fixture(scope="session")
def violation() -> Callable[..., float]:
    """Audit two samples against (epsilon, delta): positive means that privacy is broken."""
    return _violation


@pytest.fixture(scope="session")
def bulk() -> Callable[..., pl.DataFrame]:
    """Release one question about `copies` disjoint groups, each a copy of the same rows."""

    def release(rows: Sequence[Any], copies: int, ask: Callable[..., Any], **terms: Any) -> Any:
        groups = np.repeat(np.arange(copies), len(rows))
        values = pl.Series("x", list(rows) * copies, dtype=pl.Float64)
        frame = pl.DataFrame({"g": pl.Series(groups, dtype=pl.Int64), "x": values})
        keys = None if "delta" in terms else range(copies)
        return ask(frame.dp.group_by("g", keys=keys), **terms)

    return release
