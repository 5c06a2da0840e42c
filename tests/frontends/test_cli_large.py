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
