"""Measure what a row costs: the draws on one table are repeated on its neighbor."""

from benchmarks.replay import Tape
from dfprivacy.noise.recording import record_draws


def replay(release, larger, smaller):
    """Release both tables with the same draws; return both releases and the tape of the second."""
    first = Tape()
    with record_draws(first):
        larger_release = release(larger)
    second = Tape(first.draws)
    with record_draws(second):
        smaller_release = release(smaller)
    assert not second.mismatch
    assert len(first.draws) == len(second.draws)
    return larger_release, smaller_release, second
