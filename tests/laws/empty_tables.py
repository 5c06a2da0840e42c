"""Tables of no rows and of one row, and every question about them with its outcome."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

import dfprivacy as dfp
from dfprivacy.statistics import STATISTICS, Statistic

SCHEMA = {
    "g": pl.String,
    "h": pl.Int64,
    "u": pl.Int64,
    "x": pl.Float64,
    "y": pl.Float64,
    "i": pl.Int64,
    "b": pl.Boolean,
    "s": pl.List(pl.Int64),
}
ROW = ("a", 1, 1, 1.0, 2.0, 3, True, [1])
ROWS = {
    "no rows": [],
    "one row": [ROW],
    "one row of NULLs": [("a", 1, 1, *[None] * 5)],
    "one row without keys": [(None, None, *ROW[2:])],
    "one row without a unit": [(*ROW[:2], None, *ROW[3:])],
}
TABLES = {
    name: pl.DataFrame(rows, schema=SCHEMA, orient="row", infer_schema_length=None)
    for name, rows in ROWS.items()
}
FORMS = {
    "polars": lambda table: table,
    "arrow": lambda table: table.to_arrow(),
    "objects": lambda table: table.to_pandas().assign(
        x=table["x"].to_numpy(),
        y=table["y"].to_numpy(),
        i=table["i"].to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
        b=table["b"].to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
        **{name: pd.Series(table[name].to_list(), dtype=object) for name in "ghus"},
    ),
}
"""The same tables as frames whose columns declare types, and in which Python's objects are."""
TERMS = {
    "rows": {},
    "limited units": {"unit": "u", "max_rows": 2, "max_groups": 1},
    "units": {"unit": "u"},
}


def variants(kind: type[Statistic], column: str = "x") -> Iterator[tuple[str, Statistic]]:
    """Yield statistics of a kind: with bounds, without, and one for each choice of an argument."""
    arguments = kind.arguments()
    columns = [column, "y"][: len(kind.places())]
    required = {a.name: a.sample for a in arguments if a.required and a.form != "column"}
    bounds = {a.name: (0, 9) for a in arguments if a.form == "bounds"}
    choices = [
        {argument.name: choice}
        for argument in arguments
        for choice in [*argument.choices, *([True] if argument.form == "flag" else [])]
    ]
    for ends, choice in itertools.product([bounds, {}] if bounds else [{}], [{}, *choices]):
        words = [*(["bounds"] if ends else []), *(f"{k}={v}" for k, v in choice.items())]
        try:
            yield " ".join([kind.kind, *words]), kind(*columns, **required, **ends, **choice)
        except dfp.DPError:
            continue  # a combination that no table can be asked


STATISTICS_BY_NAME = {
    name: statistic for kind in STATISTICS.values() for name, statistic in variants(kind)
}
QUESTIONS: dict[str, Callable[..., Any]] = {
    name: lambda private, statistic=statistic, **terms: private.agg(statistic, **terms)
    for name, statistic in STATISTICS_BY_NAME.items()
}
QUESTIONS |= {
    "several": lambda p, **terms: p.agg(
        a=dfp.mean("x"), b=dfp.var("i"), c=dfp.sum("y"), n=dfp.count(), q=dfp.median("x"), **terms
    ),
    "pairs": lambda p, **terms: p.agg(c=dfp.corr("x", "y", (0, 3), (0, 3)), n=dfp.count(), **terms),
    "population": lambda p, **terms: p.mean("x", (0, 3), population=True, **terms),
    "regression": lambda p, **terms: p.regression(
        "x", ["y", "i"], {"x": (0, 3), "y": (0, 3), "i": (0, 3)}, **terms
    ),
    "histogram": lambda p, **terms: p.histogram("x", [0, 1, 2], **terms),
    "histogram without edges": lambda p, **terms: p.histogram("x", bins=3, **terms),
    "value_counts": lambda p, **terms: p.value_counts("h", **terms),
    "top": lambda p, **terms: p.top("h", 2, **terms),
    "mode": lambda p, **terms: p.mode("h", **terms),
    "vectors": lambda p, **terms: p.mean_vector(["x", "y"], radius=9, **terms),
    "sets": lambda p, **terms: p.mean_vector("s", universe=3, **terms),
}
CALLS = {
    kind: f"dp_{kind}({', '.join([*['x', 'y'][: len(statistic.places())], *samples, *ends])})"
    for kind, statistic in STATISTICS.items()
    for samples in [
        [
            str(list(a.sample) if a.form == "numbers" else a.sample)
            for a in statistic.arguments()
            if a.required and a.form != "column"
        ]
    ]
    for ends in [["0", "9"] * sum(a.form == "bounds" for a in statistic.arguments())]
} | {"share": "dp_share(b)"}
LISTED = ["q", "a"]


def ask(private: Any, question: str, keys: str, **loss: float) -> Any:
    """Ask one question about a whole table, by public keys, or by secret keys."""
    needs_delta = keys == "secret" or question in {"value_counts", "top", "mode"}
    delta = {"delta": 1e-6} if needs_delta else {}
    if question in {"vectors", "sets"}:  # which are asked for in rho alone
        loss = {"rho": next(iter(loss.values()), 0.5)}
    if keys == "public":
        private = private.group_by("g", keys=LISTED)
    elif keys == "secret":
        private = private.group_by("g")
    return QUESTIONS[question](private, **loss, **delta)


def read_schema(answer: Any) -> str:
    """Return the names and types of an answer, without its values."""
    if isinstance(answer, dict):
        return str({name: read_schema(value) for name, value in answer.items()})
    if isinstance(answer, pl.LazyFrame):
        return str(answer.collect_schema())
    if isinstance(answer, pa.Table):
        return str((answer.schema, [column.num_chunks for column in answer.columns]))
    if hasattr(answer, "schema"):
        return str(answer.schema)
    if isinstance(answer, pd.DataFrame):
        return str(dict(answer.dtypes))
    return type(answer).__name__


_numbers = itertools.count()


def run_question(ledger: dfp.Ledger, work: Callable[..., Any]) -> tuple[Any, str]:
    """Return the schema of an answer, or the error's class and text, and what was charged.

    An error after the charge is a failure, whatever the table.
    """
    dataset = f"table {next(_numbers)}"
    try:
        ended = read_schema(work(ledger=ledger, dataset=dataset))
    except dfp.DPError as error:
        ended = type(error).__name__, str(error)
        assert not is_charged(ledger, dataset), ended
    return ended, repr(ledger.spent(dataset))


def is_charged(ledger: dfp.Ledger, dataset: str) -> bool:
    """Return whether anything was charged for a data set."""
    spent = ledger.spent(dataset)
    return bool(spent.rho or spent.epsilon or spent.delta)
