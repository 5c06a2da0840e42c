"""The dp_* functions in dbt: a plugin of dbt-duckdb, named `sql_udfs.dbt` in profiles.yml.

    plugins:
      - module: sql_udfs.dbt
        config: {ledger: budget.db, dataset: flights, epsilon: 0.5}

Every connection that dbt opens is guarded: a statement with dp_* calls is vetted and charged before
anything is drawn (docs/sql.md). Statements without them run as ever; see docs/etl.md for what that
means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.errors import InvalidLedgerError
from sql_udfs import register

__all__ = ["Plugin"]

_REQUIRED = ("ledger", "dataset")
_OPTIONS = ("epsilon", "interval", "unit", "max_rows", "max_groups", "note")


class Plugin(BasePlugin):  # type: ignore[misc]  # dbt is not there when types are checked
    """Registers the guarded dp_* functions on every connection that dbt opens.

    Config: `ledger` (the path of a file made by `dfprivacy ledger create`) and `dataset` are
    required; `epsilon`, `interval`, `unit`, `max_rows`, `max_groups` and `note` are those of
    `sql_udfs.register`.

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
        missing = [name for name in _REQUIRED if plugin_config.get(name) is None]
        unknown = sorted(set(plugin_config) - {*_REQUIRED, *_OPTIONS})
        if missing or unknown:
            what = f"lacks {missing[0]!r}" if missing else f"has no option {unknown[0]!r}"
            raise InvalidLedgerError(
                f"the dbt plugin sql_udfs.dbt {what}",
                hint="config: {ledger: budget.db, dataset: flights}, and as you need them: "
                f"{', '.join(_OPTIONS)}",
            )
        self._ledger = Ledger(plugin_config["ledger"])
        self._dataset = plugin_config["dataset"]
        self._options = {n: plugin_config[n] for n in _OPTIONS if plugin_config.get(n) is not None}

    def configure_cursor(self, cursor: Any) -> None:
        """Guard a connection: functions are temporary, and belong to one."""
        register(cursor, ledger=self._ledger, dataset=self._dataset, **self._options)
