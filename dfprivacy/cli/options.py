"""Name the options that several commands take, so that each means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FILE = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A .csv, .tsv or .parquet file, or a folder of .parquet files.",
        show_default=False,
    ),
]
BY = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Group by this column; repeat for several."),
]
KEYS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="A group that everybody may know of; repeat for each. Exactly these are shown, and "
        "no delta is needed. With several --by: AA,1.",
    ),
]
EPSILON = Annotated[
    float | None,
    typer.Option(
        help="Privacy loss of the whole call; smaller is more private and noisier. 1.0 unless "
        "--rho is given.",
        show_default=False,
    ),
]
RHO = Annotated[
    float | None,
    typer.Option(help="Privacy loss in zCDP (Gaussian noise), instead of --epsilon."),
]
DELTA = Annotated[
    float | None,
    typer.Option(
        help="Probability with which a group of a single row may show up, e.g. 1e-6. Needed with "
        "--by unless --keys are listed.",
    ),
]
INTERVAL = Annotated[
    float, typer.Option(help="How surely low and high enclose the answer without noise.")
]
UNIT = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Whose rows they are, e.g. a user's number: all rows of one are protected together. "
        "Needs --max-rows. One row is protected when left out.",
    ),
]
MAX_ROWS = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="A unit's rows in one group count as N at most; noise grows with N."
    ),
]
MAX_GROUPS = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="A unit counts in N groups at most, with --by; noise grows with N."
    ),
]
WHOSE = Annotated[
    str, typer.Option("--unit", metavar="COLUMN", help="Whose rows they are, e.g. a user's number.")
]
SHARE = Annotated[
    float, typer.Option(help="The part of the units, from 0 to 1, that the limits leave alone.")
]
LEDGER = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Charge the call to this ledger, made by `dfprivacy ledger create`. Needs --dataset.",
    ),
]
DATASET = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Whose budget in the ledger is charged."),
]
OUTPUT = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write a .csv, .parquet or .json file instead of printing a table."
    ),
]
MEMORY = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="What the engine may hold in memory, e.g. 500MB or 2GiB; more spills."
    ),
]
THREADS = Annotated[int | None, typer.Option(metavar="N", help="How many threads it may use.")]
TEMPORARY = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Where it spills, into a private folder that is removed at the end."
    ),
]
EXPLAIN = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Show what the call would cost and how wrong it would be; nothing is read or spent.",
    ),
]
