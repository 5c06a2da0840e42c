"""Sums over text files whose values are no numbers say what may be behind them."""

from pathlib import Path

import pytest

import dfprivacy as dfp

HINT = "texts of a file that are no numbers are left out"


@pytest.mark.parametrize(("mark", "is_hinted"), [(",", True), (".", False)])
def test_a_sum_of_no_numbers_is_explained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, mark: str, is_hinted: bool
) -> None:
    """Decimal commas make a sum of 0 at every entry point: a hint stands beside it.

    It needs an interval that holds 0. None of ten does with probability below 1e-10.
    """
    file = tmp_path / "sales.csv"
    file.write_text("k;x\n" + "".join(f"a;{i % 50}{mark}{i % 10}\n" for i in range(3000)))
    statement = "SELECT k, dp_sum(x, 0, 100) AS s FROM sales GROUP BY k"
    for ask in (
        lambda: dfp.frame(file).sum("x", (0, 100), epsilon=1),
        lambda: dfp.frame(file).group_by("k", keys=["a"]).sum("x", (0, 100), epsilon=1),
        lambda: dfp.sql(statement, sales=file, keys=["a", "b"], epsilon=1),
    ):
        caplog.clear()
        for _ in range(10):
            ask()
        assert (HINT in caplog.text) == is_hinted
