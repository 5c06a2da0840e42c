"""Units of several rows on the command line."""

import polars as pl
import pytest


@pytest.fixture
def visits(tmp_path):
    """Write a file of 3 visits by each of 2000 users, in two shops."""
    rows = range(6000)
    columns = {"user": [f"u{i % 2000}" for i in rows], "spent": [float(i % 50) for i in rows]}
    shops = pl.Series("shop", ["a"] * 2000 + ["b"] * 2000 + ["a"] * 2000)
    pl.DataFrame({**columns, "shop": shops}).write_csv(tmp_path / "visits.csv")
    return str(tmp_path / "visits.csv")


def test_a_unit_is_named_beside_its_cost(ask, visits):
    """The last line says that all rows of one user are protected."""
    result = ask("mean", visits, "spent", "--bounds", 0, 50, "--unit", "user", "--max-rows", 3)
    assert result.exit_code == 0
    assert "neighbors: add/remove all rows of one user" in " ".join(result.output.split())


def test_a_unit_without_limits_has_them_found(ask, visits):
    """The command needs no limits; --explain says that they are found, and what that costs."""
    mean = ["mean", visits, "spent", "--bounds", 0, 50, "--unit", "user", "--epsilon", 2]
    assert ask(*mean).exit_code == 0
    explained = " ".join(ask(*mean, "--by", "shop", "--delta", 1e-6, "--explain").output.split())
    assert "within limits that the release finds" in explained
    assert "epsilon 0.233333 on how many rows units have in a group" in explained
