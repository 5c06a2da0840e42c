"""The local model on the command line: `dfprivacy local plan|report|aggregate|estimate`."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dfprivacy.cli.output import readable_errors, show_line
from dfprivacy.errors import InvalidProtocolError
from dfprivacy.local.files import (
    read_aggregate_file,
    read_column,
    read_protocol,
    read_reports,
    read_users,
    write_aggregate,
    write_reports,
)
from dfprivacy.local.gaussian import gaussian_mean
from dfprivacy.local.journal import Journal
from dfprivacy.local.protocol import Protocol
from dfprivacy.terms import INTERVAL

_PROTOCOL = Annotated[
    Path, typer.Argument(metavar="PROTOCOL", help="What the analyst published, a .json file.")
]
_OUTPUT = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where it goes.")]

local_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Collect reports that are private before they leave their owner.",
)


@local_app.command()
def plan(
    *,
    users: Annotated[int, typer.Option(help="How many users there are.")],
    output: _OUTPUT,
    epsilon: Annotated[float, typer.Option(help="What a report costs its owner.")] = 1.0,
    sigma: Annotated[
        float | None, typer.Option(help="The standard deviation, where it is known.")
    ] = None,
    sigma_bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Between which it lies, where it is not."),
    ] = None,
    limit: Annotated[
        float | None, typer.Option(help="The mean lies between -limit and limit.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="2, or 1 at a larger error.")] = 2,
    campaign: Annotated[str | None, typer.Option(help="The survey's public name.")] = None,
    named: Annotated[
        bool, typer.Option("--named", help="Users go by name, not by an index from 0.")
    ] = False,
) -> None:
    """Plan the mean of a Gaussian, and write round 1 for everybody to read.

    [bold]Example[/bold]

    dfprivacy local plan --users 300000 --sigma-bounds 10 200 --limit 1000 -o round1.json
    """
    with readable_errors():
        protocol = gaussian_mean(
            users=users, epsilon=epsilon, sigma=sigma, sigma_bounds=sigma_bounds, limit=limit,
            rounds=rounds, campaign=campaign, named=named,
        )  # fmt: skip
        _publish(protocol, output)


@local_app.command()
def report(
    protocol: _PROTOCOL,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Values: .jsonl, .parquet, .csv or .tsv.")
    ],
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column of values.")],
    *,
    output: _OUTPUT,
    user: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Who they are; rows are numbered from 0 without."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Remember campaigns there, and answer each once."),
    ] = None,
) -> None:
    """Make private reports of values, at their owner.

    [bold]Example[/bold]

    dfprivacy local report round1.json flights.parquet air_time -o reports1.jsonl --journal ours
    """
    with readable_errors():
        own = read_protocol(protocol)
        values = read_column(file, column, numbers=True)
        users = read_users(file, user, own)
        keeper: Protocol | Journal = own if journal is None else Journal(journal)
        reports = (
            keeper.reports(own, values, users)
            if isinstance(keeper, Journal)
            else keeper.reports(values, users)
        )
        write_reports(reports, output)
        show_line(Console(), f"{reports.num_rows} reports of round {own.round} in {output}")


@local_app.command()
def aggregate(
    protocol: _PROTOCOL,
    reports: Annotated[
        list[Path], typer.Argument(metavar="REPORTS...", help=".jsonl or .parquet files.")
    ],
    *,
    output: _OUTPUT,
) -> None:
    """Check reports, count each user once and add them up.

    [bold]Example[/bold]

    dfprivacy local aggregate round1.json reports1.jsonl more.parquet -o sums1.parquet
    """
    with readable_errors():
        own = read_protocol(protocol)
        found = own.aggregate(*(read_reports(path, own) for path in reports))
        write_aggregate(found, output)
        show_line(Console(), f"{found.reports} reports of round {own.round} in {output}")
        for reason, count in found.rejected.items():
            if count:
                show_line(Console(), f"{count} rejected: {reason}")


@local_app.command()
def estimate(
    sums: Annotated[
        list[Path], typer.Argument(metavar="SUMS...", help="What aggregate has written.")
    ],
    *,
    next_round: Annotated[
        Path | None,
        typer.Option("--next", metavar="FILE", help="Where the next round's protocol goes."),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="How surely low and high enclose the mean.")
    ] = float(INTERVAL),
) -> None:
    """Show the answer of the last round, or write the protocol of the next one.

    [bold]Example[/bold]

    dfprivacy local estimate sums1.parquet --next round2.json
    """
    with readable_errors():
        found = reduce(add, map(read_aggregate_file, sums))
        if next_round is not None:
            _publish(found.next_round(), next_round)
            return
        own = found.protocol
        if own.round < own.rounds:
            raise InvalidProtocolError(
                f"this is round {own.round} of {own.rounds}; the last one has the answer",
                hint="publish the next round: add --next round2.json",
            )
        show_line(Console(), repr(found.estimate(interval=interval)))


def _publish(protocol: Protocol, output: Path) -> None:
    output.write_text(protocol.to_json(), encoding="utf-8")
    show_line(Console(), f"Round {protocol.round} of {protocol.rounds} in {output}")
