"""Numbers of a text file say that texts which are no numbers are left out."""

from pathlib import Path

import pytest

import dfprivacy as dfp
from dfprivacy import errors

NOTE = "texts of a file that are no numbers are left out"


@pytest.mark.parametrize("thousands", [",", ""])
def test_numbers_of_a_text_file_say_what_is_left_out(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    thousands: str,
) -> None:
    """Beside every statistic of numbers in text stands a note, the same for all rows.

    With 1,000 for a thousand a mean is that of the smaller half. Frames say so once in a process.
    """
    file = tmp_path / "sales.csv"
    file.write_text("k;x\n" + f"a;{7}\na;1{thousands}000\n" * 1_500)
    statement = "SELECT k, dp_{}, count(*) AS n FROM sales GROUP BY k"
    for ask, has_note in (
        (lambda: dfp.frame(file).mean("x", (0, 2_000), epsilon=1), True),
        (lambda: dfp.frame(file).median("x", epsilon=1), True),
        (lambda: dfp.frame(file).group_by("k", keys=["a"]).sum("x", epsilon=1), True),
        (lambda: dfp.sql(statement.format("mean(x)"), sales=file, keys=["a"], epsilon=1), True),
        (lambda: dfp.frame(file).count("x", epsilon=1), False),
        (lambda: dfp.frame(file).nunique("x", epsilon=1), False),
        (lambda: dfp.sql(statement.format("count(x)"), sales=file, keys=["a"], epsilon=1), False),
    ):
        monkeypatch.setattr(errors, "WARNED", set())
        caplog.clear()
        ask()
        assert (NOTE in caplog.text) == has_note
    dfp.frame(file).mean("x", (0, 2_000), epsilon=1)
    caplog.clear()
    dfp.frame(file).mean("x", (0, 2_000), epsilon=1)
    assert not caplog.text
