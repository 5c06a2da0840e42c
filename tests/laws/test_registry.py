"""Laws that hold for every registered statistic, those of the examples included."""

from __future__ import annotations

import csv
import importlib
import json
import math
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import dfprivacy as dfp
import sql_udfs
from dfprivacy.cli import app
from dfprivacy.cli.questions import option_of
from dfprivacy.statistics import STATISTICS, Linear, LinearStatistic
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.forms import forms_of, functions

OWN = {"second_moment": "SecondMoment", "share_above": "ShareAbove"}
"""The statistics of the examples: registered for each test, and forgotten after it."""

ODD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.3,
    5.0,
    -5.0,
    99.9,
    100.0,
    1e300,
    -1e300,
    5e-324,
    math.inf,
    -math.inf,
]
BOUNDS = [(-5, 5), (0, 100), (-60, 240), (-7, -3), (0.1, 0.3), (99, 100)]


def asked(kind: type[Statistic], bounds=None) -> Statistic:
    """Return a question of a kind: required arguments as in its samples, bounds if it takes any."""
    given = {a.name: a.sample for a in kind.arguments() if a.required and a.form != "column"}
    takes = any(a.form == "bounds" for a in kind.arguments())
    return kind(column="x", **given, **({"bounds": bounds} if takes and bounds else {}))


KINDS = [*STATISTICS, *OWN]
LINEAR = [kind for kind, own in STATISTICS.items() if issubclass(own, LinearStatistic)] + [*OWN]


@pytest.fixture
def kind(request) -> type[Statistic]:
    """Return a statistic by its kind, one of the examples among them."""
    name = request.param
    if name in OWN:
        known = dict(STATISTICS)
        module = importlib.import_module(f"examples.statistics.{name}")
        STATISTICS.clear()
        STATISTICS.update(known)
        STATISTICS[name] = getattr(module, OWN[name])
    return STATISTICS[name]


def moved(linear: Linear, values: np.ndarray) -> np.ndarray:
    """Return what rows of these values add to a vector."""
    if not linear.source.terms:
        return np.ones((len(linear.matrix), len(values)), dtype=object)
    return linear.moved({"x": values}).astype(object)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("kind", LINEAR, indirect=True)
def test_no_row_moves_a_vector_by_more_than_is_declared(kind, bounds, grouped):
    """The declared sensitivities hold for any row, and some row reaches that in the L1 norm."""
    linear = asked(kind, bounds).linear(grouped=grouped)
    generator = np.random.default_rng(7)
    values = np.concatenate([ODD, bounds, generator.uniform(*bounds, 500)])
    vectors = moved(linear, values)
    first = np.abs(vectors).sum(axis=0)
    assert max(first) <= linear.l1
    assert max((vectors**2).sum(axis=0)) <= linear.l2_squared
    assert max(first) >= linear.l1 * (1 - 1e-6)
    if linear.count is not None:
        counted = vectors[list(linear.count.indices)].sum(axis=0)
        assert set(counted) == {linear.count.divisor}


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "duckdb": lambda data: duckdb.connect().from_arrow(pl.DataFrame(data).to_arrow()),
}
DATA = {"x": [float(i % 97) for i in range(4000)], "k": ["a", "b"] * 2000}


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_every_door_gives_the_same_answer(kind, tmp_path):
    """Without noise to speak of, a question has one answer at every door."""
    question, huge = asked(kind, (0, 100)), {"epsilon": 1e9}
    arguments = {a.name: getattr(question, a.name) for a in kind.arguments() if a.name != "column"}
    found = {}
    for name, make in FRAMES.items():
        method = getattr(dfp.frame(make(DATA)), kind.kind)
        found[name] = numbers(method("x", **arguments, **huge))
    frame = pl.DataFrame(DATA)
    found["agg"] = numbers(list(frame.dp.agg(question, **huge).values()))
    files = tmp_path / "part.parquet"
    dfp.statistics(frame, files, question)
    found["files"] = numbers(list(dfp.merge(files, **huge).values()))
    for name in [own for own, statistic in functions().items() if statistic is kind]:
        for call in calls(name, question):
            connection = duckdb.connect()
            connection.register("t", frame.to_arrow())
            sql_udfs.register(connection, epsilon=1e9)
            (answer,) = connection.execute(f"SELECT {call} FROM t").fetchone()
            found[f"{call} registered"] = numbers(answer)
            released = dfp.sql(f"SELECT {call} AS answer FROM t", t=frame, epsilon=1e9)
            found[f"dfp.sql {call}"] = numbers(released["answer"][0])
    found["command"] = from_command(question, frame, tmp_path)
    found["job"] = from_job(question, tmp_path)
    first = found["polars"]
    for name, other in found.items():
        assert np.allclose(other, first, rtol=1e-3, atol=0.05), (name, other, first)


def from_command(question: Statistic, frame: pl.DataFrame, folder: Path) -> list[float]:
    """Return what the command line answers."""
    frame.write_parquet(folder / "rows.parquet")
    words = [question.kind, str(folder / "rows.parquet"), "x"]
    for own in question.arguments():
        value = getattr(question, own.name)
        if own.form == "bounds" and value is not None:
            words += ["--bounds", str(value.lower), str(value.upper)]
        elif own.required and own.form != "column":
            values = value if own.form == "numbers" else [value]
            words += [word for each in values for word in (option_of(own), str(each))]
    out = folder / "answer.json"
    ran = CliRunner().invoke(app, [*words, "--epsilon", "1e9", "--output", str(out)])
    assert ran.exit_code == 0, ran.output
    rows = json.loads(out.read_text(encoding="utf-8"))
    named = [name for name in rows[0] if name not in {"low", "high", "quantile"}]
    return [float(row[name]) for row in rows for name in named]


def from_job(question: Statistic, folder: Path) -> list[float]:
    """Return what a described release answers."""
    fields = {question.kind: "x"}
    for own in question.arguments():
        value = getattr(question, own.name)
        if own.form == "bounds" and value is not None:
            fields["bounds"] = [value.lower, value.upper]
        elif own.required and own.form != "column":
            fields[own.name] = list(value) if own.form == "numbers" else value
    dfp.Ledger(folder / "ledger.db", epsilon=4e9, delta=1e-6, remember=True)
    job = {
        "budget": {"ledger": "ledger.db", "dataset": "rows", "version": "1", "epsilon": 1e9},
        "source": {"file": "rows.parquet"},
        "releases": {"one": {"questions": {"answer": fields}, "outputs": "out.csv"}},
    }
    (folder / "job.yml").write_text(json.dumps(job), encoding="utf-8")
    ran = CliRunner().invoke(app, ["run", str(folder / "job.yml")])
    assert ran.exit_code == 0, ran.output
    with (folder / "out.csv").open(encoding="utf-8") as file:
        return [float(row["value"]) for row in csv.DictReader(file)]


def numbers(answer) -> list[float]:
    """Return the numbers of an answer in their order."""
    if isinstance(answer, dict):
        return [float(value) for value in answer.values()]
    if isinstance(answer, list | tuple | pl.Series):
        return [float(value) for value in answer]
    return [float(answer)]


def calls(name: str, question: Statistic) -> list[str]:
    """Return the SQL calls that ask a question within its bounds, or without any."""
    found = []
    for form in forms_of(type(question)):
        if form.about_rows or ("lo" not in form.constants and getattr(question, "bounds", None)):
            continue
        values = {"lo": 0, "hi": 100}
        given = [
            str(list(getattr(question, c)))
            if form.is_list(c)
            else str(values.get(c, getattr(question, c, "")))
            for c in form.constants
        ]
        found.append(f"{name}({', '.join(['x', *given])})")
    return found


def test_examples_of_own_statistics_are_short():
    """A statistic of one's own is one file of at most 60 lines."""
    folder = Path(__file__).parents[2] / "examples" / "statistics"
    for name in OWN:
        assert len((folder / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_a_kind_is_registered_once():
    """A statistic of the package can't be replaced by another one of its name."""
    with pytest.raises(ValueError, match="already"):
        type("Other", (LinearStatistic,), {"kind": "mean"})
