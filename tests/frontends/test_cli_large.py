import polars as pl
import pytest


@pytest.mark.parametrize("command", [("count",), ("mean", "delay"), ("median", "delay")])
def test_limits_of_the_engine(ask, command, tmp_path):
    """A call within limits answers as any other, and leaves nothing in the folder for spills."""
    question, *column = command
    limits = ("--memory", "500MB", "--threads", "1", "--temporary", str(tmp_path))
    result = ask(question, "flights.parquet", *column, *limits)
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_limits_for_units(ask, tmp_path):
    """The command that finds a unit's limits takes those of the engine too."""
    limits = ("--memory", "500MB", "--threads", "1", "--temporary", str(tmp_path))
    result = ask("limits", "flights.parquet", "--unit", "day", *limits)
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_limits_leave_a_fraction_of_units_unchanged(ask):
    """`--unchanged` names the fraction of units, which `--share` of a question does not take."""
    result = ask("limits", "flights.parquet", "--unit", "day", "--unchanged", "0.5", "--epsilon", 9)
    assert result.stdout.startswith("--unit day --max-rows ")
    wrong = ask("limits", "flights.parquet", "--unit", "day", "--unchanged", "2")
    assert (wrong.exit_code, "from 0 to 1" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    "wrong", [("--memory", "much"), ("--threads", "0"), ("--temporary", "no/such/place")]
)
def test_limits_that_cannot_be(ask, wrong):
    """A limit that can't be ends with exit code 2 and a hint in the words of the command line."""
    result = ask("count", "flights.parquet", *wrong)
    assert result.exit_code == 2
    assert wrong[0].removeprefix("--") in result.stderr
    assert "Hint: " in result.stderr
    assert "dfp." not in result.stderr


def test_a_folder_is_a_file(ask, tmp_path):
    """A folder of Parquet files is asked like a file; keys of directories are text."""
    for year in (2024, 2025):
        (tmp_path / f"year={year}").mkdir()
        pl.DataFrame({"x": [1.0] * year}).write_parquet(tmp_path / f"year={year}" / "a.parquet")
    output = tmp_path / "counts.csv"
    keys = ("--by", "year", "--keys", "2024", "--keys", "2025", "--epsilon", "1e9")
    result = ask("count", str(tmp_path), *keys, "--output", str(output))
    assert (result.exit_code, result.stderr) == (0, "")
    assert pl.read_csv(output).select("year", "count").rows() == [(2024, 2024), (2025, 2025)]
