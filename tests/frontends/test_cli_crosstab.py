"""Tables of two columns on the command line and in descriptions of releases."""

import polars as pl
import pytest

EXACT = ["--epsilon", "1000000", "--delta", "1e-6"]


def test_a_table_is_printed_with_its_totals(ask, cells):
    """Rows, columns and totals stand as in a frame; the last line says what it cost."""
    result = ask("crosstab", "flights.csv", "carrier", "month", "--margins", *EXACT)
    assert result.exit_code == 0, result.output
    assert cells(result.output) == [
        ["AA", "1,000", "1,000", "0", "2,000"],
        ["UA", "500", "500", "0", "1,000"],
        ["(other)", "0", "0", "0", "0"],
        ["All", "1,500", "1,500", "0", "3,000"],
    ]
    assert "Spent epsilon 1000000, delta 1e-6;" in result.output


def test_a_table_of_an_aggregate_takes_public_keys_and_bounds(ask, cells):
    """Cells are those that are listed, typed as their columns are."""
    keys = [word for pair in ("UA,1", "UA,2", "AA,1", "AA,2") for word in ("--keys", pair)]
    options = ["--values", "delay", "--aggregate", "mean", "--bounds", "-64", "64"]
    result = ask("crosstab", "flights.csv", "carrier", "month", *options, *keys, "--epsilon", "1e6")
    ua, aa = cells(result.output)
    assert (ua[0], aa[0]) == ("UA", "AA")
    assert [*map(float, ua[1:]), *map(float, aa[1:])] == pytest.approx([-40, -40, 10, 10])


def test_the_long_form_is_written_to_a_file(ask, tmp_path):
    """One row a cell, with the ends of intervals and the totals beside."""
    path = tmp_path / "long.csv"
    options = ["--margins", "--long", "--output", str(path)]
    assert ask("crosstab", "flights.parquet", "carrier", "month", *options, *EXACT).exit_code == 0
    table = pl.read_csv(path)
    assert table.columns[:5] == ["carrier", "month", "count", "count_low", "count_high"]
    assert table["total"].to_list() == [3000] * 4
    ask("crosstab", "flights.parquet", "carrier", "month", *options[:1], *options[2:], *EXACT)
    assert pl.read_csv(path).columns == ["carrier", "1", "2", "(other)", "All"]


def test_a_table_is_explained(ask):
    """Shares and half-widths are told."""
    plan = ask("crosstab", "flights.csv", "carrier", "month", "--margins", "--explain", *EXACT)
    assert "carrier_total" in plan.output


RELEASE = """
releases:
  cells:
    source: {{file: flights.parquet}}
    by: [carrier, month]
    {more}
    margins: true
    questions: {{flights: {{{asked}}}}}
    outputs: cells.csv
    budget: {{ledger: budget.db, dataset: flights, version: "1", epsilon: 40{delta}}}
"""


def test_a_description_has_totals_beside_cells(run, tmp_path):
    """`margins` adds the totals to the cells of one question by two columns; a run is repeated."""
    for question, keys in (("count: '*'", ""), ("mean: delay, bounds: [-64, 64]", KEYS)):
        (tmp_path / "cells.csv").unlink(missing_ok=True)
        (tmp_path / "cells.csv.provenance.json").unlink(missing_ok=True)
        text = RELEASE.format(asked=question, more=keys, delta="" if keys else ", delta: 1e-6")
        assert run(text).exit_code == 0
        table = pl.read_csv(tmp_path / "cells.csv")
        assert table["flights_low"].is_not_null().all()
        truth = -20 / 3 if keys else 3000
        assert abs(table["total"][0] - truth) < 10


KEYS = "keys: {carrier: [AA, UA], month: [1, 2]}"


def test_margins_need_two_columns_and_one_question(run):
    """A question that can't have totals is found when the description is read."""
    text = RELEASE.format(asked="count: '*'", more="", delta=", delta: 1e-6")
    for wrong in (
        text.replace("[carrier, month]", "[carrier]"),
        text.replace("{flights: {", "{delay: {mean: delay, bounds: [-9, 9]}, flights: {"),
        text.replace("count: '*'", "median: delay"),
    ):
        result = run(wrong)
        assert result.exit_code != 0
        assert "spent" not in result.output
