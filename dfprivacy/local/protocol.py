"""Run a survey in the local model: the protocol of a round, and the reports that answer it.

Who answers in which round is fixed by the campaign's name, the shares of its parts and the user.
"""

from __future__ import annotations

import abc
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidProtocolError
from dfprivacy.local import published
from dfprivacy.local.published import MOST_USERS, Published, is_whole
from dfprivacy.local.randomizers import Counts
from dfprivacy.local.reports import (
    Distinct,
    collect_reports,
    join_pieces,
    owners,
    report_one,
    report_table,
    value_column,
)
from dfprivacy.local.rounds import Assignment, Query, list_parts
from dfprivacy.measurement.exact import describe
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.release.pipeline import permit
from dfprivacy.release.terms import INTERVAL


class Plan(published.Plan):
    """Base of an analyst's method: its queries in each round, and its estimate."""

    kinds: ClassVar[dict[str, type[Any]]] = {}
    rounds: int

    @property
    @abc.abstractmethod
    def limit(self) -> float:
        """Values are clipped to -limit and limit at their owner's."""

    @abc.abstractmethod
    def queries(self, round_: int) -> tuple[Query, ...]:
        """Return the queries to the users of a round."""

    @abc.abstractmethod
    def estimate(self, protocol: Protocol, counts: tuple[Counts, ...], level: float) -> Any:
        """Return the answer, given the reports of the last round."""

    def estimate_spread(self, protocol: Protocol, counts: tuple[Counts, ...]) -> float:  # noqa: ARG002 one interface
        """Return the standard deviation that the reports show, where the method looks for one."""
        raise InvalidProtocolError(
            "this protocol does not look for a standard deviation",
            hint="plan one that does: dfp.local.gaussian_mean(users=..., epsilon=...)",
        )


@dataclass(frozen=True)
class Protocol(Published):
    """One round of a survey in the local model. Frozen, and JSON both ways.

    Privacy: `report` is private before it leaves its owner, for replacing the owner's value by any
    other one: pure with `loss` epsilon, zero-concentrated with `loss` rho. Every user belongs to
    one part of the users, by a public hash, and every part is asked in one round: nobody sends two
    messages (sequential interactivity). Public are: this protocol, the number of users, who
    reports in which round and group.

    `campaign` is the survey's public name: who is in which part follows from it and the user.
    `loss` is the loss of a report, `users` the public number of users, `shares` the parts
    of the users, over all rounds. `plan` is the analyst's method and its estimates so far.
    `named` says whether users go by name (text) instead of an index from 0 to users - 1, `round`
    which round this is, from 1.

    >>> import dfprivacy as dfp
    >>> protocol = dfp.local.gaussian_mean(users=100_000, epsilon=1, sigma=2.0, limit=1000)
    >>> protocol.round, protocol.rounds
    (1, 2)
    >>> dfp.local.Protocol.from_json(protocol.to_json()) == protocol
    True
    >>> one = protocol.report(3.5, user=17)  # None for owners who answer in the next round
    >>> one is None or one["user"] == 17
    True
    """

    FORMAT = "dfprivacy local 1"
    campaign: str
    loss: Epsilon | Rho
    users: int
    shares: tuple[Fraction, ...]
    plan: Plan
    named: bool = False
    round: int = 1

    def __post_init__(self) -> None:
        """Refuse protocols that ask users again: wrong rounds, overlapping parts, two spellings."""
        published.campaign_name(self.campaign)
        if not is_whole(self.users, 1, MOST_USERS) or type(self.named) is not bool:
            raise InvalidProtocolError(
                "users are counted in whole numbers, and have names or have none",
                hint="plan with users=1000, named=False",
            )
        if sum(self.shares) != 1 or min(self.shares) < 0:
            raise InvalidProtocolError(
                "the parts of the users do not make a whole", hint="plan with dfp.local"
            )
        if not is_whole(self.round, 1, self.rounds):
            raise InvalidProtocolError(
                f"there is no round {describe(self.round)} of {self.rounds}",
                hint="take the next round from aggregate.next_round()",
            )

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.plan.rounds

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The queries to the users of this round."""
        return self.plan.queries(self.round)

    @cached_property
    def fingerprint(self) -> int:
        """A 63-bit number that every report of this round carries."""
        digest = hashlib.blake2b(self.to_json().encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    @cached_property
    def assignment(self) -> Assignment:
        """The parts of a survey: all that the owner's and the analyst's side both go by."""
        parts = list_parts(self.queries, self.shares, self.loss)
        limit = self.plan.limit
        return Assignment(self.campaign, self.fingerprint, self.users, self.named, limit, parts)

    @permit("the owner's own report")
    def report(
        self, value: float | None, user: int | str, *, entropy: EntropySource = system_entropy
    ) -> dict[str, Any] | None:
        """Return one owner's report. None where the user is not asked in this round.

        Parameters
        ----------
        value : float or None
            In units of the survey. Beyond the declared limit it is clipped. None and NaN make a
            report that carries nothing, and looks like any other.
        user : int or str
            Who reports. It decides on the group, and is sent along.

        Raises
        ------
        InvalidProtocolError
            When the user is no index below `users`, or no name where names are asked for.
        """
        return report_one(self.assignment, value, user, entropy)

    @permit("the owners' own reports")
    def reports(
        self, values: Any, users: Any = None, *, entropy: EntropySource = system_entropy
    ) -> Any:
        """Return the reports of many owners as an Arrow table: see `report`.

        `values` has one number an owner (NULL and NaN are missing), `users` who they are. Without
        it they are 0, 1, 2, ... The table has the columns protocol, user, group and value, and one
        row for each user that is asked in this round. Users who are there twice are refused.
        """
        return report_table(self.assignment, *owners(self.assignment, values, users), entropy)

    def aggregate(self, *reports: Any) -> Aggregate:
        """Add up reports of this round: see `Aggregate`.

        Each of `reports` is a frame, relation, reader, or the path of a Parquet file with the
        columns protocol, user, group and value. A row that is no report of this round is left out
        and counted in `Aggregate.rejected`.
        """
        return Aggregate(self, *collect_reports(self.assignment, reports))

    def next_round(self, aggregate: Aggregate) -> Protocol:
        """Return the protocol of the next round, given the reports of this one, not of another."""
        self.check_own(aggregate)
        if self.round == self.rounds:
            raise InvalidProtocolError(
                f"round {self.round} of {self.rounds} is the last one",
                hint="read the answer: aggregate.estimate()",
            )
        return replace(self, plan=self.plan.advance(self, aggregate.counts), round=self.round + 1)

    def estimate(self, aggregate: Aggregate, *, interval: float = 0.95) -> Any:
        """Return the answer of the last round with its interval: see `LocalEstimate`."""
        self.check_own(aggregate)
        if self.round < self.rounds:
            raise InvalidProtocolError(
                f"this is round {self.round} of {self.rounds}; the last one has the answer",
                hint="publish the next one: protocol = aggregate.next_round()",
            )
        return self.plan.estimate(self, aggregate.counts, interval)

    def check_own(self, aggregate: Aggregate) -> None:
        """Refuse an aggregate of another protocol or round."""
        if aggregate.protocol.fingerprint != self.fingerprint:
            raise InvalidProtocolError(
                "these reports answer another protocol, or another round of it",
                hint="aggregate the reports of this round: protocol.aggregate(reports)",
            )

    def terms(self) -> dict[str, Any]:
        """Return the published terms besides the round and the plan."""
        return {
            "campaign": self.campaign,
            self.loss.measure: str(self.loss.value),
            "users": self.users,
            "named": self.named,
            "shares": [str(share) for share in self.shares],
            "asks": [query.to_json() for query in self.queries],
        }

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return the protocol of a JSON object. Parts that can't be asked are refused."""
        pure = "epsilon" in fields
        loss = Epsilon(Fraction(fields["epsilon"])) if pure else Rho(Fraction(fields["rho"]))
        shares, plan = tuple(map(Fraction, fields["shares"])), Plan.from_json(fields["plan"])
        who = fields["campaign"], loss, fields["users"]
        protocol = cls(*who, shares, plan, fields["named"], fields["round"])
        _ = protocol.assignment
        return protocol


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The reports of one round that count: one a user. Add two to merge them.

    Its content is as private as the reports are. It may be published.

    `protocol` is the round that the reports answer. `rejected` says how many reports do not count,
    by reason: malformed, protocol (another one, or another round), user (no such user), group (not
    the user's own), value (beyond the randomizer's range), and repeated (users with two
    different reports: none of theirs counts). The same report twice counts once, and is not listed.

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
    def counts(self) -> tuple[Counts, ...]:
        """Sums by group, for each part of the users that was asked."""
        return self.distinct.counts(self.protocol.assignment.parts)

    def __add__(self, other: Aggregate) -> Aggregate:
        """Return both together. A user counts once."""
        self.protocol.check_own(other)
        distinct = join_pieces([self.distinct, other.distinct], self.protocol.assignment)
        out = {name: count + other.screened_out[name] for name, count in self.screened_out.items()}
        return Aggregate(self.protocol, distinct, out)

    def next_round(self) -> Protocol:
        """Return the protocol of the next round: see `Protocol.next_round`."""
        return self.protocol.next_round(self)

    def estimate(self, *, interval: float = 0.95) -> Any:
        """Return the answer of the last round: see `Protocol.estimate`."""
        return self.protocol.estimate(self, interval=interval)

    def spread(self) -> float:
        """Return the standard deviation that the reports of round 1 show, at no further cost."""
        return self.protocol.plan.estimate_spread(self.protocol, self.counts)

    def to_arrow(self) -> pa.Table:
        """Return the aggregate as a table, to keep it in a file: user, value, and metadata."""
        metadata = {
            "dfprivacy.protocol": self.protocol.to_json(),
            "dfprivacy.rejected": json.dumps(dict(self.screened_out)),
            "dfprivacy.barred": json.dumps(self.distinct.barred.tolist()),
        }
        distinct = self.distinct
        columns = {
            "user": distinct.users,
            "group": distinct.groups,
            "value": value_column(distinct.values),
        }
        return pa.table(columns).replace_schema_metadata(metadata)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Aggregate:
        """Return the aggregate that `to_arrow` has made. Other tables are refused."""
        metadata = table.schema.metadata or {}
        if b"dfprivacy.protocol" in metadata:
            with suppress(LookupError, ValueError, TypeError, AttributeError, pa.ArrowException):
                protocol = Protocol.from_json(metadata[b"dfprivacy.protocol"].decode())
                barred_users = json.loads(metadata[b"dfprivacy.barred"])
                rejected = json.loads(metadata[b"dfprivacy.rejected"])
                barred = np.array(barred_users, dtype=np.int64)
                fingerprints = pa.array(np.full(table.num_rows, protocol.fingerprint))
                distinct, none = collect_reports(
                    protocol.assignment, [table.append_column("protocol", fingerprints)]
                )
                is_valid = (
                    len(distinct.users) == table.num_rows
                    and not np.isin(distinct.users, barred).any()
                )
                are_counts = (is_whole(n, 0, 2**63) for n in (*rejected.values(), *barred_users))
                if not (is_valid and all(are_counts)) or set(rejected) != set(none):
                    raise ValueError("rows of an aggregate are reports of different users")
                return cls(protocol, replace(distinct, barred=barred), rejected)
        raise InvalidProtocolError(
            "the table is no aggregate, or was changed",
            hint="write protocol.aggregate(reports).to_arrow()",
        )

    def __repr__(self) -> str:
        which, out = f"{self.protocol.round} of {self.protocol.rounds}", sum(self.rejected.values())
        return f"Aggregate({self.reports} reports of round {which}, {out} rejected)"


def simulate(
    protocol: Protocol,
    values: Any,
    users: Any = None,
    *,
    interval: float = INTERVAL,
    entropy: EntropySource = system_entropy,
) -> Any:
    """Run all rounds of a protocol over a column of values. The very code of both sides.

    Each value is one owner's, and each report is as private as in the field. `users` says who they
    are. Without it they are 0, 1, 2, ...
    """
    while True:
        aggregate = protocol.aggregate(protocol.reports(values, users, entropy=entropy))
        if protocol.round == protocol.rounds:
            return aggregate.estimate(interval=interval)
        protocol = aggregate.next_round()
