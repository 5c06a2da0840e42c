"""List the releases of `benchmarks.releases`: small tables, every statistic, every front end."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import itertools
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

import dfprivacy as dfp
import dfprivacy.papers
import sql_udfs
from benchmarks.releases import Stream, explain_case, plain, run_release

Case = tuple[str, Callable[[Stream], Any]]
ROWS = 3000
B = (-20.0, 60.0)
SECRET = {"delta": 1e-4}


def _table() -> pa.Table:
    """Return rows with missing values, infinities, ties and rare groups, the same every time."""
    numbers = range(ROWS)
    special = {3: None, 5: float("nan"), 7: float("inf"), 9: -float("inf"), 11: 0.0, 13: -0.0}
    x = [special.get(i % 97, (i * 7919 % 1001 - 160) / 16) for i in numbers]
    k = [None if i % 50 == 1 else "abbccccdd"[i % 9] if i % 400 else "rare" for i in numbers]
    return pa.table(
        {
            "k": pa.array(k, pa.string()),
            "m": pa.array([i % 3 for i in numbers], pa.int64()),
            "d": pa.array([dt.date(2024, 1, 1 + i % 2) for i in numbers]),
            "x": pa.array(x, pa.float64()),
            "y": pa.array([2.0 ** (i % 23 - 4) for i in numbers], pa.float64()),
            "i": pa.array([None if i % 31 == 2 else i * 37 % 101 - 20 for i in numbers]),
            "flag": pa.array([i % 5 == 0 for i in numbers]),
            "u": pa.array([None if i % 100 == 0 else i * 13 % 700 for i in numbers]),
            "a1": pa.array([(i * 17 % 64) / 8 for i in numbers], pa.float64()),
            "a2": pa.array([(i * 29 % 128) / 32 - 2 for i in numbers], pa.float64()),
            "a3": pa.array([None if i % 500 == 4 else 5.0 for i in numbers], pa.float64()),
            "v": pa.array(
                [[(i * 11 % 32) / 8, (i * 5 % 16) / 4 - 2, 1.0, (i % 3) - 1.0] for i in numbers],
                pa.list_(pa.float64(), 4),
            ),
            "items": pa.array([[i % 6, (i // 7) % 6] for i in numbers], pa.list_(pa.int64())),
        }
    )


class Places:
    """The tables and where they lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def arrow(self) -> pa.Table:
        return _table()

    @cached_property
    def polars(self) -> pl.DataFrame:
        return pl.DataFrame(self.arrow)

    @cached_property
    def flat(self) -> pa.Table:
        """The columns that every engine and file knows."""
        return self.arrow.drop_columns(["v", "items"])

    @cached_property
    def pandas(self) -> pd.DataFrame:
        return self.flat.to_pandas()

    @cached_property
    def parquet(self) -> Path:
        pyarrow.parquet.write_table(self.flat, self.folder / "t.parquet", row_group_size=700)
        return self.folder / "t.parquet"

    @cached_property
    def csv(self) -> Path:
        pl.DataFrame(self.flat).write_csv(self.folder / "t.csv")
        return self.folder / "t.csv"

    @cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        """One thread: functions draw in the order in which the engine calls them."""
        con = duckdb.connect(config={"threads": 1})
        con.register("handed", self.flat)
        con.execute("CREATE TABLE t AS SELECT * FROM handed")
        return con

    @cached_property
    def registered(self) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect(config={"threads": 1})
        con.register("handed", self.flat)
        con.execute("CREATE TABLE t AS SELECT * FROM handed")
        sql_udfs.register(con, epsilon=1.0)
        return con

    def frames(self) -> dict[str, Any]:
        """Every kind of frame, by name."""
        return {
            "pandas": self.pandas,
            "pandas nullable": self.pandas.convert_dtypes(),
            "lazy": self.polars.lazy(),
            "arrow": self.flat,
            "reader": pa.RecordBatchReader.from_batches(self.flat.schema, self.flat.to_batches(99)),
            "duckdb": self.con.table("t"),
            "parquet": self.parquet,
            "csv": str(self.csv),
        }


def _asks() -> dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Return questions as (method, arguments, options)."""
    asks: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
        "count": ("count", (), {}),
        "count x": ("count", ("x",), {}),
        "sum x": ("sum", ("x", B), {}),
        "sum i": ("sum", ("i", (0, 80)), {}),
        "sum x unbounded": ("sum", ("x",), {}),
    }
    asks |= {
        "mean x transformed": ("mean", ("x", B), {}),
        "mean x shifted": ("shifted_mean", ("x", B), {}),
        "mean x independent": ("independent_mean", ("x", B), {}),
        "mean x unbounded transformed": ("mean", ("x",), {}),
        "mean x unbounded subset": ("subset_mean", ("x",), {}),
        "mean x unbounded dick": ("dick_mean", ("x",), {}),
        "mean x unbounded inverse": ("center", ("x", 2), {}),
        "mean i": ("mean", ("i", (-20, 80)), {"interval": 0.8}),
        "mean y unbounded": ("mean", ("y",), {}),
        "var x": ("var", ("x", B), {}),
        "var x unbounded": ("var", ("x",), {}),
        "std i": ("std", ("i", (-20, 80)), {}),
        "std y unbounded": ("std", ("y",), {}),
        "median x": ("median", ("x",), {}),
        "median i inverse": ("inverse_quantile", ("i", 0.5), {}),
        "quantile x 0.9": ("quantile", ("x", 0.9), {}),
        "quantile i 1": ("quantile", ("i", 1), {}),
        "quantile x inverse": ("inverse_quantile", ("x", 0.25), {}),
        "quantiles x": ("quantiles", ("x", [0.75, 0.1, 0.5]), {}),
        "center x 1.5": ("center", ("x", 1.5, B), {}),
        "center i 3": ("center", ("i", 3, (0, 80)), {}),
        "center x 2 unbounded": ("center", ("x", 2), {}),
        "center x 1.5 dick": ("dick_center", ("x", 1.5), {}),
        "bounds x": ("bounds", ("x",), {}),
        "bounds i rank": ("bounds", ("i", 100), {}),
        "histogram edges": ("histogram", ("x", [-20, 0, 7.5, 60]), {}),
        "histogram bins": ("histogram", ("i", 5, (-20, 80)), {}),
        "histogram unbounded": ("histogram", ("x", 4), {}),
        "agg shared": (
            "agg",
            (dfp.mean("x", B), dfp.count("x"), dfp.std("x", B), dfp.count(), dfp.sum("x", B)),
            {},
        ),
        "agg mixed": (
            "agg",
            (dfp.mean("x"), dfp.median("x"), dfp.quantiles("i", [0.2, 0.8])),
            {"low": dfp.center("i", 1.5, (0, 80)), "n": dfp.count(), "s": dfp.sum("i", (0, 80))},
        ),
    }
    return asks


MAIN = (
    "count", "sum x", "mean x transformed", "mean x unbounded transformed", "var x", "median x",
    "quantiles x", "histogram edges", "agg mixed",
)  # fmt: skip
KEYS = ["a", "c", "nobody"]


def _settings() -> dict[str, tuple[dict[str, Any], tuple[tuple[Any, ...], Any] | None, bool]]:
    """Return (terms, groups, whether every question is asked) by name."""
    return {
        "whole": ({}, None, True),
        "whole rho": ({"rho": 0.125}, None, True),
        "whole small": ({"epsilon": 0.1}, None, False),
        "secret": ({"epsilon": 2, **SECRET}, (("k",), None), True),
        "secret rho": ({"rho": 0.5, **SECRET}, (("k",), None), False),
        "public": ({"epsilon": 0.75}, (("k",), KEYS), False),
        "two keys": ({"epsilon": 4, **SECRET}, (("k", "m"), None), False),
        "unit": ({"unit": "u", "max_rows": 2}, None, False),
        "unit secret": (
            {"unit": "u", "max_rows": 2, "max_groups": 2, "epsilon": 8, **SECRET},
            (("k",), None),
            False,
        ),
    }


def _ask_fully(
    private: Any, method: str, args: Any, options: Any, stream: Stream
) -> dict[str, Any]:
    """Return the answer of a question, and what is said of it beforehand."""
    page = run_release(lambda: explain_case(getattr(private.explain, method)(*args, **options)))
    stream.restart()
    answer = run_release(lambda: plain(getattr(private, method)(*args, **options)))
    return {"explain": page, "answer": answer}


def _statistics(places: Places) -> Iterator[Case]:
    asks = _asks()

    def private(frame: Any, setting: str) -> Any:
        terms, groups, _ = _settings()[setting]
        private_frame = dfp.frame(frame)(**terms)
        return (
            private_frame if groups is None else private_frame.group_by(*groups[0], keys=groups[1])
        )

    def release_by_setting(setting: str, name: str, stream: Stream) -> Any:
        return _ask_fully(private(places.polars, setting), *asks[name], stream)

    def answer(kind: str, setting: str, name: str, _: Stream) -> Any:
        method, args, options = asks[name]
        private_rows = private(places.frames()[kind], setting)
        return plain(getattr(private_rows, method)(*args, **options))

    for setting, (_, _, everything) in _settings().items():
        for name in asks if everything else MAIN:
            yield f"polars/{setting}/{name}", partial(release_by_setting, setting, name)
    for kind, setting in itertools.product(places.frames(), ("whole", "secret")):
        for name in ("agg shared", "agg mixed", "histogram edges", "center i 3"):
            yield f"{kind}/{setting}/{name}", partial(answer, kind, setting, name)
    yield from _keys(places)
    yield from _far_groups(places)


def _keys(places: Places) -> Iterator[Case]:
    """Yield groups of other types, and keys handed over in other ways."""
    questions = [dfp.mean("x", B), dfp.median("i")]
    for kind in ("polars", "pandas", "duckdb", "parquet"):

        def frame(kind: str = kind) -> Any:
            return places.polars if kind == "polars" else places.frames()[kind]

        for by in ("d", "flag", "m"):
            yield (
                f"{kind}/key {by}",
                lambda _, frame=frame, by=by: plain(
                    dfp.frame(frame()).group_by(by).agg(*questions, epsilon=1, delta=1e-6)
                ),
            )
        yield (
            f"{kind}/tuples",
            lambda _, frame=frame: plain(
                dfp.frame(frame()).group_by("k", "m", keys=[("c", 1), (None, 0), ("no", 2)]).count()
            ),
        )
        yield f"{kind}/terms", lambda _, frame=frame: plain(
            dfp.frame(frame())(epsilon=2, bounds={"x": B}, keys={"k": KEYS, "m": [0, 1]})
            .group_by("k", "m").std("x")
        )  # fmt: skip


def _far_groups(places: Places) -> Iterator[Case]:
    """Yield groups of values far from zero, which are counted about a center."""
    x = [700 + (i * 7919 % 1001) / 16 for i in range(ROWS)]
    table = places.flat.set_column(places.flat.column_names.index("x"), "x", pa.array(x))
    frames = {"polars": pl.DataFrame(table), "duckdb": duckdb.from_arrow(table), "arrow": table}
    for (name, frame), ask in itertools.product(frames.items(), (dfp.mean, dfp.sum, dfp.std)):
        for unit in ({}, {"unit": "u", "max_rows": 2, "max_groups": 1}):
            yield (
                f"{name}/far {'units ' * bool(unit)}{ask.__name__}",
                lambda _, frame=frame, ask=ask, unit=unit: plain(
                    dfp.frame(frame)(**unit).group_by("m", keys=[0, 2]).agg(ask("x"), epsilon=20)
                ),
            )


def _vectors(places: Places) -> Iterator[Case]:
    wide, v = ["a1", "a2", "a3"], "v"
    asks: dict[str, tuple[Any, dict[str, Any]]] = {
        "wide": (wide, {"radius": 20}),
        "wide clipped": (wide, {"radius": 20, "method": "clipped"}),
        "wide replace": (wide, {"radius": 100, "neighbors": "replace"}),
        "wide clipped replace": (
            wide, {"radius": 100, "method": "clipped", "neighbors": "replace"},
        ),
        "wide shifted": (wide, {"radius": 20, "method": "shifted"}),
        "wide shifted replace": (
            wide, {"radius": 100, "method": "shifted", "neighbors": "replace"},
        ),
        "column": (v, {"radius": 1000}),
        "column skewed": (v, {"radius": 1000, "skewed": True}),
        "column plan p=1": (v, {"radius": 50, "p": 1}),
        "column generic": (v, {"radius": 50, "method": "plan", "deviations": "generic"}),
        "column plan replace": (
            v, {"radius": 50, "method": "plan", "neighbors": "replace"},
        ),
        "items": ("items", {"universe": 6}),
        "items clipped": ("items", {"universe": 6, "method": "clipped"}),
        "items replace": ("items", {"universe": 6, "neighbors": "replace"}),
    }  # fmt: skip
    for name, (columns, facts) in asks.items():
        yield (
            f"vector/whole/{name}",
            lambda stream, columns=columns, facts=facts: _ask_fully(
                dfp.frame(places.polars), "mean_vector", (columns,), {"rho": 0.5, **facts}, stream
            ),
        )
        if "replace" not in name:
            yield f"vector/secret/{name}", lambda stream, columns=columns, facts=facts: _ask_fully(
                dfp.frame(places.polars).group_by("k"), "mean_vector", (columns,),
                {"rho": 2, **SECRET, **facts}, stream,
            )  # fmt: skip
    yield "vector/unit", lambda stream: _ask_fully(
        dfp.frame(places.polars)(unit="u", max_rows=2), "mean_vector", (wide,),
        {"rho": 2, "radius": 20}, stream,
    )  # fmt: skip
    yield "vector/public", lambda stream: _ask_fully(
        dfp.frame(places.polars).group_by("k", keys=KEYS), "mean_vector", (wide,),
        {"rho": 2, "radius": 20}, stream,
    )  # fmt: skip
    for kind in ("pandas", "duckdb", "parquet", "lazy"):
        yield (
            f"vector/{kind}",
            lambda _, kind=kind: plain(
                dfp.frame(places.frames()[kind]).mean_vector(wide, rho=0.5, radius=20)
            ),
        )


def _doors(places: Places) -> Iterator[Case]:
    """Yield a Series, limits, statistics files, ledgers and errors."""
    series: dict[str, Callable[[Any], Any]] = {
        "count": lambda dp: dp(epsilon=0.5).count(),
        "mean": lambda dp: dp(epsilon=2).mean(B),
        "std": lambda dp: dp.std(),
        "quantile": lambda dp: dp.quantile(0.9),
        "quantiles": lambda dp: dp.quantiles([0.5, 0.25]),
        "center": lambda dp: dp.center(2, B),
        "bounds": lambda dp: dp.bounds(),
        "histogram": lambda dp: dp.histogram(3, B),
    }
    for name, ask in series.items():
        yield f"series/{name}", lambda _, ask=ask: plain(ask(places.pandas["x"].dp))
    for name, facts in {
        "whole": {}, "by": {"by": "k"}, "two": {"by": ["k", "m"], "rho": 0.5},
    }.items():  # fmt: skip
        yield (
            f"limits/{name}",
            lambda _, facts=facts: [
                getattr(dfp.suggest_limits(places.polars, unit="u", **facts), fact)
                for fact in ("max_rows", "max_groups")
            ],
        )
    for name, facts in {
        "whole": ({}, {"epsilon": 1}),
        "secret": ({"by": "k"}, {"epsilon": 2, **SECRET}),
        "secret rho": ({"by": ["k", "m"]}, {"rho": 0.5, **SECRET}),
        "public": ({"by": "k", "keys": KEYS}, {"epsilon": 1}),
        "unit": (
            {"by": "k", "unit": "u", "max_rows": 2, "max_groups": 1}, {"epsilon": 9, **SECRET},
        ),
        "unit in one": (
            {"unit": "u", "max_rows": 2}, {"epsilon": 8, "parts_per_unit": 1},
        ),
    }.items():  # fmt: skip
        yield (
            f"merge/{name}",
            lambda stream, facts=facts: _merge_parts(places, facts[0], facts[1], stream),
        )
    yield "ledger", lambda _: _with_ledger(places)
    for name, wrong in _wrong(places).items():
        yield f"error/{name}", lambda _, wrong=wrong: plain(wrong())


def _merge_parts(places: Places, facts: Any, terms: Any, stream: Stream) -> Any:
    questions = [dfp.mean("x", B), dfp.count(), dfp.median("i"), dfp.sum("y")]
    frame, number = places.polars, next(_NUMBERS)
    parts = {"1": frame[:1000], "2": frame[1000:].lazy(), "3": places.pandas[:0]}
    paths = [
        dfp.statistics(part, places.folder / f"{number}-{name}.parquet", *questions, **facts)
        for name, part in parts.items()
    ]
    stream.restart()
    return plain(dfp.merge(paths[:2] if "by" in facts else paths, **terms))


_NUMBERS = itertools.count()


def _with_ledger(places: Places) -> Any:
    """Return the budget spent, and answers that a ledger has remembered."""
    path = places.folder / f"ledger{next(_NUMBERS)}.db"
    ledger = dfp.Ledger(path, epsilon=10, delta=1e-3, remember=True)
    private = dfp.frame(places.polars)(ledger=ledger, dataset="t", version="1")
    answers = [plain(private.mean("x", B, epsilon=0.5)) for _ in "ab"]
    answers += [plain(private.group_by("k").count(epsilon=2, **SECRET)) for _ in "ab"]
    answers.append(plain(private.histogram("x", [0, 1, 2], epsilon=0.25)))
    query = "SELECT k, dp_mean(x, -20, 60) AS x FROM t GROUP BY k"
    for _ in "ab":
        answers.append(
            plain(
                dfp.sql(query, t=places.polars, ledger=ledger, dataset="t", version="1", **SECRET)
            )
        )
    history = ledger.history()
    answers.append(plain(history[["epsilon", "delta"]]))
    return [
        *answers,
        plain(ledger.spent("t")),
        run_release(lambda: plain(private.count(epsilon=9))),
    ]


def _wrong(places: Places) -> dict[str, Callable[[], Any]]:
    dp, by = dfp.frame(places.polars), dfp.frame(places.polars).group_by("k")
    return {
        "no column": lambda: dp.mean("z", B),
        "text": lambda: dp.mean("k", B),
        "bounds": lambda: dp.mean("x", (1, 0)),
        "bounds nan": lambda: dp.sum("x", (0, float("nan"))),
        "missing bounds": lambda: dp.shifted_mean("x"),
        "method": lambda: dp.mean_vector("x", method="none"),
        "no delta": by.count,
        "epsilon": lambda: dp.count(epsilon=0),
        "both": lambda: dp.count(epsilon=1, rho=1),
        "quantile": lambda: dp.quantile("x", 1.5),
        "keys": lambda: dfp.frame(places.polars).group_by("k", keys=["a", "a"]).count(),
        "key type": lambda: dfp.frame(places.polars).group_by("m", keys=["a"]).count(),
        "unit": lambda: dp(unit="u", max_rows=0).count(),
        "frame": lambda: dfp.frame(3).count(),
        "vector rho": lambda: dp.mean_vector(["x", "y"], radius=1),
        "statement": lambda: dfp.sql("SELECT dp_count() FROM t a, t b", t=places.polars),
        "raw column": lambda: dfp.sql("SELECT x FROM t", t=places.polars),
        "interval": lambda: dp.count(interval=1),
    }


CALLS = {
    "count": "dp_count()", "count star": "dp_count(*)", "count x": "dp_count(x, 0.5)",
    "sum": "dp_sum(x, -20, 60)", "sum unbounded": "dp_sum(x, 2.0)", "mean": "dp_mean(x, -20, 60)",
    "avg": "dp_avg(i, -20, 80, 0.25)", "mean unbounded": "dp_mean(x)",
    "mean expression": "dp_mean(CASE WHEN flag THEN i END / 2, -20, 60)",
    "var": "dp_var(x, -20, 60)", "stddev": "dp_stddev(i, -20, 80)", "var unbounded": "dp_var(x)",
    "stddev unbounded": "dp_stddev(y)", "median": "dp_median(x)", "median y": "dp_median(y, 0.5)",
    "quantile": "dp_quantile(x, 0.9)", "quantiles": "dp_quantiles(i, [0.75, 0.1])",
    "bounds": "dp_bounds(x)", "interval": "dp_mean_interval(x, -20, 60)",
    "count interval": "dp_count_interval(i)", "interval unbounded": "dp_sum_interval(i)",
    "several": "dp_mean(x, -20, 60) AS a, dp_count() AS b, dp_median(i) AS c",
}  # fmt: skip


def _statements(places: Places) -> Iterator[Case]:
    for name, call in CALLS.items():
        for form, query in {
            "whole": f"SELECT {call} FROM t",
            "where": f"SELECT {call} FROM t WHERE m < 2 AND i > 0",
            "grouped": f"SELECT k, {call} FROM t GROUP BY k HAVING dp_keep(1e-4, 2.0) ORDER BY k",
        }.items():
            if form != "where":
                yield (
                    f"functions/{form}/{name}",
                    lambda _, query=query: plain(places.registered.sql(query)),
                )
            if form != "whole":
                text = query.replace("1e-4, 2.0", "1e-4")
                yield (
                    f"sql/{form}/{name}",
                    lambda stream, text=text: _state_case(text, stream, t=places.polars, epsilon=2),
                )
    frame = places.polars
    more: dict[str, tuple[str, dict[str, Any]]] = {
        "con": ("SELECT k, dp_sum(x, 0, 9) AS s FROM t GROUP BY k", {"con": places.con, **SECRET}),
        "pandas": ("SELECT m, dp_count() n FROM t GROUP BY m", {"t": places.pandas, **SECRET}),
        "path": ("SELECT dp_mean(x, 0, 9) AS m FROM t", {"t": places.parquet}),
        "keys": ("SELECT k, dp_mean(x, 0, 9) FROM t GROUP BY k", {"t": frame, "keys": KEYS}),
        "unit": (
            "SELECT k, dp_mean(x, 0, 9) AS m, dp_count() AS n FROM t GROUP BY k",
            {"t": frame, "unit": "u", "max_rows": 2, "max_groups": 1, "epsilon": 8, **SECRET},
        ),
        "unit con": (
            "SELECT dp_mean(x, 0, 9) AS m, dp_median(x) AS n FROM t",
            {"con": places.con, "unit": "u", "max_rows": 2},
        ),
        "cte": (
            """WITH s AS (SELECT k, m + 1 AS m, x * 2 AS x FROM t WHERE flag)
            SELECT m, k, dp_mean(x, 0, 9) / 2 AS h, dp_count() AS n FROM s GROUP BY ALL
            HAVING h > 1 ORDER BY n DESC, m, k LIMIT 5""",
            {"t": places.polars, "epsilon": 4, **SECRET},
        ),
        "no such function": ("SELECT dp_range(x) FROM t", {"t": places.polars}),
        "own epsilon": (
            "SELECT dp_mean(x, 0, 9, 0.5) AS a, dp_sum(x, 0, 9) AS b FROM t", {"t": places.polars},
        ),
    }  # fmt: skip
    for name, (query, terms) in more.items():
        yield (
            f"sql/more/{name}",
            lambda stream, query=query, terms=terms: _state_case(query, stream, **terms),
        )


def _state_case(query: str, stream: Stream, **terms: Any) -> dict[str, Any]:
    page = run_release(lambda: explain_case(dfp.explain(query, **terms)))
    stream.restart()
    return {"explain": page, "answer": run_release(lambda: plain(dfp.sql(query, **terms)))}


def _command(folder: Path, *words: Any) -> str:
    """Run the command line by its entry point in pyproject.toml; return what it prints."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    module, _, name = project["project"]["scripts"]["dfprivacy"].partition(":")
    output, before, here = io.StringIO(), sys.argv, Path.cwd()
    sys.argv = ["dfprivacy", *map(str, words)]
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            getattr(import_module(module), name)()
    except SystemExit as end:
        if end.code:
            return f"exit {end.code}"
    finally:
        sys.argv = before
        os.chdir(here)
    return output.getvalue()


COMMANDS = {
    "count": "count {file}",
    "sum": "sum {file} x --bounds -20 60 --epsilon 0.5",
    "mean": "mean {file} x --by k --bounds -20 60 --delta 1e-4 --epsilon 2",
    "mean keys": "shifted_mean {file} x --by k --keys a --keys c --bounds -20 60",
    "var": "var {file} i --rho 0.25",
    "std": "std {file} i --bounds -20 80 --interval 0.8",
    "median": "median {file} x --by k --by m --delta 1e-4 --epsilon 4",
    "quantile": "quantile {file} x --q 0.9",
    "quantiles": "quantiles {file} i --q 0.25 --q 0.75",
    "center": "center {file} x --p 1.5 --bounds -20 60",
    "bounds": "bounds {file} x --by k --delta 1e-4 --epsilon 2",
    "histogram": "histogram {file} x --edge -20 --edge 0 --edge 60",
    "unit": "mean {file} x --bounds -20 60 --unit u --max-rows 2",
}


def _commands(places: Places) -> Iterator[Case]:
    for name, words in COMMANDS.items():
        for file in ("t.parquet", "t.csv") if name in ("mean", "median") else ("t.parquet",):
            yield (
                f"command/{name}/{file}",
                lambda _, words=words, file=file: _written(places, words.format(file=file)),
            )
    yield "job", lambda _: _job(places)


def _prepare_case(places: Places, words: str) -> str:
    assert places.parquet.exists()
    assert places.csv.exists()
    return _command(places.folder, *words.split())


def _written(places: Places, words: str) -> Any:
    out = f"out{next(_NUMBERS)}.parquet"
    message = _prepare_case(places, f"{words} --output {out}")
    path = places.folder / out
    return plain(pyarrow.parquet.read_table(path)) if path.exists() else message


JOB = """
source: {file: t.parquet}
budget: {ledger: job.db, dataset: t, version: "1"}
releases:
  one:
    by: [k, m]
    keys: {k: [a, c], m: [0, 1]}
    questions:
      x: {mean: x, bounds: [-20, 60]}
      s: {std: i, bounds: [-20, 80]}
      mid: {median: x}
      n: {count: "*"}
    budget: {epsilon: 2}
    outputs: [one.parquet]
  two:
    by: k
    unit: {column: u, max_rows: 2, max_groups: 1}
    questions:
      x: {sum: x, bounds: [-20, 60]}
    budget: {epsilon: 8, delta: 1e-4}
    outputs: [two.parquet]
  three:
    questions:
      i: {histogram: i, edges: [-20, 0, 80]}
    budget: {epsilon: 0.5}
    outputs: [three.parquet]
  four:
    source:
      query: SELECT m, dp_var(x, -20, 60) AS v FROM t GROUP BY m
      tables: {t: t.parquet}
    keys: [0, 1]
    budget: {epsilon: 0.5}
    outputs: [four.parquet]
  five:
    questions:
      c: {center: x, p: 1.5, bounds: [-20, 60]}
      q: {quantiles: x, qs: [0.25, 0.75]}
      u: {mean: y}
    budget: {rho: 0.125}
    outputs: [five.parquet]
  six:
    questions:
      c: {center: x, p: 1.5, bounds: [-20, 60]}
      q: {quantiles: x, qs: [0.25, 0.75]}
      u: {mean: y}
    budget: {epsilon: 1}
    outputs: [six.parquet]
"""


def _job(places: Places) -> Any:
    assert places.parquet.exists()
    folder = places.folder / f"job{next(_NUMBERS)}"
    folder.mkdir()
    (folder / "t.parquet").symlink_to(places.parquet)
    dfp.Ledger(folder / "job.db", epsilon=100, delta=1e-3, remember=True)
    text = JOB[: JOB.index("  five:")] + JOB[JOB.index("  six:") :]
    (folder / "release.yml").write_text(text)
    message = _command(folder, "run", "release.yml", "--quiet")
    names = ("one", "two", "three", "four", "six")
    tables = [pyarrow.parquet.read_table(folder / f"{name}.parquet") for name in names]
    return message or dict(zip(names, map(plain, tables), strict=True))


def _other_trust(places: Places) -> Iterator[Case]:
    """Yield the local and the shuffle model."""
    dp = dfp.frame(places.polars)
    for name, facts in {
        "sigma": {"sigma": 20, "limit": 1000, "epsilon": 2},
        "unknown": {"sigma_bounds": (10, 200), "limit": 1000, "epsilon": 4},
        "one round": {"sigma": 20, "limit": 1000, "rounds": 1, "epsilon": 3},
    }.items():
        yield (
            f"local/{name}",
            lambda stream, facts=facts: _ask_fully(
                dp.local, "gaussian_mean", ("i",), facts, stream
            ),
        )
    yield "local/protocol", lambda _: _survey_case()
    yield (
        "local/vectors",
        lambda _: plain(
            dfp.local.simulate(
                dfp.local.mean_vector(users=ROWS, dimensions=2, rho=4, radius=16, campaign="c"),
                places.polars.select("a1", "a2").to_numpy(),
            )
        ),
    )
    shuffles: dict[str, tuple[str, tuple[Any, ...]]] = {
        "sum": ("sum", ("x", B)),
        "mean": ("mean", ("x", B)),
        "quantile": ("quantile", ("x", 0.5, B)),
    }
    for name, (method, args) in shuffles.items():
        yield (
            f"shuffle/{name}",
            lambda stream, method=method, args=args: _ask_fully(
                dp.shuffle, method, args, {"delta": 1e-6}, stream
            ),
        )
    yield "shuffle/protocol", lambda _: _shuffle_case()
    yield "shuffle/vectors", lambda _: plain(
        dfp.shuffle.simulate(
            dfp.shuffle.mean_vector(
                users=ROWS, dimensions=2, epsilon=2, delta=1e-6, radius=16
            ),
            places.polars.select("a1", "a2").to_numpy(),
        )
    )  # fmt: skip


def _survey_case() -> Any:
    protocol = dfp.local.gaussian_mean(users=2000, epsilon=4, sigma=4, limit=64, campaign="survey")
    values = [(i * 7 % 33) / 2 for i in range(2000)]
    first = dfp.local.Protocol.from_json(protocol.to_json()).reports(values)
    second = protocol.aggregate(first).next_round()
    rest = second.reports(values)
    return [plain(first[:20]), plain(rest[:20]), plain(second.aggregate(rest).estimate())]


def _shuffle_case() -> Any:
    protocol = dfp.shuffle.mean(users=200, bounds=(0, 10), epsilon=1, delta=1e-6)
    messages = dfp.shuffle.shuffle(protocol.messages([2.0, 4.0] * 100))
    return [plain(messages[:20]), plain(protocol.analyze(messages).estimate())]


def cases(places: Places) -> Iterator[Case]:
    """Yield every case: its name, and what to run."""
    for group in (_statistics, _vectors, _doors, _statements, _commands, _other_trust):
        yield from group(places)
