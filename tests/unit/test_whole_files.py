"""A file is there wholly or not at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dfprivacy.whole_files import put_whole, write_csv, write_parquet


def test_a_file_is_replaced_whole(tmp_path):
    """The new content takes the place of the old one, and nothing else is left beside it."""
    target = tmp_path / "answers.csv"
    target.write_text("old")
    put_whole(target, lambda path: path.write_text("new"))
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt])
def test_what_fails_half_way_leaves_the_old_file(tmp_path, error):
    """However filling ends, the old file stays as it was and no draft is left."""
    target = tmp_path / "answers.csv"
    target.write_text("old")

    def half(path):
        path.write_text("ne")
        raise error

    with pytest.raises(error):
        put_whole(target, half)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_folder_that_is_not_there(tmp_path, write):
    """The error is the operating system's, before anything is filled."""
    table = pa.table({"x": [1]})
    with pytest.raises(OSError, match="none"):
        put_whole(tmp_path / "none" / "x", lambda path: write(table, path))
    assert list(tmp_path.iterdir()) == []
