"""Neighboring tables, and releases of every statistic at every entry point, for the replay."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet

import dfprivacy as dfp
import sql_udfs
from benchmarks.replay import Release
from benchmarks.replay_questions import (
    ALL_KEYS,
    ALL_UNITS,
    BOUNDS,
    LIMITS,
    LISTED,
    QUESTIONS,
    write_call,
)
from dfprivacy.cli import main

DELTA = 1e-10
"""A group of a single unit is shown with at most this probability, which fails the law falsely."""
SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "x": pa.float64(),
        "y": pa.float64(),
        "i": pa.int64(),
        "u": pa.int64(),
        "h": pa.int64(),
    }
)
Row = dict[str, Any]

# Neighboring tables


def ordinary_row(unit: int, shape: str, generator: random.Random) -> Row:
    """Return a row without anything special."""
    x = {
        "spread": generator.uniform(-40, 80),
        "far": 7000 + generator.gauss(0, 2),
        "zeros": generator.choice([0.0] * 9 + [generator.uniform(0, 50)]),
        "tails": math.copysign(math.exp(generator.gauss(0, 6)), generator.random() - 0.4),
    }[shape]
    key = generator.choice(["a", "a", "a", "b", "c"])
    return {"k": key, "x": x, "y": x / 3 + generator.gauss(0, 9), "i": round(x) % 2**40, "u": unit,
            "h": round(x) % 3}  # fmt: skip


CHANGES: Mapping[str, Row] = {
    "ordinary": {},
    "missing": {"x": None, "y": None, "i": None},
    "not a number": {"x": math.nan, "y": math.nan},
    "infinite": {"x": math.inf, "y": -math.inf, "i": 2**63 - 1},
    "minus infinity": {"x": -math.inf, "y": 1.0, "i": -(2**63)},
    "huge": {"x": 1e300, "y": -1e308, "i": 2**53 + 1},
    "tiny": {"x": 5e-324, "y": -5e-324, "i": 0},
    "minus zero": {"x": -0.0, "y": -0.0, "i": 0},
    "at the bounds": {"x": BOUNDS[1], "y": BOUNDS[0], "i": 60},
    "outlier": {"x": 9e5, "y": 9e5, "i": 9 * 10**5},
    "missing unit": {"u": None, "x": 3.0},
    "missing key": {"k": None, "h": None},
    "new key": {"k": "zz", "h": 77},
    "lone row": {"k": "a"},
}
"""Special values of the rows that only one of two neighboring tables has."""

HOSTILE = [change for name, change in CHANGES.items() if "key" not in name]


ALONE = "zzz"
"""How keys begin of groups whose only unit one of the tables lacks."""

GROUPS: Mapping[str, Mapping[str, int]] = {
    "only unit": {"a": 90, "b": 40, "c": 3},
    "at the threshold": {f"t{n}": n for n in (1, 2, 3, 4, 5, *range(8, 80, 3))},
    "many groups": {f"m{n}": 2**n for n in range(7)},
    "no rows": {},
    "one row": {"a": 1},
}
"""Units in the groups of secret keys that all units of both tables make."""


@cache
def hidden_neighbors(
    groups: str, shape: str, change: str, *, units: bool, seed: int
) -> tuple[pa.Table, pa.Table]:
    """Return two tables with groups that a threshold may hide; the first one has a unit more."""
    generator = random.Random(f"{groups} {shape} {change} {units} {seed}")
    per_unit = generator.choice([1, 3]) if units and groups != "one row" else 1
    keys = [key for key, size in GROUPS[groups].items() for _ in range(size * per_unit)]
    rows = [
        ordinary_row(number // per_unit, shape, generator) | {"k": key, "h": 0}
        for number, key in enumerate(keys)
    ]
    for row in rows[:: generator.choice([7, 23])]:
        row.update(generator.choice(HOSTILE))
    alone = [ALONE, f"{ALONE} 2", f"{ALONE} 3"] if units else [ALONE]
    keys = {
        "at the threshold": [key for key, size in GROUPS[groups].items() if size > 8],
        "many groups": [*GROUPS[groups], *alone],
        "one row": ["a", *alone],
    }.get(groups, alone)
    generator.shuffle(keys)
    copies = len(keys) if groups == "many groups" else generator.choice([1, 3, 7]) if units else 1
    extra = [
        ordinary_row(-1, shape, generator) | {"k": key, "h": 0} | CHANGES[change]
        for key in (keys * copies)[:copies]
    ]
    return mix_tables(rows, extra, generator)


@cache
def neighbors(shape: str, change: str, *, units: bool, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return two tables; the first one has one row more, or all rows of one unit more."""
    generator = random.Random(f"{shape} {change} {units} {seed}")
    size = generator.choice([15, 60, 400, 400])
    per_unit = generator.choice([2, 5]) if units else 1
    rows = [ordinary_row(i // per_unit, shape, generator) for i in range(size)]
    for index, (row, key) in enumerate(zip(rows, "abc" * 3, strict=False)):
        row["k"], row["h"] = key, index // 3  # only changed rows make groups of their own
    for row in rows[:: generator.choice([7, 23])]:
        row.update(generator.choice(HOSTILE))
    if change == "lone row":
        rows = []
    extra = []
    for copy in range(generator.choice([1, 3, 7]) if units else 1):
        row = ordinary_row(-1, shape, generator) | CHANGES[change]
        if change == "new key" and copy % 2:
            row["k"] = "a"
        extra.append(row)
    if not rows and generator.random() < 0.5:
        extra[0]["x"] = generator.choice([math.nan, None, math.inf])
    return mix_tables(rows, extra, generator)


def mix_tables(
    rows: list[Row], extra: list[Row], generator: random.Random
) -> tuple[pa.Table, pa.Table]:
    """Return a table of all rows in an order of chance, and one without the extra ones."""
    mixed = [(generator.random(), row) for row in rows] + [(generator.random(), r) for r in extra]
    mixed.sort(key=lambda pair: pair[0])
    larger = [row for _, row in mixed]
    smaller = [row for row in larger if not any(row is other for other in extra)]
    return tuple(pa.Table.from_pylist(records, SCHEMA) for records in (larger, smaller))  # type: ignore[return-value]


# Sources


class Places:
    """Folder and connections of the sources."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._numbers, self._epsilon = folder, itertools.count(), 0.0
        self.connection = duckdb.connect(config={"threads": 1})

    def path(self, ending: str) -> Path:
        """Return a new path."""
        return self.folder / f"{next(self._numbers)}.{ending}"

    def register(self, epsilon: float) -> None:
        """Register the functions for this epsilon."""
        if epsilon != self._epsilon:
            sql_udfs.register(self.connection, epsilon=epsilon)
            self._epsilon = epsilon

    def relation(self, table: pa.Table) -> duckdb.DuckDBPyRelation:
        """Return a stored table of DuckDB."""
        self.connection.register("rows", table)
        sorted_rows = "SELECT * FROM rows ORDER BY k NULLS LAST"  # groups are drawn in this order
        self.connection.execute(f"CREATE OR REPLACE TABLE t AS {sorted_rows}")
        return self.connection.table("t")

    def parquet(self, table: pa.Table) -> Path:
        """Return a Parquet file of a few row groups."""
        path = self.path("parquet")
        pyarrow.parquet.write_table(table, path, row_group_size=max(7, len(table) // 3))
        return path

    def rewritten(self, source: str, table: pa.Table) -> Path:
        """Return a file at the same path as before, which messages may name."""
        return SOURCES[source](self, table).replace(self.folder / f"rows.{source}")

    def csv(self, table: pa.Table) -> Path:
        """Return a CSV file."""
        path = self.path("csv")
        pl.DataFrame(table).write_csv(path)
        return path


SOURCES: Mapping[str, Callable[[Places, pa.Table], Any]] = {
    "polars": lambda _, table: pl.DataFrame(table),
    "lazy": lambda _, table: pl.DataFrame(table).lazy(),
    "pandas": lambda _, table: table.to_pandas().astype({"i": float, "h": float}),
    "pandas nullable": lambda _, table: table.to_pandas(types_mapper=_nullable),
    "arrow": lambda _, table: table,
    "batches": lambda _, table: table.to_reader(max_chunksize=5),
    "some empty batches": lambda _, table: reader_with_empty_batches(table),
    "duckdb": Places.relation,
    "parquet": Places.parquet,
    "csv": Places.csv,
}


def reader_with_empty_batches(table: pa.Table) -> pa.RecordBatchReader:
    """Return a reader whose first, second last and last batches have no rows."""
    batches, none = table.to_batches(max_chunksize=7), table.slice(0, 0).to_batches()
    empty = none or [pa.RecordBatch.from_pylist([], table.schema)]
    ordered = [*empty, *batches[:-1], *empty, *batches[-1:], *empty]
    return pa.RecordBatchReader.from_batches(table.schema, ordered)


def _nullable(kind: pa.DataType) -> Any:
    import pandas as pd  # noqa: PLC0415

    return {pa.int64(): pd.Int64Dtype(), pa.string(): pd.StringDtype()}.get(kind)


# Entry points


@dataclass(frozen=True)
class Case:
    """One pair of neighboring releases."""

    question: str
    entry: str
    source: str
    unit: str
    keys: str
    loss: str
    shape: str
    change: str
    seed: int = 1
    groups: str = "mixed"

    @property
    def statistic(self) -> str:
        """The statistic of the question."""
        return QUESTIONS[self.question].statistic

    @property
    def measure(self) -> str:
        """The kind of privacy loss."""
        return self.loss.split()[0]

    @property
    def lost_groups(self) -> bool:
        """Return whether the smaller table may lack a secret group."""
        lost = self.change in {"new key", "missing key", "lone row"}
        return self.keys == "secret" and (lost or self.unit != "rows" or self.groups != "mixed")

    @property
    def stated(self) -> dfp.Budget | None:
        """The charge of functions on a connection, where no ledger is in use."""
        if self.entry != "functions":
            return None
        calls = len(QUESTIONS[self.question].statistics) + (self.keys == "secret")
        return dfp.Budget(epsilon=calls * float(self.loss.split()[1]))

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that the question is grouped by."""
        return () if self.keys == "whole" or QUESTIONS[self.question].lacks_groups else ("k",)

    def releases(self, places: Places) -> tuple[Release, Release]:
        """Return the releases of both tables, that with more rows first."""
        choices = {"units": self.unit != "rows", "seed": self.seed}
        if self.groups == "mixed":
            tables = neighbors(self.shape, self.change, **choices)
        else:
            tables = hidden_neighbors(self.groups, self.shape, self.change, **choices)
        if self.question == "mean_vector of sets":
            tables = (with_sets(tables[0]), with_sets(tables[1]))
        larger, other = (self._release(places, table) for table in tables)
        return larger, other

    def _release(self, places: Places, table: pa.Table) -> Release:
        return lambda ledger, dataset: ENTRIES[self.entry](self, places, table, ledger, dataset)

    def terms(self) -> dict[str, Any]:
        """Return loss and delta as arguments."""
        measure, amount = self.loss.split()
        delta = {"delta": DELTA} if self.keys == "secret" else {}
        if self.question == "suggest_limits":
            delta = {}
        return {measure: float(amount), **delta}


def with_sets(table: pa.Table) -> pa.Table:
    """Return a table with a column of sets, which follow from the other values of a row."""
    sets = [
        None if row["x"] is None else sorted({abs(row["i"]) % 3, row["h"] or 0})
        for row in table.to_pylist()
    ]
    return table.append_column("s", pa.array(sets, pa.list_(pa.int64())))


def ask_frame(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release through methods of a frame."""
    frame, question = SOURCES[case.source](places, table), QUESTIONS[case.question]
    account = {"ledger": ledger, "dataset": dataset}
    if case.question == "suggest_limits":
        return ask_limits(frame, case, **account)
    private = dfp.frame(frame)(**account, **UNITS[case.unit], **case.terms())
    if case.by:
        private = private.group_by(*case.by, keys=KEYS[case.keys])
    if question.ask is not None:
        public = case.keys == "public" and question.public_keys is not None
        return question.ask(private, **({"keys": question.public_keys} if public else {}))
    return private.agg(*question.statistics)


def ask_limits(frame: Any, case: Case, **account: Any) -> Any:
    """Release limits of units, for a question where there are groups."""
    question = dfp.count() if case.keys == "whole" else dfp.mean("x", BOUNDS)
    by = () if case.keys == "whole" else "k"
    return dfp.suggest_limits(frame, unit="u", by=by, question=question, **case.terms(), **account)


def ask_files(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release merged files of exact statistics, of each half of the table."""
    paths = []
    halves = [table] if case.unit != "rows" else [table.slice(0, 9), table.slice(9)]
    by = () if case.keys == "whole" else "k"
    for half in halves:
        paths.append(places.path("statistics"))
        frame = SOURCES[case.source](places, half)
        statistics = QUESTIONS[case.question].statistics
        dfp.statistics(
            frame, paths[-1], *statistics, by=by, keys=KEYS[case.keys], **UNITS[case.unit]
        )
    return dfp.merge(paths, ledger=ledger, dataset=dataset, **case.terms())


def write_statement(case: Case, keep: str = "") -> str:
    """Return the statement of a case."""
    statistics = QUESTIONS[case.question].statistics
    calls = [f"{write_call(statistic)} AS a{index}" for index, statistic in enumerate(statistics)]
    if case.keys == "whole":
        return f"SELECT {', '.join(calls)} FROM t"
    return f"SELECT k, {', '.join(calls)} FROM t GROUP BY k {keep} ORDER BY k"


def ask_sql(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release a statement."""
    frame = SOURCES[case.source](places, table)
    account = {"ledger": ledger, "dataset": dataset}
    return dfp.sql(write_statement(case), t=frame, **statement_terms(case), **account)


JOINED = """FROM (SELECT t.* FROM t JOIN owners USING (u) QUALIFY
    row_number() OVER (PARTITION BY u ORDER BY x) <= 1000) AS joined"""


def ask_joined(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release a statement that joins rows with a table of their owners, and numbers them."""
    owners = pa.table({"u": table["u"].unique()})
    terms = statement_terms(case) | {"ledger": ledger, "dataset": dataset}
    schema = dfp.Schema(unit=f"owners.{terms.pop('unit')}", links={"t.u": "owners.u"})
    statement = write_statement(case).replace("FROM t", JOINED)
    frame = SOURCES[case.source](places, table)
    return dfp.sql(statement, t=frame, owners=owners, schema=schema, **terms)


def ask_connection(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release a statement through a connection of PEP 249."""
    frame = SOURCES[case.source](places, table)
    terms = {"ledger": ledger, "dataset": dataset} | statement_terms(case)
    with dfp.connect({"t": frame}, **terms) as connection:
        cursor = connection.cursor()
        cursor.execute(write_statement(case))
        return [str(column) for column in cursor.description], cursor.fetchall()


def statement_terms(case: Case) -> dict[str, Any]:
    """Return the terms of a statement."""
    terms = case.terms() | UNITS[case.unit]
    return terms if KEYS[case.keys] is None else terms | {"keys": KEYS[case.keys]}


def ask_functions(case: Case, places: Places, table: pa.Table, _: Any, __: str) -> Any:
    """Release through the functions on a connection, where groups of secret keys are filtered."""
    places.relation(table)
    places.register(float(case.loss.split()[1]))
    statement = write_statement(case, f"HAVING dp_keep({DELTA})" if case.keys == "secret" else "")
    return places.connection.sql(statement).to_arrow_table()


def ask_command(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release through the command line; the answer is the file that it writes, and its text."""
    file, output = places.rewritten(case.source, table), places.folder / "answer.json"
    kind, *words = QUESTIONS[case.question].words
    words += [word for column in case.by for word in ("--by", column)]
    words += [word for key in KEYS[case.keys] or () for word in ("--keys", key)]
    for name, value in (UNITS[case.unit] | case.terms()).items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--ledger", str(ledger.path), "--dataset", dataset, "--output", str(output)]
    code, *printed = run_command(kind, str(file), *words)
    return code, [text.replace(dataset, "dataset") for text in printed], contents(output)


def ask_job(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release what a file of releases describes."""
    file, output = places.rewritten(case.source, table), places.folder / "answer.csv"
    budget = {"ledger": str(ledger.path), "dataset": dataset, "version": "1"}
    release = {
        "source": {"file": str(file)},
        "bounds": {name: list(bounds) for name, bounds in LIMITS.items()},
        "questions": {"answer": QUESTIONS[case.question].fields},
        "outputs": str(output),
        "budget": budget | case.terms(),
    }
    if QUESTIONS[case.question].statistics or case.question == "histogram":
        del release["bounds"]
    if UNITS[case.unit]:
        names = {"unit": "column"}
        release["unit"] = {names.get(name, name): value for name, value in UNITS[case.unit].items()}
    if case.by:
        release["by"] = list(case.by)
    if case.keys == "public":
        release["keys"] = LISTED
    description = places.folder / "releases.yml"
    description.write_text(json.dumps({"releases": {"one": release}}), encoding="utf-8")
    code = run_command("run", str(description))[0]
    contents(Path(f"{output}.provenance.json"))  # when it ran stands in it, and its number
    return code, contents(output)


def run_command(*words: str) -> tuple[object, str, str]:
    """Run the command line in this process: its exit code and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    arguments, sys.argv = sys.argv, ["dfprivacy", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        return end.code, out.getvalue(), err.getvalue()
    finally:
        sys.argv = arguments
    return 0, out.getvalue(), err.getvalue()


def contents(path: Path) -> str | None:
    """Return the text of a file, which is removed; None where there is none."""
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8")
    path.unlink()
    return text


Entry = Callable[[Case, Places, pa.Table, Any, str], Any]
ENTRIES: Mapping[str, Entry] = {
    "frame": ask_frame, "sql": ask_sql, "files": ask_files, "functions": ask_functions,
    "connect": ask_connection, "joined": ask_joined, "command": ask_command, "job": ask_job,
}  # fmt: skip
UNITS: Mapping[str, dict[str, Any]] = {
    "rows": {},
    "max_rows": {"unit": "u", "max_rows": 2},
    "max_groups": {"unit": "u", "max_rows": 2, "max_groups": 2},
    "found": {"unit": "u"},
    "found groups": {"unit": "u", "max_rows": 2},
    "found rows": {"unit": "u", "max_groups": 2},
}
KEYS = {"whole": None, "public": LISTED, "secret": None}
LOSSES = ("epsilon 1", "epsilon 30", "rho 0.5", "rho 40")
STATEMENTS = {"sql", "functions", "connect", "joined"}
COMMANDS = {"command", "job"}

DIMENSIONS: Mapping[str, Sequence[str]] = {
    "question": tuple(QUESTIONS), "entry": tuple(ENTRIES),
    "source": tuple(name for name in SOURCES if "empty" not in name),
    "unit": ALL_UNITS, "keys": ALL_KEYS, "loss": LOSSES,
    "shape": ("spread", "far", "zeros", "tails"), "change": tuple(CHANGES),
}  # fmt: skip
HIDDEN: Mapping[str, Sequence[str]] = DIMENSIONS | {
    "question": tuple(name for name, question in QUESTIONS.items() if "secret" in question.keys),
    "source": tuple(SOURCES), "unit": ("rows", "max_groups", "found", "found groups", "found rows"),
    "keys": ("secret",), "groups": tuple(GROUPS),
    "change": tuple(name for name in CHANGES if name not in {"new key", "lone row"}),
}  # fmt: skip
"""Dimensions of tables with groups that a threshold may hide."""

WIDE = {"source", "change"}
"""Dimensions of many values, which are paired with statistics instead of all their questions."""
HIDDEN_WIDE = WIDE | {"entry", "loss", "shape", "groups", "unit"}


def is_possible(values: Mapping[str, str]) -> bool:
    """Return whether some dimensions of a case go together."""
    entry, source, keys = (values.get(name) for name in ("entry", "source", "keys"))
    if not is_answerable(values):
        return False
    if entry in STATEMENTS and values.get("loss", "").startswith("rho"):
        return False
    has_rows = entry == "functions" or values.get("unit") == "rows"
    if has_rows and values.get("groups") == "many groups":
        return False
    if entry == "functions":
        return (
            values.get("unit", "rows") == "rows" and source in {"duckdb", None} and keys != "public"
        )
    if entry == "connect" and "batches" in str(source):
        return False
    if entry == "joined" and (values.get("unit") == "rows" or source in {"csv", "pandas"}):
        return False
    if entry in COMMANDS and source not in {"csv", "parquet", None}:
        return False
    if entry == "files" and values.get("unit", "").startswith("found"):
        return False
    if values.get("unit") == "max_rows" and keys not in {"whole", None}:
        return False
    if values.get("unit") == "max_groups" and keys == "whole":
        return False
    return not (source == "csv" and "lone row" in values.values())


def is_answerable(values: Mapping[str, str]) -> bool:
    """Return whether a question goes with the other dimensions."""
    if "question" not in values:
        return True
    question, entry = QUESTIONS[values["question"]], values.get("entry")
    if entry == "functions" and any(
        statistic.finds_bounds and len(statistic.columns) > 1 for statistic in question.statistics
    ):
        return False
    allowed = {"keys": question.keys, "unit": question.units, "measure": question.measures}
    named = dict(values)
    if "unit" in values:
        named["unit"] = values["unit"].removesuffix(" groups").removesuffix(" rows")
    if "loss" in values:
        named["measure"] = values["loss"].split()[0]
    if any(named.get(name, choices[0]) not in choices for name, choices in allowed.items()):
        return False
    if values.get("source", "").removeprefix("some empty ") in question.other_sources:
        return False
    if question.statistic == "suggest_limits" and entry not in {"frame", None}:
        return False
    if entry in STATEMENTS:
        return bool(question.statistics) and None not in map(write_call, question.statistics)
    if entry == "files":
        return bool(question.statistics) and all(
            statistic.adds_up and not (statistic.finds_bounds and len(statistic.columns) > 1)
            for statistic in question.statistics
        )
    if entry == "command":
        is_cross_table = question.statistic == "crosstab" and values.get("keys") == "public"
        return bool(question.words) and not is_cross_table
    return entry != "job" or question.fields is not None


def list_pairs(values: Mapping[str, str], wide: set[str]) -> Iterator[frozenset[tuple[str, str]]]:
    """Yield the pairs of values that a case covers."""
    for first, second in itertools.combinations(values.items(), 2):
        if first[0] == "question" and second[0] in wide:
            first = ("statistic", QUESTIONS[first[1]].statistic)  # noqa: PLW2901
        yield frozenset([first, second])


def combinations(
    seed: int, dimensions: Mapping[str, Sequence[str]], wide: set[str]
) -> Iterator[dict[str, str]]:
    """Yield cases that together cover every possible pair of values of two dimensions."""
    generator = random.Random(seed)
    names = list(dimensions)
    starts: dict[frozenset[tuple[str, str]], list[dict[str, str]]] = {}
    for first, second in itertools.combinations(names, 2):
        for a, b in itertools.product(dimensions[first], dimensions[second]):
            if is_possible(start := {first: a, second: b}):
                starts.setdefault(next(list_pairs(start, wide)), []).append(start)
    open_pairs = set(starts)
    for pair in sorted(starts, key=sorted):
        if pair not in open_pairs:
            continue
        for _ in range(_ATTEMPTS):
            case = dict(generator.choice(starts[pair]))
            for name in generator.sample([n for n in names if n not in case], len(names) - 2):
                values = [v for v in dimensions[name] if is_possible(case | {name: v})]
                if not values:
                    break
                generator.shuffle(values)
                case[name] = max(
                    values,
                    key=lambda v: sum(
                        covered_pair in open_pairs
                        for covered_pair in list_pairs(order_rows(case | {name: v}), wide)
                    ),
                )
            if len(case) == len(names):
                open_pairs -= set(list_pairs(order_rows(case), wide))
                yield case
                break
        open_pairs.discard(pair)


_ATTEMPTS = 20
"""Choices of the other dimensions of a pair may contradict each other so often."""


def order_rows(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a case in the order of the dimensions."""
    return {name: values[name] for name in HIDDEN if name in values}


def cases(seed: int = 3) -> Iterator[Case]:
    """Yield the cases of the law."""
    for number, values in enumerate(combinations(seed, DIMENSIONS, WIDE)):
        yield Case(**values, seed=number)
    yield from hidden_cases(seed)


def hidden_cases(seed: int = 3) -> Iterator[Case]:
    """Yield the cases of tables with groups that a threshold may hide."""
    for number, values in enumerate(combinations(seed, HIDDEN, HIDDEN_WIDE)):
        yield Case(**values, seed=number)
