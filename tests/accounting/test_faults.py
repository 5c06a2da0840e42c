"""No fault of the disk, and no kill, costs a ledger what it has confirmed."""

import os
import sys

import pytest

from benchmarks.ledger_faults import battery

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at files by /proc")


@pytest.mark.parametrize("every", [31, pytest.param(1, marks=pytest.mark.slow)])
def test_every_fault_of_the_disk(every):
    """At each write, sync and rename: kills, power cuts, errors, and older copies beside them."""
    figures = battery(every)
    assert figures.broken == 0
    assert figures.operations > 60
    assert figures.kills >= 3 * (figures.operations // every) > 0
    assert min(figures.power_cuts, figures.errors, figures.copies) > figures.kills / 2


@pytest.mark.slow
def test_the_battery_sees_a_charge_that_does_not_wait(monkeypatch):
    """Without flushes, or with a log that is not checked against its newest hash, it breaks."""
    monkeypatch.setattr("dfprivacy.accounting.ledger_file.flush", lambda descriptor: None)
    assert battery(11).broken > 0
    monkeypatch.undo()
    monkeypatch.setattr("dfprivacy.accounting.ledger_file._require_newest", lambda *_: None)
    assert battery(11).broken > 0
    assert os.fsync.__module__ == "posix"
