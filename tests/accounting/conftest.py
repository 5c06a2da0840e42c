"""Fixtures of the tests of ledgers."""

import os
import signal
from contextlib import contextmanager

import pandas as pd
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.charge import PER_ONE
from dfprivacy.accounting.spending import name_account
from tests.accounting.charges import list_confirmed


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
    return name_account(memory, "flights", version="2026-11-20")


@pytest.fixture
def stored():
    """Read the charges in a file past the package, in 1e-9 and 1e-18, as far as confirmed."""

    def rows(ledger):
        if not ledger.path.with_name(f"{ledger.path.name}-head").exists():
            return []
        charges = list_confirmed(ledger.path)
        return [
            (row["dataset"], row["cost"] * 10**9 // PER_ONE, row["cost_delta"] // 10**18)
            for row in charges
        ]

    return rows


@pytest.fixture
def fast_disk(monkeypatch):
    """Leave out the waits for the disk, for tests of arithmetic with thousands of charges."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def limit_files():
    """Return a function that lets no file grow beyond a size, as on a full disk, until it ends."""
    resource = pytest.importorskip("resource")
    before, limits = (
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        resource.getrlimit(resource.RLIMIT_FSIZE),
    )

    @contextmanager
    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    yield limit
    signal.signal(signal.SIGXFSZ, before)
