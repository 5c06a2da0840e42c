"""Write docs/reference/api.md from the registry of statistics: python docs/site/reference_page.py.

All statistics have a call that runs in one block, and each has its docstring.
"""

# ruff: noqa: E501 lines of the page

from __future__ import annotations

from pathlib import Path

from dfprivacy.statistics import STATISTICS

PAGE = Path(__file__).parents[1] / "reference" / "api.md"
HEAD = """\
# Reference

The names below, and the methods of their results, are public. Everything else may change. `python docs/site/reference_page.py` writes this page from the registry of statistics.

```python
import dfprivacy as dfp
import pandas as pd

rows = range(6_000)
x, y = [i % 90 for i in rows], [i % 9 for i in rows]
df = pd.DataFrame({"city": ["Rome", "Oslo", "Lima"] * 2_000, "x": x, "y": y})
```

## Frames

::: dfprivacy.Private

::: dfprivacy.frames.private.PrivateGroupBy

## Statistics

Each is a method of `df.dp`, `df.dp.group_by(...)` and `df.dp.explain`. Most are also a class such as `dfp.mean` for `agg`, a [command](command-line.md#commands), a [question](../how-to/etl.md#the-job-file) of job files, and a [function](../how-to/sql.md#functions) in SQL. Methods take the terms `epsilon`, `rho`, `delta`, `interval` and `population`. [Adding a statistic](adding-a-statistic.md) shows one of your own.
"""
TABLES = {  # the class and an example
    "histogram": ("statistics.histogram.Histogram", '"x", [0, 30, 60, 90]'),
    "value_counts": ("frames.frequencies.ValueCounts", '"city", delta=1e-6'),
    "top": ("frames.frequencies.Top", '"city", 2, delta=1e-6'),
    "mode": ("frames.frequencies.Mode", '"city", delta=1e-6'),
    "crosstab": ("frames.crosstabs.Crosstab", '"city", "y", delta=1e-6'),
    "pivot": ("frames.crosstabs.Pivot", '"city", "y", "x", bounds=(0, 100), delta=1e-6'),
    "describe": ("frames.describing.Describe", "delta=1e-6"),
    "regression": (
        "statistics.regression.Regression",
        '"y", ["x"], {"x": (0, 100), "y": (0, 10)}',
    ),
    "mean_vector": ("statistics.mean_vector.MeanVector", '["x", "y"], radius=200'),
}
REST = """\
::: dfprivacy.statistics.Statistic

::: dfprivacy.statistics.argument

## Results

::: dfprivacy.Estimate

::: dfprivacy.VectorEstimate

::: dfprivacy.released

::: dfprivacy.frames.released.Released

::: dfprivacy.plot

::: dfprivacy.show

::: dfprivacy.save_plot

## Terms

::: dfprivacy.Unit

::: dfprivacy.Bounds

::: dfprivacy.suggest_limits

## Statements

::: dfprivacy.sql

::: dfprivacy.explain

::: dfprivacy.Schema

::: dfprivacy.public

## Budgets

::: dfprivacy.Ledger

::: dfprivacy.Budget

::: dfprivacy.spending

::: dfprivacy.require_ledger

## Large data and statistics files

::: dfprivacy.Engine

::: dfprivacy.progress

::: dfprivacy.frames.merging.statistics

::: dfprivacy.merge

::: dfprivacy.merge_files

## Functions in DuckDB

::: sql_udfs

## Other trust models

::: dfprivacy.local

::: dfprivacy.shuffle

## Papers

::: dfprivacy.papers

## Errors

::: dfprivacy.errors
"""


def write_page() -> str:
    """Return the text of the page."""
    paths, examples = {}, []
    for kind, statistic in STATISTICS.items():
        if statistic.__module__.startswith("dfprivacy.statistics.") and statistic.example:
            paths[kind] = f"{statistic.__module__}.{statistic.__name__}"
            examples.append(statistic.example)
    for kind, (path, arguments) in TABLES.items():
        loss = "rho=0.5" if kind == "mean_vector" else "epsilon=1"
        paths[kind] = f"dfprivacy.{path}"
        examples.append(f"df.dp.{kind}({arguments}, {loss})")
    sections = (f"### `{kind}`\n\n::: {path}\n" for kind, path in paths.items())
    return "\n".join([HEAD, "```python", *examples, "```", "", *sections, REST])


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
