"""A file of answers is there wholly or not at all."""

import csv
import sys

import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command, run_python

FULL = """\
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
from dfprivacy.cli import main
main()
"""
"""Runs the command in a process in which no file may have 17 bytes, as on a full disk."""


@pytest.fixture
def count(folder):
    """Ask for a count in a file."""
    arguments = ["count", str(folder / "flights.csv"), "--epsilon", "1", "--output"]
    return lambda target: command(*arguments, str(target))


def test_a_file_is_replaced_whole(count, tmp_path):
    """The answer takes the place of the old file, and nothing else is left beside it."""
    target = tmp_path / "answers.csv"
    target.write_text("old")
    assert count(target).exit_code == 0
    assert "count" in target.read_text()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt])
def test_what_fails_half_way_leaves_the_old_file(count, tmp_path, monkeypatch, error):
    """However writing ends, the old file stays as it was and no draft is left."""
    target = tmp_path / "answers.csv"
    target.write_text("old")

    def half(_, path, *args, **options):
        path.write_text("ne")
        raise error

    monkeypatch.setattr(pl.DataFrame, "write_csv", half)
    assert count(target).exit_code != 0
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits of file sizes")
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_an_answer_that_can_not_be_written_is_printed(folder, tmp_path, ending):
    """Where a disk is full, what was paid for is handed over on stdout, as a whole table."""
    words = ["count", folder / "flights.csv", "--output", tmp_path / f"answers.{ending}"]
    done = run_python("-c", FULL, *words)
    assert done.returncode == 2
    ((name, value, *_),) = list(csv.reader(done.stdout.splitlines()))[1:]
    assert name == "count"
    assert abs(float(value) - 3000) < 40
    assert "could not be written" in done.stderr
    assert "paid for, and printed" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_an_answer_is_printed_in_any_encoding(tmp_path, encoding):
    """A process prints its table without colors, letters that its terminal lacks as their codes."""
    pl.DataFrame({"town": ["東京"] * 900 + ["a\x07"] * 900}).write_csv(tmp_path / "rows.csv")
    words = ["count", tmp_path / "rows.csv", "--by", "town", "--delta", "1e-6"]
    done = run_python("-m", "dfprivacy", *words, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u6771\\u4eac" in done.stdout
    assert "Spent epsilon 1" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_an_answer_never_replaces_a_ledger(folder, tmp_path, ending):
    """An output that is a ledger, the one that pays or another, is refused before it is charged."""
    paying, other, link = (tmp_path / f"{name}.{ending}" for name in ("paying", "other", "link"))
    ledgers = [dfp.Ledger(path, epsilon=1) for path in (paying, other)]
    link.symlink_to(paying)
    words = ["count", folder / "flights.csv", "--ledger", paying, "--dataset", "flights"]
    for target in (paying, other, link):
        done = command(*words, "--output", target)
        assert done.exit_code == 2
        assert "ledger" in done.stderr
    assert [ledger.spent("flights") for ledger in ledgers] == [dfp.Budget(epsilon=0)] * 2
