"""Differentially private statistics on dataframes, in SQL and on the command line.

Importing the package puts `.dp` on pandas and polars frames:

>>> import dfprivacy as dfp, polars as pl
>>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
>>> flights.dp.group_by("carrier").mean("delay", bounds=(0, 60), epsilon=1, delta=1e-6).columns
['carrier', 'delay', 'low', 'high', 'count']
"""

import importlib as _importlib
import typing as _typing

from dfprivacy import statistics as _kinds
from dfprivacy.accounting.charge import Budget
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import require_ledger, spending
from dfprivacy.engine.options import Engine
from dfprivacy.engine.progress import progress
from dfprivacy.errors import (
    AlreadyReportedError,
    BudgetExceededError,
    DPError,
    EngineError,
    EntropyError,
    InvalidBoundsError,
    InvalidDescriptionError,
    InvalidEngineError,
    InvalidKeysError,
    InvalidLedgerError,
    InvalidLossError,
    InvalidProtocolError,
    InvalidQuestionError,
    InvalidUnitError,
    LedgerBudgetError,
    LedgerError,
    LedgerFileError,
    MissingBoundsError,
    MissingColumnError,
    MissingDeltaError,
    MissingLedgerError,
    OutputError,
    PictureError,
    RefusedStatementError,
    StatisticsFileError,
    TooManyRowsError,
    UnknownArgumentError,
    UnknownMethodError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.frontends import pandas as _pandas
from dfprivacy.frontends import polars as _polars
from dfprivacy.limits import suggest_limits
from dfprivacy.partial.merging import merge
from dfprivacy.partial.writing import statistics
from dfprivacy.pictures import plot, save_plot, show
from dfprivacy.private import Private
from dfprivacy.release.numbers import Choice, Estimate
from dfprivacy.statements.interface import explain, sql
from dfprivacy.statistics import Statistic, argument
from dfprivacy.terms import Bounds
from dfprivacy.unit import Unit
from dfprivacy.vectors.estimate import VectorEstimate

if _typing.TYPE_CHECKING:
    from dfprivacy import local as local
    from dfprivacy import shuffle as shuffle

frame = Private
count, sum, mean = _kinds.Count, _kinds.Sum, _kinds.Mean  # noqa: A001 the field's own words
var, std, center = _kinds.Variance, _kinds.StandardDeviation, _kinds.Center
median, quantile, quantiles = _kinds.Median, _kinds.Quantile, _kinds.Quantiles

__all__ = [
    "AlreadyReportedError",
    "Bounds",
    "Budget",
    "BudgetExceededError",
    "Choice",
    "DPError",
    "Engine",
    "EngineError",
    "EntropyError",
    "Estimate",
    "InvalidBoundsError",
    "InvalidDescriptionError",
    "InvalidEngineError",
    "InvalidKeysError",
    "InvalidLedgerError",
    "InvalidLossError",
    "InvalidProtocolError",
    "InvalidQuestionError",
    "InvalidUnitError",
    "Ledger",
    "LedgerBudgetError",
    "LedgerError",
    "LedgerFileError",
    "MissingBoundsError",
    "MissingColumnError",
    "MissingDeltaError",
    "MissingLedgerError",
    "OutputError",
    "PictureError",
    "Private",
    "RefusedStatementError",
    "Statistic",
    "StatisticsFileError",
    "TooManyRowsError",
    "Unit",
    "UnknownArgumentError",
    "UnknownMethodError",
    "UnsupportedDtypeError",
    "UnsupportedFrameError",
    "VectorEstimate",
    "argument",
    "center",
    "count",
    "explain",
    "frame",
    "mean",
    "median",
    "merge",
    "plot",
    "progress",
    "quantile",
    "quantiles",
    "require_ledger",
    "save_plot",
    "show",
    "spending",
    "sql",
    "statistics",
    "std",
    "suggest_limits",
    "sum",
    "var",
]


def __getattr__(name: str) -> _typing.Any:
    """Import the local and the shuffle model on first use."""
    if name in {"local", "shuffle"}:
        return _importlib.import_module(f"dfprivacy.{name}")
    raise AttributeError(f"module 'dfprivacy' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted([*__all__, "local", "shuffle"])


_pandas.register()
_polars.register()
