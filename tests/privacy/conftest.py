"""What the tests of privacy share."""

import pytest

from dfprivacy.noise import entropy


@pytest.fixture
def drawn(monkeypatch):
    """How many times the operating system was asked for random bytes."""
    calls, true = [], entropy.os.urandom

    def urandom(size):
        calls.append(size)
        return true(size)

    monkeypatch.setattr(entropy.os, "urandom", urandom)
    return calls
