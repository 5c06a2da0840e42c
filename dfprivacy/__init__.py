"""Ask dataframes, SQL and files for differentially private statistics.

Importing the package puts `.dp` on pandas and polars frames:

>>> import dfprivacy as dfp, polars as pl
>>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
>>> flights.dp.group_by("carrier").mean("delay", bounds=(0, 60), epsilon=1, delta=1e-6).columns
['carrier', 'delay', 'low', 'high', 'note', 'count']
"""
# ruff: noqa: A004, N813

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from dfprivacy.accounting.charge import Budget
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import require_ledger, spending
from dfprivacy.engine.embedded import Engine
from dfprivacy.engine.progress import progress
from dfprivacy.engine.text_files import TextFile
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    EngineError,
    LedgerError,
    MissingBoundsError,
    MissingColumnError,
    MissingDeltaError,
    MissingLedgerError,
    RefusedStatementError,
    UnsupportedDtypeError,
)
from dfprivacy.errors import close as _close
from dfprivacy.errors import close_object as _closed
from dfprivacy.frames.estimates import Estimate
from dfprivacy.frames.limits import suggest_limits
from dfprivacy.frames.merging import merge, merge_files, statistics
from dfprivacy.frames.private import Private
from dfprivacy.frames.private import Private as frame
from dfprivacy.frames.private import register_accessors as _register_accessors
from dfprivacy.frames.released import released
from dfprivacy.frames.vector_release import VectorEstimate
from dfprivacy.frames.viz.pictures import plot, save_plot, show
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.release.terms import Unit
from dfprivacy.statistics import Center as center
from dfprivacy.statistics import Correlation as corr
from dfprivacy.statistics import Count as count
from dfprivacy.statistics import Covariance as cov
from dfprivacy.statistics import Intercept as intercept
from dfprivacy.statistics import Max as max
from dfprivacy.statistics import Mean as mean
from dfprivacy.statistics import Median as median
from dfprivacy.statistics import Min as min
from dfprivacy.statistics import NUnique as nunique
from dfprivacy.statistics import Quantile as quantile
from dfprivacy.statistics import Quantiles as quantiles
from dfprivacy.statistics import RatioOfSums as ratio
from dfprivacy.statistics import RSquared as r_squared
from dfprivacy.statistics import Share as share
from dfprivacy.statistics import Slope as slope
from dfprivacy.statistics import StandardDeviation as std
from dfprivacy.statistics import Statistic, argument
from dfprivacy.statistics import Sum as sum
from dfprivacy.statistics import Variance as var

if _TYPE_CHECKING:
    from dfprivacy.statements.interface import Connection, connect, explain, sql
    from dfprivacy.statements.schema import Schema, public

__all__ = [
    "Bounds",
    "Budget",
    "BudgetExceededError",
    "Connection",
    "DPError",
    "Engine",
    "EngineError",
    "Estimate",
    "Ledger",
    "LedgerError",
    "MissingBoundsError",
    "MissingColumnError",
    "MissingDeltaError",
    "MissingLedgerError",
    "Private",
    "RefusedStatementError",
    "Schema",
    "Statistic",
    "TextFile",
    "Unit",
    "UnsupportedDtypeError",
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
    "merge_files",
    "min",
    "nunique",
    "plot",
    "progress",
    "public",
    "quantile",
    "quantiles",
    "r_squared",
    "ratio",
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

_LAZY = {
    "Connection": "dfprivacy.statements.interface",
    "Schema": "dfprivacy.statements.schema",
    "connect": "dfprivacy.statements.interface",
    "dbapi": "dfprivacy.statements.dbapi",
    "explain": "dfprivacy.statements.interface",
    "local": "dfprivacy.local",
    "papers": "dfprivacy.papers",
    "public": "dfprivacy.statements.schema",
    "shuffle": "dfprivacy.shuffle",
    "sql": "dfprivacy.statements.interface",
}


def __getattr__(name: str) -> _Any:
    """Import what reads SQL, another trust model, papers, or PEP 249 on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dfprivacy' has no attribute {name!r}", name=name)
    module = _import_module(_LAZY[name])
    if name not in __all__:
        return module
    globals()[name] = exported = _closed(getattr(module, name))
    return exported


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY, "errors"})


_close(globals())
_register_accessors()
