"""What the tests of ledgers share."""

import os
import sqlite3

import pandas as pd
import pytest

import dfprivacy as dfp
from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.spending import account


@pytest.fixture
def frame():
    """Return a hundred rows, one NULL among them, in two groups."""
    return pd.DataFrame({"x": [*range(99), None], "g": ["a", "b"] * 50})


@pytest.fixture
def ledger(tmp_path):
    """Make a ledger of epsilon 1 and delta 1e-6."""
    return dfp.Ledger(tmp_path / "budget.db", epsilon=1, delta=1e-6, timeout=60)


@pytest.fixture
def memory(tmp_path):
    """Make a ledger of epsilon 1 that remembers."""
    return dfp.Ledger(tmp_path / "budget.db", epsilon=1, delta=1e-6, remember=True, timeout=60)


@pytest.fixture
def flights(memory):
    """Return an account that remembers."""
    return account(memory, "flights", version="2026-11-20")


@pytest.fixture
def stored():
    """Read the charges in a file past the package, which sees committed charges only."""

    def rows(ledger):
        with sqlite3.connect(f"{ledger.path.as_uri()}?mode=ro", uri=True) as connection:
            found = connection.execute("SELECT dataset, cost, cost_delta FROM charge").fetchall()
        connection.close()
        return found

    return rows


@pytest.fixture
def fast_disk(monkeypatch):
    """Leave out the waits for the disk, for tests of arithmetic with thousands of charges."""
    durable = ledger_file.connect

    def connect(path, timeout):
        connection = durable(path, timeout)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(ledger_file, "connect", connect)


@pytest.fixture
def drawn(monkeypatch):
    """Return a list that grows by one with every call for random bytes."""
    calls, real = [], os.urandom

    def spy(size):
        calls.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", spy)
    return calls
