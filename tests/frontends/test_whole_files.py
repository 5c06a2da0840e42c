"""A file of answers is there wholly or not at all."""

from __future__ import annotations

import polars as pl
import pytest

from tests.command_line import command


@pytest.fixture
def count(folder):
    """Ask for a count in a file."""
    given = ["count", str(folder / "flights.csv"), "--epsilon", "1", "--output"]
    return lambda target: command(*given, str(target))


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


def test_a_folder_that_is_not_there(count, tmp_path):
    """A file in no folder is an error, and nothing is made."""
    assert count(tmp_path / "none" / "x.csv").exit_code != 0
    assert list(tmp_path.iterdir()) == []
