"""Laws that hold for every registered statistic, those of the examples included."""

import csv
import importlib
import itertools
import json
import math
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
import sql_udfs
from dfprivacy.measurement import grid
from dfprivacy.statistics import STATISTICS, Linear, LinearStatistic, Statistic
from tests.command_line import command
from tests.frame_types import FRAME_TYPES

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
BOUNDS = [(-5, 5), (0, 100), (-60, 240), (-7, -3), (0.1, 0.3), (99, 100), (-5, 0), (-0.0, 3)]


def make_question(kind: type[Statistic], *bounds) -> Statistic:
    """Return a question of a kind: required arguments as in its samples, bounds if it takes any.

    It is about columns x and y; the bounds come in the order of its columns.
    """
    arguments = {a.name: a.sample for a in kind.arguments() if a.required and a.form != "column"}
    arguments |= {a.name: 5.0 for a in kind.arguments() if a.form == "value"}
    ends = [a.name for a in kind.arguments() if a.form == "bounds"]
    columns = ["x", "y"][: len(kind.places())]
    return kind(*columns, **arguments, **dict(zip(ends, bounds, strict=False)))


KINDS = [*STATISTICS, *OWN]
LINEAR = [
    kind for kind, statistic in STATISTICS.items() if issubclass(statistic, LinearStatistic)
] + [*OWN]


@pytest.fixture
def kind(request) -> type[Statistic]:
    """Return a statistic by its kind, one of the examples among them."""
    name = request.param
    if name in OWN:
        registered = dict(STATISTICS)
        module = importlib.import_module(f"examples.statistics.{name}")
        STATISTICS.clear()
        STATISTICS.update(registered)
        STATISTICS[name] = getattr(module, OWN[name])
    return STATISTICS[name]


def row_terms(linear: Linear, values: dict[str, np.ndarray]) -> np.ndarray:
    """Return the terms that rows of these values add to a vector."""
    if not linear.source.terms:
        return np.ones((len(linear.matrix), len(values["x"])), dtype=object)
    return linear.apply(values).astype(object)


@pytest.mark.parametrize("kind", LINEAR, indirect=True)
def test_no_row_moves_a_vector_by_more_than_is_declared(kind):
    """The declared sensitivities hold for any row, and some row reaches that in the L1 norm."""
    for bounds, grouped in itertools.product(BOUNDS, [False, True]):
        for others in BOUNDS if len(kind.places()) > 1 else [(0, 1)]:
            question = make_question(kind, bounds, others)
            measured = question.part("x", grouped=grouped).vectors.linears
            for linear in (question.linear(grouped=grouped), *measured):
                check_sensitivity(linear, bounds, others)


ONE_COLUMN = [name for name in LINEAR if name in OWN or len(STATISTICS[name].places()) == 1]


@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("kind", ONE_COLUMN, indirect=True)
def test_no_row_moves_a_vector_on_a_coarse_grid_by_more_than_is_declared(kind, bits, monkeypatch):
    """The sensitivity is right at every integer of a grid; a partition of unity adds up to K."""
    monkeypatch.setattr(grid, "BITS", bits)
    for bounds, grouped in itertools.product(BOUNDS, [False, True]):
        linear = make_question(kind, bounds).linear(grouped=grouped)
        vectors = check_sensitivity(linear, bounds, size=2 ** (bits + 3) + 1)
        if kind.kind in {"mean", "var", "std"}:
            assert vectors.min() >= 0
            assert set(vectors.sum(axis=0)) == {linear.source.terms[0].grid.last} == {linear.l1}


def check_sensitivity(linear: Linear, *bounds: tuple[float, float], size: int = 0) -> np.ndarray:
    """Compare what rows add to a vector with what is declared, and return that."""
    generator = np.random.default_rng(7)
    samples = [
        np.concatenate([ODD, ends, generator.uniform(*ends, 500), np.linspace(*ends, size)])
        for ends in bounds
    ]
    if len(linear.source.columns) > 1:  # each of the odd values beside each
        pairs = np.array(
            [*itertools.product(*(column[:20] for column in samples)), *zip(*samples, strict=True)]
        )
        samples = list(pairs.T)
    vectors = row_terms(linear, dict(zip("xy", samples, strict=False)))
    first = np.abs(vectors).sum(axis=0)
    assert max(first) <= linear.l1
    assert max((vectors**2).sum(axis=0)) <= linear.l2_squared
    assert max(first) >= linear.l1 * (1 - 1e-6)
    if linear.count is not None:
        counted = vectors[list(linear.count.indices)].sum(axis=0)
        assert set(counted) == {linear.count.divisor}
    return vectors


DATA = {
    "x": [float(i % 97) for i in range(4000)],
    "y": [float((i * i + 3 * i) % 89) for i in range(4000)],
    "k": ["a", "b"] * 2000,
}


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_secret_groups_have_answers(kind):
    """By secret keys a question is answered under either measure, and a lone row stays unshown."""
    question = make_question(kind, (0, 100), (0, 100))
    rows = pl.DataFrame({**DATA, "k": ["a", "b"] * 1999 + ["a", "lone"]})
    groups = rows.dp.group_by("k")
    for loss in ({"epsilon": 50}, {"rho": 50}):
        release = groups.agg(question, **loss, delta=1e-9)  # a lone row is shown below 1e-8
        assert release["k"].to_list() == ["a", "b"]


@pytest.fixture(scope="module")
def connection():
    """Return a connection with the functions of the package's own statistics."""
    database = duckdb.connect()
    database.register("t", pl.DataFrame(DATA).to_arrow())
    sql_udfs.register(database, epsilon=1e9)
    return database


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_every_door_gives_the_same_answer(kind, connection, tmp_path):
    """Without noise to speak of, a question has one answer at every door."""
    question, huge = make_question(kind, (0, 100), (0, 100)), {"epsilon": 1e9}
    arguments = {a.name: getattr(question, a.name) for a in kind.arguments()}
    answers = {}
    for name, make in FRAME_TYPES.items():
        method = getattr(dfp.frame(make(pa.table(DATA))), kind.kind)
        answers[name] = numbers(method(**arguments, **huge))
    if question.columns == ("x",):
        alone = {name: value for name, value in arguments.items() if name != "column"}
        for library in (pd, pl):
            answers[f"series of {library}"] = numbers(
                getattr(library.Series(DATA["x"]).dp, kind.kind)(**alone, **huge)
            )
    frame = pl.DataFrame(DATA)
    answers["agg"] = numbers(list(frame.dp.agg(question, **huge).values()))
    files = tmp_path / "part.parquet"
    if kind.adds_up:
        dfp.statistics(frame, files, question)
        answers["files"] = numbers(list(dfp.merge(files, **huge).values()))
    else:
        with pytest.raises(dfp.errors.InvalidQuestionError, match="many files"):
            dfp.statistics(frame, files, question)
    if kind.kind in OWN:
        sql_udfs.register(connection, epsilon=1e9)
    for name in (kind.kind, *kind.sql_aliases):
        call = write_call(name, question)
        (answer,) = connection.execute(f"SELECT {call} FROM t").fetchone()
        answers[f"{call} registered"] = numbers(answer)
        released = dfp.sql(f"SELECT {call} AS answer FROM t", t=frame, epsilon=1e9)
        answers[f"dfp.sql {call}"] = numbers(released["answer"][0])
    answers["command"] = from_command(question, frame, tmp_path)
    answers["job"] = from_job(question, tmp_path)
    first = answers["polars"]
    for name, other in answers.items():
        assert np.allclose(other, first, rtol=1e-3, atol=0.05), (name, other, first)


def from_command(question: Statistic, frame: pl.DataFrame, folder: Path) -> list[float]:
    """Return the answer of the command line."""
    frame.write_parquet(folder / "rows.parquet")
    words = [question.kind, str(folder / "rows.parquet"), *question.columns]
    for argument in question.arguments():
        value = getattr(question, argument.name)
        if argument.form == "bounds" and value is not None:
            option = f"--{argument.name.replace('_', '-')}"
            words += [option, str(value.lower), str(value.upper)]
        elif argument.form == "value":
            words += [f"--{argument.name}", str(value)]
        elif argument.required and argument.form != "column":
            is_list = argument.form == "numbers"  # a list is an option that is repeated
            option = f"--{argument.name.removesuffix('s') if is_list else argument.name}"
            for item in value if is_list else [value]:
                words += [option, str(item)]
    out = folder / "answer.json"
    ran = command(*words, "--epsilon", "1e9", "--output", out)
    assert ran.exit_code == 0, ran.stderr
    rows = json.loads(out.read_text(encoding="utf-8"))
    return [float(row["value"]) for row in rows]


def from_job(question: Statistic, folder: Path) -> list[float]:
    """Return the answer of a described release."""
    is_pair = len(question.columns) > 1
    fields = {question.kind: list(question.columns) if is_pair else "x"}
    for argument in question.arguments():
        value = getattr(question, argument.name)
        if argument.form == "bounds" and value is not None:
            fields[argument.name] = [value.lower, value.upper]
        elif argument.form == "value" or (argument.required and argument.form != "column"):
            fields[argument.name] = list(value) if argument.form == "numbers" else value
    dfp.Ledger(folder / "ledger.db", epsilon=4e9, delta=1e-6, remember=True)
    job = {
        "budget": {"ledger": "ledger.db", "dataset": "rows", "version": "1", "epsilon": 1e9},
        "source": {"file": "rows.parquet"},
        "releases": {"one": {"questions": {"answer": fields}, "outputs": "out.csv"}},
    }
    (folder / "job.yml").write_text(json.dumps(job), encoding="utf-8")
    ran = command("run", folder / "job.yml")
    assert ran.exit_code == 0, ran.stderr
    with (folder / "out.csv").open(encoding="utf-8") as file:
        return [float(row["value"]) for row in csv.DictReader(file)]


def numbers(answer) -> list[float]:
    """Return the numbers of an answer in their order."""
    if isinstance(answer, dict):
        return [float(value) for value in answer.values()]
    if isinstance(answer, list | tuple | pl.Series):
        return [float(value) for value in answer]
    return [float(answer)]


def write_call(name: str, question: Statistic) -> str:
    """Return the SQL call that asks a question, within its bounds if it has any."""
    arguments = [*question.columns]
    for argument in question.arguments():
        value = getattr(question, argument.name)
        if argument.form == "bounds" and value is not None:
            arguments += ["0", "100"]
        elif argument.form == "value":
            arguments[0] = f"x = {value}"
        elif argument.required and argument.form != "column":
            arguments.append(str(list(value)) if argument.form == "numbers" else str(value))
    return f"dp_{name}({', '.join(arguments)})"


def test_examples_of_own_statistics_are_short():
    """A statistic of one's own is one file of at most 60 lines."""
    folder = Path(__file__).parents[2] / "examples" / "statistics"
    for name in OWN:
        assert len((folder / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_a_kind_is_registered_once():
    """A statistic of the package can't be replaced by another one of its name."""
    with pytest.raises(ValueError, match="already"):
        type("Other", (LinearStatistic,), {"kind": "mean"})
