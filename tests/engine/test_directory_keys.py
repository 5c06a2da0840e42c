"""Keys in the names of directories are columns of text, and choose the files that are read."""

import duckdb
import pytest

import dfprivacy as dfp
from tests.command_line import command, read_cells

ODD = ("k=?", "k=a?b", "k=a=b", "k=\n", "k=a\\b", "k=%FF", "k=%3F?")
PLAIN = ("k=1", "k=%41", "k=%zz", "k=", "k=__HIVE_DEFAULT_PARTITION__", "k=NULL", "k=null", "k=a'b")


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_is_no_key_is_refused(name, write):
    """A folder is refused if DuckDB takes the name of a directory for no key, by names alone."""
    write("k=1/a.parquet", x=[1.0] * 5)
    folder = write(f"{name}/a.parquet", x=[1.0] * 3)
    texts = []
    for ask in (
        lambda: dfp.frame(folder).count(),
        lambda: dfp.sql("SELECT dp_count(*) FROM t", t=folder),
    ):
        with pytest.raises(
            dfp.errors.UnsupportedFrameError, match="has a name key=value"
        ) as caught:
            ask()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def released(folder, by):
    """Return the groups of a folder with what they hold, as nearly no noise shows it."""
    grouped = dfp.frame(folder).group_by(by)
    table = grouped.agg(n=dfp.count(), s=dfp.sum("x", (0, 9)), epsilon=2**60, delta=0.5)
    return {row[by]: (row["n"], round(row["s"], 3)) for row in table.to_pylist()}


@pytest.mark.parametrize("below", ["{}", "{}/B=2/a=%20", "l=4/{}"])
def test_keys_are_those_of_duckdb(below, write):
    """Keys and what they hold are DuckDB's own."""
    for index, name in enumerate(PLAIN):
        folder = write(f"{below.format(name)}/a.parquet", z=[0] * 3, x=[float(index)] * 3)
    options = "hive_partitioning = true, hive_types_autocast = false"
    query = f"SELECT k, count(*), sum(x) FROM read_parquet('{folder}/**', {options}) GROUP BY 1"
    assert released(folder, "k") == {
        key: tuple(rest) for key, *rest in duckdb.sql(query).fetchall()
    }


CONDITIONS = (
    "k = '1'", "k < 'A'", "k IS NULL", "k IN ('A', '')", "k = '1' OR x > 4", "x > 2 AND k <> '1'",
    "k = 'none'", "CAST(k AS INTEGER) = 1", "1 / (CAST(k AS INTEGER) - 1) > 0", "K LIKE '%''%'",
    "true", "k = x::VARCHAR", "lower(k) = 'null' AND k >= 'a'",
)  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_directories_left_out_change_no_release(condition, write):
    """A condition keeps the rows that it keeps of the same rows in one file."""
    for index, name in enumerate(PLAIN):
        folder = write(f"{name}/a.parquet", x=[float(index), 1.0])
    single_table = duckdb.sql(
        f"SELECT * FROM read_parquet('{folder}/**', hive_partitioning = true, "
        "hive_types_autocast = false)"
    ).to_arrow_table()
    text = f"SELECT dp_count(*) AS n, dp_sum(x, 0, 9) AS s FROM t WHERE {condition}"
    for path in (folder, folder / "*/*.parquet"):
        answer, expected = (dfp.sql(text, t=frame, epsilon=1e12) for frame in (path, single_table))
        assert answer.to_pylist() == expected.to_pylist()
        assert answer.schema == expected.schema


def test_files_in_directories_without_a_match_are_not_opened(write):
    """One row a directory decides which files are read; a damaged one elsewhere fails nothing."""
    write("k=1/a.parquet", x=[1.0] * 5)
    folder = write("k=2/a.parquet", x=[1.0] * 3)
    (folder / "k=2/a.parquet").write_bytes(b"damaged")
    text = "SELECT dp_count(*) AS n FROM t WHERE k = '{}'"
    counts = [dfp.sql(text.format(key), t=folder, epsilon=1e12)["n"].to_pylist() for key in (1, 3)]
    assert counts == [[5], [0]]
    words = ["count", folder, "--where", "x > 0 AND k = '1'", "--epsilon", "1e6"]
    assert read_cells(command(*words).stdout)[0][0] == "5"
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="can't be opened"):
        dfp.sql(text.format(2), t=folder)


@pytest.mark.parametrize("key", ["k", "K"])
@pytest.mark.parametrize("named", ["", "*/*.parquet", "{}/a.parquet"])
def test_a_key_never_hides_a_column(key, named, write):
    """A column of the files that a directory is named by is refused, also where case differs."""
    folder = write(f"{key}=2/a.parquet", k=[1] * 3, x=[1.0] * 3)
    path = folder / named.format(f"{key}=2")
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="have a column 'k', and so have"):
        dfp.frame(path).count()
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="have a column 'k', and so have"):
        dfp.sql("SELECT dp_count(*) FROM t", t=path)
