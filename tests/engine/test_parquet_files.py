import polars as pl
import pytest

import dfprivacy as dfp

EXACT = 1e12  # an epsilon at which noise is zero


def count(path, **terms):
    return float(dfp.frame(path).count(epsilon=EXACT, **terms))


READ = [
    ("", ["a.parquet", "deep/er/b.PARQUET", "c.pq"], ["notes.txt"]),
    ("", ["a.parquet"], ["_temporary/0/b.parquet", ".checkpoint/c.parquet", "_d.parquet"]),
    ("rows.csv", ["rows.csv/a.parquet"], []),
    ("rows.parquet", ["rows.parquet/a.parquet"], []),
    ("a*.parquet", ["a1.parquet", "a2.parquet"], ["b.parquet"]),
    ("d[1].parquet", ["d[1].parquet"], ["d1.parquet"]),
    ("f[1]", ["f[1]/a.parquet"], ["f1/a.parquet"]),
]
"""Paths, with the files that they name and others."""


@pytest.mark.sample(7)
@pytest.mark.parametrize(("path", "named", "others"), READ)
def test_a_path_reads_the_files_that_it_names(write, path, named, others):
    """A folder is its Parquet files at any depth, but no drafts; a glob is one if nothing else is.

    Each file has another power of two of rows.
    """
    for power, name in enumerate([*named, *others]):
        folder = write(name, x=[1.0] * 2**power)
    assert count(folder / path) == count(str(folder / path)) == 2 ** len(named) - 1


@pytest.mark.parametrize("named", ["", "year=2024/a.parquet", "year=*/a.parquet", "*/*.parquet"])
def test_keys_of_directories_are_text_for_globs_and_files_too(write, named):
    """A directory's key on the way to a file is a column of text, never of a guessed type."""
    folder = write("year=2024/a.parquet", x=[1.0])
    years = dfp.frame(folder / named).group_by("year", keys=["2024"]).count(epsilon=EXACT)
    assert years.to_pylist() == [{"year": "2024", "count": 1, "low": 1.0, "high": 1.0}]
    with pytest.raises(dfp.errors.InvalidKeysError):
        dfp.frame(folder / named).group_by("year", keys=[2024]).count(epsilon=EXACT)


@pytest.mark.parametrize(
    "other", [{"x": [1]}, {"x": ["1"]}, {"x": [1.0], "y": [1.0]}, {"y": [1.0]}]
)
def test_files_of_other_schemas_are_refused(write, other):
    """Files that declare other columns or types are refused: the engine would cast their rows."""
    write("a.parquet", x=[1.0])
    folder = write("b.parquet", **other)
    for path in (folder, folder / "*.parquet"):
        with pytest.raises(
            dfp.errors.UnsupportedFrameError, match=r"different columns: .[xy]. is "
        ):
            count(path)


def test_the_file_and_the_column_that_differ_are_named(write):
    """A message has both types, and no key of a directory, which may be secret."""
    write("user=ann/a.parquet", x=[1.0], nested=[{"y": [1]}])
    folder = write("user=bob/b.parquet", x=[1.0], nested=[{"y": ["1"]}])
    with pytest.raises(dfp.errors.UnsupportedFrameError) as failure:
        count(folder)
    kinds = r"'nested' is STRUCT\(y BIGINT\[\]\) in .*user=.../a.parquet' and STRUCT"
    assert failure.match(kinds)
    assert "ann" not in str(failure.value)
    assert "bob" not in str(failure.value)


def test_the_order_of_columns_does_not_matter(write):
    """Files that declare the same columns in another order are alike."""
    write("a.parquet", x=[1.0], y=[100.0])
    folder = write("b.parquet", y=[200.0], x=[2.0])
    assert float(dfp.frame(folder).sum("x", (0, 1000), epsilon=EXACT)) == pytest.approx(3)


def test_nothing_to_read(tmp_path):
    """A folder without files, a glob and a path that name none are errors before a charge."""
    (tmp_path / "empty").mkdir()
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1)
    for name in ("empty", "none*.parquet", "none.parquet", "none.csv"):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match=r"there is no|no file is"):
            dfp.frame(tmp_path / name)(ledger=ledger, dataset="d").count()
    assert ledger.datasets() == []


def test_rows_do_not_change_what_is_declared(write):
    """Schema and message are those of the files, whatever values are in them."""
    texts = []
    for value in (1.0, None):
        write("a.parquet", x=[1.0])
        folder = write("b.parquet", x=pl.Series([value], dtype=pl.Float64), y=["secret"])
        with pytest.raises(dfp.errors.UnsupportedFrameError) as caught:
            count(folder)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "secret" not in texts[0]


def test_damage_is_told_from_a_failing_engine(write, tmp_path):
    """Damage inside of a file names its path, not the engine's words, and nothing is charged."""
    folder = write("a.parquet", x=[0.25 * (index % 977) for index in range(20_000)])
    content = (folder / "a.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(content[:4] + b"\xff" * 60 + content[64:])
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1)
    for ask in (lambda p: p.mean("x", (0, 9)), lambda p: p.mean("x"), lambda p: p.median("x")):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="can't be read to its end"):
            ask(dfp.frame(folder)(ledger=ledger, dataset="d"))
    assert ledger.datasets() == []
