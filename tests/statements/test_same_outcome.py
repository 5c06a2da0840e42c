"""Whatever one row holds, a statement ends in the same way, with the same columns and types."""

import functools

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

ROWS = [
    (i, f"{i % 9}", float(i % 7), pd.Timestamp("2024-01-01") + pd.Timedelta(days=i))
    for i in range(3000)
]
POISON = (2**62, "Alice Secret", float("nan"), pd.Timestamp("2262-01-01"))
SCHEMA = pa.schema(
    [("i", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("d", pa.timestamp("us"))]
)

FAILING = [
    "CAST(s AS INTEGER)",
    "CAST(s AS INTEGER) + CAST(s AS INTEGER)",
    "CAST(s AS INTEGER) * 2 + CAST(s AS INTEGER) * 2",
    "s::DATE IS NULL",
    "i * 4",
    "(i * 4) + (i * 4)",
    "i::TINYINT",
    "100 // (i - 4611686018427387904)",
    "i % (4611686018427387904 - i)",
    "CASE WHEN i > 5 THEN CAST(s AS INTEGER) ELSE CAST(s AS INTEGER) END",
    "coalesce(CAST(s AS INTEGER), 1)",
    "strptime(s, '%d')",
    "date_trunc(s, d)",
    "make_date(i, 13, 45)",
    "ln(x - x - 1)",
    "sqrt(-x)",
    "x::INTEGER",
    "CAST(x AS DECIMAL(2, 1))",
    "d + INTERVAL '300000' YEAR",
    "if(i > 4611686018427387903, s, 'true')",
    "time_bucket(INTERVAL '7' DAY, d, TIMESTAMP '2024-01-01')",
    "s LIKE '1!%' ESCAPE '!'",
    "[1, 2, 3][1] + CAST(s AS INTEGER)",
    "regexp_matches('a', s || '(')",
    f"CAST(s AS INTEGER) IN ({', '.join(map(str, range(40)))})",
    f"s IN ({', '.join(map(str, range(40)))})",
]
QUERIES = [
    query
    for e in FAILING
    for query in (
        f"SELECT dp_count({e}) AS n, dp_count(coalesce({e} IS NULL, false)) AS m FROM t",
        f"SELECT dp_count(*) AS n FROM t WHERE {e} IS NOT NULL AND x > 1",
        f"SELECT dp_count(*) AS n FROM t WHERE {e}",
        f"SELECT {e} AS k, dp_count({e}) AS n FROM t GROUP BY k",
    )
]  # fmt: skip
WITHOUT_ROWS = set(QUERIES[::4])


def in_duckdb(table):
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return {"con": connection}


PLACES = {
    "duckdb": in_duckdb,
    "pandas": lambda table: {"t": table.to_pandas()},
    "polars": lambda table: {"t": pl.DataFrame(table)},
    "arrow": lambda table: {"t": table},
}


def run_statement(terms, query):
    """Return how a statement ends, and with what columns and types."""
    try:
        released = dfp.sql(query, **terms, delta=1e-3)
    except dfp.DPError as error:
        return type(error).__name__, str(error)
    if hasattr(released, "types"):
        return released.columns, list(map(str, released.types))
    kinds = released.dtypes if hasattr(released, "dtypes") else released.schema.types
    names = released.columns if hasattr(released, "dtypes") else released.column_names
    return list(names), list(map(str, kinds))


@functools.cache
def neighbours(source):
    """Make a table, the same with one row more that makes expressions fail, and no rows at all."""
    tables = [pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA)
             for rows in (ROWS, [*ROWS, POISON], [])]  # fmt: skip
    return [PLACES[source](table) for table in tables]


@pytest.mark.parametrize(
    ("source", "query"), [(list(PLACES)[(i + i // 4) % 4], q) for i, q in enumerate(QUERIES)]
)  # they meet the same engine: each expression is asked in each place, each form of query, too
def test_a_row_that_fails(source, query):
    """A row on which an expression fails changes neither outcome nor message nor types.

    Each expression is asked about no rows, too, in one form of query.
    """
    tables = neighbours(source) if query in WITHOUT_ROWS else neighbours(source)[:2]
    assert len({str(run_statement(terms, query)) for terms in tables}) == 1


OVER = "OVER (PARTITION BY i ORDER BY d"
SIZED = [
    f"lag(x, {{n}}) {OVER})",
    f"lead(x, {{n}}) {OVER})",
    f"nth_value(x, {{n}}) {OVER})",
    f"ntile({{n}}) {OVER})",
    f"sum(i % 7) {OVER} ROWS BETWEEN {{n}} PRECEDING AND CURRENT ROW)",
    f"max(x) {OVER} ROWS BETWEEN {{n}} FOLLOWING AND {{n}} FOLLOWING)",
    f"count(*) {OVER} ROWS BETWEEN {{n}} PRECEDING AND {{n}} FOLLOWING)",
]


@pytest.mark.parametrize("size", [1, 2**31 - 1, 2**31, 2**63, 10**40], ids=hex)
@pytest.mark.parametrize("window", SIZED)
def test_a_window_of_any_size(window, size):
    """A window ends in the same way whatever rows there are, or none: no size is too large."""
    query = f"SELECT dp_sum(v, 0, 9) AS n FROM (SELECT {window.format(n=size)} AS v FROM t)"
    limits = {"schema": dfp.Schema(unit="t.i"), "max_rows": 1, "max_groups": 1}
    plain_outcome, failing_outcome, empty_outcome = (
        run_statement(terms | limits, query) for terms in neighbours("duckdb")
    )
    assert plain_outcome == failing_outcome == empty_outcome
    assert (plain_outcome[0] == "RefusedStatementError") == (size >= 2**31)


OBJECTS = {
    "table": "CREATE TABLE t AS FROM given",
    "temporary": "CREATE TEMP TABLE t AS FROM given",
    "view": "CREATE TABLE raw AS FROM given; CREATE VIEW t AS SELECT i, s, x, d FROM raw",
    "view that fails": "CREATE TABLE raw AS FROM given; "
    "CREATE VIEW t AS SELECT i, s, x, d FROM raw WHERE s::INTEGER >= 0 OR i > 5",
    "view of a query": "CREATE TABLE raw AS FROM given; CREATE VIEW t AS SELECT DISTINCT * "
    "FROM raw",
    "generated": "CREATE TABLE t (i BIGINT, raw VARCHAR, x DOUBLE, d TIMESTAMP, s VARCHAR "
    "GENERATED ALWAYS AS (CAST(raw::INTEGER AS VARCHAR)) VIRTUAL); INSERT INTO t (i, raw, x, d) "
    "SELECT i, CASE WHEN s ~ '^[0-9]+$' THEN s ELSE '0' END, x, d FROM given; "
    "UPDATE t SET raw = 'Alice Secret' WHERE i > 10**9",
    "volatile": "CREATE TABLE t (i BIGINT, s VARCHAR, d TIMESTAMP, x DOUBLE GENERATED ALWAYS AS "
    "(random()) VIRTUAL); INSERT INTO t (i, s, d) SELECT i, s, d FROM given",
    "generated beside": "CREATE TABLE t (i BIGINT, s VARCHAR, x DOUBLE, d TIMESTAMP, g INTEGER "
    "GENERATED ALWAYS AS (length(s) - 99) VIRTUAL); INSERT INTO t (i, s, x, d) FROM given",
    "keys": "CREATE TABLE t (i BIGINT PRIMARY KEY, s VARCHAR, x DOUBLE, d TIMESTAMP, "
    "CHECK (i >= 0)); INSERT INTO t FROM given; CREATE INDEX own ON t (s)",
    "trigger": "CREATE TABLE log (n BIGINT); CREATE TABLE t AS FROM given; CREATE TRIGGER own "
    "AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (new.i)",
    "attached": "ATTACH ':memory:' AS other; CREATE TABLE other.t AS FROM given; USE other",
    "schema": "CREATE SCHEMA a; CREATE TABLE a.t AS FROM given; SET search_path = 'a'",
    "enumeration": "CREATE TYPE kind AS ENUM (SELECT DISTINCT s FROM (FROM given UNION ALL SELECT "
    "0, 'Alice Secret', 0, NULL)); CREATE TABLE t AS SELECT i, s, x, d FROM given",
    "altered": "CREATE TABLE t AS FROM given; ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 5; "
    "DELETE FROM t WHERE i = 3; ALTER TABLE t RENAME COLUMN y TO z",
    "registered": "CREATE VIEW t AS FROM given",
    "file": "COPY given TO '{folder}/t.parquet'; CREATE VIEW t AS FROM '{folder}/t.parquet'",
    "macro": "CREATE TABLE t AS FROM given; CREATE MACRO own(a) AS a; CREATE MACRO nothing() AS "
    "TABLE SELECT 1",
    "hiding macro": "CREATE TABLE t AS FROM given; CREATE MACRO upper(a) AS error(a)",
}  # fmt: skip
"""Tables that are stored around the rows; `given` is the table of the neighbour."""

SETTINGS = (
    "SELECT 1", "PRAGMA disable_optimizer", "SET threads = 1", "SET errors_as_json = true",
    "SET default_collation = 'nocase'", "SET integer_division = true", "BEGIN",
    "SET ieee_floating_point_ops = false", "SET default_null_order = 'nulls_first'",
    "SET preserve_insertion_order = false", "SET TimeZone = 'Asia/Tokyo'",
    "SET old_implicit_casting = true", "PRAGMA enable_verification",
    "SET arrow_large_buffer_size = true", "SET produce_arrow_string_view = true",
    "SET arrow_lossless_conversion = true", "SET debug_force_external = true",
    "SET disabled_optimizers = 'filter_pushdown'", "SET lock_configuration = true",
    "SET enable_external_access = false", "SET Calendar = 'chinese'",
    "SET immediate_transaction_mode = true",
)  # fmt: skip

TARGETS = {
    "": "",
    "CREATE TABLE made AS ": "",
    "CREATE TEMP TABLE made AS ": "",
    "CREATE OR REPLACE TABLE made AS ": "CREATE TABLE made (a BIGINT UNIQUE)",
    "CREATE TABLE kept AS ": "CREATE TABLE kept (n BIGINT)",
    "CREATE OR REPLACE TABLE t AS ": "",
    "INSERT INTO kept ": "CREATE TABLE kept (n BIGINT PRIMARY KEY CHECK (n > 5))",
    "INSERT INTO t ": "",
}
"""Where released rows go, and what is made there before."""

AROUND = [
    (stored, setting, target)
    for i, stored in enumerate(OBJECTS)
    for j, setting in enumerate(SETTINGS)
    for k, target in enumerate(TARGETS)
    if (i + j + k) % len(TARGETS) == 0
]
CASES = [(*around, QUERIES[7 * n % len(QUERIES)]) for n, around in enumerate(AROUND)]
"""Every two of an object, a setting and a target; the statements go round."""


def find_stored_outcome(rows, stored, setting, target, query, folder):
    """Return how a statement on a connection ends: class and text, columns, order, and charge."""
    con = duckdb.connect(config={"threads": 2})
    con.register("given", pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True))
                                                for r in rows], SCHEMA))  # fmt: skip
    folder.mkdir()
    con.execute(f"{OBJECTS[stored].format(folder=folder)}; {TARGETS[target]}")
    con.execute(setting)
    ledger = dfp.Ledger(folder / "b.db", epsilon=10, delta=0.1)
    with_keys = "GROUP BY" in query and "t" not in stored  # half of them with public keys
    terms = {"keys": ["0", "7", None]} if with_keys else {"delta": 1e-3}
    try:
        answer = dfp.sql(target + query, con=con, ledger=ledger, dataset="d", **terms)
    except dfp.DPError as error:
        ending = type(error).__name__, str(error)
    else:
        answer = con.table("made") if answer is None else answer
        ending = answer.columns, list(map(str, answer.types)), with_keys and answer.fetchall()[0][0]
    tables = con.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
    state = con.execute("SELECT current_setting('enable_optimizer')").fetchall()
    return ending, ledger.spent("d"), tables, state


def same_outcomes(cases, folder):
    """Check that statements end alike on neighbours, and that no message holds what a row holds."""
    first_rows = ROWS[:300]
    for number, case in enumerate(cases):
        outcomes = [
            find_stored_outcome(rows, *case, folder / f"{number} {index}")
            for index, rows in enumerate((first_rows, [*first_rows, POISON], []))
        ]
        assert outcomes[0] == outcomes[1] == outcomes[2], case
        assert "Alice" not in str(outcomes), case


@pytest.mark.battery
def test_whatever_is_stored_around_the_rows(tmp_path):
    """A statement's outcome and charge are those of its neighbours: a sample of all cases."""
    same_outcomes(CASES[:: len(CASES) // 16 | 1], tmp_path)  # odd: statements of every form


@pytest.mark.slow
@pytest.mark.parametrize("stored", OBJECTS)
def test_whatever_is_stored_around_the_rows_and_set(stored, tmp_path):
    """Neighbours have one outcome with every stored object, every setting and every target."""
    assert len(CASES) >= 350
    assert {query for *_, query in CASES} == set(QUERIES)
    same_outcomes([case for case in CASES if case[0] == stored], tmp_path)


def test_conditions_are_cast_row_by_row():
    """A condition that is no boolean is one where it can be, in WHERE, in a view and in HAVING."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT ['true', 'false', 'odd', NULL][1 + i % 4] AS s, i "
                "FROM range(400) AS r(i); CREATE VIEW v AS SELECT i FROM t WHERE s")  # fmt: skip
    for query in ("SELECT dp_count(*) FROM t WHERE s", "SELECT dp_count(*) FROM v",
                  "SELECT dp_count(*) FROM t WHERE i % 4 = 0 OR (s AND s)"):  # fmt: skip
        assert dfp.sql(query, con=con, epsilon=1e13).fetchall() == [(100,)]
    query = "SELECT s, dp_count(*) FROM t GROUP BY s HAVING dp_keep(1e-6) AND s"
    assert dfp.sql(query, con=con, epsilon=1e13).fetchall() == [("true", 100)]
