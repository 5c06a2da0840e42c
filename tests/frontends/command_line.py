"""The command line in this process, as `dfprivacy` runs it in one of its own."""

from typer.testing import CliRunner

from dfprivacy.cli import app


def command(*args):
    """Run a command; return its exit code and what it wrote to which stream."""
    return CliRunner().invoke(app, list(args))
