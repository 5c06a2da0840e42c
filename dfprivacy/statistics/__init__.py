"""The statistics that can be asked: one file each, and what they have in common."""

from dfprivacy.statistics.base import STATISTICS, Argument, Statistic, argument, question_text
from dfprivacy.statistics.count import Count

from dfprivacy.statistics.sum import Sum  # isort: skip
from dfprivacy.statistics.mean import Mean  # isort: skip
from dfprivacy.statistics.variance import StandardDeviation, Variance  # isort: skip
from dfprivacy.statistics.quantile import Median, Quantile, Quantiles  # isort: skip
from dfprivacy.statistics.center import Center  # isort: skip
from dfprivacy.statistics.bounds import PrivateBounds  # isort: skip

__all__ = [
    "STATISTICS",
    "Argument",
    "Center",
    "Count",
    "Mean",
    "Median",
    "PrivateBounds",
    "Quantile",
    "Quantiles",
    "StandardDeviation",
    "Statistic",
    "Sum",
    "Variance",
    "argument",
    "question_text",
]
