"""Released once for each version of the data: to build it again spends nothing."""

from typing import Any

import dfprivacy as dfp


def model(dbt: Any, session: Any) -> Any:  # noqa: ARG001 dbt calls it so
    """Return the mean delay of two carriers that everybody knows."""
    dbt.config(materialized="table")
    released = dfp.sql(
        "SELECT carrier, dp_mean(delay, -60, 240) AS delay FROM flights GROUP BY carrier",
        flights=dbt.ref("summer_flights"),
        keys=["AA", "UA"],
        epsilon=0.5,
        ledger=dfp.Ledger("budget.db"),
        dataset="flights",
        version="2024-01",
    )
    return released.to_arrow_table()
