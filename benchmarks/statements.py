"""Count the statements that are answered, refused with a rewrite that works, and wrong.

    python -m benchmarks.statements [--generated 1000] [--show]

Statements stand in tests/statements/analysts.sql, or are generated from seeds over tables like
those of TPC-H and of nycflights13, all made up. Each is answered at an epsilon of 10^13, and
compared with the rows that DuckDB makes of the same text. Numbers may differ by 3 per cent: bounds
that nobody declares are found privately. A row that secret keys hide is no difference. The answer
of a rewrite is compared with that of the refused text. Half of the seeds, the odd ones, were not
looked at while the rules were written.
"""

# ruff: noqa: ISC004

from __future__ import annotations

import argparse
import importlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb

import dfprivacy as dfp

WRITTEN = Path(__file__).parents[1] / "tests" / "statements" / "analysts.sql"
TRADE = """
    CREATE TABLE nation AS SELECT i AS n_key, 'N' || i AS n_name, i % 3 AS n_region
        FROM range(6) r(i);
    CREATE TABLE part AS SELECT i AS p_key, ['tin', 'oak', 'wool'][1 + i % 3] AS p_type,
        (i % 40 + 1)::DOUBLE AS p_price FROM range(60) r(i);
    CREATE TABLE customer AS SELECT i AS c_key, i * 7 % 6 AS n_key,
        ['home', 'shop', 'firm'][1 + i * 5 % 3] AS c_segment, (i * 37 % 900)::DOUBLE AS c_balance,
        DATE '2020-01-01' + (i % 700)::INTEGER AS c_since FROM range(1500) r(i);
    CREATE TABLE orders AS SELECT i AS o_key, i * 11 % 1500 AS c_key,
        ['open', 'done', 'lost'][1 + i * 3 // 7 % 3] AS o_status, (i * 13 % 500)::DOUBLE AS o_total,
        TIMESTAMP '2023-01-01' + INTERVAL (i * 5 % 9000) HOUR AS o_time FROM range(6000) r(i);
    CREATE TABLE item AS SELECT i AS i_key, i * 17 % 6000 AS o_key, i * 19 % 60 AS p_key,
        1 + i % 7 AS i_count, (i * 29 % 90 + 1)::DOUBLE AS i_price,
        ['air', 'rail', NULL][1 + i * 2 % 3] AS i_mode FROM range(15000) r(i);
"""
TERMS: dict[str, Any] = {"epsilon": 1e13, "delta": 1e-2, "max_rows": 40, "max_groups": 40}


@dataclass(frozen=True)
class Tables:
    """A schema for generated statements: a join of its tables, with columns by their kinds."""

    con: duckdb.DuckDBPyConnection
    schema: dfp.Schema
    unit: str
    sources: tuple[str, ...]
    """Sources of FROM: each has the key of the unit and all columns below."""
    keys: tuple[str, ...]
    numbers: tuple[str, ...]
    conditions: tuple[str, ...]
    time: str
    public: tuple[str, str, str]
    """A public table, its key, and the expression over protected rows that is equal to it."""


def make_trade() -> Tables:
    """Return tables like those of TPC-H."""
    con = duckdb.connect()
    con.execute(TRADE)
    schema = dfp.Schema(
        unit="customer.c_key",
        links={"orders.c_key": "customer.c_key", "item.o_key": "orders.o_key"},
        public=["nation", "part"],
        bounds={"orders.o_total": (0, 500), "item.i_price": (0, 90)},
    )
    joined = "customer JOIN orders USING (c_key) JOIN nation USING (n_key)"
    return Tables(
        con, schema, "c_key",
        (joined, "orders NATURAL JOIN customer JOIN nation USING (n_key)",
         "orders LEFT JOIN customer USING (c_key) LEFT JOIN nation USING (n_key)",
         "customer RIGHT JOIN orders USING (c_key) JOIN nation USING (n_key)",
         f"(SELECT * FROM {joined}) AS joined"),
        ("o_status", "n_name", "c_segment", "n_region", "date_trunc('quarter', o_time)",
         "CASE WHEN o_total > 250 THEN 'large' ELSE 'small' END", "year(o_time)"),
        ("o_total", "c_balance", "o_total + c_balance", "floor(o_total / 10)"),
        ("o_total > 100", "o_status <> 'lost'", "c_segment IN ('home', 'shop')", "n_region < 2",
         "o_time >= TIMESTAMP '2023-04-01'", "c_balance BETWEEN 100 AND 800",
         "o_time < now() - INTERVAL 30 DAY", "c_since < current_date", "n_name LIKE 'N%'"),
        "o_time", ("nation", "n_key", "n_key"),
    )  # fmt: skip


def make_flights() -> Tables:
    """Return tables like those of nycflights13; the aeroplane is the unit."""
    con = importlib.import_module("tests.statements.flights_like").flights_like()
    con.execute("DELETE FROM flights WHERE tailnum IS NULL")  # they belong to nobody
    schema = dfp.Schema(
        unit="planes.tailnum",
        links={"flights.tailnum": "planes.tailnum"},
        public=["airlines", "airports", "weather"],
        bounds={"flights.distance": (0, 3000), "flights.air_time": (0, 400)},
    )
    joined = "flights JOIN airlines USING (carrier)"
    return Tables(
        con, schema, "tailnum",
        (joined, "flights LEFT JOIN airlines USING (carrier)", "flights NATURAL JOIN airlines",
         "airlines RIGHT JOIN flights USING (carrier)", f"(SELECT * FROM {joined}) AS joined"),
        ("carrier", "name", "origin", "dest", "month", "month <= 6", "distance // 1000"),
        ("distance", "air_time", "dep_delay", "distance / 10", "greatest(dep_delay, 0)"),
        ("distance > 800", "origin <> 'JFK'", "month BETWEEN 3 AND 10", "dep_delay IS NOT NULL",
         "make_date(year, month, day) < current_date", "dest IN ('BOS', 'LAX', 'ORD')",
         "name ILIKE '%a%'"),
        "make_timestamp(year, month, day, hour, 0, 0)", ("airlines", "carrier", "carrier"),
    )  # fmt: skip


def generate(tables: Tables, seed: int) -> tuple[str, str | None]:
    """Return a statement, and a rewrite that is asked where its construct is refused."""
    random = Random(seed)
    source, key, other = random.choice(tables.sources), *random.sample(tables.keys, 2)
    number, unit = random.choice(tables.numbers), tables.unit
    where = " AND ".join(random.sample(tables.conditions, random.randint(0, 2)))
    where = f" WHERE {where}" if where else ""
    calls = random.sample(
        ["count(*)", f"count(DISTINCT {unit})", f"sum({number})", f"avg({number})",
         f"count({number})", f"sum({number}) / count(*)", f"stddev_pop({number})",
         f"count(*) FILTER (WHERE {random.choice(tables.conditions)})",
         f"bool_or({random.choice(tables.conditions)})"], random.randint(1, 2),
    )  # fmt: skip
    answers = ", ".join(f"{call} AS a{index}" for index, call in enumerate(calls))
    rows = f"FROM {source}{where}"
    per_unit = f"SELECT {unit}, {number} AS x, {key} AS k, {tables.time} AS t {rows}"
    public, column, same = tables.public
    forms: list[tuple[str, str | None]] = [
        (f"SELECT {answers} {rows}", None),
        (f"SELECT {key} AS k, {answers} {rows} GROUP BY 1 ORDER BY 1", None),
        (f"SELECT {key} AS k, {other} AS j, {answers} {rows} GROUP BY ALL", None),
        (f"SELECT DISTINCT {key} AS k {rows}", None),
        (f"SELECT {key} AS k {rows} GROUP BY k", None),
        (f"SELECT {key} AS k, count(*) AS n {rows} GROUP BY 1 HAVING count(*) > 50", None),
        (f"SELECT {key} AS k, count(*) * 1.0 / sum(count(*)) OVER () AS s {rows} GROUP BY 1", None),
        (f"WITH u AS (SELECT {unit}, count(*) AS n, max({number}) AS m {rows} GROUP BY 1) "
         "SELECT avg(n) AS n, avg(m) AS m FROM u", None),
        (f"SELECT s, count(*) AS n FROM (SELECT {unit}, arg_max(k, t) AS s FROM ({per_unit}) "
         f"GROUP BY {unit}) GROUP BY s", None),
        (f"SELECT s, count(*) AS n FROM (SELECT {unit}, first(k ORDER BY t DESC, x) AS s FROM "
         f"({per_unit}) GROUP BY {unit}) GROUP BY s", None),
        (f"SELECT avg(x / nullif(s, 0)) AS share FROM (SELECT x, sum(x) OVER (PARTITION BY {unit}) "
         f"AS s FROM ({per_unit}) WHERE x > 0)", None),
        (f"SELECT count(*) AS n FROM (SELECT {unit} {rows} INTERSECT SELECT {unit} FROM {source} "
         f"WHERE {random.choice(tables.conditions)})", None),
        (f"SELECT count(*) AS n FROM (SELECT {unit} FROM {source} EXCEPT SELECT {unit} {rows})",
         None),
        (f"SELECT count(*) AS n FROM (SELECT {unit}, {key} AS k {rows} UNION SELECT {unit}, "
         f"{key} FROM {source} WHERE {random.choice(tables.conditions)})", None),
        (f"SELECT count(DISTINCT ({unit}, {key})) AS n {rows}", None),
        (f"SELECT p.{column} AS k, count(r.x) AS n FROM {public} p LEFT JOIN (SELECT {same} AS "
         f"p_key, {number} AS x {rows}) r ON r.p_key = p.{column} GROUP BY 1", None),
        (f"SELECT count(*) AS n, sum(l.x) AS s, count(r.x) AS m FROM ({per_unit}) l FULL JOIN "
         f"(SELECT {unit}, count(*) AS x FROM {source} WHERE {random.choice(tables.conditions)} "
         f"GROUP BY 1) r USING ({unit})", None),
        (f"SELECT count(*) AS n FROM ({per_unit}) a, LATERAL (SELECT b.x FROM ({per_unit}) b "
         f"WHERE b.{unit} = a.{unit} LIMIT 1) c", None),
        (f"SELECT k, avg(place) AS p FROM (SELECT k, row_number() OVER (PARTITION BY {unit} "
         f"ORDER BY t, x, k) AS place FROM ({per_unit})) GROUP BY k", None),
        (f"SELECT k, avg(x) OVER (PARTITION BY k) AS m FROM ({per_unit})",
         f"SELECT k, avg(x) AS m FROM ({per_unit}) GROUP BY k"),
        (f"SELECT count(*) AS n FROM (SELECT DISTINCT {key} AS k {rows})",
         f"SELECT count(DISTINCT {key}) AS n {rows}"),
        (f"SELECT mode({key}) AS m {rows}",
         f"SELECT k AS m FROM (SELECT {key} AS k, count(*) AS n {rows} GROUP BY 1) "
         "QUALIFY n > 0.95 * max(n) OVER ()"),
        (f"SELECT {unit}, count(*) AS n {rows} GROUP BY {unit}",
         f"SELECT n, count(*) AS units FROM (SELECT {unit}, count(*) AS n {rows} GROUP BY {unit}) "
         "GROUP BY n"),
        (f"SELECT * {rows} LIMIT 10", f"SELECT {key} AS k, count(*) AS n {rows} GROUP BY 1"),
    ]  # fmt: skip
    return random.choice(forms)


def is_close(ours: Any, theirs: Any) -> bool:
    """Compare two values; a number without rows may be NULL, NaN or 0."""
    if ours is None or ours != ours or theirs is None:
        return theirs is None or ours is None or theirs != theirs
    if all(isinstance(value, int | float | Decimal) for value in (ours, theirs)):
        return math.isclose(float(ours), float(theirs), rel_tol=0.03, abs_tol=1.5)
    return bool(ours == theirs)


def judge(query: str, con: duckdb.DuckDBPyConnection, schema: dfp.Schema, plain: str = "") -> str:
    """Return answered, refused, or wrong with a row that DuckDB does not have.

    DuckDB is asked a plain statement with every answer that is right, as there are several modes.
    """
    try:
        rows = dfp.sql(query, con=con, schema=schema, **TERMS).fetchall()
    except dfp.DPError as error:
        return f"refused: {error.args[0]}"
    expected = con.execute(plain or query).fetchall()
    for row in rows:
        if not any(all(map(is_close, row, other)) for other in expected):
            return f"wrong: {row}, not {expected[:3]}"
    return "answered"


def outcomes(number: int) -> Iterator[tuple[str, str, str]]:
    """Yield where a statement stands, its text, and what becomes of it."""
    shop = importlib.import_module("tests.statements.shop")
    con = shop.shop()
    for query in WRITTEN.read_text(encoding="utf-8").split(";\n")[:-1]:
        yield "written", query, judge(query, con, shop.SCHEMA)
    sources = make_trade(), make_flights()
    for seed in range(number):
        tables = sources[seed % 2]
        query, rewrite = generate(tables, seed)
        outcome = judge(query, tables.con, tables.schema, rewrite or "")
        if rewrite is not None and outcome.startswith("refused"):
            works = judge(rewrite, tables.con, tables.schema)
            outcome = "refused, rewritten" if works == "answered" else f"refused: rewrite {works}"
        yield "generated", query, outcome


def main() -> None:
    """Print a table of outcomes, and with --show what was refused or wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--generated", type=int, default=1000)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for origin, query, outcome in outcomes(options.generated):
        counts[origin, outcome.partition(":")[0]] += 1
        if options.show and outcome.startswith(("refused:", "wrong")):
            print(f"{outcome[:200]}\n    {query}")
    print("| statements | outcome | number |\n|---|---|---|")
    for (origin, outcome), number in sorted(counts.items()):
        print(f"| {origin} | {outcome} | {number} |")


if __name__ == "__main__":
    main()
