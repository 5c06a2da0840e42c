"""A lack of memory or of temporary space is told apart from a file that can't be read."""

import sys
from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp
from tests.command_line import command, run_python

SOURCES = {"file": "{file: rows.parquet}", "table": "{table: rows, database: rows.duckdb}"}
DESCRIPTION = """\
source: {source}
budget: {{ledger: budget.db, dataset: rows, version: "1", epsilon: 1, delta: 1e-7}}
releases:
  counts: {{by: key, questions: {{n: {{count: "*"}}}}, outputs: [counts.csv]}}
"""
LIMITS = ["--memory=40MB", "--threads=1", "--temporary=spill"]
LIMITED = """\
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
from dfprivacy.cli import main
main()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write 300,000 groups of one row, which do not fit into 40 MB, a ledger and a folder."""
    monkeypatch.chdir(tmp_path)
    query = "SELECT repeat('k', 40) || hash(range) AS key FROM range(300000)"
    duckdb.sql(f"COPY ({query}) TO 'rows.parquet'")
    with duckdb.connect("rows.duckdb") as connection:
        connection.sql(f"CREATE TABLE rows AS {query}")
    Path("spill").mkdir()
    dfp.Ledger("budget.db", epsilon=10, delta=1e-6, remember=True)
    return tmp_path


def run_limited(source):
    """Run a description in a process in which no file may exceed 1 MiB, as on a full disk."""
    Path("release.yml").write_text(DESCRIPTION.format(source=SOURCES[source]))
    return run_python("-c", LIMITED, "run", "release.yml", *LIMITS)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no limits of file sizes")
@pytest.mark.parametrize("source", SOURCES)
def test_full_temporary_folder(folder, source):
    """A full folder of temporary files ends a run with code 1, its name and both remedies."""
    result = run_limited(source)
    assert (result.returncode, result.stdout) == (1, "")
    assert str(folder / "spill") in result.stderr
    assert "--temporary" in result.stderr
    assert "kkkk" not in result.stderr
    assert list(Path("spill").iterdir()) == []
    assert len(dfp.Ledger("budget.db").history()) == 0


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_damaged_file(folder, damage):
    """A damaged file is told without a row, a charge or a folder of temporary files."""
    content = Path("rows.parquet").read_bytes()
    half = len(content) // 2
    rest = b"" if damage == "cut" else bytes(3000) + content[half + 3000 :]
    Path("rows.parquet").write_bytes(content[:half] + rest)
    Path("release.yml").write_text(DESCRIPTION.format(source=SOURCES["file"]))
    result = command("run", "release.yml")
    assert (result.exit_code, dfp.Ledger("budget.db").datasets()) == (1, [])
    for withheld in (str(folder / "spill"), "--temporary", "kkkk"):
        assert withheld not in result.output
    message = "can't be opened as what its name says" if damage == "cut" else "a file is damaged"
    assert message in result.stderr
    for query in ("SELECT count(DISTINCT key) FROM rows", "SELECT median(length(key)) FROM rows"):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match=message) as caught:
            dfp.connect("rows.parquet").sql(query).fetchall()
        assert "'rows.parquet'" in str(caught.value)


def test_damage_behind_the_first_batches(tmp_path):
    """A file that is damaged near its end has the same message: its rows are streamed before."""
    file = tmp_path / "rows.parquet"
    query = "SELECT repeat('k', 40) || hash(range) AS key FROM range(1500000)"
    duckdb.sql(f"COPY ({query}) TO '{file}'")
    content = bytearray(file.read_bytes())
    start = len(content) * 9 // 10
    content[start : start + 3000] = bytes(3000)
    file.write_bytes(content)
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="a file is damaged"):
        dfp.connect(file).sql("SELECT median(length(key)) FROM rows").fetchall()


def test_little_memory(folder):
    """Data beyond memory, while the disk has room, is an error of its own at every door."""
    groups = dfp.frame("rows.parquet").group_by("key")
    query = "SELECT key, count(*) FROM t GROUP BY key"
    for ask in (
        lambda: groups.count(delta=1e-7),
        lambda: dfp.sql(query, t="rows.parquet", delta=1e-7),
    ):
        with (
            pytest.raises(dfp.errors.EngineMemoryError, match="limited to 2MB") as caught,
            dfp.Engine("2MB", 1, folder / "spill"),
        ):
            ask()
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
