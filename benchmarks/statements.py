"""How long it takes to read and plan a statement, beside DuckDB's own parser.

    python -m benchmarks.statements

Statements are those of tests/statements/allowed_*.py, over the table of tests/statements. Times are
medians over the statements of the fastest of several runs of each, in milliseconds.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable

import duckdb

import dfprivacy as dfp
from dfprivacy.release.terms import Terms
from dfprivacy.statements.catalog import connection_source
from dfprivacy.statements.composing import read
from dfprivacy.statements.plan import plan_script
from dfprivacy.statements.rows import Reader
from dfprivacy.statements.tree import parse

TESTS = "tests.statements"
RUNS = 7


def queries() -> list[str]:
    """Return the statements that the tests allow."""
    cases = importlib.import_module(f"{TESTS}.allowed_statements").ALLOWED
    return [case["query"] for case in cases]


def fastest(work: Callable[[], object]) -> float:
    """Return the milliseconds of the fastest run."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def main() -> None:
    """Print one line a stage."""
    con = importlib.import_module(f"{TESTS}.visits").make_visits()
    parser, source = duckdb.connect(), connection_source(con)
    reader = Reader(source, parser)

    def planned(query: str) -> object:
        terms = Terms(delta=None if "dp_keep" in query else 1e-6)
        return plan_script(read(query, reader), terms, None)[0]

    def explained(query: str) -> object:
        return dfp.explain(query, con=con, delta=None if "dp_keep" in query else 1e-6)

    stages: dict[str, Callable[[str], object]] = {
        "DuckDB's own parser": con.extract_statements,
        "DuckDB's tree, as Python has it": lambda query: parse(query, parser),
        "read, vet and plan": planned,
        "dfp.explain, a fresh engine and a check of all macros included": explained,
    }
    asked = queries()
    print(f"{len(asked)} statements, DuckDB {duckdb.__version__}\n")
    print("| stage | median ms | largest ms |\n|---|---|---|")
    for name, stage in stages.items():
        times = [fastest(lambda q=query, s=stage: s(q)) for query in asked]
        print(f"| {name} | {statistics.median(times):.2f} | {max(times):.2f} |")


if __name__ == "__main__":
    main()
