"""No value makes a listed function fail in spite of TRY: every one is called with extreme ones."""

from __future__ import annotations

import itertools

import duckdb
import pytest

import dfprivacy as dfp
from dfprivacy.statements.catalog import connection_source
from dfprivacy.statements.functions import PARTS, ROW_FUNCTIONS
from dfprivacy.statements.gate import fence
from dfprivacy.statements.reading import read
from dfprivacy.statements.rows import Reader

COLUMNS = {
    "big": ("BIGINT", ["9223372036854775807", "-9223372036854775808", "0", "-1"]),
    "huge": ("HUGEINT", ["170141183460469231731687303715884105727", "0"]),
    "tiny": ("TINYINT", ["-128", "127", "0"]),
    "real": ("DOUBLE", ["'nan'", "'inf'", "'-inf'", "1e308", "-0.0", "5e-324", "-1"]),
    "exact": ("DECIMAL(38, 5)", ["999999999999999999999999999999999.99999", "0"]),
    "word": (
        "VARCHAR",
        [
            "''",
            "'('",
            "'%'",
            "'timezone'",
            "'era'",
            "'year'",
            "'\\0'",
            "'{'",
            "'bad!'",
            "'2024-01-01 Nowhere/X'",
        ],
    ),
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
    *(f"{name}({part}, {', '.join(given)})"
      for name in PARTED for part in [*NAMED, "word", "'timezone'"] for column in DATES
      for given in ([column], [column, column])),
    *(f"EXTRACT({part} FROM {column})" for part in sorted(PARTS) for column in DATES),
    *(f"{name}({column})" for name in sorted(PARTS & ROW_FUNCTIONS) for column in DATES),
    *(f"{name}({column} - {column})" for name in ("week", "era") for column in DATES),
    *(f"time_bucket({', '.join(given)})" for width in ["span", *CONSTANTS]
      for column in DATES
      for given in ([width, column], [width, column, column], [width, column, "word"])),
    *(f"time_bucket(INTERVAL '7' DAY, {column}, {origin} '2024-01-01')"
      for column in DATES for origin in ("DATE", "TIMESTAMP", "TIMESTAMPTZ")),
]  # fmt: skip
OF_TEXT = [
    *(f"{name}(word, {given})" for name in ("strptime", "try_strptime") for given in (
        "'%Y-%m-%d'", "'%Y-%m-%d %Z'", "['%Y', '%Z']", "word", "'%z'", "'%'", "'%c %j'")),
    *(f"word {sign} {pattern} ESCAPE {escape}" for sign in ("LIKE", "NOT ILIKE")
      for pattern in ("'a!%'", "'a!'", "'!!'", "'a!!!'", "word")
      for escape in ("'!'", "''", "'!!'", "'\u00e9'", "word")),
]  # fmt: skip
OF_ONE = [f"{name}({column})" for name in sorted(ROW_FUNCTIONS) for column in COLUMNS]
OF_TWO = [
    f"{name}({', '.join(given)})"
    for name in sorted(ROW_FUNCTIONS)
    for column in COLUMNS
    for given in [
        (column, column), *((column, c) for c in CONSTANTS), *((c, column) for c in CONSTANTS)
    ]
]  # fmt: skip
OF_TYPES = [f"{w}({c} AS {t})" for w in ("CAST", "TRY_CAST") for c in COLUMNS for t in TYPES]
OF_SIGNS = [
    f"({one} {sign} {two})"
    for sign in ("+", "-", "*", "/", "//", "%", "**", "||", "<<", ">>", "&", "~", "LIKE")
    for one, two in itertools.product(COLUMNS, COLUMNS)
]
KNOWN = [
    "date_part('timezone', day)", "date_part(word, day)", "date_trunc('era', span)",
    "date_diff('day', clock, clock)", "date_sub('era', moment, moment)", "week(moment - moment)",
    "EXTRACT(week FROM span)", "EXTRACT(year FROM clock)", "time_bucket(INTERVAL '0' DAY, day)",
    "time_bucket(INTERVAL '1 month 1 day', day)", "time_bucket(span, day)", "era(span)",
]  # fmt: skip
"""What fails in DuckDB in spite of TRY, in one version or another."""


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
    fence(con)
    return con


def planned(con, expressions):
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
    for expression, written in planned(con, expressions):
        ran += 1
        try:
            con.execute(f"SELECT count(hash({written})) FROM extremes").fetchall()
        except duckdb.Error as error:
            failed.append((expression, str(error)))
    return failed, ran


def test_dates(tables):
    """Parts of dates, of times and of intervals, and buckets, never make a query fail."""
    failed, ran = check(tables, [*KNOWN, *OF_DATES[::24]])
    assert not failed
    assert ran > 10


def test_formats_and_escapes(tables):
    """Formats of dates, zones in them, and LIKE with an ESCAPE never make a query fail."""
    failed, ran = check(tables, OF_TEXT[::2])
    assert not failed
    assert ran > 5


def test_every_function(tables):
    """No listed function fails on an extreme value, nor does it with two (a sample)."""
    failed, ran = check(tables, [*OF_ONE[::12], *OF_TWO[::240]])
    assert not failed
    assert ran > 15


@pytest.mark.slow
def test_every_function_type_and_sign(tables):
    """No listed function, cast or operator fails on extreme values, in pairs (a sample of them)."""
    failed, ran = check(
        tables, [*OF_DATES[::2], *OF_ONE, *OF_TWO[::4], *OF_TYPES[::2], *OF_SIGNS[::4]]
    )
    assert not failed
    assert ran > 300


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
                said = ""
            except dfp.DPError as error:
                said = str(error)
            outcomes.append((word, to, said))
        assert con.execute("SELECT 1").fetchall() == [(1,)]
    assert outcomes[: len(outcomes) // 2] == outcomes[len(outcomes) // 2 :]


PLAIN = "coalesce(abs(year(day)) < 9999, true) AND coalesce(isfinite(day), true)"
"""Dates that are timestamps, too: date_trunc makes one of a date."""
VALUES = [
    *(f"EXTRACT({part} FROM {column})" for part in sorted(PARTS) for column in DATES),
    *(f"date_diff('{part}', {column}, {column} + INTERVAL '40' DAY)"
      for part in sorted(PARTS) for column in ("day", "moment", "fine")),
    *(f"week({column})" for column in DATES),
]  # fmt: skip


def test_values_are_duckdbs(tables):
    """What is written around the arguments of such calls leaves their values as they are."""
    same = 0
    for expression, ours in planned(tables, VALUES[::2]):
        differs = f"{ours} IS DISTINCT FROM TRY({expression})"
        query = f"SELECT count(*) FROM extremes WHERE {differs} AND {PLAIN}"
        assert tables.execute(query).fetchall() == [(0,)], expression
        same += 1
    assert same > 30
