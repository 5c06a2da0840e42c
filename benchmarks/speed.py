"""Time our answers against the engine's own plain aggregates, in turn, in one run.

    python -m benchmarks.speed [--rows 20000000] [--only "mean with bounds"] [--no-memory]

Ratios are of CPU time of all threads and of wall clock, each the best of several runs. Values are
floats from -60 to 240. Bounds hold all of them, or clip a tenth of the rows at each end. Then come
small calls, the time of the import, and the peak memory of a 100-million-row Parquet file. Prints a
Markdown table, writes it to benchmarks/results/speed.md, and ends with exit code 1 if a target is
missed. Other libraries are timed by `python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl

import dfprivacy as dfp
import sql_udfs

BOUNDS = (-60.0, 240.0)
CLIPPING = (-30.0, 210.0)
GROUPS = {"whole table": None, "1,000 groups": "g3", "1,000,000 groups": "g6"}
WIDE = 50
THREE = (0.1, 0.75, 0.9)
SMALL_FILES = 2000
MEMORY_TARGET = 0.25
CSV_MEMORY_TARGET = 0.4

Work = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One line to be timed: a plain query, ours, and the ratio allowed."""

    question: str
    engine: str
    plain: Work
    ours: Work
    target: float

    def measure(self, rounds: int) -> Row:
        """Run both in turn, and return the line of the table."""
        plain, ours = measure_in_turn(self.plain, self.ours, rounds)
        return Row(self.engine, self.question, plain, ours, self.target)


@dataclass(frozen=True)
class Seconds:
    """The shortest CPU time and the shortest wall clock of some runs."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Row:
    """One line of the table: the plain query's time, ours, and the ratio allowed."""

    engine: str
    work: str
    plain: Seconds
    ours: Seconds
    target: float

    @property
    def cpu_ratio(self) -> float:
        return self.ours.cpu / self.plain.cpu

    @property
    def wall_ratio(self) -> float:
        return self.ours.wall / self.plain.wall

    @property
    def is_met(self) -> bool:
        return max(self.cpu_ratio, self.wall_ratio) <= self.target


def measure_in_turn(plain: Work, ours: Work, rounds: int) -> tuple[Seconds, Seconds]:
    """Return the shortest times of each, taken alternately. Long work runs less often."""
    times: tuple[list[Seconds], list[Seconds]] = ([], [])
    for turn in range(rounds):
        if turn > 2 and max(seconds.wall for runs in times for seconds in runs) > 5:
            break
        for work, runs in zip((plain, ours), times, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            runs.append(Seconds(time.process_time() - cpu, time.perf_counter() - wall))
    plain_best, ours_best = (
        Seconds(min(run.cpu for run in runs), min(run.wall for run in runs)) for runs in times
    )
    return plain_best, ours_best


def make_frame(rows: int) -> pl.DataFrame:
    """Make up a table: two integer keys, users of ten rows each, and a float."""
    generator = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "g3": generator.integers(0, 1_000, rows),
            "g6": generator.integers(0, 1_000_000, rows),
            "u": generator.integers(0, max(rows // 10, 1), rows),
            "x": generator.uniform(-60, 240, rows),
            "far": generator.normal(50, 10, rows),
        }
    )


def make_wide_frame(rows: int) -> pl.DataFrame:
    """Make up a table of an integer key and many columns of floats."""
    generator = np.random.default_rng(2)
    columns = {f"x{index}": generator.uniform(-60, 240, rows) for index in range(WIDE)}
    return pl.DataFrame({"g3": generator.integers(0, 1_000, rows), **columns})


class Engine:
    """How a table is asked: plain aggregates of its columns, and ours."""

    def __init__(self, frame: pl.DataFrame, wide: pl.DataFrame) -> None:
        self.frame, self.wide = frame, wide

    name = "polars"

    def private(self, *, wide: bool = False) -> Any:
        return dfp.frame(self.wide if wide else self.frame)

    def plain(
        self, by: list[str], aggregates: dict[str, list[str | float]], *, wide: bool = False
    ) -> Work:
        """Return the aggregates of columns: 'mean', 'sum', or the level of a quantile."""
        lazy = (self.wide if wide else self.frame).lazy()
        expressions = [
            (
                getattr(pl.col(x), aggregate)()
                if isinstance(aggregate, str)
                else pl.col(x).quantile(aggregate)
            ).alias(f"{x}_{aggregate}")
            for x, names in aggregates.items() for aggregate in names
        ]  # fmt: skip
        query = lazy.group_by(by).agg(expressions) if by else lazy.select(expressions)
        return lambda: query.collect(engine="streaming")

    def as_work(self, ask: Callable[[], object]) -> Work:
        return ask


class DuckDB(Engine):
    """A DuckDB relation."""

    name = "DuckDB relation"

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con

    def private(self, *, wide: bool = False) -> Any:
        return dfp.frame(self.con.table("wide" if wide else "t"))

    def plain(
        self, by: list[str], aggregates: dict[str, list[str | float]], *, wide: bool = False
    ) -> Work:
        calls = [
            f"{'avg' if aggregate == 'mean' else aggregate}({x})" if isinstance(aggregate, str)
            else f"quantile_cont({x}, {aggregate})"
            for x, names in aggregates.items() for aggregate in names
        ]  # fmt: skip
        table, keys = "wide" if wide else "t", ", ".join(by)
        query = f"SELECT {', '.join([*by, *calls])} FROM {table}"
        query += f" GROUP BY {keys}" if by else ""
        return lambda: self.con.sql(query).to_arrow_table()

    def as_work(self, ask: Callable[[], object]) -> Work:
        def work() -> object:
            answer = ask()
            return (
                answer.to_arrow_table() if isinstance(answer, duckdb.DuckDBPyRelation) else answer
            )

        return work

    def macro(self, call: str, key: str | None) -> Work:
        """Return a query of the dp_ functions."""
        query = f"SELECT {call} FROM t"
        if key is not None:
            query = f"SELECT {key}, {call} FROM t GROUP BY {key} HAVING dp_keep(1e-6)"
        return lambda: self.con.sql(query).to_arrow_table()

    def statement(self, call: str, key: str) -> Work:
        """Return a statement of `dfp.sql`."""
        text = f"SELECT {key}, {call} FROM t GROUP BY {key}"
        return self.as_work(lambda: dfp.sql(text, con=self.con, delta=1e-6))


def cases(polars: Engine, base: DuckDB) -> Iterator[Case]:
    """Yield every line that is a ratio over plain aggregates of the same engine."""
    yield from with_bounds(polars, base)
    yield from without_bounds(polars, base)
    for engine in (polars, base):
        users = engine.private()(unit="u", max_rows=2, max_groups=5)
        yield Case(
            "unit= with max_groups=5, over the aggregate by unit and group", engine.name,
            engine.plain(["u", "g3"], {"x": ["sum"]}),
            engine.as_work(lambda p=users: p.group_by("g3").mean("x", BOUNDS, delta=1e-6)),
            1.4,
        )  # fmt: skip


def with_bounds(polars: Engine, base: DuckDB) -> Iterator[Case]:
    targets = {
        None: {"polars": 4.0, "DuckDB relation": 4.0, "dp_mean": 4.0},
        "g3": {"polars": 1.7, "DuckDB relation": 1.9, "dp_mean": 1.9},
        "g6": {"polars": 1.6, "DuckDB relation": 1.5, "dp_mean": 2.1},
    }
    for clips, bounds in (("none clipped", BOUNDS), ("a fifth clipped", CLIPPING)):
        for size, key in GROUPS.items():
            question, target = f"mean with bounds, {size}, {clips}", targets[key]
            by = [] if key is None else [key]
            for engine in (polars, base):
                private, terms = engine.private(), {}
                if key is not None:
                    private, terms = private.group_by(key), {"delta": 1e-6}
                ask = engine.as_work(lambda p=private, b=bounds, t=terms: p.mean("x", b, **t))
                plain = engine.plain(by, {"x": ["mean"]})
                yield Case(question, engine.name, plain, ask, target[engine.name])
            low, high = bounds
            macro = base.macro(f"dp_mean(x, {low}, {high}, 1.0)", key)
            yield Case(question, "dp_mean", plain, macro, target["dp_mean"])
    names = [f"x{index}" for index in range(WIDE)]
    for engine in (polars, base):
        wide = engine.private(wide=True).group_by("g3")
        plain = engine.plain(["g3"], {name: ["mean"] for name in names}, wide=True)
        for title, bounds, target in (
            (f"mean of {WIDE} columns with bounds, 1,000 groups", CLIPPING, 2.5),
            (f"mean of {WIDE} columns without bounds, 1,000 groups", None, 4.0),
        ):
            questions = {x: dfp.mean(x, bounds) if bounds else dfp.mean(x) for x in names}
            ask = engine.as_work(lambda p=wide, q=questions: p.agg(**q, delta=1e-6, epsilon=WIDE))
            yield Case(title, engine.name, plain, ask, target)


def without_bounds(polars: Engine, base: DuckDB) -> Iterator[Case]:
    for size, key, targets in (
        ("1,000 groups", "g3", (4.0, 4.0)), ("1,000,000 groups", "g6", (4.0, 4.0)),
    ):  # fmt: skip
        for engine, target in zip((polars, base), targets, strict=True):
            grouped = engine.private().group_by(key)
            ask = engine.as_work(lambda p=grouped: p.mean("x", delta=1e-6))
            plain = engine.plain([key], {"x": ["mean"]})
            yield Case(f"mean without bounds, {size}", engine.name, plain, ask, target)
        for engine in (polars, base):
            grouped, plain = engine.private().group_by(key), engine.plain([key], {"far": ["mean"]})
            ask = engine.as_work(lambda p=grouped: p.mean("far", delta=1e-6))
            title = f"mean without bounds of values far from zero, {size}"
            yield Case(title, engine.name, plain, ask, 4.5)
    plain, by = base.plain(["g3"], {"x": ["mean"]}), "mean without bounds, 1,000 groups"
    yield Case(by, "dfp.sql", plain, base.statement("dp_mean(x)", "g3"), 4.0)
    yield Case(by, "dp_mean", plain, base.macro("dp_mean(x)", "g3"), 8.0)
    median = "median, 1,000 groups, over the engine's median"
    for engine, target in ((polars, 1.5), (base, 2.5)):
        grouped = engine.private().group_by("g3")
        ask = engine.as_work(lambda p=grouped: p.median("x", delta=1e-6))
        yield Case(median, engine.name, engine.plain(["g3"], {"x": ["median"]}), ask, target)
        questions = {"m": dfp.mean("x"), "d": dfp.median("x"), "q": dfp.quantiles("x", THREE)}
        ask = engine.as_work(lambda p=grouped, q=questions: p.agg(**q, delta=1e-6))
        plain = engine.plain(["g3"], {"x": ["mean", "median", *THREE]})
        title = "mean, median and three quantiles of a column, over the engine's"
        yield Case(title, engine.name, plain, ask, 1.8)
    plain = base.plain(["g3"], {"x": ["median"]})
    yield Case(median, "dfp.sql", plain, base.statement("dp_median(x)", "g3"), 2.5)
    yield Case(median, "dp_median", plain, base.macro("dp_median(x)", "g3"), 8.0)


def sources(folder: Path, rows: int) -> Iterator[Case]:
    """Yield lines for files and for pandas columns of Python strings."""
    generator = np.random.default_rng(3)
    for many, target in ((100, 4.0), (262_000, 2.0)):
        names = np.array([f"city {index}" for index in range(many)], dtype=object)
        objects = pd.Series(names[generator.integers(0, many, rows // 10)], dtype=object)
        frame = pd.DataFrame({"k": objects, "x": generator.uniform(*BOUNDS, len(objects))})
        grouped = frame.dp.group_by("k")
        works: dict[str, tuple[Work, Work]] = {
            "mean by": (
                lambda f=frame: f.groupby("k")["x"].mean(),
                lambda g=grouped: g.mean("x", BOUNDS, delta=1e-6),
            ),
        }
        if many == 100:
            works |= {
                "value_counts of": (
                    frame["k"].value_counts, lambda f=frame: f.dp.value_counts("k", delta=1e-6),
                ),
                "share of one of": (
                    lambda f=frame: (f["k"] == "city 5").mean(),
                    lambda f=frame: f.dp.share("k", "city 5"),
                ),
                "describe with": (
                    lambda f=frame: f.describe(include="all"),
                    lambda f=frame: f.dp.describe(delta=1e-6),
                ),
            }  # fmt: skip
        for name, (plain, ours) in works.items():
            yield Case(f"{name} {many:,} object strings", "pandas", plain, ours, target)
    con = duckdb.connect()
    for kind, pattern in (("hive", "*/*.parquet"), ("flat", "*.parquet")):
        (folder / kind).mkdir()
        for index in range(SMALL_FILES):
            directory = folder / kind / (f"day={index:04}" if kind == "hive" else "")
            directory.mkdir(exist_ok=True)
            part = {"g": np.arange(1000) % 50, "x": generator.uniform(*BOUNDS, 1000)}
            pl.DataFrame(part).write_parquet(directory / f"{index:04}.parquet")
        where = " WHERE day = '0007'" if kind == "hive" else ""
        what = f"one of {SMALL_FILES} directories" if where else f"{SMALL_FILES} small files"
        plain_text = f"SELECT g, avg(x) FROM '{folder / kind / pattern}'{where} GROUP BY g"
        text = f"SELECT g, dp_mean(x, -60, 240) FROM t{where} GROUP BY g"
        yield Case(
            f"mean with bounds, {what}", "dfp.sql of Parquet",
            lambda q=plain_text: con.sql(q).to_arrow_table(),
            lambda q=text, path=folder / kind: dfp.sql(q, t=path, delta=1e-6),
            3.0 if where else 2.0,
        )  # fmt: skip
    file = folder / "large.parquet"
    make_frame(rows).write_parquet(file)
    for where in ("x > 0", "g6 % 10 = 3"):
        plain_text = f"SELECT g3, avg(x) FROM '{file}' WHERE {where} GROUP BY g3"
        text = f"SELECT g3, dp_mean(x, -60, 240) FROM t WHERE {where} GROUP BY g3"
        yield Case(
            f"mean with bounds, WHERE {where}", "dfp.sql of Parquet",
            lambda q=plain_text: con.sql(q).to_arrow_table(),
            lambda q=text: dfp.sql(q, t=file, delta=1e-6), 2.0,
        )  # fmt: skip


def small_calls(rounds: int = 40) -> list[str]:
    """Return the cost of calls on a frame of 1,000 rows, in milliseconds of processor time."""
    frame = pd.DataFrame({"g": np.arange(1000) % 7, "x": np.linspace(-60, 240, 1000)})
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    text = "SELECT g, dp_mean(x, -60, 240) FROM t GROUP BY g"
    works: dict[str, tuple[Work, float]] = {
        "pandas frame": (lambda: frame.dp.mean("x", BOUNDS), 10),
        "dfp.sql(con=)": (
            lambda: dfp.sql(text, con=con, delta=1e-3).arrow(), 30,
        ),
        "explain": (lambda: dfp.explain(text, con=con, delta=1e-3), 25),
    }  # fmt: skip
    lines = []
    for name, (work, target) in works.items():
        milliseconds = measure_in_turn(work, lambda: None, rounds)[0].cpu * 1e3
        met = "yes" if milliseconds <= target else "NO"
        lines.append(f"| {name} | {milliseconds:.1f} ms | at most {target} ms | {met} |")
    return lines


def import_times(rounds: int = 5) -> list[str]:
    """Return how much longer an import takes than that of the engines its user has anyway.

    Bytecode is read, as where a package has been used before.
    """
    lines = []
    for user in ("polars", "pandas"):
        times: dict[str, list[float]] = {f"{user}, numpy": [], f"{user}, numpy, dfprivacy": []}
        for names in [*times] * (rounds + 1):  # in turn; the first round writes bytecode
            code = f"import time, {names}; print(time.process_time())"
            done = subprocess.run(
                [sys.executable, "-c", code],
                check=True, capture_output=True, text=True, env=_environment(),
            )  # fmt: skip
            times[names].append(float(done.stdout))
        alone, both = (min(durations[1:]) for durations in times.values())
        more = both - alone
        met = "yes" if more <= 0.15 else "NO"
        lines.append(f"| import for a {user} user | {more:+.2f} s | at most +0.15 s | {met} |")
    return lines


def _environment() -> dict[str, str]:
    """Return the variables of a fresh process: this package, and a folder for its bytecode."""
    here = str(Path(__file__).resolve().parent.parent)
    variables = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    folder = str(Path(tempfile.gettempdir()) / "dfprivacy-benchmark-bytecode")
    return {**variables, "PYTHONPATH": here, "PYTHONPYCACHEPREFIX": folder}


_PEAK = """
import json, sys, time
import dfprivacy as dfp
from benchmarks.watching import peak_mib
start = time.perf_counter()
bounds = json.loads(sys.argv[2])
table = dfp.frame(sys.argv[1]).group_by("g").mean("x", bounds, delta=1e-6)
seconds = time.perf_counter() - start
print(json.dumps({"groups": table.num_rows, "seconds": seconds, "gib": peak_mib() / 2**10}))
"""


def peak_memory(
    rows: int, bounds: tuple[float, float] | None = BOUNDS, kind: str = "parquet"
) -> dict[str, float]:
    """Return groups, seconds and peak GiB of a release from a file, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"large.{kind}"
        duckdb.sql(
            f"COPY (SELECT (random() * 999)::INTEGER AS g, random() * 300 - 60 AS x "
            f"FROM range({rows})) TO '{file}' (FORMAT {kind})"
        )
        command = [sys.executable, "-c", _PEAK, str(file), json.dumps(bounds)]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=_environment()
        )
    return json.loads(done.stdout)


def heading(count: int, head: str) -> list[str]:
    """Return the lines above a table: rows, machine, versions, columns."""
    names = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "polars", "numpy"))
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {names}"
    return [
        f"{count:,} rows, {machine}; best of several runs, taken in turn.",
        "",
        head,
        "|:--|:--|" + "---:|" * (head.count("|") - 4) + ":--|",
    ]


def write_lines(rows: list[Row]) -> list[str]:
    """Return one line a row."""
    return [
        f"| {row.engine} | {row.work} | {row.plain.cpu:.4f} | {row.ours.cpu:.4f} "
        f"| {row.cpu_ratio:.2f} | {row.wall_ratio:.2f} | at most {row.target:g} "
        f"| {'yes' if row.is_met else 'NO'} |"
        for row in rows
    ]


def memory_line(title: str, memory: dict[str, float], target: float) -> str:
    """Return the sentence about memory below a table."""
    met = "yes" if memory["gib"] <= target else "NO"
    size = f"{memory['gib']:.2f} GiB (target: at most {target} GiB; met: {met})"
    text = f"{title}, 100 million rows by {memory['groups']:,} groups: peak memory"
    return f"{text} {size}, {memory['seconds']:.1f} s."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="the lines whose text has this")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    frame, wide = make_frame(options.rows), make_wide_frame(max(options.rows // 20, 1))
    con = duckdb.connect()
    for name, table in (("t", frame), ("wide", wide)):
        con.register("registered", table)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM registered")
    con.unregister("registered")
    sql_udfs.register(con)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        engines = cases(Engine(frame, wide), DuckDB(con))
        for case in chain(engines, sources(Path(folder), options.rows)):
            if options.only in f"{case.question} {case.engine}":
                rows.append(case.measure(options.rounds))
                print(*write_lines(rows[-1:]), flush=True)
    con.close()
    head = (
        "| engine | question | plain, s CPU | private, s CPU | ratio, CPU | ratio, wall clock "
        "| target | met |"
    )
    lines = [*heading(options.rows, head), *write_lines(rows), ""]
    lines.append(f"The frame of {WIDE} columns has a twentieth of the rows.")
    if not options.only:
        calls = [*small_calls(), *import_times()]
        lines += ["", "| call on 1,000 rows | CPU | target | met |", "|:--|---:|---:|:--|", *calls]
    if not options.no_memory and not options.only:
        for kind, target in (("parquet", MEMORY_TARGET), ("csv", CSV_MEMORY_TARGET)):
            for title, bounds in (("Mean with bounds", BOUNDS), ("Mean without bounds", None)):
                memory = peak_memory(100_000_000, bounds, kind)
                lines += ["", memory_line(f"{title} of {kind}", memory, target)]
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.only:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "speed.md").write_text(text)
    return 1 if "NO |" in text or "met: NO" in text else 0


if __name__ == "__main__":
    sys.exit(main())
