"""A whole protocol over a column, both sides in one process: for planning, and for tests."""

from __future__ import annotations

from typing import Any

from dfprivacy.local.protocol import Protocol
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.terms import INTERVAL


def simulate(
    protocol: Protocol,
    values: Any,
    users: Any = None,
    *,
    interval: float = INTERVAL,
    entropy: EntropySource = system_entropy,
) -> Any:
    """Run all rounds of a protocol over a column of values; the very code of both sides.

    Each value is one owner's, and each report is as private as in the field. `users` says who they
    are; without it they are 0, 1, 2, ...
    """
    while True:
        aggregate = protocol.aggregate(protocol.reports(values, users, entropy=entropy))
        if protocol.round == protocol.rounds:
            return aggregate.estimate(interval=interval)
        protocol = aggregate.next_round()
