# The public names, as type checkers see them. Written by .ci/stubs.py.
# ruff: noqa: A004, I001, N813

from dfprivacy.errors import AlreadyReportedError as AlreadyReportedError
from dfprivacy.release.terms import Bounds as Bounds
from dfprivacy.accounting.charge import Budget as Budget
from dfprivacy.errors import BudgetExceededError as BudgetExceededError
from dfprivacy.frames.numbers import Choice as Choice
from dfprivacy.statements.interface import Connection as Connection
from dfprivacy.errors import DPError as DPError
from dfprivacy.engine.embedded import Engine as Engine
from dfprivacy.errors import EngineError as EngineError
from dfprivacy.errors import EntropyError as EntropyError
from dfprivacy.frames.numbers import Estimate as Estimate
from dfprivacy.errors import InvalidBoundsError as InvalidBoundsError
from dfprivacy.errors import InvalidDescriptionError as InvalidDescriptionError
from dfprivacy.errors import InvalidEngineError as InvalidEngineError
from dfprivacy.errors import InvalidKeysError as InvalidKeysError
from dfprivacy.errors import InvalidLedgerError as InvalidLedgerError
from dfprivacy.errors import InvalidLossError as InvalidLossError
from dfprivacy.errors import InvalidProtocolError as InvalidProtocolError
from dfprivacy.errors import InvalidQuestionError as InvalidQuestionError
from dfprivacy.errors import InvalidUnitError as InvalidUnitError
from dfprivacy.accounting.ledger import Ledger as Ledger
from dfprivacy.errors import LedgerBudgetError as LedgerBudgetError
from dfprivacy.errors import LedgerError as LedgerError
from dfprivacy.errors import LedgerFileError as LedgerFileError
from dfprivacy.errors import MissingBoundsError as MissingBoundsError
from dfprivacy.errors import MissingColumnError as MissingColumnError
from dfprivacy.errors import MissingDeltaError as MissingDeltaError
from dfprivacy.errors import MissingLedgerError as MissingLedgerError
from dfprivacy.frames.numbers import Number as Number
from dfprivacy.errors import OutputError as OutputError
from dfprivacy.errors import PictureError as PictureError
from dfprivacy.frames.private import Private as Private
from dfprivacy.errors import RefusedStatementError as RefusedStatementError
from dfprivacy.statements.schema import Schema as Schema
from dfprivacy.statistics import Statistic as Statistic
from dfprivacy.errors import StatisticsFileError as StatisticsFileError
from dfprivacy.engine.text_files import TextFile as TextFile
from dfprivacy.errors import TooManyRowsError as TooManyRowsError
from dfprivacy.release.terms import Unit as Unit
from dfprivacy.errors import UnknownAccountError as UnknownAccountError
from dfprivacy.errors import UnknownArgumentError as UnknownArgumentError
from dfprivacy.errors import UnknownMethodError as UnknownMethodError
from dfprivacy.errors import UnsupportedDtypeError as UnsupportedDtypeError
from dfprivacy.errors import UnsupportedFrameError as UnsupportedFrameError
from dfprivacy.frames.vector_release import VectorEstimate as VectorEstimate
from dfprivacy.statistics import argument as argument
from dfprivacy.statistics import Center as center
from dfprivacy.statements.interface import connect as connect
from dfprivacy.statistics import Correlation as corr
from dfprivacy.statistics import Count as count
from dfprivacy.statistics import Covariance as cov
from dfprivacy.statements.interface import explain as explain
from dfprivacy.frames.private import Private as frame
from dfprivacy.statistics import Intercept as intercept
from dfprivacy.statistics import Max as max
from dfprivacy.statistics import Mean as mean
from dfprivacy.statistics import Median as median
from dfprivacy.frames.merging import merge as merge
from dfprivacy.statistics import Min as min
from dfprivacy.statistics import NUnique as nunique
from dfprivacy.frames.viz.pictures import plot as plot
from dfprivacy.engine.progress import progress as progress
from dfprivacy.statements.schema import public as public
from dfprivacy.statistics import Quantile as quantile
from dfprivacy.statistics import Quantiles as quantiles
from dfprivacy.statistics import RSquared as r_squared
from dfprivacy.frames.released import released as released
from dfprivacy.accounting.spending import require_ledger as require_ledger
from dfprivacy.frames.viz.pictures import save_plot as save_plot
from dfprivacy.statistics import Share as share
from dfprivacy.frames.viz.pictures import show as show
from dfprivacy.statistics import Slope as slope
from dfprivacy.accounting.spending import spending as spending
from dfprivacy.statements.interface import sql as sql
from dfprivacy.frames.merging import statistics as statistics
from dfprivacy.statistics import StandardDeviation as std
from dfprivacy.frames.limits import suggest_limits as suggest_limits
from dfprivacy.statistics import Sum as sum
from dfprivacy.statistics import Variance as var
from dfprivacy.statements import dbapi as dbapi
from dfprivacy import local as local
from dfprivacy import shuffle as shuffle

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
    "TextFile",
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
