import pytest


@pytest.mark.parametrize("command", [("count",), ("mean", "delay"), ("median", "delay")])
def test_limits_of_the_engine(ask, command, tmp_path):
    """A call within limits answers as any other, and leaves nothing in the folder for spills."""
    question, *column = command
    limits = ("--memory", "500MB", "--threads", "1", "--temporary", str(tmp_path))
    result = ask(question, "flights.parquet", *column, *limits)
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
