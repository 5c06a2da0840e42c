"""Values of files are counted by the engine as values in memory are by sorting."""

import duckdb
import pytest

import dfprivacy as dfp

ROWS = {
    "plain": "hash(i) % 50 AS g, exp(hash(i + 1) % 1000 / 20) AS x, i % 3 AS h"
    " FROM range(20000) r(i)",
    "odd": "CASE WHEN i % 7 > 0 THEN 'kÄ' || (hash(i) % 50) END AS g,"
    " CASE i % 5 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN NULL WHEN 2 THEN -0.0 ELSE i % 4 END AS h,"
    " CASE WHEN i % 3 = 0 THEN 'nan'::DOUBLE WHEN i % 11 > 0 THEN exp(hash(i) % 1000 / 20) END AS x"
    " FROM range(20000) r(i)",
    "no row": "1 AS g, 1.0 AS x, TRUE AS h WHERE FALSE",
    "no value": "i AS g, NULL::DOUBLE AS x, i > 3 AS h FROM range(10) r(i)",
    "dates": "DATE '2020-01-01' + (i % 40)::INT AS g, i % 90 / 7 AS x, i % 2 = 0 AS h"
    " FROM range(20000) r(i)",
}


@pytest.fixture
def file(tmp_path):
    """Write the rows of a SELECT as a Parquet file; return a pattern, which may name many."""

    def write(select):
        duckdb.sql(f"COPY (SELECT {select}) TO '{tmp_path / 'rows.parquet'}'")
        return tmp_path / "*.parquet"

    return write


def shown(released):
    """Return the columns of a release by group as text: NaN too."""
    table = released.to_arrow_table() if hasattr(released, "to_arrow_table") else released
    return [list(map(str, column.to_pylist())) for column in table.columns]


@pytest.mark.parametrize("by", [["g"], ["h", "g"]])
@pytest.mark.parametrize("rows", ROWS)
def test_files_hold_what_memory_holds(rows, by, file, replayed):
    """With the same random bytes a file gives what its relation gives."""
    path = file(ROWS[rows])
    relation = duckdb.connect().read_parquet(str(path))
    file_release, memory_release = (
        replayed(lambda f=f: dfp.frame(f).group_by(*by).median("x", epsilon=9, delta=0.1))
        for f in (path, relation)
    )
    assert shown(file_release) == shown(memory_release)


@pytest.mark.parametrize("rows", ROWS)
def test_a_small_file_is_answered_as_a_large_one(rows, file, replayed):
    """With the same random bytes one small file, read at once, gives what many files give."""
    large = file(ROWS[rows])
    answers = []
    for path in (large, large.with_name("rows.parquet")):
        private = dfp.frame(path)(epsilon=2, delta=1e-5)
        answers.append(
            (
                shown(replayed(lambda p=private: p.group_by("g").agg(dfp.mean("x"), dfp.count()))),
                shown(replayed(lambda p=private: p.group_by("h").median("x"))),
                shown(replayed(lambda p=private: p.describe(["x"], exclude=()))),
            )
        )
    assert answers[0] == answers[1]


def test_many_groups_are_answered(file):
    """Each of 300,000 groups of a file is answered."""
    path = file("i % 300000 AS g, (2 + i % 30)::DOUBLE AS x FROM range(1500000) r(i)")
    table = dfp.frame(path).group_by("g").median("x", epsilon=200, delta=1e-6)
    assert table["g"].to_pylist() == list(range(300_000))
    assert table["x"].to_pylist() == [2.0 + g % 30 for g in range(300_000)]


def test_every_group_is_answered(file):
    """Groups of one value each have that value as their median."""
    path = file("i % 30 AS g, (2 + i % 30)::DOUBLE AS x FROM range(30000) r(i)")
    groups = dfp.frame(path).group_by("g")
    for question in ({"q": 0.5}, {"q": 0.3}):
        table = groups.quantile("x", **question, epsilon=200, delta=1e-6).to_pydict()
        assert table["g"] == list(range(30))
        (name,) = set(table) - {"g", "count", "count_low", "count_high", "note"}
        assert table[name] == [2.0 + g for g in range(30)]
    quantiles = groups.quantiles("x", [0.2, 0.8], epsilon=400, delta=1e-6)
    assert quantiles.num_rows == 30
    columns = [name for name in quantiles.column_names if name[-4:] in {"_0.2", "_0.8"}]
    assert len(columns) == 2
    assert all(quantiles[name].to_pylist() == [2.0 + g for g in range(30)] for name in columns)


ASKED = {
    "center": lambda frame, terms: frame.center("x", 1.5, (0, 64), **terms),
    "center without bounds": lambda frame, terms: frame.center("x", 2, **terms),
    "center after Dick": lambda frame, terms: frame.dick_center("x", 2, **terms),
    "inverse median": lambda frame, terms: frame.inverse_quantile("x", 0.5, **terms),
    "inverse mean": lambda frame, terms: frame.center("x", 2, **terms),
    "subset mean": lambda frame, terms: frame.subset_mean("x", **terms),
    "mean after Dick": lambda frame, terms: frame.dick_mean("x", **terms),
    "bounds by rank": lambda frame, terms: frame.bounds("x", rank=3, **terms),
}


@pytest.mark.parametrize("name", ASKED)
def test_every_question_about_values_reads_files(name, file):
    """Each group of one value each has it as its answer."""
    path = file("i % 30 AS g, (2 + i % 30)::DOUBLE AS x FROM range(30000) r(i)")
    table = ASKED[name](dfp.frame(path).group_by("g"), {"epsilon": 200, "delta": 1e-6})
    assert table["g"].to_pylist() == list(range(30))
    other_columns = {"g", "count", "count_low", "count_high", "x_low", "x_high", "x_note", "note"}
    columns = [name for name in table.column_names if name not in other_columns]
    assert columns
    for column in columns:
        assert table[column].to_pylist() == pytest.approx([2.0 + g for g in range(30)], abs=0.05)
