"""Commands that private selections answer: median, quantile, quantiles, center, bounds."""

from __future__ import annotations

from dfprivacy.frontends.cli_command import choosing
from dfprivacy.frontends.cli_options import BOUNDS, COLUMN, QS, QUANTILE_METHOD, RANK, P, Q
from dfprivacy.statistics import Center, Median, PrivateBounds, Quantile, Quantiles
from dfprivacy.terms import bounds_of


@choosing
def median(column: COLUMN, *, method: QUANTILE_METHOD = "selection") -> Median:
    """Find the median of a column. No bounds are needed.

    [bold]Example[/bold]

    dfprivacy median flights.csv delay --by carrier --delta 1e-6
    """
    return Median(column, method=method)


@choosing
def quantile(column: COLUMN, *, q: Q, method: QUANTILE_METHOD = "selection") -> Quantile:
    """Find the value that a given part of a column does not exceed.

    [bold]Example[/bold]

    dfprivacy quantile flights.csv delay --q 0.9
    """
    return Quantile(column, q, method)


@choosing
def quantiles(column: COLUMN, *, q: QS) -> Quantiles:
    """Find several quantiles of a column under one privacy loss.

    [bold]Example[/bold]

    dfprivacy quantiles flights.csv delay --q 0.25 --q 0.5 --q 0.75
    """
    return Quantiles(column, tuple(q))


@choosing
def center(column: COLUMN, *, p: P, bounds: BOUNDS = None) -> Center:
    """Find the value c with the least sum of |x - c|^p over a column.

    [bold]Example[/bold]

    dfprivacy center flights.csv delay --p 1.5 --bounds -60 240
    """
    return Center(column, p, bounds_of(bounds))


@choosing
def bounds(column: COLUMN, *, rank: RANK = None) -> PrivateBounds:
    """Find bounds that hold nearly all values of a column.

    [bold]Example[/bold]

    dfprivacy bounds flights.csv delay --epsilon 0.1
    """
    return PrivateBounds(column, rank)
