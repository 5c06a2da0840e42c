"""Questions of the replay: every statistic with its options, and every release that is none."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

import dfprivacy as dfp
import dfprivacy.papers
from dfprivacy.statistics import STATISTICS, Statistic

BOUNDS = (-20.0, 60.0)
LIMITS = {"x": BOUNDS, "y": BOUNDS, "i": BOUNDS}
SCHEMA = pl.Schema(
    {
        "k": pl.String,
        "x": pl.Float64,
        "y": pl.Float64,
        "i": pl.Int64,
        "u": pl.Int64,
        "h": pl.Int64,
        "s": pl.List(pl.Int64),
    }
)
ALL_UNITS = ("rows", "max_rows", "max_groups", "found")
ALL_KEYS = ("whole", "public", "secret")


@dataclass(frozen=True)
class Question:
    """Statistics that are asked together, or a method of frames that is no statistic.

    `ask` calls the method of a private frame or its groups. The question goes with these `keys`,
    `measures` and `units`, and with no source of `other_sources`. Its own columns hold the keys if
    it `lacks_groups`, and where it takes keys itself these are its `public_keys`. `words` stand on
    the command line, the command first and without the file. `fields` describe the question in a
    file of releases.
    """

    statistic: str
    statistics: tuple[Statistic, ...] = ()
    ask: Callable[..., Any] | None = None
    keys: tuple[str, ...] = ALL_KEYS
    measures: tuple[str, ...] = ("epsilon", "rho")
    units: tuple[str, ...] = ALL_UNITS
    other_sources: tuple[str, ...] = ()
    lacks_groups: bool = False
    public_keys: Any = None
    words: tuple[str, ...] = ()
    fields: Mapping[str, Any] | None = None


LISTED = ["a", "b", "nobody"]
"""Public keys."""

CELLS = {"k": LISTED, "h": [0, 1, 7]}
COUNTED = ("public", "secret")


CALLS = {
    "histogram": Question(
        "histogram",
        ask=lambda private: private.histogram("x", [-20, 0, 5, 60]),
        words=("histogram", "x", "--edge", "-20", "--edge", "0", "--edge", "60"),
        fields={"histogram": "x", "edges": [-20, 0, 60]},
    ),
    "histogram without edges": Question(
        "histogram",
        ask=lambda private: private.histogram("x", bins=4),
        words=("histogram", "x", "--bins", "4"),
        fields={"histogram": "x", "bins": 4},
    ),
    "crosstab": Question(
        "crosstab",
        ask=lambda private, **keys: private.crosstab("k", "h", margins=True, **keys),
        keys=COUNTED,
        units=ALL_UNITS[:3],
        lacks_groups=True,
        public_keys=CELLS,
        words=("crosstab", "k", "h", "--margins"),
    ),
    "crosstab of means": Question(
        "crosstab",
        ask=lambda private, **keys: private.crosstab("k", "h", dfp.mean("x", BOUNDS), **keys),
        keys=COUNTED,
        lacks_groups=True,
        public_keys=CELLS,
    ),
    "pivot": Question(
        "crosstab",
        ask=lambda private, **keys: private.pivot("k", "h", dfp.mean("x"), **keys),
        keys=COUNTED,
        lacks_groups=True,
        public_keys=CELLS,
    ),
    "value_counts": Question(
        "value_counts",
        ask=lambda private, **keys: private.value_counts("k", **keys),
        keys=COUNTED,
        lacks_groups=True,
        public_keys=LISTED,
        words=("value_counts", "k"),
        fields={"value_counts": "k"},
    ),
    "value_counts with others": Question(
        "value_counts",
        ask=lambda private, **keys: private.value_counts("k", other=True, **keys),
        keys=("public",),
        lacks_groups=True,
        public_keys=LISTED,
        words=("value_counts", "k", "--other"),
        fields={"value_counts": "k", "other": True},
    ),
    "value_counts of groups": Question(
        "value_counts",
        ask=lambda private: private.group_by("h").value_counts("k"),
        keys=("secret",),
        lacks_groups=True,
    ),
    "top": Question(
        "top",
        ask=lambda private, **keys: private.top("k", 2, **keys),
        keys=COUNTED,
        lacks_groups=True,
        public_keys=LISTED,
        words=("top", "k", "--k", "2"),
        fields={"top": "k", "k": 2},
    ),
    "mode": Question(
        "mode",
        ask=lambda private, **keys: private.mode("k", **keys),
        keys=COUNTED,
        lacks_groups=True,
        public_keys=LISTED,
        words=("mode", "k"),
        fields={"mode": "k"},
    ),
    "regression": Question(
        "regression",
        ask=lambda private: private.regression("y", ["x", "i"], LIMITS),
        words=("regression", "y", "x", "--bounds", "x=-20,60", "--bounds", "y=-20,60"),
        fields={"regression": "y", "xs": ["x"]},
    ),
    "regression without bounds": Question(
        "regression",
        ask=lambda private: private.regression("y", ["x", "i"], {"i": (-20, 60)}),
        words=("regression", "y", "x"),
        fields={"regression": "y", "xs": ["x"]},
    ),
    "describe": Question(
        "describe",
        ask=lambda private: private.describe(["x", "i"]),
        keys=("whole",),
        units=ALL_UNITS[:3],
        other_sources=("csv",),
        words=("describe", "x", "i"),
        fields={"describe": ["x", "i"]},
    ),
    "describe with text": Question(
        "describe",
        ask=lambda private: private.describe(["k", "x"], top=2),
        keys=("secret",),
        units=ALL_UNITS[:3],
        lacks_groups=True,
        words=("describe", "k", "x", "--top", "2"),
        fields={"describe": ["k", "x"], "top": 2},
    ),
    "mean_vector": Question(
        "mean_vector",
        ask=lambda private: private.mean_vector(["x", "y"], radius=70),
        measures=("rho",),
        units=("rows",),
        other_sources=("batches",),
    ),
    "mean_vector of sets": Question(
        "mean_vector",
        ask=lambda private: private.mean_vector("s", universe=3),
        measures=("rho",),
        units=("rows",),
        other_sources=("batches", "csv"),
    ),
    "suggest_limits": Question(
        "suggest_limits", keys=("whole", "secret"), units=ALL_UNITS[1:], lacks_groups=True
    ),
}


def questions() -> dict[str, Question]:
    """Return questions by name."""
    samples: dict[str, Question] = {}
    for kind, statistic in STATISTICS.items():
        for name, options in variants(statistic):
            samples[name] = statistics(kind, statistic(**options))
    return samples | {
        "mean of integers": statistics("mean", dfp.mean("i", (-7, 9))),
        "sum away from zero": statistics("sum", dfp.sum("x", (100, 101))),
        "sum of integers": statistics("sum", dfp.sum("i")),
        "count of rows": statistics("count", dfp.count()),
        "median in steps": statistics("median", dfp.median("x", BOUNDS, step=0.5)),
        "bounded together": statistics(
            "agg", dfp.mean("x", BOUNDS), dfp.std("x", BOUNDS), dfp.count()
        ),
        "unbounded together": statistics(
            "agg", dfp.mean("x"), dfp.sum("y"), dfp.mean("i"), dfp.count()
        ),
        "mixed": statistics("agg", dfp.mean("x"), dfp.median("y"), dfp.quantiles("i", [0.2, 0.8])),
        **CALLS,
    }


def statistics(kind: str, *members: Statistic) -> Question:
    """Return a question of statistics, and how a command and a file of releases word it."""
    if len(members) > 1:
        return Question(kind, members)
    words, fields = [], dict[str, Any]()
    for argument in members[0].arguments():
        value = getattr(members[0], argument.name)
        option = f"--{argument.name.replace('_', '-')}"
        if argument.form == "column" or value == argument.default:
            continue
        if argument.form == "bounds":
            value = [value.lower, value.upper]
            words += [option, *map(str, value)]
        elif argument.form == "flag":
            words.append(option if value else f"--no-{option[2:]}")
        elif argument.form == "numbers":
            value = list(value)
            words += [word for number in value for word in (option.removesuffix("s"), str(number))]
        else:
            words += [option, str(value)]
        fields[argument.name] = value
    columns = [column for column in members[0].columns if column is not None]
    fields[kind] = columns if len(columns) > 1 else "".join(columns) or "*"
    return Question(kind, members, words=(kind, *columns, *words), fields=fields)


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
    frame = dfp.frame(pl.DataFrame(schema=SCHEMA))
    for choice, limits in itertools.product(choices, [{}, bounds] if bounds else [{}]):
        with contextlib.suppress(dfp.DPError):  # not every choice has bounds
            frame.explain.agg(statistic(**options, **limits, **choice))
            words = [
                str(value if isinstance(value, str) else name) for name, value in choice.items()
            ]
            name = " ".join([statistic.kind, *words, *(["in bounds"] if limits else [])])
            yield name, options | limits | choice


def write_call(question: Statistic) -> str | None:
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


QUESTIONS = questions()
