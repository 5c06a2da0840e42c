"""The description that most runs are made of, and what the ledger says of a run."""

import dfprivacy as dfp

ROWS = 3000
HEAD = """\
source: {file: flights.parquet}
budget: {ledger: budget.db, dataset: flights, version: "1", epsilon: 1}
releases:
"""
DELAYS = """\
  delays:
    by: carrier
    budget: {delta: 1e-7}
    questions: {delay: {mean: delay, bounds: [-60, 240]}}
    outputs: [delays.csv, delays.parquet, {database: out.duckdb, table: "de lays"}]
"""


def spent():
    return dfp.Ledger("budget.db").spent("flights")
