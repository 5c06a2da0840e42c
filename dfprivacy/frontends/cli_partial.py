"""Commands for files of exact statistics: `dfprivacy statistics` and `dfprivacy merge`."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.frontends.cli_errors import readable_errors
from dfprivacy.frontends.cli_job import typed_keys
from dfprivacy.frontends.cli_ledger import charged
from dfprivacy.frontends.cli_options import (
    BY,
    DATASET,
    DELTA,
    EPSILON,
    FILE,
    INTERVAL,
    KEYS,
    LEDGER,
    MAX_GROUPS,
    MAX_ROWS,
    OUTPUT,
    RHO,
    UNIT,
)
from dfprivacy.frontends.cli_output import check_output, show_line, show_table, write_table
from dfprivacy.jobs.answers import answers_table
from dfprivacy.partial.merging import files_of, merge
from dfprivacy.partial.writing import statistics
from dfprivacy.statistics import (
    Count,
    Mean,
    Median,
    Quantile,
    StandardDeviation,
    Statistic,
    Sum,
    Variance,
)
from dfprivacy.terms import INTERVAL as LEVEL

_COLUMNS = "Ask for the {} of this column; repeat for several."
SUMS = Annotated[
    list[str] | None, typer.Option("--sum", metavar="COLUMN", help=_COLUMNS.format("sum"))
]
MEANS = Annotated[
    list[str] | None, typer.Option("--mean", metavar="COLUMN", help=_COLUMNS.format("mean"))
]
VARS = Annotated[
    list[str] | None, typer.Option("--var", metavar="COLUMN", help=_COLUMNS.format("variance"))
]
STDS = Annotated[
    list[str] | None,
    typer.Option("--std", metavar="COLUMN", help=_COLUMNS.format("standard deviation")),
]
MEDIANS = Annotated[
    list[str] | None, typer.Option("--median", metavar="COLUMN", help=_COLUMNS.format("median"))
]
QUANTILES = Annotated[
    list[str] | None,
    typer.Option("--quantile", metavar="COLUMN=Q", help="Ask for a quantile, e.g. delay=0.9."),
]
COUNTING = Annotated[bool, typer.Option("--count", help="Ask for the number of rows.")]
WITHIN = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="COLUMN=LOW,HIGH",
        help="Bounds of a column, e.g. delay=-60,240; found privately when left out.",
    ),
]
MADE = Annotated[Path, typer.Option("--output", metavar="FILE", help="The secret file to be made.")]
FILES = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Files that `dfprivacy statistics` has made."),
]
PARTS = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Your promise that no unit has rows in more than N of the files; nothing can check "
        "it. All of them when left out.",
    ),
]


def statistics_command(
    file: FILE,
    *,
    output: MADE,
    count: COUNTING = False,
    sums: SUMS = None,
    means: MEANS = None,
    variances: VARS = None,
    deviations: STDS = None,
    medians: MEDIANS = None,
    quantiles: QUANTILES = None,
    bounds: WITHIN = None,
    by: BY = None,
    keys: KEYS = None,
    unit: UNIT = None,
    max_rows: MAX_ROWS = None,
    max_groups: MAX_GROUPS = None,
) -> None:
    """Write exact statistics to a [bold]secret[/bold] file, to be released by `dfprivacy merge`.

    [bold]Example[/bold]

    dfprivacy statistics monday.csv --count --mean delay --bounds delay=-60,240 --output mon.parquet
    """
    with readable_errors():
        columns = {Sum: sums, Mean: means, Variance: variances, StandardDeviation: deviations}
        asked: list[Statistic] = [Count()] if count else []
        asked += [kind(column) for kind, given in columns.items() for column in given or ()]
        asked += [Median(column) for column in medians or ()]
        asked += [_quantile(given) for given in quantiles or ()]
        within: dict[Hashable, tuple[float, float]] = dict(map(_bounds, bounds or ()))
        path = statistics(
            file, output, *asked, by=by or (),
            keys=typed_keys(file, by or (), keys) if keys else None, unit=unit,
            max_rows=max_rows, max_groups=max_groups, bounds=within,
        )  # fmt: skip
        show_line(Console(), f"Wrote {path}. It is secret: guard it like the rows.")


def _quantile(given: str) -> Quantile:
    column, _, q = given.rpartition("=")
    (number,) = _numbers("quantile", q, 1)
    return Quantile(column, number)


def _bounds(given: str) -> tuple[str, tuple[float, float]]:
    column, _, ends = given.rpartition("=")
    lower, upper = _numbers("bounds", ends, 2)
    return column, (lower, upper)


def _numbers(option: str, text: str, count: int) -> tuple[float, ...]:
    try:
        found = tuple(map(float, text.split(",")))
    except ValueError:
        found = ()
    if len(found) != count:
        example = "delay=-60,240" if count == 2 else "delay=0.9"
        raise InvalidQuestionError(
            f"--{option} names a column and {count} number{'s' * (count > 1)}",
            hint=f"write it like --{option} {example}",
        )
    return found


def merge_command(
    files: FILES,
    *,
    epsilon: EPSILON = None,
    rho: RHO = None,
    delta: DELTA = None,
    interval: INTERVAL = float(LEVEL),
    parts_per_unit: PARTS = None,
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: OUTPUT = None,
) -> None:
    """Add up files of exact statistics and release the answers once, with noise.

    [bold]Example[/bold]

    dfprivacy merge mon.parquet tue.parquet --epsilon 0.5 --delta 1e-6
    """
    given = {"epsilon": epsilon, "rho": rho, "delta": delta, "interval": interval}
    terms: dict[str, Any] = {name: own for name, own in given.items() if own is not None}
    with readable_errors(), charged(ledger, dataset):
        for file in files:
            check_output(output, file)
        by = files_of(files).header.by
        answers = merge(files, parts_per_unit=parts_per_unit, **terms)
        if output is not None:
            names = ["answer", "value", "low", "high"]
            table = answers if by else answers_table(answers).rename_columns(names)
            write_table(table, output)
            show_line(Console(), f"Wrote the answers to {output}.")
        elif by:
            show_table(Console(), answers, len(by), f"Private answers from {len(files)} files")
        else:
            for answer in answers.values():
                show_line(Console(), repr(answer))
