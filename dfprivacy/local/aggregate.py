"""The analyst's side: reports are checked, counted once a user, and added up.

The result does not depend on the order of reports, on how they are split into files, or on the
order in which aggregates are merged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.local.distinct import Distinct, settled
from dfprivacy.local.reading import report_batches
from dfprivacy.local.report_table import value_column
from dfprivacy.local.screening import REASONS, screened
from dfprivacy.local.tally import Tally, tallies

if TYPE_CHECKING:
    from dfprivacy.local.protocol import Protocol


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The reports of one round that count: one a user. Add two to merge them.

    What it holds is as private as the reports are; it may be published.

    Attributes
    ----------
    protocol : Protocol
        The round that the reports answer.
    rejected : dict
        How many reports do not count, by reason: malformed, protocol (another one, or another
        round), user (no such user), group (not the user's own), value (beyond what the
        randomiser returns), and repeated (users with two different reports: none of theirs
        counts). The same report twice counts once, and is not listed.

    Examples
    --------
    >>> import dfprivacy as dfp
    >>> protocol = dfp.local.gaussian_mean(users=4000, epsilon=2, sigma=1.0, limit=8)
    >>> reports = protocol.reports([0.5] * 4000)
    >>> early, late = protocol.aggregate(reports[:700]), protocol.aggregate(reports[300:])
    >>> (early + late).reports == protocol.aggregate(reports).reports == len(reports)
    True
    """

    protocol: Protocol
    distinct: Distinct
    screened_out: Mapping[str, int]

    @property
    def reports(self) -> int:
        """How many users' reports count."""
        return len(self.distinct.users)

    @property
    def rejected(self) -> dict[str, int]:
        """How many reports do not count, by reason."""
        return {**self.screened_out, "repeated": len(self.distinct.barred)}

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """Sums by group, one tally for each part of the users that was asked."""
        return tallies(self.protocol.sheet, self.distinct)

    def __add__(self, other: Aggregate) -> Aggregate:
        """Return both together; a user counts once."""
        self.protocol.check_own(other)
        distinct = settled([self.distinct, other.distinct], self.protocol.sheet)
        return Aggregate(self.protocol, distinct, _sum(self.screened_out, other.screened_out))

    def next_round(self) -> Protocol:
        """Return the protocol of the next round: see `Protocol.next_round`."""
        return self.protocol.next_round(self)

    def estimate(self, *, interval: float = 0.95) -> Any:
        """Return the answer of the last round: see `Protocol.estimate`."""
        return self.protocol.estimate(self, interval=interval)

    def spread(self) -> float:
        """Return the standard deviation that the reports of round 1 show.

        Step 1.5 of Joseph, Kulkarni, Mao and Wu (2019), refined by a fit to all digits. It costs
        nothing beyond the reports.
        """
        return self.protocol.plan.spread_of(self.protocol, self)

    def to_arrow(self) -> pa.Table:
        """Return the aggregate as a table, to keep it in a file: user, value, and metadata."""
        metadata = {
            "dfprivacy.protocol": self.protocol.to_json(),
            "dfprivacy.rejected": json.dumps(dict(self.screened_out)),
            "dfprivacy.barred": json.dumps(self.distinct.barred.tolist()),
        }
        own = self.distinct
        columns = {"user": own.users, "group": own.groups, "value": value_column(own.values)}
        return pa.table(columns).replace_schema_metadata(metadata)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Aggregate:
        """Return the aggregate that `to_arrow` has made.

        Raises
        ------
        InvalidProtocolError
            When the table is not one of those.
        """
        from dfprivacy.local.protocol import Protocol  # noqa: PLC0415 either needs the other

        metadata = table.schema.metadata or {}
        if b"dfprivacy.protocol" not in metadata:
            raise InvalidProtocolError(
                "the table is no aggregate", hint="write protocol.aggregate(reports).to_arrow()"
            )
        protocol = Protocol.from_json(metadata[b"dfprivacy.protocol"].decode())
        barred = np.array(json.loads(metadata[b"dfprivacy.barred"]), dtype=np.int64)
        rejected = json.loads(metadata[b"dfprivacy.rejected"])
        users, groups = (table.column(name).to_numpy() for name in ("user", "group"))
        values = value_array(table, protocol.sheet.reported_width)
        return cls(protocol, Distinct(users, groups, values, barred), rejected)

    def __repr__(self) -> str:
        """Show how many reports there are of which round."""
        own, out = self.protocol, sum(self.rejected.values())
        return (
            f"Aggregate({self.reports} reports of round {own.round} of {own.rounds}, "
            f"{out} rejected)"
        )


def value_array(table: pa.Table, width: int) -> Any:
    """Return the reported values of a table without NULLs as an array."""
    column = table.column("value").combine_chunks()
    return column.flatten().to_numpy().reshape(-1, width) if width else column.to_numpy()


def read_aggregate(protocol: Protocol, sources: Sequence[Any]) -> Aggregate:
    """Read reports once, in streams, and keep those that count."""
    sheet = protocol.sheet
    kept: list[Distinct] = []
    rejected = dict.fromkeys(REASONS, 0)
    for source in sources:
        for batch in report_batches(source, sheet.reported_width):
            passed, out = screened(sheet, batch)
            kept.append(passed)
            rejected = _sum(rejected, out)
    return Aggregate(protocol, settled(kept, sheet), rejected)


def merged(aggregates: Sequence[Aggregate]) -> Aggregate:
    """Return several aggregates of one round together."""
    return reduce(lambda one, other: one + other, aggregates)


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one[name] + other[name] for name in one}
