"""Put `.dp` on pandas frames and series and on polars frames.

Never on expressions of polars: there that name belongs to OpenDP.
"""

from __future__ import annotations

import atexit
from typing import Any

import pandas as pd
import polars as pl

from dfprivacy.errors import InvalidUnitError, boundary
from dfprivacy.frames.private import Private, PrivateColumn


@boundary
class PrivateSeries(PrivateColumn):
    """A series that answers privately: the questions of `Private` about its one column.

    Calling it sets terms for the questions that follow, as those of a frame. A unit is then the
    name of a level of the index, or a series of the same length.

    >>> import dfprivacy as dfp, pandas as pd
    >>> 0 <= pd.Series(range(100)).dp(epsilon=2).mean(bounds=(0, 100)) <= 100
    True
    """

    def __init__(self, series: pd.Series[Any], owner: Private | None = None) -> None:
        label = "value" if series.name is None else series.name
        super().__init__(owner or Private(series.to_frame(label)), label)
        self._series = series

    def __call__(self, *, unit: Any = None, **terms: Any) -> PrivateSeries:
        """Return the same series with terms for the questions that follow: see `Private`."""
        if unit is None:
            return PrivateSeries(self._series, self._owner(**terms))
        frame = self._series.to_frame(self._column)
        values: Any = unit
        if not isinstance(unit, pd.Series):
            values = self._series.index.get_level_values(unit)
        if len(values) != len(frame):
            raise InvalidUnitError(
                "the units are not as many as the values",
                hint="pass a series of the same length, or the name of a level of the index",
            )
        label = "unit" if self._column != "unit" else "unit_"
        frame[label] = values.array
        owner = self._owner.__class__(frame, self._owner._terms)  # noqa: SLF001 one of ours
        return PrivateSeries(self._series, owner(unit=label, **terms))


def register() -> None:
    """Put `.dp` on pandas' DataFrame and Series, until Python ends, and on frames of polars."""
    pd.api.extensions.register_dataframe_accessor("dp")(Private)
    pd.api.extensions.register_series_accessor("dp")(PrivateSeries)
    atexit.register(unregister)
    pl.api.register_dataframe_namespace("dp")(Private)
    pl.api.register_lazyframe_namespace("dp")(Private)


def unregister() -> None:
    """Take `.dp` off pandas again.

    The classes of pandas outlive the interpreter. What hangs on them would keep our modules alive,
    and DuckDB's types with them, of which DuckDB would complain on stderr.
    """
    for kind in (pd.DataFrame, pd.Series):
        if "dp" in vars(kind):
            delattr(kind, "dp")
