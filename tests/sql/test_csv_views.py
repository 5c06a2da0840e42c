"""A cell that TRY_CAST makes NULL in a view over read_csv fails no query and drops no row."""

import duckdb
import pytest

import dfprivacy as dfp
import sql_udfs

EPSILON = 1e6
FORMS = ("TRY_CAST(x AS DOUBLE)", "TRY_CAST(x || '' AS DOUBLE)", "TRY_CAST(coalesce(x) AS DOUBLE)")
OPTIONS = ("", ", ignore_errors = true")
ASKED = {
    "functions": lambda con: con.execute("SELECT dp_count(), dp_mean(x, 0, 10) FROM v").fetchone(),
    "functions without bounds": lambda con: con.execute(
        "SELECT dp_count(), dp_mean(x) FROM v"
    ).fetchone(),
    "frame": lambda con: tuple(
        dfp.frame(con.table("v"))
        .agg(n=dfp.count(), m=dfp.mean("x", (0, 10)), epsilon=EPSILON)
        .values()
    ),
    "statement": lambda con: (
        dfp.connect({"v": con.table("v")}, epsilon=EPSILON)
        .sql("SELECT dp_count(*) AS n, dp_mean(x, 0, 10) AS m FROM v")
        .fetchall()[0]
    ),
}


@pytest.fixture
def cells(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("city,x\n" + "Rome,5\n" * 1000 + "Oslo,NA\n" * 1000)
    return path


def connection(path, form, options):
    con = duckdb.connect()
    con.execute(
        f"CREATE VIEW v AS SELECT city, {form} AS x "
        f"FROM read_csv('{path}', all_varchar = true, header = true{options})"
    )
    return con


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("question", ASKED)
def test_rows_with_a_cell_that_is_no_number_are_rows(cells, question, form, options):
    """Rows whose cell TRY_CAST makes NULL are counted, and are in no mean."""
    con = connection(cells, form, options)
    if question.startswith("functions"):
        sql_udfs.register(con, epsilon=EPSILON)
    rows, mean = ASKED[question](con)
    assert (rows, mean) == (2000, pytest.approx(5, abs=1e-3))


def test_other_disabled_optimizers_stay_disabled(cells):
    """Registering the functions keeps the caller's own list of disabled optimizers."""
    con = connection(cells, FORMS[0], "")
    con.execute("SET disabled_optimizers = 'join_order'")
    for _ in range(2):
        sql_udfs.register(con)
        ((disabled,),) = con.sql("SELECT current_setting('disabled_optimizers')").fetchall()
        assert sorted(disabled.split(",")) == ["join_order", "type_pushdown"]


def test_a_locked_configuration_is_refused():
    """Functions are not given to a connection on which casts can't be kept out of readers."""
    con = duckdb.connect()
    con.execute("SET lock_configuration = true")
    with pytest.raises(dfp.EngineError, match="locked"):
        sql_udfs.register(con)
