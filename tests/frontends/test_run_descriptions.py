import json
import time
from pathlib import Path

import pytest

from dfprivacy.statistics import STATISTICS
from tests.command_line import command

GOOD = """\
source: {file: flights.csv}
budget: {ledger: budget.db, dataset: flights, version: "1", epsilon: 1}
releases:
  delays:
    questions:
      delay: {mean: delay, bounds: [-60, 240]}
    outputs: [delays.csv]
"""


def change_description(old, new):
    """Return the good description with something else in one place."""
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


WRONG = (Path(__file__).parent / "wrong_descriptions.txt").read_text(encoding="utf-8")
"""Sections of a name, a description, and its faults.

A description before `---` is whole, others are changes of the good one: `2= text` replaces line 2,
`2+ text` stands after it, `2-` leaves it out.
"""


def change_lines(changes):
    """Return the good description with some changes of lines."""
    lines = dict(enumerate(GOOD.splitlines(), 1))
    for change in changes:
        number, sign, text = int(change[0]), change[1], change[3:]
        lines[number] = {"=": text, "+": f"{lines[number]}\n{text}", "-": None}[sign]
    return "".join(f"{line}\n" for line in lines.values() if line is not None)


def cases():
    for section in WRONG.split("=== ")[1:]:
        name, _, rest = section.partition("\n")
        text, is_whole, messages = rest.rpartition("---\n")
        faults = [line for line in messages.splitlines() if line.startswith("release.yml")]
        changes = messages.splitlines()[: -len(faults)]
        yield pytest.param(text if is_whole else change_lines(changes), faults, id=name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in an empty folder: a description is checked without data and without a ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def check(text, name="release.yml"):
    Path(name).write_text(text, encoding="utf-8")
    return command("run", "--check", name)


@pytest.mark.parametrize(("text", "messages"), list(cases()))
def test_faults(folder, text, messages):
    """A wrong description ends with exit code 2 and one line a fault, and nothing else happens."""
    result = check(text)
    assert (result.exit_code, result.stdout) == (2, "")
    *lines, hint = result.stderr.splitlines()
    kinds = ", ".join(
        (*STATISTICS, "histogram", "describe", "regression", "value_counts", "top", "mode")
    )
    assert lines == [message.replace("KINDS", kinds) for message in messages]
    assert hint.startswith("Hint: docs/how-to/etl.md")
    assert [path.name for path in folder.iterdir()] == ["release.yml"]


def test_a_good_one(folder):
    """A description without faults is said to have none; it needs neither data nor a ledger."""
    result = check(GOOD)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "release.yml: no faults; releases: delays\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff", "release.yml:1: this is not UTF-8 text"),
        (
            b"a: \x00",
            "release.yml:1: this is not YAML: it holds a character that YAML does not allow",
        ),
        (b"#" * (2**18 + 1), "release.yml:1: a description has at most 256 KiB"),
        (
            b"a: 1\n---\nb: 2\n",
            "release.yml:2: a second document begins here: a description is one",
        ),
        (
            b"releases: [" + b"1," * 100_000 + b"1]",
            "release.yml:1: a description has at most 10,000 values",
        ),
    ],
)
def test_no_text(folder, content, message):
    """Content that is no text of a sensible size, or has too many values, is refused whole."""
    (folder / "release.yml").write_bytes(content)
    result = command("run", "--check", "release.yml")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, message)


def test_no_file(folder):
    """A file that is missing, or of another kind, is a description with one fault."""
    result = command("run", "no.yml")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        "no.yml:1: the file can't be read: No such file or directory",
    )
    result = check("{}", "release.json")
    assert result.stderr.splitlines()[0] == (
        "release.json:1: a description is a .yml or .yaml file"
    )


DEEP = {
    "brackets": "[" * 60_000,
    "brackets on lines": "[\n" * 60_000,
    "braces": "{a: " * 30_000,
    "dashes": "- " * 60_000,
    "complex keys": "? " * 60_000,
    "keys of keys": "{{" * 30_000,
    "closed brackets": "a: " + "[" * 60_000 + "]" * 60_000,
    "indents": "".join(f"{' ' * n}a:\n" for n in range(500)),
}


@pytest.mark.parametrize("text", DEEP)
def test_depth_is_bounded(folder, text):
    """A file that is nested without end is refused where it becomes too deep."""
    result = check(DEEP[text])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a description is at most 32 levels deep" in result.stderr.splitlines()[0]


FAULTS = {
    "tags": "- !a x\n" * 9_000,
    "names that are there twice": "a: 1\n" * 9_000,
    "names that are lists": "? [a]\n: 1\n" * 4_000,
    "parameters": "parameters:\n" + "".join(f"  0{n}: x\n" for n in range(9_000)),
    "places": "a:\n" + "".join(f"- ${{a{n}}}\n" for n in range(9_000)),
    "places in one text": "a: '" + "".join(f"${{a{n}}}" for n in range(24_000)) + "'\n",
}


@pytest.mark.parametrize("text", FAULTS)
def test_the_number_of_faults_is_bounded(folder, text):
    """A file that is wrong everywhere is refused at once, with its first hundred faults."""
    before = time.process_time()
    result = check(FAULTS[text])
    assert time.process_time() - before < 5
    assert result.exit_code == 2
    assert sum(line.startswith("release.yml:") for line in result.stderr.splitlines()) <= 100


def read_keys(text, run):
    """Return the public keys in the note of a run."""
    result = run(text)
    assert result.exit_code == 0, result.output
    (note,) = Path().glob("*.provenance.json")
    return json.loads(note.read_text())["asked"]["keys"]


def test_words_are_what_they_seem(run):
    """NO is a country, 1e-6 a number and a date a text, as in YAML 1.2."""
    text = change_description(
        "    outputs:", "    by: carrier\n    keys: [NO, on, 2024-01-31]\n    outputs:"
    )
    assert read_keys(text, run) == [["NO"], ["on"], ["2024-01-31"]]
    explained = run(change_description("epsilon: 1}", "epsilon: 1e-3}"), "--explain", "--quiet")
    assert explained.stdout == "delays: epsilon 0.001 of flights in budget.db\n"


QUERY = """\
budget: {ledger: budget.db, dataset: flights, version: "1", epsilon: 1}
releases:
  counts:
    source:
      query: SELECT carrier, month, dp_count(*) AS n FROM t GROUP BY carrier, month
      tables: {t: flights.parquet}
    keys: [[AA, 1], [UA, 2], [AA, 1]]
    outputs: [counts.csv]
"""


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (QUERY, [["AA", 1], ["UA", 2]]),
        (
            change_description(
                "    outputs:",
                "    by: [carrier, month]\n"
                "    keys: {month: ['1'], carrier: [AA, UA]}\n    outputs:",
            ),
            [["AA", "1"], ["UA", "1"]],
        ),
    ],
)
def test_keys_of_several_columns(run, text, keys):
    """Keys of several columns have a part for each, whether `by` or a query names the columns."""
    assert read_keys(text, run) == keys


def test_bounds_of_all_questions(run):
    """Bounds of a column hold for the questions that name none, and that take some."""
    text = change_description(
        "      delay: {mean: delay, bounds: [-60, 240]}",
        "      a: {mean: delay}\n      b: {sum: delay, bounds: [0, 9]}\n"
        "      c: {dick_center: delay, p: 2}\n      d: {median: delay}\n"
        "    bounds: {delay: [-60, 240]}",
    )
    assert run(text).exit_code == 0
    note = json.loads(Path("delays.csv.provenance.json").read_text())
    assert note["asked"]["questions"] == {
        "a": "mean('delay', bounds=(-60.0, 240.0))",
        "b": "sum('delay', bounds=(0.0, 9.0))",
        "c": "dick_center('delay', 2)",
        "d": "median('delay', bounds=(-60.0, 240.0))",
    }


def test_a_source_that_is_a_text_is_a_file(folder):
    """It is the same release as one of a file, at the top and of a release by itself."""
    Path("flights.csv").write_text("delay\n" + "1\n2\n" * 50, encoding="utf-8")
    command("ledger", "create", "budget.db", "--epsilon", 1, "--remember")
    of_file, plain = "source: {file: flights.csv}", "source: flights.csv"
    below = change_description(f"{of_file}\n", "").replace("delays:", f"delays:\n    {plain}")
    for text, printed in (
        (GOOD, "spent epsilon 1"),
        (change_description(of_file, plain), "nothing spent"),
        (below, "nothing spent"),
    ):
        Path("release.yml").write_text(text, encoding="utf-8")
        assert printed in command("run", "release.yml").stdout
