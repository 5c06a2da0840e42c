"""Tables, views and functions of a connection, and tables that released rows go to."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import duckdb
import pyarrow as pa
import pytest

import dfprivacy as dfp

TERMS = {"epsilon": 1e13, "delta": 0.01}


def count(connection, relation, **terms):
    query = f"SELECT dp_count(*) AS n FROM {relation}"
    return dfp.sql(query, con=connection, **TERMS | terms).fetchall()[0][0]


def test_python_variables_are_no_tables(con):
    """A name that is no table or view is refused, whatever variables there are."""
    people = pa.table({"x": [1]})
    assert con.sql("SELECT x FROM people").fetchall() == [(1,)]
    with pytest.raises(dfp.RefusedStatementError, match="there is no table or view 'people'"):
        count(con, "people")
    del people


def test_threads_take_turns_on_a_connection(con):
    """Statements that several threads make at once are those of one after another.

    None takes what another has looked up for its own, and after all of them the optimiser is as it
    was, which is off while rows are read whose values could fail.
    """
    con.execute("CREATE TABLE t AS SELECT i AS x, i::VARCHAR AS text FROM range(30) r(i)")
    door = dfp.connect(con, **TERMS)
    expected = {
        "SELECT dp_count(*) FROM visits": [(600,)],
        "SELECT dp_count(*) FROM t WHERE text::INTEGER < 20": [(20,)],
        "SELECT x % 3 AS g, dp_count(*) AS n FROM t GROUP BY g": [(0, 10), (1, 10), (2, 10)],
    }

    def answers(start):
        queries = [*expected, *expected][start : start + len(expected)]
        return [door.cursor().execute(query).fetchall() == expected[query] for query in queries]

    with ThreadPoolExecutor(6) as threads:
        for matches in threads.map(answers, [0, 1, 2] * 4):
            assert matches == [True] * len(expected)
    assert con.execute("SELECT current_setting('enable_optimizer')").fetchall() == [(True,)]


@pytest.mark.parametrize(("plain", "other"), [("k", "\N{KELVIN SIGN}"), ("cafe", "café")])
def test_names_differ_if_their_bytes_do(con, plain, other):
    """A table, view or unit has the rows of its very name: the Kelvin sign is no k."""
    con.execute(
        f'CREATE TABLE {plain} AS SELECT i AS {plain}, 1 AS "{other}" FROM range(20) r(i); '
        f'CREATE TABLE "{other}" AS SELECT 1 AS {plain}, i AS "{other}" FROM range(30) r(i); '
        f'CREATE VIEW v{plain} AS FROM {plain}; CREATE VIEW "v{other}" AS FROM "{other}"'
    )
    names = (plain, plain.upper(), f"v{plain}", f'"{other}"', f'"v{other}"')
    assert [count(con, name) for name in names] == [20] * 3 + [30] * 2
    assert [count(con, name, unit=plain, max_rows=1) for name in names] == [20] * 3 + [1] * 2


@pytest.mark.parametrize(
    "setting",
    ["default_collation = 'nocase'", "default_order = 'DESC'", "default_null_order = 'NULLS_FIRST'",
     "integer_division = true", "disable_timestamptz_casts = true"],
)  # fmt: skip
def test_settings_give_no_statement_another_meaning(con, setting):
    """A connection is refused whose settings change what = and / and ORDER BY are in DuckDB."""
    name = setting.split()[0]
    con.execute(f"SET {setting}")
    with pytest.raises(dfp.RefusedStatementError, match=f"a connection with {name} = "):
        count(con, "visits")
    con.execute(f"RESET {name}")
    assert count(con, "visits") == 600


@pytest.mark.parametrize(
    ("declared", "clause"),
    [("s VARCHAR", ""), ('"S t" VARCHAR', "WHERE \"S t\" < 'b'"), ('"S ""t" VARCHAR', "")],
)
def test_texts_with_a_collation_have_a_note(con, caplog, declared, clause):
    """Texts are compared by their bytes; where DuckDB would compare others, a note says so."""
    name = declared.removesuffix(" VARCHAR")
    plain = name.strip('"').replace('""', '"')
    for collation, notes in (("", []), (" COLLATE NOCASE", [plain])):
        con.execute(f"CREATE OR REPLACE TABLE t (i INTEGER, {declared}{collation})")
        con.execute("INSERT INTO t SELECT i, ['a', 'A'][1 + i % 2] FROM range(40) r(i)")
        query = f"SELECT {name} AS s, dp_count(*) AS n FROM t {clause} GROUP BY s"
        caplog.clear()
        assert dfp.sql(query, con=con, **TERMS).fetchall() == [("A", 20), ("a", 20)]
        expected = [f"texts of {note!r} are compared without their collation" for note in notes]
        assert caplog.messages == expected
        count(con, "t")
        assert caplog.messages == expected


def test_views_are_taken_apart(con):
    """A view stands for a row query over its table, through as many views as there are."""
    con.execute(
        "CREATE SCHEMA s; CREATE TABLE s.own AS SELECT range AS x FROM range(100); "
        "CREATE TABLE own AS SELECT range AS x FROM range(7); "
        "CREATE VIEW s.half AS SELECT x * 2 AS y, x FROM s.own WHERE x < 50; "
        "CREATE VIEW few (a, b) AS SELECT x + 1, y FROM s.half WHERE y >= 20"
    )
    plan = dfp.explain("SELECT dp_sum(a, 0, 99) AS s FROM few WHERE b < 90", con=con)
    assert 'FROM "memory"."s"."own" WHERE ("x" < 50)' in plan.row_query
    assert plan.relation == "memory.s.own"
    expected = con.execute("SELECT count(*) FROM few WHERE b < 90").fetchall()[0][0]
    assert count(con, "few WHERE b < 90") == expected


def test_a_unit_is_a_column_of_the_relation_in_from(con):
    """The unit is a column of the table or view that is named, whatever a subquery projects."""
    inside = "(SELECT city, 1 AS user_id FROM visits)"
    plan = dfp.explain(
        f"SELECT city, dp_count(*) FROM {inside} GROUP BY city",
        con=con, unit="USER_ID", max_rows=2, max_groups=1, delta=1e-6,
    )  # fmt: skip
    assert 'SELECT "city", "user_id" AS "owner"' in plan.row_query
    plan = dfp.explain("SELECT dp_count(*) FROM adults", con=con, unit="person", max_rows=1)
    assert '"person" AS "owner"' in plan.row_query
    with pytest.raises(dfp.MissingColumnError, match="to be the privacy unit"):
        dfp.explain("SELECT dp_count(*) FROM adults", con=con, unit="user_id", max_rows=1)


def test_functions_that_hide_none_of_duckdbs(con):
    """A Python function or a macro under a name of its own is no matter."""
    con.create_function("my_own", lambda x: x, ["BIGINT"], "DOUBLE")
    assert count(con, "visits") == 600
    con.execute("CREATE MACRO other(x) AS x")
    assert count(con, "visits") == 600


@pytest.mark.parametrize("path", ["a,b", "b", "memory.b,db2.a", "db2.a,memory.b", "x y,b", "db2"])
@pytest.mark.parametrize(
    "name",
    [
        *("w", "W", '"w"', "main.w", "memory.main.w", "a.w", "b.w", "memory.b.w"),
        *("db2.w", "db2.main.w", "seen", "b.seen"),
    ],
)
def test_a_name_is_what_duckdb_reads(path, name):
    """A name is the table that DuckDB reads under it, whatever the search path; views too."""
    con = duckdb.connect()
    con.execute("ATTACH ':memory:' AS db2")
    for schema in ("a", "b", '"x y"', "db2.a"):
        con.execute(f"CREATE SCHEMA {schema}")
    for rows, namespace in enumerate(["memory.main", "b", "db2.main", "db2.a"], 2):
        con.execute(f"CREATE TABLE {namespace}.w AS SELECT * FROM range({rows}) r(i)")
    con.execute("CREATE VIEW b.seen AS SELECT * FROM w; CREATE VIEW main.seen AS SELECT * FROM b.w")
    if name in {"main.w", "seen"}:
        con.execute("CREATE TEMP TABLE w AS SELECT * FROM range(9) r(i)")
    con.execute(f"SET search_path = '{path}'")
    try:
        expected = len(con.execute(f"FROM {name}").fetchall())
    except duckdb.Error:
        expected = None
    if expected is not None:
        assert count(con, name) == expected


def test_the_protected_table_is_no_target(con):
    """The protected table is refused as a target, by any of its names."""
    con.execute("CREATE SCHEMA a; CREATE SCHEMA b; SET search_path = 'a,b'")
    con.execute("CREATE TABLE b.w AS SELECT * FROM range(4) r(i)")
    for name in ("w", "b.w", "memory.b.W"):
        with pytest.raises(
            dfp.RefusedStatementError, match="a table that the statement reads as the target"
        ):
            dfp.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT dp_count(*) AS n FROM w", con=con)
    assert con.execute("SELECT count(*) FROM b.w").fetchall() == [(4,)]


def test_a_public_table_that_is_read_is_no_target(con):
    """A statement replaces no table that it reads, a public one no more than a protected one."""
    con.execute("CREATE TABLE towns AS SELECT DISTINCT city, 1 AS size FROM visits")
    query = (
        "CREATE OR REPLACE TABLE towns AS SELECT size, n FROM (SELECT city, dp_count(*) AS n FROM "
        "visits GROUP BY city) AS made JOIN towns USING (city)"
    )
    schema = dfp.Schema(unit="visits.age", public=["towns"])
    with pytest.raises(dfp.RefusedStatementError, match="a table that the statement reads"):
        dfp.sql(query, con=con, schema=schema, max_rows=9, max_groups=9, **TERMS)
    assert con.execute("SELECT DISTINCT size FROM towns").fetchall() == [(1,)]


def test_a_table_that_can_not_be_made_is_handed_over(con):
    """Where another transaction makes the table first, what is paid for comes with the error."""
    other = con.cursor().begin()
    other.execute("CREATE TABLE made (n INTEGER)")
    with pytest.raises(
        dfp.errors.OutputError, match="CREATE TABLE made: what else is under way"
    ) as caught:
        dfp.sql("CREATE TABLE made AS SELECT dp_count(*) AS n FROM visits", con=con, **TERMS)
    assert caught.value.released.to_pydict() == {"n": [600]}
    other.rollback()
    assert count(con, "visits") == 600


class ChangingLedger(dfp.Ledger):
    """A ledger before whose check another session changes the database."""

    def check(self, *args, **kwargs):
        for change in self.changes:
            self.other.execute(change)
        super().check(*args, **kwargs)


CHANGES = [
    ("ALTER TABLE visits RENAME TO a", "CREATE VIEW visits AS SELECT a.* FROM a, range(50)"),
    ("CREATE MACRO greatest(x, y) AS 1000000",),
    ("DROP TABLE visits",),
    ("ALTER TABLE visits ALTER age TYPE VARCHAR USING 'x'",),
    ("INSERT INTO visits FROM visits",),
]


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("unit", [{}, {"unit": "user_id", "max_rows": 24}])
def test_rows_are_of_the_tables_that_were_checked(con, tmp_path, changes, unit):
    """Tables that another session changes while a statement runs are read as they were checked."""
    ledger = ChangingLedger(tmp_path / "b.db", epsilon=10**9)
    ledger.other, ledger.changes = con.cursor(), changes

    def ask(**terms):
        query = "SELECT dp_sum(greatest(age, 0), 0, 100), dp_count(*) FROM visits"
        rows = dfp.sql(query, con=con, epsilon=10**8, **unit, **terms).fetchall()
        return [round(answer) for answer in rows[0]]

    expected = ask()
    assert ask(ledger=ledger, dataset="d") == expected
    with suppress(dfp.DPError):
        assert ask() != expected


def test_a_statement_leaves_the_caller_in_its_transaction(con):
    """A statement sees and keeps what the caller has changed; without a transaction it opens one.

    Neither is left when an error ends it.
    """
    for end, rows in ((con.rollback, 600), (con.commit, 1200)):
        con.begin()
        con.execute("INSERT INTO visits FROM visits")
        assert count(con, "visits") == 1200
        with pytest.raises(dfp.RefusedStatementError):
            count(con, "nowhere")
        end()
        assert count(con, "visits") == rows
    with pytest.raises(duckdb.TransactionException, match="no transaction is active"):
        con.rollback()


TELLING = [
    *(f"SET enable_profiling = '{form}'" for form in ("query_tree", "json", "no_output")),
    "CALL enable_logging()",
    "CALL enable_logging('PhysicalOperator', level = 'debug', storage = 'stdout')",
]


@pytest.mark.parametrize("setting", TELLING)
def test_a_connection_that_profiles_or_logs(con, setting, capfd):
    """Profiles and logs tell how many rows there are: tables and relations are refused."""
    con.execute(setting)
    with pytest.raises(dfp.RefusedStatementError, match="that profiles its queries or logs them"):
        count(con, "visits")
    for ask in (lambda rows: dfp.frame(rows).count(), count_rows):
        with pytest.raises(
            dfp.errors.UnsupportedFrameError, match="connection profiles its queries or"
        ):
            ask(con.table("visits"))
    con.execute("PRAGMA disable_profiling")
    con.execute("CALL disable_logging()")
    assert "600" not in capfd.readouterr().out
    assert count(con, "visits") == count_rows(con.table("visits")) == 600


@pytest.mark.parametrize("change", ["DROP TABLE visits", "ALTER TABLE visits DROP age"])
def test_a_relation_that_can_not_be_run_any_more(con, change):
    """A relation says so after its tables have changed, or its connection was closed."""
    rows = con.sql("SELECT age, city FROM visits")
    con.execute(change)
    for end in (lambda: None, con.close):
        end()
        for ask in (lambda rows: dfp.frame(rows).sum("age", bounds=(0, 9)), count_rows):
            with pytest.raises(dfp.errors.UnsupportedFrameError, match="relation can't be run"):
                ask(rows)


HIDING = [
    "UPPER(x) AS 'x'",
    '"||"(a, b) AS 42',
    "coalesce(a) AS a",
    '"COUNT"(x) AS 42',
    "count_star() AS 42",
    "list_value(a, b) AS ['x', 'y']",
    "floor(x) AS 0",
    "Sum(x) AS max(x) * 1000",
]


@pytest.mark.parametrize("macro", [*HIDING, None])
def test_a_function_that_hides_one_of_duckdb(con, macro):
    """A macro or Python function by the name of one of DuckDB's, or of an operator, is refused.

    Rows of a relation are read with functions of its connection, which have to be DuckDB's.
    """
    if macro:
        con.execute(f"CREATE TEMP MACRO {macro}")
        match = r"it hides a function of DuckDB's"
    else:
        con.create_function("even", float, ["BIGINT"], "DOUBLE")
        match = "the Python function 'even'"
    with pytest.raises(dfp.RefusedStatementError, match=match):
        count(con, "visits")
    for ask in (lambda rows: dfp.frame(rows).sum("age", bounds=(0, 9)), count_rows):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="' of the rel"):
            ask(con.table("visits"))


def count_rows(relation):
    return dfp.sql("SELECT dp_count(*) AS n FROM t", t=relation, **TERMS).fetchall()[0][0]


def test_a_key_that_arrow_does_not_have(con):
    """A type of key that can't be released is refused before anything is read."""
    con.execute("CREATE TABLE u (k UNION(a INTEGER, b VARCHAR))")
    with pytest.raises(dfp.UnsupportedDtypeError, match="is of type UNION"):
        dfp.sql("SELECT k, dp_count(*) AS n FROM u GROUP BY k", con=con, delta=1e-6)


def test_a_connection_that_is_busy_or_closed(con):
    """A connection that can't be used is an error that says so."""
    con.close()
    with pytest.raises(dfp.EngineError, match="the connection can't be used"):
        dfp.sql("SELECT dp_count(*) FROM visits", con=con)


def test_create_table(con):
    """CREATE TABLE AS keeps what was released; it is made once, and replaced when so asked."""
    query = "TABLE released AS SELECT city, dp_count(*) AS n FROM visits GROUP BY city"
    assert dfp.sql(f"CREATE {query}", con=con, **TERMS) is None
    expected = [("Bonn", 200), ("Oslo", 200), ("Rome", 200)]
    assert con.execute("FROM released").fetchall() == expected
    views = "FROM duckdb_views() SELECT view_name WHERE temporary AND NOT internal"
    assert con.execute(views).fetchall() == []
    with pytest.raises(dfp.RefusedStatementError, match="there is one of that name"):
        dfp.sql(f"CREATE {query}", con=con, **TERMS)
    dfp.sql(f"CREATE OR REPLACE {query} HAVING city = 'Rome'", con=con, **TERMS)
    assert con.execute("FROM released").fetchall() == expected[2:]
    dfp.sql(f"CREATE TEMP {query}", con=con, **TERMS)
    assert con.execute("FROM temp.main.released").fetchall() == expected
    con.execute('CREATE SCHEMA "s {x}"')
    dfp.sql(query.replace("TABLE released", 'CREATE TABLE "s {x}"."a ""b"""'), con=con, **TERMS)
    assert con.execute('FROM "s {x}"."a ""b"""').fetchall() == expected


def test_a_result_can_be_used_again(con):
    """A result has frozen values, which the connection reads, and is no query over its rows."""
    released = dfp.sql("SELECT dp_count(*) AS n FROM visits", con=con, epsilon=0.01)
    first = released.fetchall()
    assert released.fetchall() == first
    assert con.sql("SELECT n - n FROM released").fetchall() == [(0,)]
    con.execute("DELETE FROM visits")
    assert released.fetchall() == first


def test_nothing_is_left_behind(con):
    """A statement leaves no table, view or setting on the connection."""
    state = (
        "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() "
        "WHERE NOT internal UNION ALL SELECT name || value FROM duckdb_settings() ORDER BY 1"
    )
    before = con.execute(state).fetchall()
    mean = "(SELECT dp_mean(age, 0, 100) FROM visits)"
    query = f"SELECT city, dp_median(age) AS m FROM visits WHERE age > {mean} GROUP BY city"
    dfp.sql(query, con=con, **TERMS)
    assert con.execute(state).fetchall() == before


@pytest.mark.parametrize("name", ["memory.t", "s.t", "o.t", "t", "main.t"])
@pytest.mark.parametrize(
    "setting",
    ["USE s", "USE memory.s", "SET search_path = 's,o.s'", "SET search_path = 'o,s'", "USE o.s"],
)
def test_a_name_of_a_database_finds_the_table_that_duckdb_finds(setting, name):
    """The schema of a search path counts for a database only if the path names that database."""
    con = duckdb.connect()
    con.execute("ATTACH ':memory:' AS o; CREATE SCHEMA s; CREATE SCHEMA o.s")
    for size, schema in enumerate(["memory.main", "memory.s", "o.main", "o.s"], 1):
        con.execute(f"CREATE TABLE {schema}.t AS SELECT 1 AS x FROM range({100 * size})")
    con.execute(setting)
    query = f"SELECT count(*) AS n FROM {name}"
    assert dfp.sql(query, con=con, epsilon=1e9).fetchall() == con.sql(query).fetchall()
