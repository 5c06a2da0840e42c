"""Paths of every form name files, or are refused with what to do instead."""

from pathlib import Path

import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.command_line import command

EXACT = 1e7  # an epsilon at which answers are exact


@pytest.mark.parametrize("scheme", ["s3", "https", "gs", "abfss", "hf", "az"])
def test_an_address_is_refused_with_its_remedy(scheme):
    """An address on a network is refused by every entry point, with an engine that reads it."""
    address = f"{scheme}://bucket/rows.parquet"
    remedy = rf"read_parquet\('{scheme}://...'\)(.|\n)*httpfs"
    for ask in (
        lambda: dfp.frame(address).count(),
        lambda: dfp.frame(Path(address)).count(),
        lambda: dfp.sql("SELECT dp_count(*) FROM t", t=address),
        lambda: dfp.connect(address).cursor().execute("SELECT dp_count(*) FROM rows"),
        lambda: dfp.suggest_limits(address, unit="x"),
    ):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match=remedy):
            ask()
    assert "httpfs" in command("count", address).stderr
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="network"):
        dfp.frame(dfp.TextFile(address.replace("parquet", "csv")))


def test_an_address_in_a_description_is_a_fault_with_its_line(tmp_path):
    """`dfprivacy run` refuses an address before it looks for files."""
    (tmp_path / "release.yml").write_text(
        "budget: {ledger: b.db, dataset: d, version: '1', epsilon: 1}\n"
        "source: {file: 's3://bucket/t.parquet'}\n"
        "releases: {n: {questions: {n: {count: '*'}}, outputs: [n.csv]}}\n"
    )
    result = command("run", str(tmp_path / "release.yml"))
    assert "release.yml:2: source.file: s3: is an address on a network" in result.stderr


def test_the_home_directory_is_expanded(tmp_path, monkeypatch):
    """`~` is the home directory for files, ledgers and paths of descriptions."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "t.csv").write_text("x\n1\n2\n")
    for path in ("~/t.csv", Path("~/t.csv"), dfp.TextFile("~/t.csv")):
        assert float(dfp.frame(path).count(epsilon=EXACT)) == 2
    counted = dfp.sql("SELECT dp_count(*) AS n FROM t", t="~/t.csv", epsilon=EXACT)
    assert counted["n"].to_pylist() == [2]
    dfp.Ledger("~/b.db", epsilon=1)
    assert (tmp_path / "b.db").is_file()
    (tmp_path / "release.yml").write_text(
        "source: {file: ~/t.csv}\n"
        "budget: {ledger: ~/c.db, dataset: d, version: '1', epsilon: 1}\n"
        "releases: {n: {questions: {n: {count: '*'}}, outputs: [~/n.csv]}}\n"
    )
    command("ledger", "create", str(tmp_path / "c.db"), "--epsilon", "1", "--remember")
    assert command("run", str(tmp_path / "release.yml")).exit_code == 0
    assert (tmp_path / "n.csv").is_file()


def test_a_record_batch_is_a_table(tmp_path):
    """A record batch of Arrow is asked as a table of the same rows is."""
    batch = pa.record_batch({"x": [1.0, 2.0], "g": ["a", "b"]})
    assert float(dfp.frame(batch).count(epsilon=EXACT)) == 2
    assert float(dfp.frame(batch[:0]).count(epsilon=EXACT)) == 0
    query = "SELECT dp_sum(x, 0, 2) AS s FROM t"
    assert dfp.sql(query, t=batch, epsilon=EXACT)["s"].to_pylist() == [pytest.approx(3)]
    dfp.statistics(batch, tmp_path / "statistics", dfp.count())


@pytest.mark.parametrize("name", ["b.csv", "deep/b.TSV", "b.csv.gz"])
def test_a_folder_of_several_kinds_is_refused(write, name):
    """Text files in a folder are not left out in silence: the message names the first of them."""
    folder = write("a.parquet", x=[1.0])
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("x\n1\n")
    with pytest.raises(dfp.errors.UnsupportedFrameError, match=r"has text files such as .*b\.\w+"):
        dfp.frame(folder).count()
    assert float(dfp.frame(folder / "*.parquet").count(epsilon=EXACT)) == 1
