"""Permit noise to be drawn: the only place that makes a `Permit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dfprivacy.noise.entropy import PERMIT, Permit


@contextmanager
def permit(paid_by: str) -> Iterator[None]:
    """Let noise be drawn in this block, or in the function that this decorates.

    The pipeline enters it once a charge is paid. What draws without an account says what pays
    instead: the epsilon that stands in a statement on a raw connection, or the owner of a report,
    who gives nothing else away. It holds for this thread, may be nested, and ends with the block:
    a context that was copied inside draws nothing afterwards.

    Parameters
    ----------
    paid_by : str
        What pays, e.g. "the epsilon of the statement".
    """
    made = Permit(paid_by)
    token = PERMIT.set(made)
    try:
        yield
    finally:
        made.closed = True
        PERMIT.reset(token)
