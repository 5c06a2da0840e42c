"""Ask dataframes, SQL and files for differentially private statistics.

Importing the package puts `.dp` on pandas and polars frames:

>>> import dfprivacy as dfp, polars as pl
>>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
>>> flights.dp.group_by("carrier").mean("delay", bounds=(0, 60), epsilon=1, delta=1e-6).columns
['carrier', 'delay', 'low', 'high', 'note', 'count']
"""

import sys as _sys
import types as _types
import typing as _typing

from dfprivacy import frames as _frames

_PUBLIC: _typing.Final = {
    "accounting.charge": "Budget",
    "accounting.ledger": "Ledger",
    "accounting.spending": "require_ledger spending",
    "engine.embedded": "Engine",
    "engine.progress": "progress",
    "engine.text_files": "TextFile",
    "errors": """AlreadyReportedError BudgetExceededError DPError EngineError EngineSpaceError
        EntropyError InvalidBoundsError InvalidDescriptionError InvalidEngineError InvalidKeysError
        InvalidLedgerError InvalidLossError InvalidProtocolError InvalidQuestionError
        InvalidUnitError LedgerBudgetError LedgerError LedgerFileError MissingBoundsError
        MissingColumnError MissingDeltaError MissingLedgerError OutputError PictureError
        RefusedStatementError StatisticsFileError TooManyRowsError UnknownAccountError
        UnknownArgumentError UnknownMethodError UnsupportedDtypeError UnsupportedFrameError""",
    "frames.limits": "suggest_limits",
    "frames.merging": "merge statistics",
    "frames.numbers": "Choice Estimate Number",
    "frames.private": "Private frame=Private",
    "frames.released": "released",
    "frames.vector_release": "VectorEstimate",
    "frames.viz.pictures": "plot save_plot show",
    "release.terms": "Bounds Unit",
    "statements.interface": "Connection connect explain sql",
    "statements.schema": "Schema public",
    "statistics": """Statistic argument center=Center corr=Correlation count=Count cov=Covariance
        intercept=Intercept max=Max mean=Mean median=Median min=Min nunique=NUnique
        quantile=Quantile quantiles=Quantiles r_squared=RSquared share=Share slope=Slope
        std=StandardDeviation sum=Sum var=Variance""",
}
"""The public names by the modules that have them, which are imported on first use."""

_HOMES: _typing.Final = {
    name: (module, own or name)
    for module, names in _PUBLIC.items()
    for name, _, own in (each.partition("=") for each in names.split())
}
_LATER: _typing.Final = {"dbapi": "statements.dbapi", "local": "local", "shuffle": "shuffle"}

__all__ = sorted(_HOMES)  # noqa: PLE0605 type checkers read __init__.pyi


class _Package(_types.ModuleType):
    """The package, which imports a public name on first use and keeps it as a boundary."""

    def __getattr__(self, name: str) -> _typing.Any:
        if name in _LATER:
            return _frames.loaded(_LATER[name])
        if name not in _HOMES:
            raise AttributeError(f"module 'dfprivacy' has no attribute {name!r}", name=name)
        module, own = _HOMES[name]
        found = _frames.loaded("errors").closed(getattr(_frames.loaded(module), own))
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        """Keep the function `statistics`: its module goes by the same name."""
        if not (name in _HOMES and isinstance(value, _types.ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted([*_HOMES, *_LATER])


_sys.modules[__name__].__class__ = _Package
_frames.open_doors()
