"""Random schedules of clients and faults, as `benchmarks.server_simulation` runs them."""

from collections import Counter

import pytest

from benchmarks.server_simulation import (
    CHARGED_FAILURE,
    ChargesApart,
    ChargesFirst,
    SettlesNever,
    simulate,
)
from dfprivacy.accounting.answer_ledger import AnswerLedger


@pytest.mark.parametrize("schedules", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_answers_are_charged_and_charged_once(schedules):
    """Each answer that was seen is in the ledger with its charge, and none was charged twice.

    No price was told that was not charged. Clients of both listeners see them. A draw that failed
    is charged besides. The faults that matter do come up.
    """
    counts: Counter[str] = Counter()
    for seed in range(schedules):
        assert simulate(seed, AnswerLedger, counts) == ""
    assert counts["answers"] > schedules
    assert counts["statements over postgres"] > schedules
    assert counts["statements over flight"] > schedules
    assert counts["cancel"] + counts["leave"] > schedules / 10
    assert counts["kill in a write"] > schedules / 4
    assert counts["fetch again"] > schedules
    assert counts["draws dropped for another worker's answer"] > schedules / 20
    assert counts[CHARGED_FAILURE] > schedules / 50


@pytest.mark.parametrize("kind", [ChargesFirst, ChargesApart, SettlesNever])
def test_the_simulation_sees_a_wrong_order(kind):
    """Each mutant breaks a law: a charge before its draw, two writes, answers that are not stored.

    About a third of the schedules shows it. 60 that miss it have a probability below 1e-9.
    """
    assert any(simulate(seed, kind, Counter()) for seed in range(60))
