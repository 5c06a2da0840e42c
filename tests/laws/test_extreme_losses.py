"""The least and the largest losses are answered, or refused before the charge, whatever the rows.

Noise of a tiny loss can be larger than 64 bits, and so can the least count of a group that is
shown. Whether it is must not decide between an answer and an error.
"""

import re

import duckdb
import polars as pl
import pytest

import dfprivacy as dfp
import sql_udfs
from tests.laws.empty_tables import CALLS, QUESTIONS, SCHEMA, ask, run_question
from tests.products import take_turns

ROWS = [("ab"[i % 2], i % 3, i % 5, float(i % 7), 2.0, 3, True, [1]) for i in range(60)]
FRAME = pl.DataFrame(ROWS, schema=SCHEMA, orient="row")
LOSSES = [(measure, power) for measure in ("epsilon", "rho") for power in (-60, -30, 30)]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """Return ledgers with the largest budgets, by measure."""
    folder = tmp_path_factory.mktemp("ledgers")
    return {
        measure: dfp.Ledger(folder / f"{measure}.db", **{measure: 4e9}, delta=0.9)
        for measure in ("epsilon", "rho")
    }


def check(question, keys, measure, power, ledgers):
    """Require the same outcome for 60 rows, 2 rows and none."""
    outcomes = {
        run_question(
            ledgers[measure],
            lambda rows=rows, **account: ask(
                FRAME.head(rows).dp(**account), question, keys, **{measure: 2.0**power}
            ),
        )
        for rows in (60, 2, 0)
    }
    assert len(outcomes) == 1, outcomes


FORMER = ["cov bounds", "sum", "several", "dick_mean", "quantile ends=True"]
"""Questions that failed after the charge, by chance or always."""


@pytest.mark.parametrize("power", [-60, -30])
@pytest.mark.parametrize("question", FORMER)
def test_tiny_epsilon_by_secret_keys(question, power, ledgers):
    """Noise larger than 64 bits fails no release after the charge."""
    for _ in range(4):
        check(question, "secret", "epsilon", power, ledgers)


@pytest.mark.battery
@pytest.mark.parametrize(
    ("question", "loss", "keys"), take_turns(QUESTIONS, LOSSES, ["whole", "public", "secret"])
)
def test_extreme_losses(question, loss, keys, ledgers):
    """Every question has one outcome at the least and the largest losses, whatever the rows.

    All pairs of question, loss and keys are covered.
    """
    measure, power = loss
    check(question, keys, measure, power, ledgers)


@pytest.mark.battery
@pytest.mark.parametrize("keys", ["whole", "public", "secret"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_largest_losses(question, keys, entropy_calls):
    """Losses that no ledger can pay for are answered or refused before the first random byte."""
    for measure in ("epsilon", "rho"):
        for rows in (60, 2, 0):
            before = len(entropy_calls)
            try:
                ask(FRAME.head(rows).dp, question, keys, **{measure: 2.0**59})
            except dfp.DPError:
                assert len(entropy_calls) == before


@pytest.mark.battery
@pytest.mark.parametrize("power", [-60, -30, 30])
def test_functions_at_extreme_losses(power):
    """A function on a raw connection ends alike for 60 rows, 2 rows and none, by group and alone.

    The outcome is an answer of the same type, or the same refusal.
    """
    connection = duckdb.connect()
    loss = 2.0**power
    sql_udfs.register(connection, epsilon=loss, max_epsilon=max(loss, 20))
    for rows in (60, 2, 0):
        connection.register(f"t{rows}", FRAME.head(rows).to_arrow())
    for call in CALLS.values():
        for tail in ("", " GROUP BY g", " GROUP BY g HAVING dp_keep(1e-6)"):
            endings = {
                run_to_end(connection, f"SELECT {call} FROM t{rows}{tail}") for rows in (60, 2, 0)
            }
            assert len(endings) == 1, (call, tail, endings)


def run_to_end(connection, statement):
    """Return the types of an answer, or the error with its text."""
    try:
        relation = connection.sql(statement)
        relation.fetchall()
    except duckdb.Error as error:
        return type(error).__name__, re.sub(r"t(60|2|0)", "t", str(error))
    return str(relation.types)
