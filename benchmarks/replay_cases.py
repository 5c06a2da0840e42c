"""Neighboring tables, and releases of every statistic at every entry point, for the replay."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
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
from dfprivacy.statistics import STATISTICS, Statistic

BOUNDS = (-20.0, 60.0)
DELTA = 1e-10
"""A group of a single unit is shown with at most this probability, which fails the law falsely."""
SCHEMA = pa.schema(
    {"k": pa.string(), "x": pa.float64(), "y": pa.float64(), "i": pa.int64(), "u": pa.int64()}
)
Row = dict[str, Any]

# Neighboring tables


def ordinary_row(place: int, shape: str, generator: random.Random) -> Row:
    """Return a row without anything special."""
    x = {
        "spread": generator.uniform(-40, 80),
        "far": 7000 + generator.gauss(0, 2),
        "zeros": generator.choice([0.0] * 9 + [generator.uniform(0, 50)]),
        "tails": math.copysign(math.exp(generator.gauss(0, 6)), generator.random() - 0.4),
    }[shape]
    key = generator.choice(["a", "a", "a", "b", "c"])
    return {"k": key, "x": x, "y": x / 3 + generator.gauss(0, 9), "i": round(x) % 2**40, "u": place}


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
    "missing key": {"k": None},
    "new key": {"k": "zz"},
    "lone row": {"k": "a"},
}
"""What is special about the rows that only one of two neighboring tables has."""

HOSTILE = [change for name, change in CHANGES.items() if "key" not in name]


@cache
def neighbors(shape: str, change: str, *, units: bool, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return two tables; the first one has one row more, or all rows of one unit more."""
    generator = random.Random(f"{shape} {change} {units} {seed}")
    size = generator.choice([15, 60, 400, 400])
    per_unit = generator.choice([2, 5]) if units else 1
    rows = [ordinary_row(i // per_unit, shape, generator) for i in range(size)]
    for row, key in zip(rows, "abc", strict=False):
        row["k"] = key  # only changed rows make groups of their own
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
    mixed = [(generator.random(), row) for row in rows] + [(generator.random(), r) for r in extra]
    mixed.sort(key=lambda pair: pair[0])
    larger = [row for _, row in mixed]
    smaller = [row for row in larger if not any(row is other for other in extra)]
    return tuple(pa.Table.from_pylist(own, SCHEMA) for own in (larger, smaller))  # type: ignore[return-value]


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

    def csv(self, table: pa.Table) -> Path:
        """Return a CSV file."""
        path = self.path("csv")
        pl.DataFrame(table).write_csv(path)
        return path


SOURCES: Mapping[str, Callable[[Places, pa.Table], Any]] = {
    "polars": lambda _, table: pl.DataFrame(table),
    "lazy": lambda _, table: pl.DataFrame(table).lazy(),
    "pandas": lambda _, table: table.to_pandas().astype({"i": float, "u": float}),
    "pandas nullable": lambda _, table: table.to_pandas(types_mapper=_nullable),
    "arrow": lambda _, table: table,
    "batches": lambda _, table: table.to_reader(max_chunksize=5),
    "duckdb": Places.relation,
    "parquet": Places.parquet,
    "csv": Places.csv,
}


def _nullable(kind: pa.DataType) -> Any:
    import pandas as pd  # noqa: PLC0415

    return {pa.int64(): pd.Int64Dtype(), pa.string(): pd.StringDtype()}.get(kind)


# Questions


def questions() -> dict[str, tuple[str, tuple[Statistic, ...]]]:
    """Return questions by name, with the statistic that each one is about."""
    samples: dict[str, tuple[str, tuple[Statistic, ...]]] = {}
    for kind, statistic in STATISTICS.items():
        for name, options in variants(statistic):
            samples[name] = (kind, (statistic(**options),))
    samples |= {
        "mean of integers": ("mean", (dfp.mean("i", (-7, 9)),)),
        "sum away from zero": ("sum", (dfp.sum("x", (100, 101)),)),
        "sum of integers": ("sum", (dfp.sum("i"),)),
        "count of rows": ("count", (dfp.count(),)),
        "median in steps": ("median", (dfp.median("x", BOUNDS, step=0.5),)),
        "bounded together": ("agg", (dfp.mean("x", BOUNDS), dfp.std("x", BOUNDS), dfp.count())),
        "unbounded together": ("agg", (dfp.mean("x"), dfp.sum("y"), dfp.mean("i"), dfp.count())),
        "mixed": ("agg", (dfp.mean("x"), dfp.median("y"), dfp.quantiles("i", [0.2, 0.8]))),
    }
    return samples


def variants(statistic: type[Statistic]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and arguments: with and without bounds, and each other choice by itself."""
    arguments, columns = statistic.arguments(), iter("xy")
    options = {a.name: next(columns) for a in arguments if a.form == "column"}
    options |= {a.name: a.sample for a in arguments if a.required and a.form != "column"}
    options |= {a.name: 3.0 for a in arguments if a.form == "value"}
    bounds = {a.name: BOUNDS for a in arguments if a.form == "bounds"}
    choices: list[dict[str, Any]] = [{}]
    for argument in arguments:
        choices += [{argument.name: choice} for choice in argument.choices[1:]]
        if argument.form == "flag":
            choices.append({argument.name: not argument.default})
    frame = dfp.frame(pl.DataFrame(SCHEMA.empty_table()))
    for choice, limits in itertools.product(choices, [{}, bounds] if bounds else [{}]):
        with contextlib.suppress(dfp.DPError):  # not every choice has bounds
            frame.explain.agg(statistic(**options, **limits, **choice))
            words = [
                str(value if isinstance(value, str) else name) for name, value in choice.items()
            ]
            name = " ".join([statistic.kind, *words, *(["in bounds"] if limits else [])])
            yield name, options | limits | choice


QUESTIONS = questions()


def call_of(question: Statistic) -> str | None:
    """Return the SQL call of a question, or None where SQL has no such argument."""
    words = [str(column) if column is not None else "" for column in question.columns]
    for argument in question.arguments():
        value = getattr(question, argument.name)
        if argument.form == "bounds" and value is not None:
            words += [str(value.lower), str(value.upper)]
        elif argument.form == "value":
            words[0] = f"x = {value}"
        elif argument.form in {"number", "numbers", "whole"} and argument.required:
            words.append(str(list(value)) if argument.form == "numbers" else str(value))
        elif argument.form != "column" and value != argument.default:
            return None
    return f"dp_{question.kind}({', '.join(filter(None, words))})"


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

    @property
    def statistic(self) -> str:
        """The statistic of the question."""
        return QUESTIONS[self.question][0]

    @property
    def measure(self) -> str:
        """The kind of privacy loss."""
        return self.loss.split()[0]

    @property
    def lost_groups(self) -> bool:
        """Whether the smaller table may lack a secret group."""
        lost = self.change in {"new key", "missing key", "lone row"}
        return self.keys == "secret" and (lost or self.unit != "rows")

    @property
    def stated(self) -> dfp.Budget | None:
        """The charge of functions on a connection, where no ledger is in use."""
        if self.entry != "functions":
            return None
        calls = len(QUESTIONS[self.question][1]) + (self.keys == "secret")
        return dfp.Budget(epsilon=calls * float(self.loss.split()[1]))

    def releases(self, places: Places) -> tuple[Release, Release]:
        """Return the releases of both tables, that with more rows first."""
        tables = neighbors(self.shape, self.change, units=self.unit != "rows", seed=self.seed)
        one, other = (self._release(places, table) for table in tables)
        return one, other

    def _release(self, places: Places, table: pa.Table) -> Release:
        return lambda ledger, dataset: ENTRIES[self.entry](self, places, table, ledger, dataset)

    def terms(self) -> dict[str, Any]:
        """Return loss and delta as arguments."""
        measure, amount = self.loss.split()
        delta = {"delta": DELTA} if self.keys == "secret" else {}
        return {measure: float(amount), **delta}


def ask_frame(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release through methods of a frame."""
    frame = SOURCES[case.source](places, table)
    private = dfp.frame(frame)(ledger=ledger, dataset=dataset, **UNITS[case.unit], **case.terms())
    groups = None if case.keys == "whole" else private.group_by("k", keys=KEYS[case.keys])
    return (groups or private).agg(*QUESTIONS[case.question][1])


def ask_files(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release merged files of exact statistics, of each half of the table."""
    paths = []
    halves = [table] if case.unit != "rows" else [table.slice(0, 9), table.slice(9)]
    by = () if case.keys == "whole" else "k"
    for half in halves:
        paths.append(places.path("statistics"))
        frame = SOURCES[case.source](places, half)
        asked = QUESTIONS[case.question][1]
        dfp.statistics(frame, paths[-1], *asked, by=by, keys=KEYS[case.keys], **UNITS[case.unit])
    return dfp.merge(paths, ledger=ledger, dataset=dataset, **case.terms())


def statement_of(case: Case, keep: str = "") -> str:
    """Return the statement of a case."""
    calls = [f"{call_of(q)} AS a{n}" for n, q in enumerate(QUESTIONS[case.question][1])]
    if case.keys == "whole":
        return f"SELECT {', '.join(calls)} FROM t"
    return f"SELECT k, {', '.join(calls)} FROM t GROUP BY k {keep} ORDER BY k"


def ask_sql(case: Case, places: Places, table: pa.Table, ledger: Any, dataset: str) -> Any:
    """Release a statement."""
    terms = case.terms() | UNITS[case.unit]
    if KEYS[case.keys] is not None:
        terms["keys"] = KEYS[case.keys]
    frame = SOURCES[case.source](places, table)
    return dfp.sql(statement_of(case), t=frame, ledger=ledger, dataset=dataset, **terms)


def ask_functions(case: Case, places: Places, table: pa.Table, _: Any, __: str) -> Any:
    """Release through the functions on a connection, where groups of secret keys are filtered."""
    places.relation(table)
    places.register(float(case.loss.split()[1]))
    statement = statement_of(case, f"HAVING dp_keep({DELTA})" if case.keys == "secret" else "")
    return places.connection.sql(statement).to_arrow_table()


Entry = Callable[[Case, Places, pa.Table, Any, str], Any]
ENTRIES: Mapping[str, Entry] = {
    "frame": ask_frame, "sql": ask_sql, "files": ask_files, "functions": ask_functions,
}  # fmt: skip
UNITS: Mapping[str, dict[str, Any]] = {
    "rows": {},
    "max_rows": {"unit": "u", "max_rows": 2},
    "max_groups": {"unit": "u", "max_rows": 2, "max_groups": 2},
    "found": {"unit": "u"},
}
KEYS = {"whole": None, "public": ["a", "b", "nobody"], "secret": None}
LOSSES = ("epsilon 1", "epsilon 30", "rho 0.5", "rho 40")

DIMENSIONS: Mapping[str, Sequence[str]] = {
    "question": tuple(QUESTIONS), "entry": tuple(ENTRIES), "source": tuple(SOURCES),
    "unit": tuple(UNITS), "keys": tuple(KEYS), "loss": LOSSES,
    "shape": ("spread", "far", "zeros", "tails"), "change": tuple(CHANGES),
}  # fmt: skip


def is_possible(values: Mapping[str, str]) -> bool:
    """Return whether some dimensions of a case go together."""
    entry, question = values.get("entry"), values.get("question")
    asked = QUESTIONS[question][1] if question else ()
    if entry in {"sql", "functions"} and values.get("loss", "").startswith("rho"):
        return False
    if entry in {"sql", "functions"} and any(call_of(q) is None for q in asked):
        return False
    if entry == "functions":
        return (
            values.get("unit", "rows") == "rows"
            and values.get("source", "duckdb") == "duckdb"
            and values.get("keys", "whole") != "public"
        )
    if entry == "files" and not all(q.adds_up for q in asked):
        return False
    if entry == "files" and values.get("unit") == "found":
        return False
    if values.get("unit") == "max_rows" and values.get("keys", "whole") != "whole":
        return False
    if values.get("unit") == "max_groups" and values.get("keys") == "whole":
        return False
    return not (values.get("source") == "csv" and values.get("change") == "lone row")


def combinations(seed: int) -> Iterator[dict[str, str]]:
    """Yield cases that together hold every possible pair of values of two dimensions."""
    generator = random.Random(seed)
    names = list(DIMENSIONS)
    open_pairs = {
        frozenset([(one, a), (two, b)])
        for one, two in itertools.combinations(names, 2)
        for a, b in itertools.product(DIMENSIONS[one], DIMENSIONS[two])
        if is_possible({one: a, two: b})
    }
    for pair in sorted(open_pairs, key=sorted):
        if pair not in open_pairs:
            continue
        case = dict(pair)
        for name in generator.sample([name for name in names if name not in case], len(names) - 2):
            values = [v for v in DIMENSIONS[name] if is_possible(case | {name: v})]
            if not values:
                break
            generator.shuffle(values)
            case[name] = max(
                values,
                key=lambda v: sum(
                    frozenset([(name, v), own]) in open_pairs for own in case.items()
                ),
            )
        open_pairs -= {frozenset(two) for two in itertools.combinations(case.items(), 2)}
        open_pairs.discard(pair)
        if len(case) == len(names):
            yield case


def cases(seed: int = 1) -> Iterator[Case]:
    """Yield the cases of the law."""
    for number, values in enumerate(combinations(seed)):
        yield Case(**values, seed=number)
