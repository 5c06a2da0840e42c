"""Differentially private statistics on dataframes, in SQL and on the command line.

Importing the package puts `.dp` on pandas and polars frames:

>>> import dfprivacy as dfp, polars as pl
>>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
>>> flights.dp.group_by("carrier").mean("delay", bounds=(0, 60), epsilon=1, delta=1e-6).columns
['carrier', 'delay', 'low', 'high', 'count']
"""

from dfprivacy.errors import (
    DPError,
    EngineError,
    EntropyError,
    InvalidBoundsError,
    InvalidKeysError,
    InvalidLossError,
    InvalidQuestionError,
    MissingBoundsError,
    MissingColumnError,
    MissingDeltaError,
    TooManyRowsError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.frontends import pandas as _pandas
from dfprivacy.frontends import polars as _polars
from dfprivacy.private import Private
from dfprivacy.questions import count, mean, std, sum, var  # noqa: A004 the field's own words
from dfprivacy.release import Estimate
from dfprivacy.terms import Bounds

frame = Private

__all__ = [
    "Bounds",
    "DPError",
    "EngineError",
    "EntropyError",
    "Estimate",
    "InvalidBoundsError",
    "InvalidKeysError",
    "InvalidLossError",
    "InvalidQuestionError",
    "MissingBoundsError",
    "MissingColumnError",
    "MissingDeltaError",
    "Private",
    "TooManyRowsError",
    "UnsupportedDtypeError",
    "UnsupportedFrameError",
    "count",
    "frame",
    "mean",
    "std",
    "sum",
    "var",
]

_pandas.register()
_polars.register()
