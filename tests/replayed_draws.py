"""Measure what a row costs: the draws on one table are repeated on its neighbor."""

from benchmarks.replay import Tape
from dfprivacy.noise.recording import record_draws


def replay(release, larger, smaller):
    """Return what is released of both tables with the same draws, and the tape of the second."""
    first = Tape()
    with record_draws(first):
        found = release(larger)
    second = Tape(first.draws)
    with record_draws(second):
        again = release(smaller)
    assert not second.mismatch
    assert len(first.draws) == len(second.draws)
    return found, again, second
