"""Release dbt models through `dfp.connect`: a plugin of dbt-duckdb, named in profiles.yml.

    plugins:
      - module: sql_udfs.dbt
        alias: dfprivacy
        config: {ledger: budget.db, dataset: flights, epsilon: 0.5}

A model with `materialized='private'` is one statement of `dfp.sql`. The plugin checks it, charges
it to the ledger and makes the model's table from the released rows. The materialization is a macro
of the project: examples/dbt_flights/macros/private.sql, which also lets `dbt show` read the table
of a model that has been built, at no cost. docs/how-to/etl.md has the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin
from dbt_common.exceptions import DbtRuntimeError

import dfprivacy as dfp
from dfprivacy.engine.files import quote

__all__ = ["Plugin"]

_REQUIRED = ("ledger", "dataset")
_TERMS = (
    "epsilon",
    "interval",
    "population",
    "intervals",
    "unit",
    "schema",
    "max_rows",
    "max_groups",
    "note",
)
_OF_MODELS = ("dataset", *_TERMS, "delta", "keys", "version")


class Plugin(BasePlugin):  # type: ignore[misc]  # dbt is not there when types are checked
    """Runs private models as statements of `dfp.sql`, at the expense of one ledger.

    Config: `ledger` (the path of a file made by `dfprivacy ledger create`) and `dataset` are
    required; `epsilon`, `interval`, `population`, `intervals`, `unit`, `schema`, `max_rows`,
    `max_groups` and `note` are those of `dfp.sql`. A model can name them too, and `delta`, `keys`
    and `version`, in its config: `meta={'dfprivacy': {'delta': 1e-6}}`.

    Raises
    ------
    InvalidLedgerError
        For a missing ledger or dataset, or an option that there is not.
    LedgerFileError
        When there is no such ledger. It is never made here: a ledger that was lost would start
        afresh.
    """

    def initialize(self, plugin_config: Mapping[str, Any]) -> None:
        """Check the options and open the ledger."""
        options = (*_REQUIRED, *_TERMS)
        settings = (self.creds and self.creds.settings) or {}  # dbt adds the profile's own
        options_given = {
            n: v for n, v in plugin_config.items() if n in options or n not in settings
        }
        missing = [name for name in _REQUIRED if options_given.get(name) is None]
        if missing:
            raise _wrong(f"lacks {missing[0]!r}", _TERMS)
        _check(options_given, options)
        self._terms = {**options_given, "ledger": dfp.Ledger(options_given["ledger"])}
        self._database: Any = None

    def configure_connection(self, conn: Any) -> None:
        """Keep the connection of the project's database."""
        self._database = conn

    def store(self, target_config: Any) -> None:
        """Run a private model, and make its table from what is released.

        Raises
        ------
        DbtRuntimeError
            With the message of `dfp.sql`, when that refuses the statement or its terms.
        """
        config, relation = target_config.config, target_config.relation
        name = ".".join(map(quote, (relation.database, relation.schema, relation.identifier)))
        terms = config["terms"] or {}
        try:
            _check(terms, _OF_MODELS)
            with self._database.cursor() as cursor:
                door = dfp.connect(cursor, **self._terms)
                door.sql(f"CREATE OR REPLACE TABLE {name} AS {config['sql']}", **terms)
        except dfp.DPError as error:
            raise DbtRuntimeError(f"{type(error).__name__}: {error}") from None


def _check(options: Iterable[str], options_known: tuple[str, ...]) -> None:
    unknown = sorted(set(options) - set(options_known))
    if unknown:
        raise _wrong(f"has no option {unknown[0]!r}", options_known)


def _wrong(what: str, options: tuple[str, ...]) -> dfp.errors.InvalidLedgerError:
    return dfp.errors.InvalidLedgerError(
        f"the dbt plugin sql_udfs.dbt {what}",
        hint="config: {ledger: budget.db, dataset: flights}, and as you need them: "
        f"{', '.join(options)}",
    )
