"""A ledger that stores a charge and its answer in one write."""

import errno
import hashlib
import os

import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.answer_ledger import AnswerLedger
from tests.accounting.charges import charge, forge

FRAME = pd.DataFrame({"x": range(100)})
MARK, OTHER = bytes(32), bytes(31) + b"1"


@pytest.fixture
def path(tmp_path):
    dfp.Ledger(tmp_path / "b.db", epsilon=1, remember=True)
    return tmp_path / "b.db"


def spent(path):
    """Return the epsilon that the dataset has spent, read from the file."""
    return dfp.Ledger(path).spent("d").epsilon


def test_charge_and_answer_are_one_transaction(path):
    """A release adds one line to the log, and the same release later adds none."""
    counts, sizes = [], []
    for _ in range(2):
        ledger = AnswerLedger(path)
        private = FRAME.dp(ledger=ledger, dataset="d", version="1")
        counts.append(float(private.count(epsilon=0.25)))
        assert ledger.settle()
        sizes.append(path.read_bytes().count(b"\n"))
        assert spent(path) == 0.25
    assert counts[0] == counts[1]
    assert sizes[0] == sizes[1]


def test_a_process_that_ends_before_the_write_has_charged_nothing(path):
    """Its debt ends with it, but until then it can't draw a second time."""
    ledger = AnswerLedger(path)
    ledger.charge("d", charge(0.25))
    with pytest.raises(dfp.errors.InvalidLedgerError, match="earlier draw"):
        ledger.charge("d", charge(0.25))
    assert spent(path) == 0
    with pytest.raises(dfp.errors.InvalidLedgerError, match="never charged"):
        AnswerLedger(path).store("d", MARK, pa.table({"n": [1]}))


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_of_two_draws_the_one_that_is_stored_first_counts(path, is_forgotten):
    """The other is not charged, must not be shown, and `settle` says so.

    So it is if the first answer is forgotten before: the other is to be asked again.
    """
    ledgers = [AnswerLedger(path) for _ in range(2)]
    for ledger in ledgers:
        ledger.charge("d", charge(0.25))
    for number, ledger in enumerate(ledgers):
        ledger.store("d", MARK, pa.table({"n": [number]}))
    if is_forgotten:
        dfp.Ledger(path).forget()
    assert [ledger.settle() for ledger in (*ledgers, *ledgers)] == [True, False, True, True]
    assert is_forgotten or ledgers[1].recall("d", MARK) == pa.table({"n": [0]})
    assert spent(path) == 0.25


def test_a_draw_that_fails_is_charged(path):
    """It has no answer to store, and its error may depend on the draw."""
    ledger = AnswerLedger(path)
    ledger.charge("d", charge(0.25))
    assert ledger.settle()
    assert ledger.settle()
    assert spent(path) == 0.25


def test_an_answer_that_finds_no_room_is_charged_and_withheld(path, monkeypatch):
    """The size of an answer is part of it, so that a disk with room for the charge alone shows it.

    If the disk has room for nothing, the error is the same for every answer, and free.
    """
    real = os.write

    def write(descriptor, content):
        if len(content) > room:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, content)

    monkeypatch.setattr(os, "write", write)
    table = pa.table({"n": range(10_000)})
    for room, mark, charged in ((0, MARK, 0), (2_000, MARK, 0.25), (10**6, OTHER, 0.5)):
        ledger = AnswerLedger(path)
        ledger.charge("d", charge(0.25))
        if room < 10**6:
            with pytest.raises(dfp.errors.LedgerFileError, match="full"):
                ledger.store("d", mark, table)
            with pytest.raises(dfp.errors.LedgerFileError, match="charged" if room else "full"):
                ledger.settle()
        else:
            ledger.store("d", mark, table)
            assert ledger.settle()
        assert spent(path) == charged
    assert dfp.Ledger(path).stored() == 1


def test_sessions_that_race_for_the_last_budget_do_not_exceed_it(path):
    """The write checks the budget again; the answer that no longer fits is withheld."""
    ledgers = [AnswerLedger(path) for _ in range(2)]
    for ledger in ledgers:
        ledger.charge("d", charge(0.75))
    ledgers[0].store("d", MARK, pa.table({"n": [1]}))
    with pytest.raises(dfp.BudgetExceededError):
        ledgers[1].store("d", OTHER, pa.table({"n": [2]}))
    with pytest.raises(dfp.BudgetExceededError):
        ledgers[1].settle()
    assert spent(path) == 0.75


def test_content_without_a_release_is_no_ledger(path):
    """A charge may share its transaction with a release, and with no other bytes."""
    content = b"anything"
    note = hashlib.sha256(content).hexdigest()
    fields = {"dataset": note, "periods": ""}
    forge(path, ("announcement", fields), content=content)
    with pytest.raises(dfp.errors.LedgerFileError, match="damaged"):
        dfp.Ledger(path)
