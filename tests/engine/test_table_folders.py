"""Folders of Delta, Iceberg and Hudi tables are recognised without the packages that read them."""

import sys

import pytest

import dfprivacy as dfp
from tests.command_line import command


@pytest.fixture(params=["_delta_log/0.json", "metadata/v1.metadata.json", ".hoodie/x.properties"])
def table(request, write, monkeypatch):
    """Return a folder with Parquet files that the log of a table is beside; no package reads it."""
    for name in ("deltalake", "pyiceberg", "pyiceberg.table"):
        monkeypatch.setitem(sys.modules, name, None)
    folder = write("data/a.parquet", x=[1.0] * 5)
    log = folder / request.param
    log.parent.mkdir()
    log.write_text("{}")
    return folder


@pytest.mark.parametrize("named", ["", "data", "data/a.parquet", "*/*.parquet", ".."])
def test_the_folder_of_a_table_is_never_read_as_files(table, named, tmp_path):
    """A table's folder, what is in it and what is around it is refused, with what to do instead."""
    path = table / named
    hint = "dfprivacy.lake|dfp.frame|in another folder"
    for ask in (
        lambda: dfp.frame(path).count(),
        lambda: dfp.frame(str(path)).describe(["x"]),
        lambda: dfp.sql("SELECT dp_count(*) FROM t", t=path),
        lambda: dfp.suggest_limits(path, unit="x"),
        lambda: dfp.statistics(path, tmp_path / "statistics", dfp.count()),
    ):
        with pytest.raises(
            dfp.errors.UnsupportedFrameError, match=r"Delta|Iceberg|Hudi"
        ) as failure:
            ask()
        assert failure.match(hint)
    assert "table" in command("count", path).stderr


def test_a_missing_package_is_named_with_its_remedy(table):
    """Without the package that reads a table, the message says how to install it."""
    if (table / ".hoodie").exists():
        remedy = "Hudi tables are not read"
    else:
        remedy = r"pip install 'dfprivacy\[lake\]'"
    with pytest.raises(dfp.errors.UnsupportedFrameError, match=remedy):
        dfp.frame(table).count()


def test_a_folder_called_metadata_makes_no_table(write):
    """Folders of other files beside the data are no tables."""
    folder = write("a.parquet", x=[1.0] * 5)
    (folder / "metadata").mkdir()
    (folder / "metadata" / "notes.json").write_text("{}")
    assert float(dfp.frame(folder).count(epsilon=1e7)) == 5
