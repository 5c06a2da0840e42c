"""Rows are read through one gate, and nothing that an engine or a row says comes out beside it."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

SECRET = "secret text of one row"
FAR = np.iinfo(np.int64).max // 2
TERMS = {"epsilon": 1e13, "delta": 0.01}


def catch_error(call, query, **terms):
    """Return the class and the text of what a statement raises; None where it raises nothing."""
    try:
        call(query, **terms)
    except dfp.DPError as error:
        return type(error).__name__, str(error)
    return None


def generate_data(expression, *, bad):
    con = duckdb.connect()
    con.execute(
        f"CREATE TABLE t (s VARCHAR, g INTEGER GENERATED ALWAYS AS ({expression}) VIRTUAL); "
        "INSERT INTO t (s) SELECT range::VARCHAR FROM range(500)"
    )
    if bad:
        con.execute(f"UPDATE t SET s = '{SECRET}' WHERE s = '7'")
    return con


@pytest.mark.parametrize("call", [dfp.sql, dfp.explain])
@pytest.mark.parametrize("expression", ["CAST(s AS INTEGER)", "1000 // (length(s) - 22)"])
@pytest.mark.parametrize("column", ["g", "*"])
def test_generated_columns_are_refused(call, expression, column):
    """A column that is computed when it is read is refused by its declaration, on any rows."""
    query = f"SELECT dp_count(g) AS n FROM (SELECT {column} FROM t)"
    good_outcome, bad_outcome = (
        catch_error(call, query, con=generate_data(expression, bad=bad)) for bad in (False, True)
    )
    assert good_outcome == bad_outcome
    assert good_outcome[0] == "RefusedStatementError"
    assert SECRET not in good_outcome[1]


def test_columns_beside_a_generated_one_are_read():
    """A table with a generated column is read as long as nothing asks for that column."""
    con = generate_data("CAST(s AS INTEGER)", bad=True)
    assert dfp.sql("SELECT dp_count(s) AS n FROM t", con=con, **TERMS).fetchall() == [(500,)]


def test_planning_never_touches_the_rows():
    """An explanation, and every refusal, is made of declared types: a broken source is not met."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE raw AS SELECT '{SECRET}' AS s")
    for name, switch in (("on", "enable_optimizer"), ("off", "disable_optimizer")):
        con.execute(f"PRAGMA {switch}")
        broken = con.sql("SELECT CAST(s AS INTEGER) AS x FROM raw")
        assert dfp.explain("SELECT dp_count(x) AS n FROM t", t=broken).epsilon == 1, name
        kind, text = catch_error(dfp.sql, "SELECT dp_count(x) AS n FROM t", t=broken)
        assert (kind, SECRET in text) == ("EngineError", False)


def test_an_engine_never_speaks(con):
    """The message of an error has no text of DuckDB about a statement that it can't plan."""
    for query, word in (
        ("SELECT dp_mean(city + age, 0, 1) FROM visits", "city"),
        ("SELECT dp_count(*) FROM visits WHERE tags > 3", "tags"),
        ("SELECT dp_count(*) FROM visits WHERE place.zipp = 'a'", "zipp"),
        ("SELECT city, dp_count(*) + city AS x FROM visits GROUP BY city", "city"),
    ):
        kind, text = catch_error(dfp.explain, query, con=con, delta=1e-6)
        assert kind == "InvalidQuestionError"
        assert word in text
        for engines in ("Error", "Binder", "Candidate", "LINE", "explicit type casts"):
            assert engines not in text


@pytest.mark.parametrize(
    ("query", "start"),
    [
        ("SELECT dp_count(*) FORM visits", "the statement can't be read at line 1, column 25"),
        ("SELECT dp_count(* FROM visits", "the statement can't be read at line 1, column 19"),
    ],
)
def test_a_mistake_of_syntax_is_shown_where_it_is(con, query, start):
    """A statement that can't be read is quoted from its own text, at its own place."""
    kind, text = catch_error(dfp.sql, query, con=con)
    assert kind == "RefusedStatementError"
    assert text.startswith(start)
    assert query[int(text.split("column ")[1].split(":")[0]) - 1 :][:6] in text


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT dp_mean(incmoe, 0, 9) FROM visits", "did you mean 'income'?"),
        ("SELECT dp_count(*) FROM visits WHERE lowr(city) = 'rome'", "did you mean lower?"),
        ("SELECT dp_mean(CAST(note AS DOUBEL), 0, 9) FROM visits", "did you mean DOUBLE?"),
        ("SELECT dp_meen(age, 0, 9) FROM visits", "did you mean dp_mean?"),
        ("SELECT dp_count(*) FROM vists", "did you mean 'visits'?"),
    ],
)
def test_a_mistyped_name_is_guessed(con, query, hint):
    """A name that is nearly one of the catalogue's, or of the list's, is put right in the hint."""
    kind, text = catch_error(dfp.explain, query, con=con)
    assert hint in text, (kind, text)


TARGETS = {
    "primary key": "CREATE TABLE kept (n BIGINT PRIMARY KEY)",
    "unique": "CREATE TABLE kept (n BIGINT UNIQUE)",
    "check": "CREATE TABLE kept (n BIGINT CHECK (n > 5))",
    "foreign key": "CREATE TABLE people (id BIGINT PRIMARY KEY); INSERT INTO people VALUES ({id}); "
    "CREATE TABLE kept (n BIGINT REFERENCES people (id))",
    "trigger": "CREATE TABLE log (n BIGINT); CREATE TABLE kept (n BIGINT); "
    "CREATE TRIGGER own AFTER INSERT ON kept FOR EACH ROW INSERT INTO log VALUES (new.n)",
    "plain": "CREATE TABLE kept (n BIGINT)",
}


@pytest.mark.parametrize("target", TARGETS)
def test_released_rows_go_to_fresh_tables_only(target, tmp_path):
    """No key, constraint or trigger of a table is asked about released rows: INSERT is refused."""
    outcomes = []
    for person in (7, 8):
        con = duckdb.connect()
        con.execute("CREATE TABLE visits AS SELECT range AS x FROM range(100)")
        con.execute(TARGETS[target].format(id=person))
        ledger = dfp.Ledger(tmp_path / f"{person}.db", epsilon=10)
        query = "INSERT INTO kept SELECT 7 + 0 * dp_count(*) AS n FROM visits"
        outcomes.append(
            catch_error(dfp.sql, query, con=con, ledger=ledger, dataset="d", epsilon=1e-6)
        )
        assert ledger.remaining("d").epsilon == 10
        assert con.execute("SELECT count(*) FROM kept").fetchall() == [(0,)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == "RefusedStatementError"
    assert "CREATE TABLE" in outcomes[0][1]


@pytest.mark.parametrize(
    "stored",
    [
        "CREATE VIEW released AS SELECT 1 AS n",
        "CREATE TABLE released (n INT PRIMARY KEY); CREATE TABLE o (n INT REFERENCES released (n))",
        "SET VARIABLE unused = 1; ATTACH ':memory:' AS elsewhere",
    ],
)
@pytest.mark.parametrize("name", ["released", "nowhere.released", "nobase.main.released"])
def test_a_table_that_cannot_be_made_costs_nothing(stored, name, tmp_path):
    """A fresh table that can't be made is noticed before a charge: nothing is charged."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE visits AS SELECT range AS x FROM range(100); {stored}")
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=10)
    query = f"CREATE OR REPLACE TABLE {name} AS SELECT dp_count(*) AS n FROM visits"
    outcome = catch_error(dfp.sql, query, con=con, ledger=ledger, dataset="d", epsilon=1)
    fits = name == "released" and "elsewhere" in stored
    assert (outcome is None) == fits
    assert ledger.remaining("d").epsilon == (9 if fits else 10)


def pandas_times(kind, row):
    values = pd.Series(np.array([0, 1, 2, row] * 30).astype("int64"))
    if "UTC" in kind:
        naive = values.to_numpy().view(kind.replace(", UTC", ""))
        return {"t": pd.DataFrame({"x": pd.Series(naive).dt.tz_localize("UTC")})}
    return {"t": pd.DataFrame({"x": values.to_numpy().view(kind)})}


@pytest.mark.parametrize("query", ["dp_count(x)", "dp_count(CAST(x AS VARCHAR))"])
@pytest.mark.parametrize(
    "kind",
    ["datetime64[s, UTC]", "datetime64[ms, UTC]", "timedelta64[s]", "timedelta64[ms]",
     "datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns, UTC]", "timedelta64[ns]"],
)  # fmt: skip
def test_far_times_of_pandas(kind, query):
    """A time that an engine has no place for is missing, whatever the unit it is counted in."""
    ordinary_frame, extreme_frame = (
        dfp.sql(f"SELECT {query} AS n FROM t", **pandas_times(kind, row), **TERMS)
        for row in (3, FAR // 10**3 if kind.endswith("[s, UTC]") else FAR)
    )
    assert dict(ordinary_frame.dtypes) == dict(extreme_frame.dtypes)
    assert (int(ordinary_frame["n"][0]), int(extreme_frame["n"][0]) in {90, 120}) == (120, True)


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("inside", ["", "list", "struct"])
def test_far_times_of_arrow(unit, inside):
    """A time too far is missing in Arrow too; inside of lists and structs its type is refused."""
    outcomes = []
    for row in (3, FAR):
        times = pa.array([0, 1, 2, row] * 30, pa.int64()).view(pa.timestamp(unit, "UTC"))
        if inside == "list":
            times = pa.ListArray.from_arrays(pa.array(range(121), pa.int32()), times)
        if inside == "struct":
            times = pa.StructArray.from_arrays([times], names=["a"])
        table = pa.table({"x": times})
        outcomes.append(catch_error(dfp.sql, "SELECT dp_count(x) AS n FROM t", t=table))
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0] is None) == (not inside)


@pytest.mark.parametrize("kind", [pl.List(pl.Categorical), pl.Struct({"a": pl.Categorical})])
def test_nested_categories_of_polars(kind):
    """Categories inside of lists and structs are text, whatever is in them."""
    for rows in ([["a"], ["b", "a"], None], [[], None]):
        values = rows if kind == pl.List(pl.Categorical) else [r and {"a": r[0]} for r in rows]
        frame = pl.DataFrame({"x": pl.Series([r or None for r in values] * 9, dtype=kind)})
        element = "x[1]" if kind == pl.List(pl.Categorical) else "x.a"
        query = f"SELECT dp_count({element}) AS n FROM t"
        assert dfp.sql(query, t=frame, **TERMS).item() == 9 * sum(map(bool, rows))


def test_what_is_remembered_belongs_to_its_rows(tmp_path):
    """A remembering ledger tells statements over other rows apart, however the version was said."""
    con = duckdb.connect()
    con.execute("CREATE TABLE visits AS SELECT ['Rome', 'Oslo'][1 + (i % 10 = 0)::INT] AS city "
                "FROM range(1000) r(i); CREATE TABLE other AS FROM visits LIMIT 500")  # fmt: skip
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=4 * 10**9, delta=0.1, remember=True)
    terms = {"con": con, "epsilon": 1e9}
    with dfp.spending(ledger, dataset="visits", version="2026-01"):
        counts = [
            dfp.sql(f"SELECT dp_count(*) AS n FROM {rows}", **terms).fetchall()[0][0]
            for rows in ("visits WHERE city = 'Rome'", "visits WHERE city = 'Oslo'", "visits",
                         "other", "visits WHERE city = 'Rome'")
        ]  # fmt: skip
    assert counts == [900, 100, 1000, 500, 900]
    assert ledger.spent("visits").epsilon == 4e9


def nest_values(values, inside):
    """Return a table whose column holds the values, one a row, inside of so many things."""
    for container in inside:
        if container == "list":
            values = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)
        elif container == "fixed":
            values = pa.FixedSizeListArray.from_arrays(values, 1)
        else:
            values = pa.StructArray.from_arrays([values], names=["an 'a'"])
    return pa.table({"x": values})


BROKEN = {
    "timestamp": (pa.timestamp("us"), 10 - 2**63, {90}),
    "seconds": (pa.timestamp("s"), FAR, {60}),
    "time": (pa.time64("us"), FAR, {60}),
    "decimal": (pa.decimal64(4, 2), 10**12, range(60, 91)),  # DuckDB reads what it finds in memory
    "far decimal": (pa.decimal64(18, 0), 2**63 - 1, {60}),
}
DEPTHS = [(), ("list",), ("struct",), ("list", "struct"), ("struct", "fixed", "list"), ("fixed",)]


@pytest.mark.parametrize(
    ("kind", "inside", "stored"),
    [
        (kind, inside, (index + depth) % 2 == 1)
        for index, kind in enumerate(BROKEN)
        for depth, inside in enumerate(DEPTHS)
    ],
)
def test_values_that_are_none_of_their_type(kind, inside, stored):
    """A number that is none of its column's values is missing, at any depth, and ends no query."""
    declared, row, left = BROKEN[kind]
    outcomes = []
    for last in (3, row):
        values = pa.array([0, 1, None, last] * 30, pa.int64())
        frame = nest_values(pa.Array.from_buffers(declared, len(values), values.buffers()), inside)
        source = {"t": frame}
        if stored:
            source = {"con": duckdb.connect()}
            source["con"].from_arrow(frame).create("t")
        query = "SELECT dp_count(CAST(x AS VARCHAR)) AS n, dp_count(x) AS m FROM t"
        release = dfp.sql(query, **source, **TERMS)
        table = release if isinstance(release, pa.Table) else release.arrow()
        outcomes.append((table.schema, tuple(table.to_pylist()[0].values())))
    assert outcomes[0][0] == outcomes[1][0]
    assert outcomes[0][1] == ((120, 120) if inside else (90, 90))
    assert outcomes[1][1] == (120, 120) if inside else outcomes[1][1][0] in left


def test_conditions_below_the_gate_leave_its_values_alone():
    """A condition on a plain column, read before the gate, lets none of the others pass it."""
    values = pa.array([0, 1, None, 2**63 - 1] * 30, pa.int64())
    extremes = pa.Array.from_buffers(pa.decimal64(18, 0), len(values), values.buffers())
    frame = pa.table({"u": range(120), "x": extremes})
    query = "SELECT dp_count(x) AS n, dp_count(CAST(x AS VARCHAR)) AS m, dp_count(*) AS k FROM t"
    terms = {"t": frame, "schema": dfp.Schema(unit="t.u"), "max_rows": 1, "epsilon": 1e13}
    for where, expected in (
        ("u < 90", [46, 46, 90]), ("u < 90 AND x >= 0", [46] * 3), ("x > u - 200", [60] * 3),
    ):  # fmt: skip
        release = dfp.sql(f"{query} WHERE {where}", **terms)
        assert list(release.to_pylist()[0].values()) == expected
