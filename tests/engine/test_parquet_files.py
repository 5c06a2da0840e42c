import polars as pl
import pytest

import dfprivacy as dfp

EXACT = 1e12  # an epsilon at which noise is zero


def count(path, **terms):
    return float(dfp.frame(path).count(epsilon=EXACT, **terms))


def test_a_folder_is_all_its_parquet_files(write):
    """Every .parquet and .pq file below a folder is read, at any depth; others are not."""
    write("a.parquet", x=[1.0, 2.0])
    write("deep/er/b.PARQUET", x=[3.0])
    folder = write("c.pq", x=[4.0])
    (folder / "notes.txt").write_text("no rows")
    assert count(folder) == count(str(folder)) == 4
    assert float(dfp.frame(folder).sum("x", (0, 10), epsilon=EXACT)) == pytest.approx(10)


def test_what_writers_leave_behind_is_not_read(write):
    """Files and directories that begin with a dot or an underscore are no data."""
    write("a.parquet", x=[1.0])
    write("_temporary/0/b.parquet", x=[1.0])
    write(".checkpoint/c.parquet", x=[1.0])
    assert count(write("_d.parquet", x=[1.0])) == 1


def test_a_folder_may_be_called_like_a_file(write, tmp_path):
    """A folder is a folder, whatever its name ends in."""
    folder = write("a.parquet", x=[1.0])
    for name in ("rows.parquet", "rows.csv", "rows"):
        folder = folder.rename(tmp_path / name)
        assert count(folder) == 1


def test_directories_named_by_keys_are_columns_of_text(write):
    """`year=2024` is a column of text, whatever the other directories are called."""
    write("year=2024/month=01/a.parquet", x=[1.0] * 5)
    plain = write("year=2025/month=02/a.parquet", x=[1.0] * 7)
    years = dfp.frame(plain).group_by("year", keys=["2024", "2025"]).count(epsilon=EXACT)
    assert years["count"].to_pylist() == [5, 7]
    odd = write("year=unknown/month=x/a.parquet", x=[1.0] * 3)
    again = dfp.frame(odd).group_by("year", keys=["2024", "2025", "unknown"]).count(epsilon=EXACT)
    assert again["count"].to_pylist() == [5, 7, 3]
    assert years.schema == again.schema


def test_the_name_of_no_key_is_null(write):
    """A directory that Hive names as one without a key is NULL."""
    folder = write("year=__HIVE_DEFAULT_PARTITION__/a.parquet", x=[1.0] * 3)
    years = dfp.frame(folder).group_by("year", keys=["2024", None]).count(epsilon=EXACT)
    assert years["count"].to_pylist() == [0, 3]


@pytest.mark.parametrize("named", ["year=2024/a.parquet", "year=*/a.parquet", "*/*.parquet"])
def test_keys_of_directories_are_text_for_globs_and_files_too(write, named):
    """A directory's key on the way to a file is a column of text, never of a guessed type."""
    folder = write("year=2024/a.parquet", x=[1.0])
    years = dfp.frame(folder / named).group_by("year", keys=["2024"]).count(epsilon=EXACT)
    assert years.to_pylist() == [{"year": "2024", "count": 1, "low": 1.0, "high": 1.0}]
    with pytest.raises(dfp.errors.InvalidKeysError):
        dfp.frame(folder / named).group_by("year", keys=[2024]).count(epsilon=EXACT)


def test_globs_name_files(write):
    """A glob reads just what it names."""
    write("a1.parquet", x=[1.0])
    write("a2.parquet", x=[1.0])
    folder = write("b.parquet", y=["other"])
    assert count(folder / "a*.parquet") == 2


def test_a_file_that_is_called_like_a_glob_is_itself(write, tmp_path):
    """A file or folder that is there is read, not what its name would match."""
    write("d1.parquet", x=[1.0])
    folder = write("d[1].parquet", x=[1.0, 2.0])
    (tmp_path / "d1.csv").write_text("x\n1\n")
    (tmp_path / "d[1].csv").write_text("x\n1\n2\n")
    assert count(folder / "d[1].parquet") == count(tmp_path / "d[1].csv") == 2
    write("f1/a.parquet", x=[1.0])
    write("f[1]/a.parquet", x=[1.0, 2.0])
    assert count(folder / "f[1]") == 2


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


def test_directories_of_other_keys_are_refused(write):
    """Files that lie below different keys have no columns in common to be named."""
    write("year=2024/a.parquet", x=[1.0])
    folder = write("month=1/a.parquet", x=[1.0])
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="different keys"):
        count(folder)


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


def test_a_folder_in_sql(write):
    """`dfp.sql` reads folders as `dfp.frame` does."""
    write("year=2024/a.parquet", x=[1.0] * 5)
    folder = write("year=2025/a.parquet", x=[1.0] * 7)
    query = "SELECT year, dp_count(*) AS n FROM t GROUP BY year"
    released = dfp.sql(query, t=folder, epsilon=EXACT, keys=["2024", "2025"])
    assert released["n"].to_pylist() == [5, 7]


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
