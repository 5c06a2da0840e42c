"""Files of exact statistics on the command line."""

import json
import stat

import pytest


@pytest.fixture
def days(ask, folder, tmp_path):
    """Write two files of statistics of all flights, and return a function for their names."""

    def made(*terms):
        paths = [str(tmp_path / f"{name}.parquet") for name in ("monday", "tuesday")]
        for path in paths:
            result = ask("statistics", "flights.parquet", "--output", path, *terms)
            assert result.exit_code == 0, result.output
            said = " ".join(result.output.split())
            assert said.endswith("It is secret: guard it like the rows.")
        return paths

    return made


ASKED = [
    "--count", "--mean", "delay", "--bounds", "delay=-60,60", "--median", "delay",
    "--quantile", "delay=0.9",
]  # fmt: skip


def test_answers_of_a_whole_frame_stand_on_a_line_each(ask, days):
    """Without groups, each answer is a line with its interval and its cost."""
    result = ask("merge", *days(*ASKED), "--epsilon", "50")
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert [line.split()[0] for line in lines] == [
        "count", "delay_mean", "delay_median", "delay_quantile",
    ]  # fmt: skip
    assert abs(float(lines[0].split()[1].replace(",", "")) - 6000) < 10
    assert all("epsilon=50" in line for line in lines)


def test_groups_are_a_table(ask, days, cells):
    """By group the answers are a table, with the counts of both files."""
    result = ask("merge", *days("--mean", "delay", "--by", "carrier"), "--delta", "1e-6")
    assert result.exit_code == 0
    counts = [int(row[-1].replace(",", "")) for row in cells(result.output)]
    assert len(counts) == 2
    assert abs(counts[0] - 4000) < 99
    assert abs(counts[1] - 2000) < 99


def test_answers_can_be_written(ask, days, tmp_path):
    """With --output the answers are a file; what has no interval has no ends."""
    target = tmp_path / "answers.json"
    assert ask("merge", *days(*ASKED), "--output", str(target)).exit_code == 0
    rows = {row["name"]: row for row in json.loads(target.read_text())}
    assert rows["delay_median"]["low"] is None
    assert rows["delay_mean"]["low"] <= rows["delay_mean"]["value"]


def test_keys_units_and_ledgers(ask, days, tmp_path):
    """Public keys, units, promises and ledgers are spelled as everywhere."""
    unit = ["--unit", "day", "--max-rows", "2", "--by", "carrier", "--keys", "AA", "--keys", "ZZ"]
    paths = days("--count", *unit)
    ledger = str(tmp_path / "budget.db")
    assert ask("ledger", "create", ledger, "--epsilon", "1").exit_code == 0
    terms = ["--parts-per-unit", "1", "--ledger", ledger, "--dataset", "flights"]
    assert ask("merge", *paths, *terms, "--epsilon", "0.75").exit_code == 0
    again = ask("merge", *paths, *terms, "--epsilon", "0.75")
    assert again.exit_code == 2
    assert "does not cover" in again.stderr
    assert stat.S_IMODE((tmp_path / "monday.parquet").stat().st_mode) == 0o600


MISTAKES = [
    (["--mean", "delay", "--bounds", "delay=3"], "--bounds delay=-60,240"),
    (["--quantile", "delay"], "--quantile delay=0.9"),
    (["--mean", "late"], "no column 'late'"),
    ([], "no question was asked"),
]


@pytest.mark.parametrize(("terms", "words"), MISTAKES)
def test_mistakes_end_with_a_hint(ask, tmp_path, terms, words):
    """A mistake ends with exit code 2, two lines, and no file."""
    target = tmp_path / "x.parquet"
    result = ask("statistics", "flights.parquet", "--output", str(target), *terms)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert not target.exists()


def test_other_files_are_no_statistics(ask, folder):
    """A file of rows can't be merged."""
    result = ask("merge", "flights.parquet")
    assert result.exit_code == 2
    assert "holds no statistics of ours" in " ".join(result.stderr.split())
