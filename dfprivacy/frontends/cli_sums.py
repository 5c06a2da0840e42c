"""Commands that noisy sums answer: count, sum, mean, var, std, histogram."""

from __future__ import annotations

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.frontends.cli_command import estimating
from dfprivacy.frontends.cli_options import (
    BINNED,
    BINS,
    BOUNDS,
    COLUMN,
    COUNTED,
    EDGES,
    MEAN_METHOD,
)
from dfprivacy.histogram import Histogram
from dfprivacy.statistics import Count, Mean, StandardDeviation, Sum, Variance
from dfprivacy.terms import bounds_of


@estimating
def count(column: COUNTED = None) -> Count:
    """Count rows, or the values of a column.

    [bold]Example[/bold]

    dfprivacy count flights.csv --by carrier --keys AA --keys UA
    """
    return Count(column)


@estimating
def total(column: COLUMN, *, bounds: BOUNDS = None) -> Sum:
    """Add up the values of a column.

    [bold]Example[/bold]

    dfprivacy sum flights.csv distance --bounds 0 5000 --epsilon 0.5
    """
    return Sum(column, bounds_of(bounds))


@estimating
def mean(column: COLUMN, *, bounds: BOUNDS = None, method: MEAN_METHOD = "transformed") -> Mean:
    """Average the values of a column.

    [bold]Example[/bold]

    dfprivacy mean flights.csv delay --by carrier --delta 1e-6
    """
    return Mean(column, bounds_of(bounds), method)


@estimating
def var(column: COLUMN, *, bounds: BOUNDS = None) -> Variance:
    """Compute the variance of a column.

    [bold]Example[/bold]

    dfprivacy var flights.csv delay --bounds -60 240 --rho 0.5
    """
    return Variance(column, bounds_of(bounds))


@estimating
def std(column: COLUMN, *, bounds: BOUNDS = None) -> StandardDeviation:
    """Compute the standard deviation of a column.

    [bold]Example[/bold]

    dfprivacy std flights.csv delay --bounds -60 240 --output std.csv
    """
    return StandardDeviation(column, bounds_of(bounds))


@estimating
def histogram(
    column: COLUMN, *, bins: BINS = None, bounds: BINNED = None, edge: EDGES = None
) -> Histogram:
    """Count the values of a column bin by bin.

    [bold]Example[/bold]

    dfprivacy histogram flights.csv delay --bins 10 --bounds -60 240
    """
    if (bins is None) == (not edge):
        raise InvalidQuestionError(
            "a histogram needs either a number of bins or the edges of its bins",
            hint="add --bins 10, or --edge 0 --edge 10 --edge 100",
        )
    if edge and bounds is not None:
        raise InvalidQuestionError(
            "edges and bounds were both given", hint="leave --bounds out: the edges are the bounds"
        )
    return Histogram.of(column, edge or bins, bounds_of(bounds))
