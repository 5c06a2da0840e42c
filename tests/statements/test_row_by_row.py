"""The value of an expression follows from its row alone, whatever fails on other rows.

No value makes a listed function fail in spite of TRY: every one is called with extreme ones.
"""

import datetime as dt
import itertools
import random
from contextlib import nullcontext

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from dfprivacy.engine.embedded import restrict_optimizer
from dfprivacy.release.terms import Terms
from dfprivacy.statements import gate, jobs
from dfprivacy.statements.composing import read
from dfprivacy.statements.expressions import AGGREGATES, CHANGING, OUTSIDE, PARTS, ROW_FUNCTIONS
from dfprivacy.statements.gate import Reader, connection_source
from dfprivacy.statistics import STATISTICS

ATOMS = [
    "CAST(s AS BOOLEAN)", "CAST(t AS BOOLEAN)", "(CAST(s AS INTEGER) > 0)", "(i = 0)",
    "(CAST(t AS INTEGER) = i)", "(i IS NULL)", "(1 // (i - 1) > 0)", "(s::DATE IS NULL)", "true",
    "(s = 'true')",
]  # fmt: skip
FORMS = [
    "({} AND {})", "({} OR {})", "coalesce({}, {})", "CASE WHEN {} THEN {} ELSE {} END", "(NOT {})",
    "nullif({}, {})", "if({}, {}, {})", "({} IN ({}, {}))", "greatest({}, {})", "({} IS NULL)",
    "({} IS NOT DISTINCT FROM {})", "({} BETWEEN {} AND {})",
]  # fmt: skip
TEXTS = ["true", "false", "odd", None, "1", "0", "7", "2024-01-01"]


def expression(choose, depth):
    """Return a condition that fails on some rows, nested so deeply."""
    if depth == 0:
        return choose.choice(ATOMS)
    form = choose.choice(FORMS)
    return form.format(*(expression(choose, depth - 1) for _ in range(form.count("{}"))))


@pytest.fixture(scope="module")
def orders():
    """Make the same rows twice, in opposite orders."""
    choose, con = random.Random(3), duckdb.connect()
    restrict_optimizer(con)
    columns = {"s": TEXTS, "t": TEXTS, "i": [0, 1, 2, None]}
    rows = [{"id": n} | {k: choose.choice(v) for k, v in columns.items()} for n in range(500)]
    con.register("given", pa.Table.from_pylist(rows))
    con.execute(
        "CREATE TABLE forth AS FROM given; CREATE TABLE back AS FROM given ORDER BY id DESC"
    )
    return con


def differing(con, expressions):
    """Return the expressions with another value in the other order."""
    query = (
        "SELECT count(*) FROM (SELECT id, TRY({0}) AS v FROM forth) AS a "
        "JOIN (SELECT id, TRY({0}) AS v FROM back) AS b USING (id) WHERE a.v IS DISTINCT FROM b.v"
    )
    return [e for e in expressions if con.execute(query.format(e)).fetchall() != [(0,)]]


def test_neighbours_change_no_value(orders):
    """TRY is NULL for the row that fails and leaves the others alone."""
    choose = random.Random(4)
    assert not differing(orders, [expression(choose, 1 + n % 3) for n in range(150)])


KINDS = {
    "us": pa.timestamp("us"), "s": pa.timestamp("s"), "ms": pa.timestamp("ms"),
    "zone": pa.timestamp("us", "UTC"), "fine": pa.timestamp("ns"), "clock": pa.time64("us"),
}  # fmt: skip
FAR = [-(2**63), 1 - 2**63, 2**63 - 1, 2**63 - 2, 2**62, -9223372022400000001, -1]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_no_times(kind):
    """No number in a column of times ends a query, as a text or beside times of a zone."""
    query = (
        "SELECT dp_count(x::VARCHAR) AS n, dp_count(x || 'a') AS m, dp_count(concat(x)) AS c, "
        "dp_count(TRY_CAST(x AS TIMESTAMPTZ)) AS z FROM t"
    )
    if kind == "clock":
        query = "SELECT dp_count(x::VARCHAR) AS n, dp_count(x || 'a') AS m FROM t"
    for numbers in ([0, 1], *([0, 1, extreme] for extreme in FAR)):
        column = pa.array(numbers, pa.int64()).cast(KINDS[kind])
        release = dfp.sql(query, t=pa.table({"x": column}), epsilon=1e13)
        assert set(release.to_pylist()[0].values()) <= {2, len(numbers)}


def test_times_keep_value_and_type():
    """A time that is one is read as it is, with its type."""
    con = duckdb.connect()
    kinds = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIME")
    for kind in kinds:
        value = "24:00:00" if kind == "TIME" else "2024-02-29 23:59:59"
        query = f"SELECT CAST('{value}' AS {kind}) AS k FROM range(100)"
        con.execute(f"CREATE OR REPLACE TABLE t AS {query}")
        released = dfp.sql(
            "SELECT k, dp_count(*) FROM t GROUP BY k", con=con, epsilon=60, delta=1e-6
        )
        assert str(released.types[0]) == kind
        same = "SELECT DISTINCT k = (SELECT k FROM released) FROM t"
        assert con.execute(same).fetchall() == [(True,)]


def test_types_that_end_queries_are_refused():
    """By the declared type, on its own or inside another one."""
    con = duckdb.connect()
    for kind in ("VARIANT", "BIGNUM", "BIGNUM[]", "TIME_NS", "STRUCT(a VARIANT)"):
        con.execute(f"CREATE OR REPLACE TABLE t(x {kind})")
        with pytest.raises(dfp.UnsupportedDtypeError, match="could end the query"):
            dfp.sql("SELECT dp_count(x) FROM t", con=con)


def test_functions_of_one_row_have_no_memory():
    """Every function on the list is one of DuckDB's, scalar, and the same at every evaluation.

    Those that take or return times with a zone may follow the session's zone, which a statement
    does not change.
    """
    rows = duckdb.execute(
        "SELECT function_name, function_type, stability, list_append(parameter_types, return_type) "
        "FROM duckdb_functions() WHERE internal"
    ).fetchall()
    kinds = {}
    for name, kind, stability, types in rows:
        zoned = {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS", "TIME WITH TIME ZONE"} & {*types}
        constant = zoned and stability == "CONSISTENT_WITHIN_QUERY"
        kinds.setdefault(name, set()).add((kind, "CONSISTENT" if constant else stability))
    syntax = {"coalesce", "ifnull", "if"}
    for name in ROW_FUNCTIONS - syntax:
        assert kinds[name] <= {("scalar", "CONSISTENT"), ("macro", None)}, name
    for name in ROW_FUNCTIONS:
        arguments = {"pi": ""}.get(name)
        if arguments is not None:
            assert duckdb.execute(f"SELECT {name}({arguments})").fetchall()


def test_the_lists_of_functions_are_apart():
    """No function is both of one row and something else, and no aggregate of DuckDB's is of one.

    What a statistic answers by its ordinary name is an aggregate.
    """
    assert not ROW_FUNCTIONS & (AGGREGATES | CHANGING | OUTSIDE)
    assert {name for kind in STATISTICS.values() for name in kind.sql_names} <= AGGREGATES
    rows = duckdb.execute(
        "SELECT function_name FROM duckdb_functions() "
        "WHERE function_type IN ('aggregate', 'table', 'table_macro') OR stability = 'VOLATILE'"
    ).fetchall()
    assert not ROW_FUNCTIONS & {name for (name,) in rows}


def release_beside(path, *, late):
    """Return the counts of 99 rows that fail and one that does not, on a late day or not."""
    days = [dt.date(2024, 1, 1)] * 99 + [dt.date(2024, 12 if late else 1, 1)]
    pq.write_table(pa.table({"s": ["x"] * 99 + ["7"], "day": days}), path)
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS FROM '{path}'")
    where = "CAST(s AS INTEGER) = 7 OR day < DATE '2024-05-01'"
    query = f"SELECT dp_count(*) AS n FROM t WHERE {where}"
    sources = ({"con": con}, {"t": path})
    of_table, of_file = (dfp.sql(query, **source, epsilon=1e13) for source in sources)
    return [of_table.fetchall()[0][0], of_file.to_pylist()[0]["n"]]


def test_the_fence_is_needed(monkeypatch, tmp_path):
    """With DuckDB's optimiser on, one row changes what others are worth: the fence must not go.

    A condition that all values fulfil by their least and largest is true to it, whatever fails
    beside it; one late day more, and all the others fail.
    """
    path = tmp_path / "t.parquet"
    assert [release_beside(path, late=late) for late in (False, True)] == [[1, 1], [1, 1]]
    monkeypatch.setattr(jobs, "restrict_optimizer", lambda _: None)
    monkeypatch.setattr(gate.ConnectionSource, "fence", lambda _: nullcontext())
    counts = [release_beside(path, late=late) for late in (False, True)]
    assert counts == [[100, 100], [1, 1]]


PLAIN = [
    "SELECT s, dp_count(*) AS n, dp_mean(x, 0, 9) AS m FROM t GROUP BY s",
    "SELECT dp_sum(x, 0, 1) FROM t",
]
COMPUTING = [
    "SELECT dp_mean(ln(x + 1), 0, 9) AS m FROM t",
    "SELECT dp_count(*) AS n FROM t WHERE x + 1 > 1",
    "SELECT lower(s) AS k, dp_count(*) AS n FROM t GROUP BY k",
    "SELECT dp_count(d) AS n FROM t",
]


def rows():
    return pa.table(
        {
            "s": ["a", "b"] * 2000,
            "x": [float("nan"), 1.0, 2.0, -(10.0**300)] * 1000,
            "d": pa.array([0, 1] * 2000, pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize("query", [*PLAIN, *COMPUTING])
def test_the_optimiser_is_off_where_rows_could_fail(query, monkeypatch):
    """It stays on where columns are read as they are, and off where anything is computed of them.

    Times and decimals are computed: what is no time is taken out.
    """
    states, release = [], jobs.release_answers
    con = duckdb.connect()
    con.register("given", rows())
    con.execute("CREATE TABLE t AS FROM given")

    def watch_rows(plan, frame):
        optimizer = "current_setting('enable_optimizer')"
        states.extend(con.execute(f"SELECT {optimizer}").fetchall())
        optimizer = "current_setting('disabled_optimizers') = ''"
        states.extend(job.engine.execute(f"SELECT {optimizer}").fetchall())
        return release(plan, frame)

    monkeypatch.setattr(jobs, "release_answers", watch_rows)
    terms = Terms(epsilon=1e9, delta=1e-6)
    for source in ({"con": con, "frames": {}}, {"con": None, "frames": {"t": rows()}}):
        with jobs.open_job(query, **source, terms=terms, keys=None) as job:
            job.run()
    on_connection, _, _, on_engine = states
    assert {on_connection, on_engine} == {(query in PLAIN,)}
    assert con.execute("SELECT current_setting('enable_optimizer')").fetchone() == (True,)


@pytest.mark.parametrize("query", [*PLAIN, *COMPUTING])
def test_an_optimiser_that_is_off_stays_off(query):
    """A statement leaves the connection as it was, and answers the same without the optimiser."""
    con = duckdb.connect()
    con.register("given", rows())
    con.execute("CREATE TABLE t AS FROM given")
    on = dfp.sql(query, con=con, epsilon=1e12, delta=1e-6).fetchall()
    con.execute("PRAGMA disable_optimizer")
    off = dfp.sql(query, con=con, epsilon=1e12, delta=1e-6).fetchall()
    assert [row[:-1] for row in on] == [row[:-1] for row in off]
    assert [row[-1] for row in on] == pytest.approx([row[-1] for row in off])
    assert con.execute("SELECT current_setting('enable_optimizer')").fetchone() == (False,)


def test_databases_of_other_systems_are_refused(monkeypatch):
    """Rows that another system would read are refused by the declared type of their database."""
    con = duckdb.connect()
    con.execute("CREATE TABLE own AS SELECT 1 AS x; ATTACH ':memory:' AS other")
    con.execute("CREATE TABLE other.t AS SELECT 1 AS x")
    query, terms = "SELECT dp_count(*) AS n FROM other.t", {"con": con, "epsilon": 1e13}
    assert dfp.sql(query, **terms).fetchall() == [(1,)]
    faked = "CASE database_name WHEN 'other' THEN 'sqlite' ELSE type END"
    monkeypatch.setattr(gate, "SYSTEMS", gate.SYSTEMS.replace("type", faked))
    with pytest.raises(dfp.RefusedStatementError, match="CREATE TABLE"):
        dfp.sql(query, **terms)
    assert dfp.sql(query.replace("other.t", "own"), **terms).fetchall() == [(1,)]


# Extreme values


WORDS = [
    *["''", "'('", "'%'", "'timezone'", "'era'", "'year'", "'\\0'", "'{'", "'bad!'"],
    """'{"a": {"a": "x\\u0000y", "b": [1e999, null]}}'""",
    "'2024-01-01 Nowhere/X'",
]
COLUMNS = {
    "big": ("BIGINT", ["9223372036854775807", "-9223372036854775808", "0", "-1"]),
    "huge": ("HUGEINT", ["170141183460469231731687303715884105727", "0"]),
    "tiny": ("TINYINT", ["-128", "127", "0"]),
    "real": ("DOUBLE", ["'nan'", "'inf'", "'-inf'", "1e308", "-0.0", "5e-324", "-1"]),
    "exact": ("DECIMAL(38, 5)", ["999999999999999999999999999999999.99999", "0"]),
    "word": ("VARCHAR", WORDS),
    "bytes": ("BLOB", ["'\\xFF\\x00'", "''"]),
    "day": ("DATE", ["'infinity'", "'-infinity'", "'5881580-07-10'", "'2024-02-29'"]),
    "moment": ("TIMESTAMP", ["'infinity'", "'294247-01-10 04:00:54.775806'", "'2024-02-29'"]),
    "zoned": ("TIMESTAMPTZ", ["'infinity'", "'2024-02-29 00:00:00+00'"]),
    "fine": ("TIMESTAMP_NS", ["'2262-04-11 23:47:16.854775806'", "'1677-09-22'"]),
    "clock": ("TIME", ["'24:00:00'", "'00:00:00'"]),
    "span": ("INTERVAL", ["'2147483647 months'", "'-1 month 1 day'", "'0 s'", "'-1 s'"]),
    "flag": ("BOOLEAN", ["true"]),
    "reals": ("DOUBLE[]", ["[]", "['nan'::DOUBLE, 1e308, 1e308]", "[NULL]"]),
}
CONSTANTS = ["-1", "'x'", "INTERVAL '0' DAY", "INTERVAL '7' DAY", "INTERVAL '1 month 1 day'"]
NAMED = [f"'{part}'" for part in sorted(PARTS)]
DATES = ["day", "moment", "zoned", "fine", "clock", "span"]
PARTED = ["date_part", "date_trunc", "date_diff", "date_sub"]
TYPES = ["TINYINT", "HUGEINT", "FLOAT", "DECIMAL(5, 2)", "VARCHAR", "DATE", "TIME", "TIMESTAMP",
         "TIMESTAMPTZ", "TIMESTAMP_NS", "INTERVAL", "UUID"]  # fmt: skip

OF_DATES = [
    *(f"{name}({part}, {', '.join(inputs)})"
      for name in PARTED for part in [*NAMED, "word", "'timezone'"] for column in DATES
      for inputs in ([column], [column, column])),
    *(f"EXTRACT({part} FROM {column})" for part in sorted(PARTS) for column in DATES),
    *(f"{name}({column})" for name in sorted(PARTS & ROW_FUNCTIONS) for column in DATES),
    *(f"{name}({column} - {column})" for name in ("week", "era") for column in DATES),
    *(f"time_bucket({', '.join(inputs)})" for width in ["span", *CONSTANTS]
      for column in DATES
      for inputs in ([width, column], [width, column, column], [width, column, "word"])),
    *(f"time_bucket(INTERVAL '7' DAY, {column}, {origin} '2024-01-01')"
      for column in DATES for origin in ("DATE", "TIMESTAMP", "TIMESTAMPTZ")),
]  # fmt: skip
OF_TEXT = [
    *(f"{name}(word, {value})" for name in ("json_extract_string", "string_split") for value in (
        "'$.a'", "'$[0]'", "'a'", "''", "0", "'$..a'", "'$.*'", "'$['", "'/a'", "word")),
    *(f"to_timestamp({column})" for column in ("big", "real", "huge", "exact")),
    *(f"to_timestamp({column})::VARCHAR" for column in ("big", "real", "huge", "exact")),
    "word ->> 'a' ->> 'b'", "string_split(word, '{')[2]", "to_timestamp(word, 'YYYY-MM-DD')",
    "to_char(moment, 'YYYY-MM')", "width_bucket(real, 0, 1, 9)", "iff(flag, word, word)",
    "word < now()::VARCHAR", "moment < current_date - INTERVAL 30 DAY", "day < today()",
    "zoned > now() - INTERVAL 1 DAY",
    *(f"{name}(word, {value})" for name in ("strptime", "try_strptime") for value in (
        "'%Y-%m-%d'", "'%Y-%m-%d %Z'", "['%Y', '%Z']", "word", "'%z'", "'%'", "'%c %j'")),
    *(f"word {sign} {pattern} ESCAPE {escape}" for sign in ("LIKE", "NOT ILIKE")
      for pattern in ("'a!%'", "'a!'", "'!!'", "'a!!!'", "word")
      for escape in ("'!'", "''", "'!!'", "'\u00e9'", "word")),
]  # fmt: skip
OF_ONE = [f"{name}({column})" for name in sorted(ROW_FUNCTIONS) for column in COLUMNS]
OF_TWO = [
    f"{name}({', '.join(inputs)})"
    for name in sorted(ROW_FUNCTIONS)
    for column in COLUMNS
    for inputs in [
        (column, column), *((column, c) for c in CONSTANTS), *((c, column) for c in CONSTANTS)
    ]
]  # fmt: skip
OF_TYPES = [f"{w}({c} AS {t})" for w in ("CAST", "TRY_CAST") for c in COLUMNS for t in TYPES]
OF_SIGNS = [
    f"({left} {sign} {right})"
    for sign in ("+", "-", "*", "/", "//", "%", "**", "||", "<<", ">>", "&", "~", "LIKE")
    for left, right in itertools.product(COLUMNS, COLUMNS)
]
KNOWN = [
    "date_part('timezone', day)", "date_part(word, day)", "date_trunc('era', span)",
    "date_diff('day', clock, clock)", "date_sub('era', moment, moment)", "week(moment - moment)",
    "EXTRACT(week FROM span)", "EXTRACT(year FROM clock)", "time_bucket(INTERVAL '0' DAY, day)",
    "time_bucket(INTERVAL '1 month 1 day', day)", "time_bucket(span, day)", "era(span)",
]  # fmt: skip
"""Expressions that fail in DuckDB in spite of TRY, in one version or another."""


@pytest.fixture(scope="module")
def tables():
    """Make a connection with a table of no rows, and one of all extremes in every order."""
    con = duckdb.connect()
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    con.execute(f"CREATE TABLE none ({kinds}); CREATE TABLE extremes ({kinds})")
    for name, (kind, values) in COLUMNS.items():
        for value in values:
            con.execute(f"INSERT INTO extremes ({name}) SELECT CAST({value} AS {kind})")
    for turn in range(8):
        row = ", ".join(
            f"CAST({values[turn % len(values)]} AS {kind})" for kind, values in COLUMNS.values()
        )
        con.execute(f"INSERT INTO extremes SELECT {row}")
    restrict_optimizer(con)
    return con


def plan_rounds(con, expressions):
    """Yield the expressions that are not refused and can be planned, as `dfp.sql` writes them."""
    reader = Reader(connection_source(con), duckdb.connect())
    for expression in expressions:
        try:
            (statement,) = read(f"SELECT dp_count({expression}) FROM none", reader).statements
            ((_, call),) = statement.calls
            con.execute(f"SELECT TRY({call.values[0]}) FROM none")
        except (dfp.DPError, duckdb.Error):
            continue
        yield expression, f"TRY({call.values[0]})"


def check(con, expressions):
    """Run expressions over the extremes; return what fails, and how many ran."""
    failed, ran = [], 0
    for expression, written in plan_rounds(con, expressions):
        ran += 1
        try:
            con.execute(f"SELECT count(hash({written})) FROM extremes").fetchall()
        except duckdb.Error as error:
            failed.append((expression, str(error)))
    return failed, ran


@pytest.mark.parametrize(
    ("expressions", "minimum"),
    [
        pytest.param([*KNOWN, *OF_DATES[::24]], 11, id="dates"),
        pytest.param(OF_TEXT[::2], 6, id="formats and escapes"),
        pytest.param([*OF_ONE[::12], *OF_TWO[::240]], 16, id="functions"),
        pytest.param([*OF_DATES[::2], *OF_ONE, *OF_TWO[::4], *OF_TYPES[::2], *OF_SIGNS[::4]], 301,
                     id="functions, casts and operators", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_extreme_values_fail_no_query(tables, expressions, minimum):
    """No listed function, cast or operator fails on extreme values, alone or in pairs."""
    failed, ran = check(tables, expressions)
    assert not failed
    assert ran >= minimum


def test_json_of_any_depth():
    """Neither broken JSON nor JSON nested a hundred thousand times ends a query."""
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE t AS SELECT unnest([repeat('[', 200000), repeat('{"a":', 100000),
        repeat('{"a":', 100000) || '1' || repeat('}', 100000), '{"a": "x"}', '{"a"', '']) AS x"""
    )
    query = "SELECT dp_count(x ->> '$.a') AS a, dp_count(x ->> '$[0]') AS b, count(*) AS n FROM t"
    assert dfp.sql(query, con=con, epsilon=1e13).fetchall() == [(2, 0, 6)]


ZONES = ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"]
OF_ZONES = [
    "{}", "{}::VARCHAR", "{}::DATE", "{}::TIMESTAMPTZ::VARCHAR", "{}::TIMESTAMP_NS",
    "date_part('hour', {})", "date_trunc('month', {})", "{} + INTERVAL 1 DAY", "epoch({})",
    "strftime({}, '%c')", "{} AT TIME ZONE 'Asia/Tokyo'",
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("session", ["Asia/Tokyo", "UTC", "America/New_York"])
def test_zones_of_extreme_times(session, zone):
    """No number that a column of times can store makes AT TIME ZONE end a query, in any unit."""
    numbers = [*FAR, *(sign * (2**63 - 3600 * 10**9) for sign in (-1, 1)), 0]
    kinds = {name: kind for name, kind in KINDS.items() if name != "clock"}
    kinds["zoned_fine"] = pa.timestamp("ns", "UTC")
    columns = {name: pa.array(numbers, pa.int64()).cast(kind) for name, kind in kinds.items()}
    con = duckdb.connect()
    restrict_optimizer(con)
    con.register("stored", pa.table(columns))
    con.execute(f"SET TimeZone = '{session}'; CREATE TABLE extremes AS FROM stored")
    con.execute("CREATE TABLE none AS FROM extremes LIMIT 0")
    texts = [form.format(f"({x} AT TIME ZONE '{zone}')") for form in OF_ZONES for x in kinds]
    failed, ran = check(con, texts)
    assert not failed
    assert ran > 50


@pytest.mark.parametrize("session", ["UTC", "Asia/Tokyo"])
def test_zones_read_what_duckdb_reads(session):
    """AT TIME ZONE has DuckDB's value for a time with a zone and for one without."""
    con = duckdb.connect()
    con.execute(f"SET TimeZone = '{session}'")
    con.execute(
        "CREATE TABLE t AS SELECT TIMESTAMP '2023-12-31 23:30' AS x, "
        "TIMESTAMPTZ '2023-12-31 23:30+00' AS z FROM range(100)"
    )
    forms = "year(z AT TIME ZONE 'Europe/Berlin')", "epoch(timezone('Europe/Berlin', x))"
    for form in forms:
        query = f"SELECT {form} AS k, dp_count(*) AS n FROM t GROUP BY k"
        answers = dfp.sql(query, con=con, epsilon=1e6, delta=1e-6).fetchall()
        assert answers == con.execute(f"SELECT {form}, count(*) FROM t GROUP BY 1").fetchall()


def test_zones_are_listed_names():
    """Every zone that DuckDB lists is read, and others are refused in the text of a statement."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT TIMESTAMP '2024-01-01' AS x")
    names = con.execute("SELECT name FROM pg_timezone_names()").fetchall()
    assert len(names) > 400
    for (name,) in names:
        con.execute(f"SELECT timezone('{name}', x) FROM t").fetchall()
    for zone in ("'Nowhere/Land'", "'+02:00'", "''", "lower('UTC')", "NULL", "INTERVAL 1 HOUR"):
        with pytest.raises(dfp.RefusedStatementError, match="a time zone that is no constant"):
            dfp.sql(f"SELECT dp_count(x AT TIME ZONE {zone}) FROM t", con=con)


LATEST = {
    "TIMESTAMP '294247-01-10 04:00:54.775806'": 0,
    "TIMESTAMP_NS '2262-04-11 23:47:16.854775806'": 0,
    "TIMESTAMP '2024-01-01'": 100,
}


@pytest.mark.parametrize("constant", LATEST)
def test_constants_without_a_place_in_a_zone_are_missing(constant):
    """AT TIME ZONE of a constant whose result is out of range is NULL in every row."""
    query = f"SELECT dp_count({constant} AT TIME ZONE 'America/New_York') AS n FROM t"
    release = dfp.sql(query, t=pa.table({"x": [1] * 100}), epsilon=1e6)
    assert release.to_pylist() == [{"n": LATEST[constant]}]


OF_MOMENTS = ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP", "DATE", "VARCHAR"]
ENDING = [
    ("TIMESTAMP_MS", "294247-01-10 04:00:54.775", OF_MOMENTS),
    ("TIMESTAMP", "290309-12-22 (BC) 00:00:00", OF_MOMENTS),
    ("BIGNUM", "9" * 55, ["TINYINT", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "VARCHAR"]),
]


@pytest.mark.parametrize(("kind", "value", "types"), ENDING)
def test_casts_that_end_a_query(kind, value, types):
    """A value that DuckDB can't cast in spite of TRY ends no query: it is refused with any rows."""
    outcomes = []
    for row in ("NULL", f"'{value}'"):
        con = duckdb.connect()
        con.execute(f"CREATE TABLE t(x {kind}); INSERT INTO t SELECT CAST({row} AS {kind})")
        for word, to in itertools.product(("CAST", "TRY_CAST"), types):
            query = f"SELECT dp_count({word}(x AS {to})) FROM t"
            try:
                dfp.sql(query, con=con, epsilon=1)
                message = ""
            except dfp.DPError as error:
                message = str(error)
            outcomes.append((word, to, message))
        assert con.execute("SELECT 1").fetchall() == [(1,)]
    assert outcomes[: len(outcomes) // 2] == outcomes[len(outcomes) // 2 :]


TIMESTAMPS = "coalesce(abs(year(day)) < 9999, true) AND coalesce(isfinite(day), true)"
"""Dates that are timestamps, too: date_trunc makes one of a date."""
VALUES = [
    *(f"EXTRACT({part} FROM {column})" for part in sorted(PARTS) for column in DATES),
    *(f"date_diff('{part}', {column}, {column} + INTERVAL '40' DAY)"
      for part in sorted(PARTS) for column in ("day", "moment", "fine")),
    *(f"week({column})" for column in DATES),
]  # fmt: skip


def test_values_are_duckdbs(tables):
    """The guards around the arguments of such calls leave their values as they are."""
    same = 0
    for expression, ours in plan_rounds(tables, VALUES[::2]):
        differs = f"{ours} IS DISTINCT FROM TRY({expression})"
        query = f"SELECT count(*) FROM extremes WHERE {differs} AND {TIMESTAMPS}"
        assert tables.execute(query).fetchall() == [(0,)], expression
        same += 1
    assert same > 30
