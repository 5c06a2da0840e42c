"""Every statistic answers zero rows and zero groups, at every entry point, as it answers one row.

A table of no rows, of one row, of one row of NULLs and of one row without a unit are neighbors: the
same question has the same outcome about each, and costs the same.
"""

import math

import polars as pl
import pytest

import dfprivacy as dfp
from benchmarks.replay import Meter
from benchmarks.replay_cases import ENTRIES, Case, Places, is_possible
from benchmarks.replay_questions import QUESTIONS as REPLAYED
from tests.laws.empty_tables import (
    FORMS,
    QUESTIONS,
    SCHEMA,
    TABLES,
    TERMS,
    ask,
    run_question,
)
from tests.products import take_turns


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """Return a ledger that pays for every question of this file."""
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    return dfp.Ledger(path, rho=1e6, delta=0.9)


def check(question, keys, terms, ledger, tables=TABLES):
    """Require the same outcome of a question about every table."""
    outcomes = {}
    for name, table in tables.items():
        ended = run_question(
            ledger,
            lambda table=table, **account: ask(
                dfp.frame(table)(**terms, **account), question, keys
            ),
        )
        outcomes.setdefault(ended, []).append(name)
    assert len(outcomes) == 1, outcomes


KEYS = ["whole", "public", "secret"]


@pytest.mark.battery
@pytest.mark.parametrize(
    ("question", "keys", "terms"),
    take_turns(QUESTIONS, KEYS, list(TERMS)),
)
@pytest.mark.parametrize("form", FORMS)
def test_questions_about_no_rows(question, keys, terms, form, ledger):
    """Every question has one outcome and one charge, whatever the keys and the privacy unit.

    All pairs of question, keys and unit are covered.
    """
    tables = {name: FORMS[form](table) for name, table in TABLES.items()}
    check(question, keys, TERMS[terms], ledger, tables)


COLUMNS = {
    "ordinary": [k % 90 - 20.0 for k in range(400)],
    "constant": [7.3] * 400,
    "zeros": [0.0] * 50,
    "minus zero": [-0.0],
    "not a number": [math.nan],
    "missing": [None] * 50,
    "infinite": [math.inf] * 50,
    "huge": [1e300, -1e300] * 30,
    "tiny": [5e-324] * 9,
    "an outlier": [*[1.0] * 100, 1e9],
    "far": [2.0**53 + 1] * 60,
    "doublings": [2.0 ** (k % 60) for k in range(2_400)],
}


def build_table(xs):
    """Return a table of one group with these values, each row with a unit of its own."""
    rows = [("a", i % 3, i, x, xs[-1 - i], i, True, [1]) for i, x in enumerate(xs)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row", infer_schema_length=None)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_about_any_column(question, keys, ledger):
    """Whatever columns hold, without a row too, every question has one outcome and one charge."""
    check(
        question, keys, {}, ledger, TABLES | {name: build_table(COLUMNS[name]) for name in COLUMNS}
    )


@pytest.mark.battery
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_no_rows_at_every_entry_point(entry, keys, tmp_path):
    """No rows and one row have one outcome of the same draws, for no more than the charge."""
    meter, places = Meter(tmp_path), Places(tmp_path)
    source = {"functions": "duckdb", "command": "parquet", "job": "parquet"}.get(entry, "polars")
    for name, question in REPLAYED.items():
        loss = f"{question.measures[0]} 1"
        case = Case(name, entry, source, "rows", keys, loss, "spread", "lone row")
        if is_possible(vars(case)):
            releases = case.releases(places)
            pair = meter.compare(*releases, case.measure, case.stated, lost_groups=True)
            assert not pair.fault, case
            assert pair.ratio <= 1, case
