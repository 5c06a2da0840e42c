"""A file is written whole and once, for its owner, and says what it is but no number."""

import json
import os
import stat

import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.partial.secret_files import FRAME


def test_a_file_is_made_once_and_for_its_owner(make_file, tmp_path):
    """A file can be read by its owner alone, is never written over, and leaves nothing beside."""
    path = make_file("one.parquet")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(dfp.errors.StatisticsFileError, match="already"):
        make_file("one.parquet")
    assert path.read_bytes() == before
    with pytest.raises(dfp.errors.StatisticsFileError, match="no directory"):
        dfp.statistics(FRAME, tmp_path / "none" / "x.parquet", dfp.count())
    assert [entry.name for entry in tmp_path.iterdir()] == ["one.parquet"]


def test_a_file_that_appears_meanwhile_stays(make_file, tmp_path, monkeypatch):
    """Of two jobs that write one path, the second fails and leaves the first one's file."""
    synced, other = os.fsync, tmp_path / "one.parquet"

    def meanwhile(file):
        other.write_bytes(b"of another job")
        return synced(file)

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(dfp.errors.StatisticsFileError, match="already"):
        make_file("one.parquet")
    assert other.read_bytes() == b"of another job"
    assert [entry.name for entry in tmp_path.iterdir()] == ["one.parquet"]


def test_a_full_disk_leaves_nothing(make_file, tmp_path, monkeypatch):
    """A file that can't be written whole is not there at all."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(dfp.errors.StatisticsFileError, match="No space left"):
        make_file("one.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_file_says_what_it_is(make_file):
    """The metadata says that the file is secret, in which format it is, and what was asked."""
    metadata = pq.read_metadata(make_file("one.parquet")).metadata
    assert metadata[b"dfprivacy.secret"].startswith(b"SECRET: exact statistics")
    assert metadata[b"dfprivacy.version"] == b"8"
    written = json.loads(metadata[b"dfprivacy.header"])
    assert [question["ask"] for question in written["questions"]] == ["mean", "var", "median"]
    assert (written["by"], written["keys"]) == (["g"], "secret")


def test_ids_are_fresh(make_file):
    """Two files of the same rows have different ids."""
    footers = [pq.read_metadata(make_file(f"{k}.parquet")).metadata for k in range(5)]
    assert len({json.loads(footer[b"dfprivacy.header"])["ids"][0] for footer in footers}) == 5
