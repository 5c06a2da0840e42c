"""Histograms: noisy counts between edges, given or found privately; a frame with one row a bin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho, delta_of, loss_of
from dfprivacy.accounting.spending import Account, NoAccount, account_of
from dfprivacy.answers import everyone
from dfprivacy.conductor import keep, named_columns, paid, read
from dfprivacy.engine.bins import run_bins
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.octave_bounds import SHARE, find_bounds
from dfprivacy.exact import describe, exact_number
from dfprivacy.labels import label_of
from dfprivacy.measurement.bin_table import BinTable, rebinned
from dfprivacy.measurement.binning import LARGEST_VALUE, Edges, Octaves, SignificantBits
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import Noise
from dfprivacy.origin import Origin, with_origin
from dfprivacy.remembered import frame_of, kept_table
from dfprivacy.request import limits_of, loss_terms, required_delta
from dfprivacy.terms import Bounds, PublicKeys, Terms, interval_level
from dfprivacy.unit import Unit

MOST_BINS = 10_000
_FINE = SignificantBits(16)
_UNKNOWN = Bounds(-1, 1)


@dataclass(frozen=True)
class Histogram:
    """Counts of a column between `edges`, or in `bins` equal bins within bounds to be found."""

    column: Hashable
    edges: tuple[float, ...] | None
    bins: int

    @classmethod
    def of(
        cls, column: Hashable, bins: object, bounds: Bounds | None, *, given: bool = False
    ) -> Histogram:
        """Return the question for a list of edges, or for a number of bins.

        `given` says that the caller named the bounds in this very question.

        Raises
        ------
        InvalidQuestionError
            When `bins` is neither a number of bins nor a list of ascending, finite edges.
        """
        label_of(column)
        count = exact_number(bins)
        if count is None:
            edges = _edges(bins)
            if given:
                raise InvalidQuestionError(
                    "a histogram with edges takes no bounds", hint="leave bounds out"
                )
            return cls(column, edges, len(edges) - 1)
        if count.denominator != 1 or not 1 <= count <= MOST_BINS:
            raise _refused(f"the number of bins must be from 1 to {MOST_BINS:,}")
        return cls(column, None if bounds is None else _equal(bounds, int(count)), int(count))

    @property
    def text(self) -> str:
        """The question as it was asked."""
        bins = self.bins if self.edges is None else list(self.edges)
        return f"histogram({self.column!r}, {bins!r})"


def _edges(given: object) -> tuple[float, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
        raise _refused(f"the edges must be a list of numbers, not {describe(given)}")
    exact = [exact_number(edge) for edge in given]
    if len(exact) < 2 or any(edge is None or abs(edge) > LARGEST_VALUE for edge in exact):
        raise _refused("a histogram needs two edges or more, finite numbers of size up to 2**126")
    edges = tuple(float(edge) for edge in exact if edge is not None)
    if any(b <= a for a, b in itertools.pairwise(edges)):
        raise _refused("the edges of a histogram must ascend")
    if len(edges) > MOST_BINS + 1:
        raise _refused(f"a histogram has at most {MOST_BINS:,} bins")
    return edges


def _refused(message: str) -> InvalidQuestionError:
    return InvalidQuestionError(
        message, hint="pass edges such as [0, 10, 100], or bins=10 with bounds=(0, 100)"
    )


def _equal(bounds: Bounds, bins: int) -> tuple[float, ...]:
    edges = np.linspace(bounds.lower, bounds.upper, bins + 1)
    return _edges(edges.tolist())


@dataclass(frozen=True)
class HistogramRequest:
    """A histogram that has been checked and not yet made: what it costs, and who pays.

    `rule` says which groups are shown by a count; None where keys are public or there are none.
    """

    contribution: Contribution
    rule: KeyRule | None
    unit: Unit | None
    level: float
    charge: Charge
    account: Account | NoAccount
    mark: bytes | None


def histogram_request(
    question: Histogram,
    terms: Terms,
    by: Sequence[Hashable] = (),
    keys: PublicKeys | None = None,
) -> HistogramRequest:
    """Return a histogram to be made.

    Raises
    ------
    DPError
        When anything about the question or its terms can't be: nothing depends on data.
    """
    loss, level = loss_of(terms.epsilon, terms.rho), interval_level(terms.interval)
    given = delta_of(terms.delta)
    delta = required_delta(given, keys) if by else None
    unit, contribution = limits_of(terms.unit, by, keys)
    text = f"{question.text} by {', '.join(map(repr, by))}" if by else question.text
    charge = Charge(loss, delta or Fraction(0), text if unit is None else f"{text}; {unit.text}")
    account = account_of(terms.ledger, terms.dataset, terms.note, terms.version)
    shown = None if keys is None else keys.rows
    mark = account.fingerprint(
        charge.question, {"keys": shown, "interval": level, **loss_terms(charge)}
    )
    rule = None if delta is None else contribution.key_rule(delta).divided(question.bins)
    return HistogramRequest(contribution, rule, unit, level, charge, account, mark)


def release_histogram(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    question: Histogram,
    terms: Terms,
) -> Any:
    """Release a histogram, whole or by group, as the caller's own frame type.

    Adding or removing a row changes one count by 1: noise of scale 1/epsilon on every count. A
    unit of several rows changes counts by as many as it may have in all. A secret group is shown
    if one of its counts shows it, each with its part of delta.
    """
    asked, names = histogram_request(question, terms, by, keys), _names(by)
    binning = _FINE if question.edges is None else Edges(question.edges)
    columns = named_columns(by, keys, {question.column: True}, asked.unit)
    origin = Origin.of(asked.charge, asked.level, by, about=question.column)
    remembered = asked.account.remembered(asked.mark)
    if remembered is not None:
        return with_origin(frame_of(frame, remembered, by), origin)
    public = keys is not None
    adopted, table = paid(
        asked.account,
        asked.charge,
        lambda: read(
            frame, columns, lambda a: run_bins(a, by, question.column, binning, public=public)
        ),
    )
    contribution, rule = asked.contribution, asked.rule
    edges, counts, left = _within_edges(question, table, asked.charge.loss, contribution)
    noise = contribution.row_loss(left).noise(1, 1)
    noisy = add_to(_dense(counts, len(edges) - 1), noise)
    kept = everyone(table.groups) if rule is None else _kept(noisy, noise, rule)
    half = noise.quantile(1 - asked.level)
    released = adopted.wrap(_table(table.keys, edges, noisy, kept, half=half, names=names))
    keep(asked.account, asked.mark, lambda: kept_table(released, frame, by))
    return with_origin(released, origin)


def _names(by: Sequence[Hashable]) -> list[str]:
    names = [*map(str, by), "lower", "upper", "count", "low", "high"]
    if len(set(names)) < len(names):
        raise InvalidQuestionError(
            "a group column has the name of a column of the result",
            hint="rename it; a histogram has the columns lower, upper, count, low, high",
        )
    return names


def _within_edges(
    question: Histogram, table: BinTable, loss: Epsilon | Rho, contribution: Contribution
) -> tuple[tuple[float, ...], BinTable, Epsilon | Rho]:
    """Return the edges, the table counted by them, and the loss that is left for the counts."""
    if question.edges is not None:
        return question.edges, table, loss
    pooled = rebinned(table, Octaves(), pooled=True)
    epsilon = contribution.pooled().row_loss(loss.share(SHARE)).pure()
    found = find_bounds(pooled, epsilon)
    known = bool(found.found[0])
    bounds = Bounds(float(found.lower[0]), float(found.upper[0])) if known else _UNKNOWN
    edges = _equal(bounds, question.bins)
    counts = rebinned(table, Edges(edges))
    return edges if known else (math.nan,) * len(edges), counts, loss.share(1 - SHARE)


def _dense(table: BinTable, bins: int) -> Any:
    """Return the counts of each group between the edges, a row a group."""
    counts = np.zeros((table.groups, bins), dtype=np.int64)
    inside = (table.bins >= 1) & (table.bins <= bins)
    counts[table.group[inside], table.bins[inside] - 1] = table.rows[inside]
    return counts


def _kept(noisy: Any, noise: Noise, rule: KeyRule) -> Any:
    """Return the groups of which one count is too large for a single unit to have made it."""
    return np.flatnonzero((noisy >= rule.least(noise, 1, 1)).any(axis=1))


def _table(
    keys: pa.Table,
    edges: Sequence[float],
    noisy: Any,
    kept: Any,
    *,
    half: int,
    names: Sequence[str],
) -> pa.Table:
    """Return one row a group and bin."""
    bins = len(edges) - 1
    columns = list(keys.take(pa.array(np.repeat(kept, bins))).columns) if keys.num_columns else []
    counts = noisy[kept].reshape(-1)
    columns += [pa.array(np.tile(ends, len(kept))) for ends in (edges[:-1], edges[1:])]
    largest = 2**63 - 1
    values = [min(max(int(count), -largest), largest) for count in counts]
    columns += [pa.array(values, pa.int64()), pa.array((counts - half).astype(np.float64))]
    columns.append(pa.array((counts + half).astype(np.float64)))
    return pa.table(columns, names=list(names))
