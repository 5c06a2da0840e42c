import fcntl
import stat
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.spending import name_account
from tests.accounting.charges import charge

TENTH = charge(0.1)
TERMS = {"epsilon": Fraction(1, 10)}
TABLE = pa.table({"carrier": ["AA", None], "count": [1.5, 2.5]})


def released(ledger_account, question="count()", table=TABLE):
    """Do what a release does: look, pay, make, keep."""
    mark = ledger_account.fingerprint(question, TERMS)
    remembered_table = ledger_account.recall(mark)
    if remembered_table is not None:
        return remembered_table
    ledger_account.check(TENTH)
    ledger_account.pay(TENTH)
    ledger_account.remember(mark, table)
    return table


def test_a_fingerprint_is_bound_to_its_dataset(memory, flights):
    """A release is not found from another account, whatever fingerprint is named."""
    mark = flights.fingerprint("count()", TERMS)
    released(flights)
    memory.charge("trains", TENTH)
    assert memory.recall("trains", mark) is None
    assert memory.recall("flights", mark).equals(TABLE)


def test_without_a_version_nothing_is_remembered(memory):
    """The data may have changed: every release is made anew, and charged."""
    ledger_account = name_account(memory, "flights")
    assert ledger_account.fingerprint("count()", TERMS) is None
    for _ in range(3):
        released(ledger_account)
    assert len(memory.history()) == 3
    assert memory.stored() == 0


def test_a_ledger_that_does_not_remember(ledger):
    """A version named for a ledger that keeps nothing is a mistake, and so is a release to keep."""
    assert not ledger.remembers
    with pytest.raises(dfp.errors.InvalidLedgerError, match="the ledger remembers no releases"):
        name_account(ledger, "flights", version="1")
    with pytest.raises(dfp.errors.InvalidLedgerError), dfp.spending(ledger, version="1"):
        pytest.fail("the block ran")
    ledger.charge("flights", TENTH)
    with pytest.raises(dfp.errors.InvalidLedgerError, match="remembers no releases"):
        ledger.store("flights", b"f" * 32, TABLE)


def test_only_what_was_charged_is_kept(memory):
    """A release of a dataset that was never charged is not kept."""
    with pytest.raises(dfp.errors.InvalidLedgerError, match="never charged"):
        memory.store("flights", b"f" * 32, TABLE)
    assert memory.stored() == 0


def test_two_at_the_same_time(flights):
    """Of two that asked before either was done, both are charged; the first one's stays."""
    mark, other = flights.fingerprint("count()", TERMS), pa.table({"count": [9.0]})
    for table in (TABLE, other):
        assert table is other or flights.recall(mark) is None
        flights.pay(TENTH)
        flights.remember(mark, table)
    assert flights.recall(mark).equals(TABLE)
    assert len(flights.ledger.history()) == 2


def test_forget(memory, flights):
    """A forgotten release is charged again when it is asked for again; nothing is paid back."""
    trains = name_account(memory, "trains", version="1")
    for ledger_account in (flights, trains):
        released(ledger_account)
        released(ledger_account, "count('x')")
    assert (memory.stored("flights"), memory.stored()) == (2, 4)
    assert memory.forget("flights") == 2
    assert (memory.stored("flights"), memory.stored()) == (0, 2)
    assert memory.remaining("flights").epsilon == 0.8
    released(flights)
    assert memory.remaining("flights").epsilon == 0.7
    assert memory.forget() == 3
    assert len(memory.history()) == 5


@pytest.mark.parametrize(
    "trouble", ["locked", "gone", "replaced", "too large", "no bytes", "no memory"]
)
def test_a_release_that_is_not_kept_is_not_lost(memory, flights, monkeypatch, trouble):
    """When keeping fails the caller gets the release all the same, and it stays charged."""
    table, other = TABLE, None
    mark = flights.fingerprint("count()", TERMS)
    flights.pay(TENTH)
    if trouble == "locked":
        impatient_ledger = dfp.Ledger(memory.path, timeout=0.05)
        flights = name_account(impatient_ledger, "flights", version="2026-11-20")
        other = memory.path.open("rb")
        fcntl.flock(other, fcntl.LOCK_EX)
    if trouble == "gone":
        content = memory.path.read_bytes()
        memory.path.unlink()
    if trouble == "replaced":
        memory.path.unlink()
        memory.path.with_name("budget.db-head").unlink()
        dfp.Ledger(memory.path, epsilon=1, delta=1e-6, remember=True)
    if trouble == "too large":
        monkeypatch.setattr("dfprivacy.accounting.memory.MOST_BYTES", 10)
    if trouble == "no bytes":
        table = pa.table({"x": pa.array(["a"], pa.string_view())})
        monkeypatch.setattr("dfprivacy.accounting.memory.release_bytes", _fails)
    if trouble == "no memory":
        monkeypatch.setattr("dfprivacy.accounting.memory.release_bytes", _exhausts)
    flights.remember(mark, table)
    if trouble == "gone":
        memory.path.write_bytes(content)
    if other is not None:
        other.close()
    left = dfp.Ledger(memory.path)
    assert left.stored() == 0
    assert left.remaining("flights").epsilon == (1.0 if trouble == "replaced" else 0.9)


def _fails(table):
    raise pa.ArrowNotImplementedError("no")


def _exhausts(table):
    raise MemoryError


def test_a_full_disk_loses_nothing(memory, flights, limit_files):
    """When the file may not grow, the release comes out, the charge stays, the ledger is whole."""
    big = pa.table({"x": np.arange(10**5)})
    flights.pay(TENTH)
    with limit_files(65_536):
        flights.remember(flights.fingerprint("count()", TERMS), big)
    again = dfp.Ledger(memory.path)
    assert (again.stored(), again.remaining("flights").epsilon) == (0, 0.9)
    assert released(flights, table=big).equals(big)
    assert dfp.Ledger(memory.path).stored() == 1


def test_a_damaged_release_is_not_handed_out(memory, flights):
    """Content that is not what was kept gives an error, and no release."""
    released(flights)
    content = memory.path.read_bytes()
    memory.path.write_bytes(content.replace(b"ARROW", b"ARR0W").replace(b"\xff" * 4, b"\xfe" * 4))
    with pytest.raises(dfp.errors.LedgerFileError, match="is damaged"):
        released(flights)


@pytest.mark.parametrize("remember", [True, False])
def test_remember_belongs_to_the_file(tmp_path, remember):
    """It is chosen when the file is made, found out from it, and never changes."""
    path = tmp_path / "b.db"
    ledger = dfp.Ledger(path, rho=0.5, delta=1e-6, remember=remember)
    assert dfp.Ledger(path).remembers is dfp.Ledger(path, rho=0.5, delta=1e-6).remembers is remember
    assert repr(dfp.Ledger(path)) == repr(ledger)
    assert eval(repr(ledger), {"Ledger": dfp.Ledger}).remembers is remember
    with pytest.raises(dfp.errors.LedgerBudgetError, match=f"was made with remember={remember}"):
        dfp.Ledger(path, remember=not remember)
    assert not dfp.Ledger(tmp_path / "c.db", epsilon=1).remembers


@pytest.mark.parametrize("version", ["", " v", "v\n", 7, 1.0, b"v", "x" * 201])
def test_wrong_versions(memory, version):
    """A version is a short text that can be read and typed again."""
    with pytest.raises(
        dfp.errors.InvalidLedgerError, match="the version of a dataset is a short text"
    ):
        name_account(memory, "flights", version=version)
    with pytest.raises(dfp.errors.InvalidLedgerError), dfp.spending(memory, version=version):
        pytest.fail("the block ran")


def test_the_version_of_a_block(memory, tmp_path):
    """A block's version is that of its own dataset; terms that name another one leave it out."""
    other = dfp.Ledger(tmp_path / "other.db", epsilon=1)
    with dfp.spending(memory, dataset="flights", version="v1", note="block"):
        assert name_account(None, None, None).version == "v1"
        assert name_account(None, "flights", None).version == "v1"
        assert name_account(None, "flights", "own", "v2").version == "v2"
        assert name_account(None, "trains", None).version is None
        assert name_account(None, "trains", None, "v3").version == "v3"
        assert name_account(other, "flights", None).version is None
    with dfp.spending(memory, version="v1"):
        assert name_account(None, "trains", None).version == "v1"
    with pytest.raises(dfp.errors.InvalidLedgerError, match="no ledger to charge"):
        name_account(None, None, None, "v1")


def test_the_file_is_for_its_owner_to_protect(memory, flights):
    """Keeping releases leaves the permissions of the file as they are."""
    before = stat.S_IMODE(memory.path.stat().st_mode)
    released(flights)
    assert stat.S_IMODE(memory.path.stat().st_mode) == before
