"""Outputs of a run may hold answers compared with each other, which cost nothing."""

import json
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.frontends.described_delays import HEAD, spent

MONTHS = """\
  months:
    by: [carrier, month]
    keys: {carrier: [AA, UA], month: [1, 2]}
    questions: {n: {count: "*"}}
    outputs:
      - months.csv
      - {diff: diff.csv}
      - {change: {database: out.duckdb, table: growth}, along: month}
      - {ratio_to: ratio.parquet, base: UA, along: carrier}
      - {ratio_to: parts.csv, base: total}
"""


def test_outputs_are_the_answers_compared(run):
    """Each is what `released` makes of the answers that stand in the plain output, in its types."""
    first = run(HEAD + MONTHS)
    assert (first.exit_code, first.stderr) == (0, "")
    told = pl.read_csv("months.csv")
    n = told["n"].to_list()
    diff = pl.read_csv("diff.csv")
    assert diff.columns == ["carrier", "month", "against", "n", "low", "high"]
    assert diff["n"].to_list()[1::2] == [n[1] - n[0], n[3] - n[2]]
    with duckdb.connect("out.duckdb", read_only=True) as connection:
        growth = connection.sql("SELECT n, low, high FROM growth WHERE isfinite(n)").fetchall()
    assert np.allclose([own[0] for own in growth], [n[1] / n[0] - 1, n[3] / n[2] - 1])
    assert all(low < value < high for value, low, high in growth)
    ratio = pl.read_parquet("ratio.parquet")
    assert ratio.schema["month"] == pl.Int64
    assert np.allclose(ratio["n"], [n[0] / n[2], n[1] / n[3], 1, 1])
    assert np.allclose(pl.read_csv("parts.csv")["n"], np.array(n) / sum(n))
    note = json.loads(Path("diff.csv.provenance.json").read_text())
    assert note["compared"] == {"method": "diff", "base": None, "along": None}
    assert spent() == dfp.Budget(epsilon=1.0)


def test_a_comparison_that_is_added_costs_nothing(run):
    """Another output is another reading of the same release."""
    plain, added = (
        MONTHS.split("      - {diff", maxsplit=1)[0],
        "      - {diff: later.csv, along: carrier}\n",
    )
    run(HEAD + plain)
    again = run(HEAD + plain + added)
    assert again.stdout.endswith("; paid before, nothing spent\n")
    n = pl.read_csv("months.csv")["n"].to_list()
    assert pl.read_csv("later.csv")["n"].to_list()[2:] == [n[2] - n[0], n[3] - n[1]]
    assert spent() == dfp.Budget(epsilon=1.0)


def test_tables_and_counts_by_value_are_compared(run):
    """Totals that were measured are what parts are of; counts by value go by their values."""
    text = MONTHS.split("    outputs:", maxsplit=1)[0] + "    margins: true\n    outputs:\n"
    text += "      - {ratio_to: parts.csv, base: total}\n"
    text += "  often:\n    keys: [AA, UA]\n    questions: {n: {top: carrier, k: 2}}\n"
    text += "    outputs: [{ratio_to: often.csv, base: AA}]\n"
    assert run(HEAD + text).exit_code == 0
    assert abs(pl.read_csv("parts.csv")["n"].sum() - 1) < 0.01
    assert abs(pl.read_csv("often.csv")["n"][1] - 0.5) < 0.05


WRONG = [
    ("{diff: a.csv, base: 3}", "the base 3 is not among the listed keys"),
    ("{diff: a.csv, along: day}", "the frame has no key 'day'"),
    ("{ratio_to: a.csv}", "ratio_to needs a base: total, or a key"),
    ("{diff: a.csv, change: b.csv}", "name one of diff, change and ratio_to"),
    ("{diff: a.json}", "'a.json' does not end in .csv or .parquet"),
    ("{diff: a.csv, sort: n}", "outputs.1.sort: Unexpected keyword"),
]


@pytest.mark.parametrize(("output", "told"), WRONG)
def test_what_can_not_be_compared_is_a_fault(run, output, told):
    """Faults come before the first charge, by --check as well."""
    text = MONTHS.split("      - {diff", maxsplit=1)[0] + f"      - {output}\n"
    result = run(HEAD + text, "--check")
    assert result.exit_code == 2
    assert told in result.stderr
    assert spent() == dfp.Budget(epsilon=0.0)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("questions: {n: {count: '*'}}", "diff, change and ratio_to need 'by'"),
        ("by: month\n    keys: [1, 2]\n    questions: {m: {median: delay}}", "no answer with an"),
    ],
)
def test_answers_without_groups_or_intervals_are_not_compared(run, asked, told):
    """There is nothing to compare without groups, and no noise law without an interval."""
    result = run(HEAD + f"  months:\n    {asked}\n    outputs: [{{diff: a.csv}}]\n", "--check")
    assert result.exit_code == 2
    assert told in result.stderr
