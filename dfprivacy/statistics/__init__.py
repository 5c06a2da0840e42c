"""The statistics that can be asked: one file each, and what they have in common."""

from dfprivacy.estimators.estimator import ProportionEstimator, RatioEstimator
from dfprivacy.measurement.grid import grid_from_lower, grid_from_zero
from dfprivacy.measurement.linear import Above, CountWeights, Linear, OnGrid, Product, Source
from dfprivacy.statistics.base import STATISTICS, Argument, Statistic, argument, question_text
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.linear import LinearStatistic

from dfprivacy.statistics.sum import Sum  # isort: skip
from dfprivacy.statistics.mean import Mean  # isort: skip
from dfprivacy.statistics.variance import StandardDeviation, Variance  # isort: skip
from dfprivacy.statistics.quantile import Median, Quantile, Quantiles  # isort: skip
from dfprivacy.statistics.center import Center  # isort: skip
from dfprivacy.statistics.bounds import PrivateBounds  # isort: skip
from dfprivacy.terms import Bounds, BoundsLike

__all__ = [
    "STATISTICS",
    "Above",
    "Argument",
    "Bounds",
    "BoundsLike",
    "Center",
    "Count",
    "CountWeights",
    "Linear",
    "LinearStatistic",
    "Mean",
    "Median",
    "OnGrid",
    "PrivateBounds",
    "Product",
    "ProportionEstimator",
    "Quantile",
    "Quantiles",
    "RatioEstimator",
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
