"""Differentially private statistics on dataframes, in SQL and on the command line.

Importing the package puts `.dp` on pandas and polars frames:

>>> import dfprivacy as dfp, polars as pl
>>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
>>> flights.dp.group_by("carrier").mean("delay", bounds=(0, 60), epsilon=1, delta=1e-6).columns
['carrier', 'delay', 'low', 'high', 'note', 'count']
"""

import importlib as _importlib
import typing as _typing

from dfprivacy import statistics as _kinds
from dfprivacy.accounting.charge import Budget
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import require_ledger, spending
from dfprivacy.engine.embedded import Engine
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
    UnknownAccountError,
    UnknownArgumentError,
    UnknownMethodError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.errors import close as _close
from dfprivacy.frames.limits import suggest_limits
from dfprivacy.frames.merging import merge, statistics
from dfprivacy.frames.numbers import Choice, Estimate, Number
from dfprivacy.frames.private import Private
from dfprivacy.frames.private import register as _register
from dfprivacy.frames.released import released
from dfprivacy.frames.vector_release import VectorEstimate
from dfprivacy.frames.viz.pictures import plot, save_plot, show
from dfprivacy.release.terms import Bounds, Unit
from dfprivacy.statements.connection import Connection, connect
from dfprivacy.statements.interface import explain, sql
from dfprivacy.statements.schema import Schema, public
from dfprivacy.statistics import Statistic, argument

if _typing.TYPE_CHECKING:
    from dfprivacy import local as local
    from dfprivacy import shuffle as shuffle
    from dfprivacy.statements import dbapi as dbapi

frame = Private
count, sum, mean = _kinds.Count, _kinds.Sum, _kinds.Mean  # noqa: A001 the field's own words
var, std, center = _kinds.Variance, _kinds.StandardDeviation, _kinds.Center
min, max = _kinds.Min, _kinds.Max  # noqa: A001 the field's own words
nunique, share = _kinds.NUnique, _kinds.Share
cov, corr = _kinds.Covariance, _kinds.Correlation
slope, intercept, r_squared = _kinds.Slope, _kinds.Intercept, _kinds.RSquared
median, quantile, quantiles = _kinds.Median, _kinds.Quantile, _kinds.Quantiles

__all__ = [
    "AlreadyReportedError",
    "Bounds",
    "Budget",
    "BudgetExceededError",
    "Choice",
    "Connection",
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
    "Number",
    "OutputError",
    "PictureError",
    "Private",
    "RefusedStatementError",
    "Schema",
    "Statistic",
    "StatisticsFileError",
    "TooManyRowsError",
    "Unit",
    "UnknownAccountError",
    "UnknownArgumentError",
    "UnknownMethodError",
    "UnsupportedDtypeError",
    "UnsupportedFrameError",
    "VectorEstimate",
    "argument",
    "center",
    "connect",
    "corr",
    "count",
    "cov",
    "explain",
    "frame",
    "intercept",
    "max",
    "mean",
    "median",
    "merge",
    "min",
    "nunique",
    "plot",
    "progress",
    "public",
    "quantile",
    "quantiles",
    "r_squared",
    "released",
    "require_ledger",
    "save_plot",
    "share",
    "show",
    "slope",
    "spending",
    "sql",
    "statistics",
    "std",
    "suggest_limits",
    "sum",
    "var",
]


_LATER = {"dbapi": "statements.dbapi", "local": "local", "shuffle": "shuffle"}


def __getattr__(name: str) -> _typing.Any:
    """Import the names of PEP 249, the local and the shuffle model on first use."""
    if name in _LATER:
        return _importlib.import_module(f"dfprivacy.{_LATER[name]}")
    raise AttributeError(f"module 'dfprivacy' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_LATER])


_close(globals())
_register()
