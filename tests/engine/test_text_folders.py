"""Archives of text files, and folders and patterns of them, are one table of text columns."""

import gzip

import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.command_line import command

EXACT = 1e8  # an epsilon at which noise is far below a row

ROWS = b"g,x\n" + b"a,1\n" * 1000 + b"b,3\n" * 1000


def pack(data, kind):
    """Return the bytes of an archive."""
    if kind == "gzip":
        return gzip.compress(data, mtime=0)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


ARCHIVES = {"rows.csv.gz": "gzip", "rows.CSV.GZ": "gzip", "rows.csv.zst": "zstd"}


def count_groups(source, **form):
    """Return the exact count of each group."""
    counts = dfp.frame(source, **form).group_by("g").count(epsilon=EXACT, delta=1e-6)
    return dict(zip(counts["g"].to_pylist(), counts["count"].to_pylist(), strict=True))


EXPECTED = {"a": 1000, "b": 1000}


@pytest.mark.parametrize("size", [1000, 200_000])
@pytest.mark.parametrize(("name", "kind"), [*ARCHIVES.items(), ("rows.tsv.gz", "gzip")])
def test_an_archive_is_its_text(name, kind, size, tmp_path):
    """The rows of an archive are those of its text, also of two archives in one file.

    A file of 2.4 MB is read in several blocks, which end inside of rows.
    """
    data = b"g,x\n" + b"a,1.0\n" * size + b"b,3.0\n" * size
    data = data.replace(b",", b"\t") if "tsv" in name else data
    path = tmp_path / name
    path.write_bytes(pack(data[:50], kind) + pack(data[50:], kind))
    assert count_groups(path) == {"a": size, "b": size}
    assert dfp.frame(path).mean("x", (0, 10), epsilon=EXACT) == pytest.approx(2, abs=1e-3)
    path.write_bytes(pack(data.replace(b"a", b"\xe9"), kind))
    assert count_groups(path, encoding="latin-1") == {"é": size, "b": size}


def test_an_archive_is_read_by_commands_and_statements(tmp_path, monkeypatch):
    """The command line, SQL and files of statistics read an archive by its name."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(pack(ROWS, "gzip"))
    query = "SELECT g, dp_count(*) AS n FROM rows GROUP BY g"
    for table in (
        dfp.sql(query, rows=path, epsilon=EXACT, delta=1e-6),
        dfp.connect(path, epsilon=EXACT, delta=1e-6).sql(query).arrow(),
    ):
        assert table["n"].to_pylist() == [1000, 1000]
    part = dfp.statistics(path, "part.parquet", n=dfp.count())
    assert dfp.merge([part], epsilon=EXACT)["n"] == 2000
    words = ["count", "rows.csv.gz", "--where", "x > 2", "--epsilon", str(EXACT)]
    assert command(*words, "--output", "n.csv").exit_code == 0
    assert (tmp_path / "n.csv").read_text().splitlines()[1].split(",")[1] == "1000.0"


DAMAGE = {
    "cut off": lambda data: data[:-5],
    "half": lambda data: data[: len(data) // 2],
    "changed": lambda data: data[:-3] + bytes(byte ^ 255 for byte in data[-3:]),
    "followed": lambda data: data + b"secret" * 10,
    "text": lambda data: ROWS,
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize(("name", "kind"), ARCHIVES.items())
def test_a_damaged_archive_is_refused(name, kind, damage, tmp_path, monkeypatch):
    """An archive that is not sound is refused with a remedy, uncharged, and without its text."""
    monkeypatch.chdir(tmp_path)
    rows = b"".join(b"secret%d,%d\n" % (index, index**3) for index in range(400_000))
    path = tmp_path / name
    path.write_bytes(damage(pack(b"g,x\n" + rows, kind)))
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10)
    frame = dfp.frame(path)(ledger=ledger, dataset="d")
    for ask in (
        lambda: frame.count(epsilon=1),
        lambda: dfp.sql("SELECT dp_count(*) FROM t", t=path, epsilon=1),
        lambda: dfp.statistics(path, "part.parquet", dfp.count()),
    ):
        with pytest.raises(
            dfp.errors.UnsupportedFrameError, match=r"damaged|column names"
        ) as caught:
            ask()
        assert "Hint" in str(caught.value)
        assert "secret" not in str(caught.value)
    assert ledger.spent("d").epsilon == 0


def test_an_archive_that_was_mended_is_read(tmp_path):
    """The soundness of an archive is checked anew when the file has changed."""
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(pack(ROWS, "gzip")[:-5])
    with pytest.raises(dfp.errors.UnsupportedFrameError):
        dfp.frame(path).count(epsilon=1)
    path.write_bytes(pack(ROWS, "gzip"))
    assert count_groups(path) == EXPECTED


@pytest.fixture
def days(tmp_path):
    """Write a folder of three text files with the same columns in other orders and forms."""
    folder = tmp_path / "days"
    (folder / "late").mkdir(parents=True)
    (folder / "1.csv").write_bytes(b"g,x\n" + b"a,1\n" * 1000)
    (folder / "2.csv.gz").write_bytes(pack(b"x;g\n" + b"3;b\n" * 600, "gzip"))
    (folder / "late" / "3.tsv").write_bytes(b"g\tx\n" + b"b\t3\n" * 400)
    (folder / "late" / "4.csv").write_bytes(b"g,x\n")
    (folder / "_unfinished.tsv").write_text("?")
    (folder / "README.txt").write_text("?")
    return folder


def test_a_folder_of_text_files_is_one_table(days):
    """The rows of all files count, whatever the order of columns and the character between."""
    assert count_groups(days) == EXPECTED
    assert dfp.frame(days).mean("x", (0, 10), epsilon=EXACT) == pytest.approx(2, abs=1e-3)
    query = "SELECT g, dp_sum(x, 0, 10) AS s FROM t WHERE x > 0 GROUP BY g"
    table = dfp.sql(query, t=days, epsilon=EXACT, delta=1e-6)
    assert table["s"].to_pylist() == pytest.approx([1000, 3000], abs=1e-2)
    described = dfp.frame(days)(bounds={"x": (0, 10)})
    assert "x" in repr(dfp.show(described.describe(numbers=["x"], epsilon=EXACT, delta=1e-6)))


def test_a_pattern_names_text_files(days):
    """A pattern is the files that it matches, in folders too."""
    assert count_groups(days / "*.csv") == {"a": 1000}
    assert count_groups(str(days / "*" / "*.tsv")) == {"b": 400}
    assert count_groups(days / "*.csv.gz") == {"b": 600}
    (days / "[1].csv").write_text("g,x\nc,1\n" * 9)  # a file that is there is no pattern
    assert count_groups(days / "[1].csv") == {"c": 9, "g": 8}
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="no file is named"):
        dfp.frame(days / "x*.csv").count(epsilon=1)


def test_a_form_holds_for_all_files(days):
    """Encoding and delimiter of a folder or pattern are those of each file."""
    for path in days.rglob("*.*"):
        path.unlink()
    for name in ("1.csv", "2.csv"):
        (days / name).write_bytes("g:x\né:1\n".encode("latin-1") * 500)
    form = {"encoding": "latin-1", "delimiter": ":"}
    for source in (days, days / "*.csv"):
        assert count_groups(source, **form)["é"] == 1000


@pytest.mark.parametrize("header", [b"g,y\n", b"g\n", b"g,x,y\n", b"G,x\n"])
def test_files_of_other_columns_are_refused(header, days):
    """Text files with different names of columns are refused with a file and a column."""
    (days / "late" / "4.csv").write_bytes(header)
    with pytest.raises(dfp.errors.UnsupportedFrameError, match=r"'[gGxy]' is in .*\.csv") as caught:
        dfp.frame(days).count(epsilon=1)
    assert "4.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("5.parquet", "beside Parquet"),
        ("5.csv.bz2", "ends in '.bz2'"),
        ("day=secret/5.csv", "key=value"),
    ],
)
def test_folders_that_are_refused(name, message, days):
    """Files of two kinds, other archives and keys of directories are refused with a remedy."""
    (days / name).parent.mkdir(exist_ok=True)
    (days / name).write_text("g,x\n")
    with pytest.raises(dfp.errors.UnsupportedFrameError, match=message) as caught:
        dfp.frame(days).count(epsilon=1)
    assert "Hint" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_commands_read_folders_and_patterns(days, monkeypatch):
    """The command line reads a folder of text files, and a pattern in quotes."""
    monkeypatch.chdir(days.parent)
    for file, rows in (("days", 2000), ("days/*.csv", 1000)):
        words = ["count", file, "--epsilon", str(EXACT), "--output", "n.csv"]
        assert command(*words).exit_code == 0
        assert (days.parent / "n.csv").read_text().splitlines()[1].split(",")[1] == f"{rows}.0"


@pytest.mark.parametrize(
    "source", ["file: 'days/*.csv'", "file: days/2.csv.gz", "folder: days, hive: true"]
)
def test_descriptions_read_archives_and_patterns(source, days, monkeypatch):
    """A release reads archives, patterns of text files and a folder of any depth."""
    monkeypatch.chdir(days.parent)
    dfp.Ledger("budget.db", epsilon=1e9, remember=True)
    (days.parent / "release.yml").write_text(f"""
budget: {{ledger: budget.db, dataset: d, version: "1", epsilon: 1e8}}
releases:
  n:
    source: {{{source}}}
    questions: {{rows: {{count: "*"}}}}
    outputs: n.csv
""")
    result = command("run", "release.yml")
    assert result.exit_code == 0, result.output
    rows = {"*": 1000, "gz": 600, "true": 2000}
    expected = next(number for end, number in rows.items() if end in source)
    line = (days.parent / "n.csv").read_text().splitlines()[1]
    assert round(float(line.split(",")[1])) == expected
