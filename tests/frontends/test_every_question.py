"""A question has one text at every entry point: the call that asks it."""

import ast
import json
from pathlib import Path

import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy import papers
from tests.command_line import command

TEXTS = [
    "count()",
    "count('x')",
    "sum('x')",
    "sum('x', bounds=(0.0, 9.0))",
    "mean('x')",
    "mean('x', bounds=(0.0, 9.0))",
    "shifted_mean('x', bounds=(0.0, 9.0))",
    "independent_mean('x', bounds=(0.0, 9.0))",
    "subset_mean('x')",
    "dick_mean('x')",
    "var('x', bounds=(-1.5, 9.0))",
    "std('x')",
    "median('x')",
    "median('x', bounds=(0.0, 9.0), step=0.5)",
    "median('x', ends=True)",
    "quantile('x', 0.9)",
    "inverse_quantile('x', 0.9)",
    "quantiles('x', [0.25, 0.75])",
    "center('x', 1.5)",
    "center('x', 1.5, bounds=(0.0, 9.0))",
    "dick_center('x', 1.5)",
    "bounds('x')",
    "bounds('x', rank=100)",
    "histogram('x', 2)",
    "histogram('x', [0.0, 1.0, 9.0])",
]
FRAME = pl.DataFrame({"x": [0.0, 1.0] * 500, "g": ["a", "b"] * 500})


def read_question(text: str) -> tuple[str, list, dict]:
    """Read the name, the column and the named arguments of a question."""
    call = ast.parse(text, mode="eval").body
    columns = [ast.literal_eval(node) for node in call.args]
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    name = call.func.id
    if len(columns) > 1:
        value = columns.pop()
        edges = "edges" if isinstance(value, list) else "bins"
        keys = {"quantiles": "qs", "histogram": edges}
        key = keys.get(name, "p" if name.endswith("center") else "q")
        named[key] = value
    return name, columns, named


def write_words(text: str) -> list[str]:
    """Write a question as words of the command line, after the name of the file."""
    _, words, named = read_question(text)
    for name, value in named.items():
        if name == "bounds":
            words += ["--bounds", *map(str, value)]
            continue
        option = {"qs": "--q", "edges": "--edge"}.get(name, f"--{name}")
        if value is True:
            words.append(option)
            continue
        for number in value if isinstance(value, list) else [value]:
            words += [option, str(number)]
    return words


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """Make a ledger beside a file of rows."""
    monkeypatch.chdir(tmp_path)
    FRAME.write_parquet("rows.parquet")
    return dfp.Ledger("b.db", epsilon=1e6, remember=True)


def test_methods_ask_what_is_written(ledger):
    """The text of a question is the call that asks it; defaults are left out.

    Different calls are different questions, so that no two entries of a history look the same.
    """
    private = FRAME.dp(ledger=ledger, dataset="d", epsilon=100)
    for text in TEXTS:
        eval(f"private.{text}", {"__builtins__": {}}, {"private": private})
    assert ledger.history()["question"].tolist() == TEXTS
    both = {"a": papers.SubsetMean("x"), "b": dfp.median("x")}
    private.group_by("g", keys=["a", "b"]).agg(**both)
    assert ledger.history()["question"].iloc[-1] == "subset_mean('x'), median('x') by 'g'"


def test_commands_ask_what_is_written(ledger):
    """A command charges its question, and explains itself without a file and for nothing."""
    account = ("--ledger", "b.db", "--dataset", "d", "--epsilon", "0.5")
    for text in TEXTS:
        name, *_ = read_question(text)
        explained = command(name, "nowhere.csv", *write_words(text), *account, "--explain")
        assert (explained.exit_code, "costs     epsilon 0.5" in explained.output) == (0, True), text
    assert ledger.datasets() == []
    for text in TEXTS:
        name, *_ = read_question(text)
        result = command(name, "rows.parquet", *write_words(text), *account)
        left = 1e6 - 0.5 * len(ledger.history())
        assert result.exit_code == 0, result.output
        assert result.output.splitlines()[-1] == f"Left for d in b.db: epsilon {left:.12g}"
    history = ledger.history()
    assert history["question"].tolist() == TEXTS
    assert set(history["note"]) == {"command line"}


def test_jobs_ask_what_is_written(ledger):
    """A description takes the arguments of each question, and notes what was asked."""
    releases = {}
    for number, text in enumerate(TEXTS):
        name, columns, named = read_question(text)
        question = {name: columns[0] if columns else "*", **named}
        releases[f"r{number}"] = {"questions": {"asked": question}, "outputs": f"r{number}.csv"}
    budget = {"ledger": "b.db", "dataset": "d", "version": "1", "epsilon": 1}
    job = {"budget": budget, "source": {"file": "rows.parquet"}, "releases": releases}
    Path("job.yml").write_text(json.dumps(job), encoding="utf-8")
    ran = command("run", "job.yml")
    assert ran.exit_code == 0, ran.output
    notes = [json.loads(Path(f"{name}.csv.provenance.json").read_text()) for name in releases]
    assert [note["asked"]["questions"]["asked"] for note in notes] == TEXTS
