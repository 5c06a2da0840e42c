"""Wrong options and commands as messages like all others: what happened, and a hint."""

from __future__ import annotations

import sys
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from dfprivacy.errors import meant
from dfprivacy.frontends.cli_output import show_error

_UsageError: type[Any] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """The commands of a program, with readable errors of usage."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; a wrong call ends with a message on stderr and exit code 2."""
        standalone = options.pop("standalone_mode", True)
        quiet = {**options, "standalone_mode": False}
        if not standalone:
            return super().main(*args, **quiet)
        try:
            result = super().main(*args, **quiet)
        except _UsageError as error:
            if message := error.format_message():  # none where the help has been shown already
                show_error(Console(stderr=True), message, self._hint(error))
            sys.exit(2)
        except typer.Abort:
            sys.exit(1)
        sys.exit(result if isinstance(result, int) else 0)

    def _hint(self, error: Any) -> str:
        """Return the nearest command, or where the options are listed."""
        path = error.ctx.command_path if error.ctx is not None else "dfprivacy"
        names = error.ctx.command.list_commands(error.ctx) if _is_group(error) else []
        quoted = error.message.split("'")
        other = meant(quoted[1], names) if len(quoted) > 1 else None
        if other is None:
            return f"{path} --help lists what it takes"
        return f"write {path} {other}, or see {path} --help"


def _is_group(error: Any) -> bool:
    return error.ctx is not None and hasattr(error.ctx.command, "list_commands")
