"""On PostgreSQL no row decides about an error, a type or the order of what is released."""

import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pytest

import dfprivacy as dfp
from benchmarks import boundary
from tests.conformance.frame_releases import RELEASES, many_rows, shown
from tests.ibis.conftest import IBIS_WARNINGS

ibis = pytest.importorskip("ibis")
psycopg = pytest.importorskip("psycopg")

pytestmark = [pytest.mark.slow, IBIS_WARNINGS]

FLOATS = ["NaN", "Infinity", "-Infinity", "5e-324", "-5e-324", "1e-170", "-1e-200", "-0"]
FLOATS += ["1.7976931348623157e308", "-1.7976931348623157e308", "2.3e-308", "1e-39", None]
NUMERICS = ["NaN", "1e400", "-1e400", "1e-400", "-1e-400", "1.00", "1e300", "-0.1", None]
DAYS = ["infinity", "-infinity", "9999-12-31", "20000-01-01", "0044-03-15 BC", None]
TIMES = [*DAYS, "294276-12-31 23:59:59.999999", "4713-01-01 BC"]
MOMENTS = (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, tzinfo=dt.UTC))
KINDS = {
    "boolean": ((True, False), [None]),
    "smallint": ((1, 2), ["-32768", "32767", None]),
    "integer": ((1, 2), ["-2147483648", "2147483647", None]),
    "bigint": ((1, 2), ["-9223372036854775808", "9223372036854775807", None]),
    "real": ((1.0, 2.0), ["NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "-0", None]),
    "double precision": ((1.0, 2.0), FLOATS),
    "numeric": ((1, 2), ["Infinity", "-Infinity", *NUMERICS]),
    "numeric(400,399)": ((1, 2), ["NaN", "1e-398", "-9.9", None]),
    "numeric(10,2)": (
        (decimal.Decimal("1.00"), decimal.Decimal("2.50")), ["NaN", "-99999999.99", None]
    ),
    "text": (("a", "b"), ["", "A", "a ", "\u00e9", "\U0010ffff", "x" * 10**5, None]),
    "character varying(9)": (("a", "b"), ["", "A", "\U0010ffff" * 9, None]),
    "character(5)": (("a", "b"), ["", "a    ", "\U0010ffff" * 5, None]),
    "mood": (("low", "high"), ["\u00e9", None]),
    "brief": (("a", "b"), ["", "\u00e9", None]),
    "bytea": ((b"a", b"b"), [r"\x", r"\xff00", None]),
    "date": ((dt.date(2024, 1, 1), dt.date(2024, 1, 2)), [*DAYS, "5874897-12-31", "4713-01-01 BC"]),
    "timestamp": (tuple(moment.replace(tzinfo=None) for moment in MOMENTS), TIMES),
    "timestamptz": (MOMENTS, TIMES),
    "time": ((dt.time(1), dt.time(2)), ["24:00:00", "23:59:59.999999", "00:00", None]),
    "uuid": ((str(uuid.UUID(int=1)), str(uuid.UUID(int=2))), ["f" * 32, None]),
    "interval": ((1, 2), ["178000000 years", "-1 month", None]),
    "timetz": (("01:00+00", "02:00+00"), ["24:00:00-15:59", None]),
    "money": ((1, 2), ["92233720368547758.07", None]),
    "jsonb": ((1, 2), ["null", '"a"', "1e400", None]),
    "integer[]": (("{1}", "{2}"), ["{}", "{NULL}", "{{1},{2}}", None]),
    "inet": (("127.0.0.1", "127.0.0.2"), ["::1", None]),
    "bit(3)": (("101", "001"), ["111", None]),
    "pair": (("(1,2)", "(2,3)"), ["(,)", None]),
    "int4range": (("[1,2)", "[2,3)"), ["empty", "(,)", None]),
}  # fmt: skip
"""Types, two usual values of each, and others that one row may have."""


@pytest.fixture
def front(postgres, make_postgres_table, monkeypatch):
    """Let the comparison of neighbors hand its rows in as a table on PostgreSQL."""
    statements = [
        "CREATE TYPE mood AS ENUM ('low', 'high', '\u00e9')",
        "CREATE TYPE pair AS (first integer, second integer)",
        "CREATE DOMAIN brief AS text CHECK (length(VALUE) < 9)",
    ]
    if not postgres.con.execute("SELECT 1 FROM pg_type WHERE typname = 'mood'").fetchall():
        for statement in statements:
            postgres.con.execute(statement)

    def make(column):
        kind, values = column
        texts = [r"\x" + v.hex() if isinstance(v, bytes) else v for v in values]
        numbers = [index % 9 for index in range(len(values))]
        return make_postgres_table({"k": kind, "x": "double precision"}, [texts, numbers])

    kinds = {
        name: boundary.Kind(usual, tuple(odd), lambda values, name=name: (name, values))
        for name, (usual, odd) in KINDS.items()
    }
    monkeypatch.setitem(boundary.FRONTS, "postgres", (kinds, make))


ALWAYS = ["count by key", "without bounds by key", "vector"]
IN_TURN = [
    ("mean by public key", "different values"),
    ("presence", "mean", "keys of units"),
    ("others", "line"),
    ("unit", "share"),
    ("describe",),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_has_one_outcome(kind, front):
    """Whatever one row holds, a question has the same error, types, order and charge."""
    report = boundary.Found()
    turn = IN_TURN[list(KINDS).index(kind) % len(IN_TURN)]
    for ask in (*ALWAYS, *turn):
        cell = boundary.Cell("postgres", kind, ask, "as it is")
        assert cell.run([])[0] != "EngineError"
        boundary.compare(cell, report)
    assert not report.different, report.different


FAR, FAR_DAY = 2**63 - 1, 2**31 - 1
KEYS = [
    ("date", [None, "infinity", "20000-01-01", "1970-01-02", "4713-01-01 BC", "-infinity"],
     pa.array([-FAR_DAY, -2440550, 1, 6585322, FAR_DAY, None], pa.int32()).cast(pa.date32())),
    ("timestamp", ["infinity", "294276-01-01", "1970-01-01 00:00:00.000001", "-infinity", None],
     pa.array([-FAR, 1, FAR, None], pa.timestamp("us"))),
    ("timestamptz", ["infinity", "1970-01-01 00:00:00.000001+00", "1969-12-31 12:00-12", None],
     pa.array([0, 1, FAR, None], pa.timestamp("us", "UTC"))),
    ("time", ["24:00", "23:59:59.999999", "00:00", None],
     pa.array([0, 86399999999000, None], pa.time64("ns"))),
    ("smallint", ["-32768", "7", None], pa.array([-32768, 7, None], pa.int16())),
    ("integer", ["-2147483648", "7", None], pa.array([-(2**31), 7, None], pa.int32())),
    ("real", ["NaN", "-0", "0", "1e-45", "-Infinity"],
     pa.array([float("-inf"), 0.0, 1e-45, None], pa.float32())),
    ("numeric(38,2)", ["NaN", "-" + "9" * 36 + ".99", "1", "1.00"],
     pa.array([decimal.Decimal("-" + "9" * 36 + ".99"), decimal.Decimal("1.00"), None],
              pa.decimal128(38, 2))),
    ("text", ["\u00e9", "a", "B", "a ", "A", None],
     pa.array(["A", "B", "a", "a ", "\u00e9", None])),
    ("character(5)", ["a", "a   ", "A"], pa.array(["A", "a"])),
    ("bytea", [r"\xff00", r"\x", None], pa.array([b"", b"\xff\0", None], pa.binary())),
    ("boolean", ["true", "no", None], pa.array([False, True, None])),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "texts", "keys"), KEYS, ids=[kind for kind, *_ in KEYS])
def test_keys_come_back_as_they_are_declared(kind, texts, keys, make_postgres_table):
    """Values that are told apart are in the order of their kind; others are one key."""
    rows = texts * 30
    table = make_postgres_table({"k": kind, "u": "integer"}, [rows, range(len(rows))])
    for terms in ({}, {"unit": "u", "max_rows": 1, "max_groups": 9}):
        released = dfp.frame(table)(**terms).group_by("k").count(epsilon=1e9, delta=0.5)
        counts = released.to_pyarrow()
        assert counts["k"].combine_chunks().equals(keys)
        assert sum(counts["count"].to_pylist()) == len(rows)


def test_public_keys_are_found_to_the_microsecond(make_postgres_table):
    """A listed time is the one that is stored."""
    texts = ["0001-01-01", "2024-02-29 12:59:59.999999", "9999-12-31 23:59:59.999999"]
    moments = list(map(dt.datetime.fromisoformat, texts))
    clocks = [moment.time() for moment in moments]
    table = make_postgres_table({"k": "timestamp", "t": "time"}, [moments, clocks])
    private = dfp.frame(table)
    counts = private.group_by("k", keys=moments).count(epsilon=1e9).to_pyarrow()
    assert counts["count"].to_pylist() == [1, 1, 1]
    counts = private.group_by("t", keys=clocks).count(epsilon=1e9).to_pyarrow()
    assert counts["count"].to_pylist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["without bounds", "ranks", "moments"])
@pytest.mark.parametrize("kind", ["numeric", "numeric(40,10)", "real"])
def test_numbers_are_those_of_their_doubles(name, kind, make_postgres_table, replayed):
    """A column of numbers of any type is asked about as its nearest doubles."""
    texts = [f"{number % 77}.25" if number % 5 else None for number in range(500)]
    if kind == "numeric":
        texts += ["1e400", "-1e-400", "-Infinity", "NaN"]
    doubles = [text and float(text) for text in texts]
    tables = [
        make_postgres_table({"x": declared, "i": "bigint"}, [values, range(len(texts))])
        for declared, values in ((kind, texts), ("double precision", doubles))
    ]
    releases = [shown(replayed(lambda t=t: RELEASES[name](dfp.frame(t)))) for t in tables]
    assert repr(releases[0]) == repr(releases[1])


SETTINGS = [
    "SET extra_float_digits = -15", "SET bytea_output = escape", "SET DateStyle = 'SQL, DMY'",
    "SET TimeZone = 'Pacific/Auckland'", "SET client_encoding = 'LATIN1'",
    "SET default_transaction_read_only = on", "SET enable_hashagg = off; SET jit = off",
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET debug_parallel_query = on",
    "SET search_path = pg_temp, public", "SET lc_messages = 'C'; SET IntervalStyle = iso_8601",
]  # fmt: skip


def test_no_setting_of_a_connection_changes_a_release(make_postgres_table, postgres, replayed):
    """Rows come as they are, whatever a connection writes of them, and nothing is written."""
    rows = many_rows().slice(0, 500)
    columns = {"g": "text", "x": "float8", "i": "bigint", "u": "bigint", "f": "float8"}
    table = make_postgres_table(columns, [column.to_pylist() for column in rows.columns])
    questions = [RELEASES[name] for name in ("by group", "listed", "without bounds")]
    questions.append(lambda f: f.group_by("f").nunique("x", epsilon=9, delta=1e-3))
    plain = [repr(shown(replayed(lambda a=ask: a(dfp.frame(table))))) for ask in questions]
    for setting in SETTINGS:
        with postgres.con.transaction(force_rollback=True):
            postgres.con.execute(setting)
            releases = [
                repr(shown(replayed(lambda a=ask: a(dfp.frame(table))))) for ask in questions
            ]
        assert releases == plain, setting


def test_a_tables_own_query_comes_first(make_postgres_table, postgres, monkeypatch):
    """Views, generated columns, filters and joins with rows in memory are part of the question.

    Limits of Ibis on what it shows are none.
    """
    columns = {"k": "bigint", "x": "float8", "p": "point"}
    table = make_postgres_table(columns, [range(90), [None] * 90, [None] * 90])
    assert dfp.frame(table).count(epsilon=1e9) == 90
    name = table.get_name()
    postgres.con.execute(f"ALTER TABLE {name} ALTER k SET NOT NULL")
    postgres.con.execute(f"ALTER TABLE {name} ADD h bigint GENERATED ALWAYS AS (k % 3) STORED")
    postgres.con.execute(f"CREATE TEMPORARY VIEW seen AS SELECT h, k FROM {name} WHERE k < 60")
    names = ibis.memtable(pa.table({"h": [0, 1], "n": ["zero", "one"]}))
    seen = postgres.table("seen")
    odd = 'a "b" {c} %s \u00e9'
    monkeypatch.setattr(ibis.options.sql, "default_limit", 10)
    for frame, by, groups in (
        (table.mutate(**{odd: table.k % 2}), odd, [45, 45]),
        (seen, "h", [20, 20, 20]),
        (seen.filter(seen.k < 30).mutate(m=seen.k % 2), "m", [15, 15]),
        (seen.join(names, "h"), "n", [20, 20]),
    ):
        counts = dfp.frame(frame).group_by(by).count(epsilon=1e9, delta=0.5).to_pyarrow()
        assert counts["count"].to_pylist() == groups


@pytest.mark.parametrize("question", ["x / k = 0", "pg_sleep(9) IS NULL"])
def test_failures_are_withheld(question, make_postgres_table, postgres):
    """A failure of the caller's own query is withheld, and the connection can be used further."""
    table = make_postgres_table({"k": "bigint", "x": "bigint"}, [[0, 4711], [4711, 4711]])
    frame = postgres.sql(f"SELECT {question} AS k FROM {table.get_name()}", schema={"k": "boolean"})
    postgres.con.execute("SET statement_timeout = 1000")
    with pytest.raises(dfp.EngineError) as caught:
        dfp.frame(frame).count("k", epsilon=1)
    postgres.con.execute("SET statement_timeout = 0")
    assert "4711" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert dfp.frame(table).count(epsilon=1e9) == 2


REFUSED = ["interval", "timetz", "money", "integer[]", "inet", "bit(3)", "int4range"]
REFUSED += ["point", "numeric", "numeric(39,0)", "xml", "tsvector", "oid", "name", '"char"']


@pytest.mark.parametrize("kind", REFUSED)
def test_types_that_have_no_form_are_refused(kind, make_postgres_table, monkeypatch):
    """A type is refused as a key, a unit and a category by its declaration, and nothing is paid."""
    table = make_postgres_table({"k": kind, "x": "float8"}, [[None] * 9, range(9)])
    paid = []
    monkeypatch.setattr("dfprivacy.accounting.spending.NoAccount.pay", paid.append)
    for ask in (
        lambda f: f.group_by("k").count(delta=0.1),
        lambda f: f(unit="k", max_rows=1).count(),
        lambda f: f.nunique("k"),
    ):
        with pytest.raises(dfp.UnsupportedDtypeError, match=r"(?s)declared.*Hint"):
            ask(dfp.frame(table))
    assert paid == []


def test_databases_that_are_no_utf8_are_refused(postgres):
    """Where a text may be no UTF-8, or a server is old, no row is asked about."""
    postgres.con.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    parameters = {**postgres.con.info.get_parameters(), "dbname": "latin"}
    with psycopg.connect(**parameters, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS k")
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="UTF-8"):
            dfp.frame(ibis.postgres.from_connection(connection).table("t")).count(epsilon=1)
    postgres.con.execute("DROP DATABASE latin")


def test_decimals_of_many_digits_are_described(make_postgres_table):
    """Columns beyond what Arrow's decimals hold are numbers like others."""
    table = make_postgres_table({"k": "numeric(400,399)"}, [["1.5"] * 90])
    described = dfp.frame(table).describe(epsilon=1e6, delta=1e-9).to_pyarrow()
    assert described["type"].to_pylist() == ["number"]
