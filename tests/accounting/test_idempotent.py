import threading

import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.idempotent import IdempotentLedger
from tests.accounting.charges import charge

CHARGE = charge(0.5)
MARK = bytes(32)
ONE, TWO = pa.table({"n": [1]}), pa.table({"n": [2]})


@pytest.fixture
def path(tmp_path):
    dfp.Ledger(tmp_path / "budget.db", epsilon=1, remember=True)
    return tmp_path / "budget.db"


def claim(path, mark=MARK):
    ledger = IdempotentLedger(path, "d", mark)
    ledger.check("d", CHARGE)
    ledger.charge("d", CHARGE)
    return ledger


def test_charge_and_claim_are_one(path):
    """Whoever comes while a claim stands, or after it was kept, is not charged, and says so."""
    with pytest.raises(dfp.errors.InvalidLedgerError):
        IdempotentLedger(path, "d", MARK).keep(ONE)
    assert not IdempotentLedger(path, "d", MARK).is_settled()
    first, second = claim(path), claim(path)
    assert (first.has_charged, second.has_charged) == (True, False)
    assert first.spent("d").epsilon == 0.5
    assert first.keep(ONE).equals(ONE)
    claim(path)
    assert second.spent("d").epsilon == 0.5


def test_one_answer_comes_out(path):
    """Of several that drew under one claim all get the answer that was kept first."""
    first, second = claim(path), claim(path)
    assert second.keep(TWO).equals(TWO)
    assert first.keep(ONE).equals(TWO)
    assert first.stored("d") == 1


def test_a_claim_holds_when_nothing_is_left(path):
    """A claimed release can be made even if the budget has been spent since."""
    claim(path)
    dfp.Ledger(path).charge("d", CHARGE)
    assert claim(path).keep(ONE).equals(ONE)


def test_forgotten(path):
    """A forgotten release is charged again. One that is charged and not kept yet is no release."""
    first, second, ledger = claim(path), claim(path), dfp.Ledger(path)
    assert (ledger.stored(), ledger.forget()) == (0, 0)
    assert first.keep(ONE).equals(ONE)
    assert (ledger.stored(), ledger.forget()) == (1, 1)
    with pytest.raises(dfp.errors.InvalidLedgerError, match="forgotten"):
        second.keep(TWO)
    assert ledger.spent("d").epsilon == 0.5
    assert claim(path).keep(TWO).equals(TWO)
    assert ledger.spent("d").epsilon == 1


def failing():
    raise ZeroDivisionError


def test_every_draw_that_fails_uses_a_charge_up(path):
    """Of two that drew under one claim and failed the second is charged too, if there is room.

    Without room it ends in the same way, whether its draw failed or not.
    """
    crowd = [claim(path) for _ in range(4)]
    with pytest.raises(ZeroDivisionError):
        crowd[0].keep_release(failing)
    assert crowd[0].spent("d").epsilon == 0.5
    with pytest.raises(ZeroDivisionError):
        crowd[1].keep_release(failing)
    assert crowd[0].spent("d").epsilon == 1
    for ledger, make in zip(crowd[2:], (failing, lambda: ONE), strict=True):
        with pytest.raises(dfp.BudgetExceededError) as refused:
            ledger.keep_release(make)
        assert refused.value.__context__ is None
    assert crowd[0].stored("d") == 0


def test_a_failure_beside_an_answer(path):
    """A draw that fails once another was kept does not show: what was kept comes out."""
    first, second = claim(path), claim(path)
    assert first.keep_release(lambda: ONE).equals(ONE)
    assert second.keep_release(failing).equals(ONE)
    assert first.spent("d").epsilon == 0.5


def test_a_ledger_for_one_release(path):
    """It charges once, and its own dataset only: no second release goes free."""
    ledger = claim(path)
    with pytest.raises(dfp.errors.InvalidLedgerError, match="asked to charge another"):
        ledger.charge("d", CHARGE)
    for ask in (ledger.check, IdempotentLedger(path, "d", MARK).charge):
        with pytest.raises(dfp.errors.InvalidLedgerError, match="asked to charge another"):
            ask("e", CHARGE)


@pytest.mark.usefixtures("fast_disk")  # waits for a slow disk would reach the ledgers' timeout
def test_a_crowd_is_charged_once(path):
    """Threads that claim one release at the same time are charged once, and keep one answer."""
    answers = []

    def work(number):
        answers.append(claim(path).keep(pa.table({"n": [number]})))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(table.equals(answers[0]) for table in answers)
    assert len(dfp.Ledger(path).history()) == 1
