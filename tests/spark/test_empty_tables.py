"""Spark frames of no rows have the outcomes of Spark frames of one row."""

import pytest

import dfprivacy as dfp
from tests.laws.empty_tables import TABLES, ask, run_question

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
pytestmark = pytest.mark.slow

ASKED = ["count", "mean", "median", "corr bounds", "slope bounds"]


@pytest.mark.parametrize("question", ASKED)
def test_secret_keys_of_no_rows(question, frame, tmp_path):
    """By secret keys a Spark frame without groups has the outcome of one with a group."""
    ledger = dfp.Ledger(tmp_path / "budget.db", rho=1e6, delta=0.9)
    outcomes = set()
    for name in ("no rows", "one row"):
        private = dfp.frame(frame(TABLES[name].drop("s").to_arrow()))
        outcomes.add(
            run_question(
                ledger,
                lambda private=private, **account: ask(private(**account), question, "secret"),
            )
        )
    assert len(outcomes) == 1
