"""Define the statistics that can be asked, and what they have in common."""

from dfprivacy.errors import boundary as _boundary
from dfprivacy.measurement.grid import grid_from_lower, grid_from_zero
from dfprivacy.measurement.linear import Above, CountWeights, Linear, OnGrid, Product, Source
from dfprivacy.release.estimator import ProportionEstimator, RatioEstimator
from dfprivacy.statistics.base import STATISTICS, Argument, Statistic, argument, question_text
from dfprivacy.statistics.count import Count, NUnique, Share
from dfprivacy.statistics.linear import LinearStatistic

from dfprivacy.statistics.mean import Mean, Sum  # isort: skip
from dfprivacy.statistics.variance import StandardDeviation, Variance  # isort: skip
from dfprivacy.statistics.quantile import Max, Median, Min, Quantile, Quantiles  # isort: skip
from dfprivacy.statistics.bounds import Center, PrivateBounds  # isort: skip
from dfprivacy.statistics.covariance import (  # isort: skip
    Correlation,
    Covariance,
    Intercept,
    RatioOfSums,
    RSquared,
    Slope,
)
from dfprivacy.measurement.bounds import Bounds, BoundsLike

__all__ = [
    "STATISTICS",
    "Above",
    "Argument",
    "Bounds",
    "BoundsLike",
    "Center",
    "Correlation",
    "Count",
    "CountWeights",
    "Covariance",
    "Intercept",
    "Linear",
    "LinearStatistic",
    "Max",
    "Mean",
    "Median",
    "Min",
    "NUnique",
    "OnGrid",
    "PrivateBounds",
    "Product",
    "ProportionEstimator",
    "Quantile",
    "Quantiles",
    "RSquared",
    "RatioEstimator",
    "RatioOfSums",
    "Share",
    "Slope",
    "Source",
    "StandardDeviation",
    "Statistic",
    "Sum",
    "Variance",
    "argument",
    "grid_from_lower",
    "grid_from_zero",
    "question_text",
]

for _kind in STATISTICS.values():
    _boundary(_kind)
