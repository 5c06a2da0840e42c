"""What was asked and what made it private, in words."""

from __future__ import annotations

from collections.abc import Sequence

from dfprivacy.histogram import Histogram
from dfprivacy.statistics import (
    Center,
    Mean,
    PrivateBounds,
    Quantile,
    Quantiles,
    StandardDeviation,
    Statistic,
    Sum,
    Variance,
)

Asked = Statistic | Histogram

_ONE, _SEVERAL = "a private selection", "private selections"
_HISTOGRAM = "a noisy histogram"


def kind(asked: Asked) -> str:
    """Return what is asked for, in one word."""
    return "histogram" if isinstance(asked, Histogram) else asked.kind


def title(asked: Asked, by: Sequence[str], interval: float | None) -> str:
    """Return what a table holds."""
    of = "" if asked.column is None else f" of {asked.column}"
    groups = f" by {', '.join(by)}" if by else ""
    level = f", {100 * (interval or 0):.6g}% intervals" if has_interval(asked) else ""
    return f"Private {kind(asked)}{_which(asked)}{of}{groups}{level}"


def _which(asked: Asked) -> str:
    if isinstance(asked, Quantile) and asked.kind == "quantile":
        return f" {asked.q:g}"
    return f" (p = {asked.p:g})" if isinstance(asked, Center) else ""


def has_interval(asked: Asked) -> bool:
    """Tell whether the answers are read off noisy sums, and not selected."""
    if isinstance(asked, Mean):
        return asked.method != "inverse"
    return not isinstance(asked, Quantile | Quantiles | Center | PrivateBounds)


def finds_bounds(asked: Asked) -> bool:
    """Tell whether a noisy sum is taken within bounds that were found privately."""
    summed = isinstance(asked, Sum | Mean | Variance | StandardDeviation) and asked.bounds is None
    return summed and has_interval(asked)


def mechanism(asked: Asked, law: str) -> str:
    """Return what made the answer private; `law` is the noise that the loss asks for.

    What is not read off noisy sums comes with a noisy count of the rows, by group or not.
    """
    return _noise(asked, law) if has_interval(asked) else f"{_choice(asked)} and {law} counts"


def _noise(asked: Asked, law: str) -> str:
    if isinstance(asked, Histogram):
        return law if asked.edges is not None else f"{law} within bounds from {_HISTOGRAM}"
    if not finds_bounds(asked):
        return law
    if isinstance(asked, Mean) and asked.method == "dick":
        return f"discrete Laplace within bounds from {_SEVERAL}"
    if isinstance(asked, Mean) and asked.method == "subset":
        return f"{law} within bounds from {_SEVERAL}"
    return f"{law} within bounds from {_HISTOGRAM}"


def _choice(asked: Asked) -> str:
    if isinstance(asked, PrivateBounds):
        return f"{_HISTOGRAM} (discrete Laplace)" if asked.rank is None else _SEVERAL
    if isinstance(asked, Center) and asked.method == "dick":
        return _SEVERAL
    if isinstance(asked, Quantiles) and len(asked.qs) > 1:
        return _SEVERAL
    found = isinstance(asked, Mean) or (isinstance(asked, Center) and asked.bounds is None)
    return f"{_ONE} within bounds from {_HISTOGRAM} (discrete Laplace)" if found else _ONE
