"""The 22 queries of TPC-H with the customer as the unit: which are answered, how fast, how well.

    pip install tpchgen-cli
    python -m benchmarks.tpch --scale 0.1 --queries 4,6,14

The texts (tpch.sql) are those of the specification with the parameters of its validation run. Each
is answered as it stands; is about public tables alone; or is refused with a reason. Times are those
of the processor in one run, over that of the plain text on the same connection; errors are medians
over the cells that are answered, relative to them.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

import dfprivacy as dfp

TEXTS = Path(__file__).with_name("tpch.sql").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"^-- (Q\d+)\n(.*?)(?=\n+-- Q|\s*\Z)", TEXTS, re.DOTALL | re.MULTILINE))
SCHEMA = dfp.Schema(
    unit="customer.c_custkey",
    links={"orders.o_custkey": "customer.c_custkey", "lineitem.l_orderkey": "orders.o_orderkey"},
    public=["nation", "region", "supplier", "part", "partsupp"],
)
TERMS: Mapping[str, Any] = {"epsilon": 1, "delta": 1e-6}
LIMITS = {
    "Q1": (30, 4), "Q4": (3, 3), "Q5": (5, 1), "Q6": (5, 1), "Q7": (3, 2), "Q8": (2, 1),
    "Q9": (2, 5), "Q12": (3, 2), "Q13": (1, 1), "Q14": (3, 1), "Q15": (1, 3), "Q19": (1, 1),
    "Q21": (1, 1), "Q22": (1, 1),
}  # fmt: skip
"""How many rows of a customer count in a group, and in how many groups: public guesses."""
_PRICE = "l_extendedprice * (1 - l_discount)"
KEYS = {"Q1": 2, "Q4": 1, "Q5": 1, "Q7": 3, "Q8": 1, "Q9": 2, "Q12": 1, "Q13": 1, "Q15": 4,
        "Q21": 1, "Q22": 1}  # fmt: skip
"""How many of the first columns of a result are its keys."""
BOUNDED = {
    "Q1": {
        "sum(l_quantity)": "dp_sum(l_quantity, 0, 50)",
        "sum(l_extendedprice)": "dp_sum(l_extendedprice, 0, 105000)",
        f"sum({_PRICE})": f"dp_sum({_PRICE}, 0, 105000)",
        f"sum({_PRICE} * (1 + l_tax))": f"dp_sum({_PRICE} * (1 + l_tax), 0, 113400)",
        "avg(l_quantity)": "dp_mean(l_quantity, 0, 50)",
        "avg(l_extendedprice)": "dp_mean(l_extendedprice, 0, 105000)",
        "avg(l_discount)": "dp_mean(l_discount, 0, 0.1)",
    },
    "Q5": {f"sum({_PRICE})": f"dp_sum({_PRICE}, 0, 105000)"},
    "Q6": {"sum(l_extendedprice * l_discount)": "dp_sum(l_extendedprice * l_discount, 0, 10500)"},
    "Q14": {
        "100.00 * sum(": "100.00 * dp_sum(",
        "ELSE 0 END)": "ELSE 0 END, 0, 105000)",
        f"/ sum({_PRICE})": f"/ dp_sum({_PRICE}, 0, 105000)",
    },
    "Q19": {f"sum({_PRICE})": f"dp_sum({_PRICE}, 0, 105000)"},
}
"""Bounds that a statement names, those of TPC-H's own definition."""
_ORDERED = "o_custkey FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE"
BY_HAND = {
    "Q1": f"""
        SELECT flag, status, sum(least(a, 5e4)), sum(least(b, 1e8)), sum(least(c, 1e8)),
            sum(least(d, 1e8)), sum(e), sum(n)
        FROM (
            SELECT l_returnflag AS flag, l_linestatus AS status, sum(l_quantity) AS a,
                sum(l_extendedprice) AS b, sum({_PRICE}) AS c,
                sum({_PRICE} * (1 + l_tax)) AS d, sum(l_discount) AS e, count(*) AS n,
                {_ORDERED} l_shipdate <= DATE '1998-09-02' GROUP BY ALL
        ) GROUP BY ALL""",
    "Q5": QUERIES["Q5"].replace("SELECT n_name", "SELECT n_name, c_custkey")
    .replace("GROUP BY n_name", "GROUP BY n_name, c_custkey").replace("ORDER BY revenue DESC", ""),
    "Q6": f"""
        SELECT sum(least(a, 5e4)) FROM (
            SELECT sum(l_extendedprice * l_discount) AS a, {_ORDERED}
                l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
                AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24 GROUP BY ALL
        )""",
}  # fmt: skip
"""Statements without noise: each customer's totals, clipped and added up."""
BY_HAND["Q5"] = f"SELECT n_name, sum(least(revenue, 1e6)) FROM ({BY_HAND['Q5']}) GROUP BY n_name"
PUBLISHED = (5e4, 1.05e8, 1.05e8, 1.134e8)
"""Bounds of a customer's totals in the four sums of Q1, for CWI's privacy extension."""
COLUMNS = """
    customer: c_custkey BIGINT, c_name VARCHAR, c_address VARCHAR, c_nationkey BIGINT,
        c_phone VARCHAR, c_acctbal DECIMAL(15, 2), c_mktsegment VARCHAR, c_comment VARCHAR;
    orders: o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR,
        o_totalprice DECIMAL(15, 2), o_orderdate DATE, o_orderpriority VARCHAR, o_clerk VARCHAR,
        o_shippriority INTEGER, o_comment VARCHAR;
    lineitem: l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INTEGER,
        l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2),
        l_tax DECIMAL(15, 2), l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE,
        l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR, l_shipmode VARCHAR,
        l_comment VARCHAR;
    nation: n_nationkey BIGINT, n_name VARCHAR, n_regionkey BIGINT, n_comment VARCHAR;
    region: r_regionkey BIGINT, r_name VARCHAR, r_comment VARCHAR;
    supplier: s_suppkey BIGINT, s_name VARCHAR, s_address VARCHAR, s_nationkey BIGINT,
        s_phone VARCHAR, s_acctbal DECIMAL(15, 2), s_comment VARCHAR;
    part: p_partkey BIGINT, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR,
        p_size INTEGER, p_container VARCHAR, p_retailprice DECIMAL(15, 2), p_comment VARCHAR;
    partsupp: ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INTEGER,
        ps_supplycost DECIMAL(15, 2), ps_comment VARCHAR
"""


def tables(folder: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection with the eight tables: those of a folder's files, else without rows."""
    con = duckdb.connect()
    for line in COLUMNS.split(";"):
        name, columns = line.strip().split(":", 1)
        rows = "" if folder is None else f"INSERT INTO {name} FROM '{folder / name}.parquet'"
        con.execute(f"CREATE TABLE {name} ({columns}); {rows}")
    return con


def found_out(con: duckdb.DuckDBPyConnection, name: str) -> tuple[str, str]:
    """Return the fate of a query, "answered", "public" or "refused", and its reason."""
    try:
        plan = dfp.explain(QUERIES[name], con=con, **build_terms(name))
    except dfp.RefusedStatementError as error:
        return "refused", error.message
    if plan.epsilon == 0:
        return "public", "no one to protect: exact and free"
    return "answered", "as it stands"


def build_terms(name: str) -> dict[str, Any]:
    """Return the terms under which a query is asked."""
    rows, groups = LIMITS.get(name, (5, 2))
    return {**TERMS, "schema": SCHEMA, "max_rows": rows, "max_groups": groups}


def time_run(work: Any) -> tuple[float, list[tuple[Any, ...]], list[str]]:
    """Return the processor seconds of a query, its rows and the names of its columns."""
    start = time.process_time()
    relation = work()
    rows = relation.fetchall()
    return time.process_time() - start, rows, relation.columns


def find_error(private: list[Any], exact: list[Any], keys: int) -> tuple[float, int, int]:
    """Return the median relative error of cells, and how many of how many are answered.

    Rows go together by their first columns: so many are keys.
    """
    cells = {(key, index): value for key, index, value in _cells(exact, keys)}
    answers = {(key, index): value for key, index, value in _cells(private, keys)}
    errors = [
        abs(answers[cell] - value) / abs(value)
        for cell, value in cells.items()
        if value and cell in answers and answers[cell] == answers[cell]
    ]
    return (statistics.median(errors) if errors else float("nan")), len(errors), len(cells)


def _cells(rows: list[Any], keys: int) -> list[tuple[Any, int, float]]:
    """Return the measures of rows, each with its row's key and its column."""
    return [
        (tuple(map(str, row[:keys])), index, float(value))
        for row in rows
        for index, value in enumerate(row)
        if index >= keys and value is not None
    ]


def best(work: Any, times: int = 3) -> float:
    """Return the least seconds of several runs."""
    return min(time_run(work)[0] for _ in range(times))


def find_line(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Return the line of a query: what becomes of it, its times over the plain one, its error."""
    outcome, why = found_out(con, name)
    text, terms = QUERIES[name], build_terms(name)
    _, exact, _ = time_run(lambda: con.sql(text))
    plain = best(lambda: con.sql(text))
    cells = [name, outcome, f"{plain:.3f}"]
    if outcome != "answered":
        return " | ".join([*cells, "", "", "", "", why])
    _, private, _ = time_run(lambda: dfp.sql(text, con=con, **terms))
    cells.append(f"{best(lambda: dfp.sql(text, con=con, **terms)) / plain:.1f}")
    bounded = ""
    if name in BOUNDED:
        statement = text
        for was, now in BOUNDED[name].items():
            statement = statement.replace(was, now)
        _, private, _ = time_run(lambda: dfp.sql(statement, con=con, **terms))
        bounded = f"{best(lambda: dfp.sql(statement, con=con, **terms)) / plain:.1f}"
    hand = f"{best(lambda: con.sql(BY_HAND[name])) / plain:.1f}" if name in BY_HAND else ""
    error, answered, of = find_error(private, exact, KEYS.get(name, 0))
    return " | ".join([*cells, bounded, hand, f"{error:.2g}", f"{answered} of {of}; {why}"])


def compare_with_published(con: duckdb.DuckDBPyConnection, times: int = 5) -> str:
    """Return the errors of the four sums of Q1 beside totals clipped to published bounds.

    There each of the eight measures has an eighth of epsilon, as it has here, in four groups, and
    Laplace noise of the median size; nothing is clipped by bounds so wide. Ours are medians of
    several releases, cell by cell.
    """
    statement, terms = QUERIES["Q1"], build_terms("Q1")
    for was, now in BOUNDED["Q1"].items():
        statement = statement.replace(was, now)
    exact = {row[:2]: row[2:6] for row in con.sql(QUERIES["Q1"]).fetchall()}
    cells = [(key, index) for key in exact for index in range(4)]
    theirs = [
        math.log(2) * PUBLISHED[index] * 4 * 8 / float(exact[key][index]) for key, index in cells
    ]
    text = f"Sums of Q1, median error of 16 cells: {statistics.median(theirs):.2g} with totals "
    text += "clipped to published bounds and Laplace noise"
    for name, rows in (("max_rows=30", 30), ("limits found in the release", None)):
        releases = []
        for _ in range(times):
            answers = dfp.sql(statement, con=con, **{**terms, "max_rows": rows}).fetchall()
            releases.append({row[:2]: row[2:6] for row in answers})
        ours = [
            statistics.median(
                abs(release[key][index] / float(exact[key][index]) - 1)
                if key in release
                else math.inf
                for release in releases
            )
            for key, index in cells
        ]
        worse = sum(
            our_error > their_error for our_error, their_error in zip(ours, theirs, strict=True)
        )
        text += f"; {statistics.median(ours):.2g} with {name} (worse in {worse} cells)"
    return f"{text}.\n"


HEAD = """
| query | outcome | plain, s | as it stands | with bounds | by hand | error | cells; reason |
|:--|:--|---:|---:|---:|---:|---:|:--|
"""


def main() -> None:
    """Print one line a query, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--queries", default="")
    parser.add_argument("--data", type=Path, help="a folder with the tables as Parquet files")
    parser.add_argument("--output", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    chosen = [f"Q{number}" for number in options.queries.split(",") if number] or list(QUERIES)
    unknown = [name for name in chosen if name not in QUERIES]
    if unknown:
        raise SystemExit(f"TPC-H has no {', '.join(unknown)}: write numbers, --queries 1,6,14")
    with tempfile.TemporaryDirectory() as folder:
        con = tables(_complete(options.data or _generate_data(Path(folder), options.scale)))
    page = f"Scale {options.scale:g}, epsilon 1, delta 1e-6; {os.cpu_count()} cores, DuckDB "
    page += (
        f"{duckdb.__version__}. Processor times over the plain query of the same run: the official "
    )
    page += "text (bounds are found), the text with the bounds of TPC-H, and each customer's "
    page += "totals clipped by hand without noise. Errors are those with bounds where there are "
    page += "some.\n" + HEAD
    print(page, end="")
    for name in chosen:
        line = f"| {find_line(con, name)} |\n"
        print(line, end="", flush=True)
        page += line
    if "Q1" in chosen:
        line = compare_with_published(con)
        print(line, end="")
        page += f"\n{line}"
    if options.output:
        page += f"\nLoad average at the end {os.getloadavg()[0]:.1f}.\n"
        options.output.write_text(page, encoding="utf-8")


def _generate_data(folder: Path, scale: float) -> Path:
    """Make the data, or end with one sentence that says what is missing."""
    scripts = Path(sys.executable).parent  # of an environment that is not activated, too
    program = shutil.which("tpchgen-cli") or shutil.which("tpchgen-cli", path=str(scripts))
    if program is None:
        raise SystemExit("the data are made by tpchgen-cli: pip install tpchgen-cli")
    command = [program, "parquet", "-s", f"{scale:g}", f"--output-dir={folder}"]
    completed = subprocess.run(command, check=False, capture_output=True, text=True)
    if completed.returncode:
        raise SystemExit(
            f"tpchgen-cli ended with an error: {completed.stderr.strip() or completed.stdout}"
        )
    return folder


def _complete(folder: Path) -> Path:
    """Return a folder that has the files of all tables, or end with a sentence."""
    names = [line.strip().split(":", 1)[0] for line in COLUMNS.split(";")]
    missing = [f"{name}.parquet" for name in names if not (folder / f"{name}.parquet").is_file()]
    if missing:
        raise SystemExit(f"the folder {folder} has no {', '.join(missing)}")
    return folder


if __name__ == "__main__":
    main()
