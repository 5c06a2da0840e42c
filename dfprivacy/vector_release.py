"""The release of a mean of vectors, whole or by group: check, open, charge, then passes and noise.

These methods are adaptive: they draw noise between passes. Everything is therefore charged before
the first random byte, and what can be refused is refused by declared types before that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Rho, delta_of, loss_of
from dfprivacy.accounting.spending import NoAccount, account_of
from dfprivacy.engine.adopt import Columns
from dfprivacy.engine.vector_source import VectorSource, open_source
from dfprivacy.errors import InvalidLedgerError, InvalidLossError, InvalidQuestionError
from dfprivacy.estimators.clipped_mean import NoisyMean
from dfprivacy.estimators.private_quantiles import NoisyRows
from dfprivacy.measurement.linear import ROWS
from dfprivacy.noise.additive import add_noise
from dfprivacy.noise.keys import threshold
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.origin import Origin, with_origin
from dfprivacy.release import Release
from dfprivacy.request import required_delta
from dfprivacy.terms import PublicKeys, Terms, interval_level
from dfprivacy.vector_estimate import VectorEstimate
from dfprivacy.vector_groups import group_rows, labels_among
from dfprivacy.vector_passes import estimator, run_estimators
from dfprivacy.vector_question import MeanVector

GROUP_COUNT_SHARE = Fraction(1, 16)
"""By group, the part of rho that counts the rows of each group."""

_MOST_NUMBERS = 2**26
"""So many table entries, half a GiB, are held at once: more groups take more passes."""


def release_vector(frame: object, question: MeanVector, terms: Terms) -> VectorEstimate:
    """Release the mean of all vectors of a frame."""
    loss, level = vector_loss(terms), interval_level(terms.interval)
    _require_rows(terms)
    _require_counted(question, terms)
    account = account_of(terms.ledger, terms.dataset, terms.note, terms.version)
    charge = Charge(loss, question=question.text)
    account.check(charge)
    source = open_source(frame, question, _columns(question, (), None))
    try:
        account.pay(charge)
        passes = estimator(question, source.dimension, loss.value)(None)
        mean = run_estimators(source, question, {0: passes})[0]
    finally:
        source.close()
    return VectorEstimate(question, mean, Release(loss, 0.0, level))


def release_vector_frame(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    question: MeanVector,
    terms: Terms,
) -> Any:
    """Release the mean of the vectors of each group, as the caller's own frame type."""
    loss, level = vector_loss(terms), interval_level(terms.interval)
    delta = required_delta(delta_of(terms.delta), keys)
    _require_rows(terms)
    _require_add_remove(question)
    names = _frame_names(by, question)
    account = account_of(terms.ledger, terms.dataset, terms.note, terms.version)
    text = f"{question.text} by {', '.join(map(repr, by))}"
    charge = Charge(loss, delta or Fraction(0), text)
    account.check(charge)
    source = open_source(frame, question, _columns(question, by, keys))
    try:
        exact = group_rows(source, question, len(by), public=keys is not None)
        account.pay(charge)
        noise = loss.share(GROUP_COUNT_SHARE).noise(1, 1)
        counted = add_noise(exact, [ROWS], [noise])
        noisy = counted.vectors[0].coordinates[0]
        shown = _shown(noisy, noise, delta)
        kept = counted.keys.take(pa.array(shown))
        rows = [NoisyRows(int(noisy[index]), noise) for index in shown]
        left = loss.value * (1 - GROUP_COUNT_SHARE)
        means = _means(source, question, kept, rows, left)
    finally:
        source.close()
    released = source.wrap(_table(kept, means, question, names, level))
    return with_origin(released, Origin.of(charge, level, by))


def _shown(noisy: Any, noise: DiscreteGaussian, delta: Fraction | None) -> Any:
    """Return the groups to show: all public ones, or those that more than one row has made."""
    if delta is None:
        return np.arange(len(noisy))
    return np.flatnonzero(noisy >= threshold(noise, 1, 1, delta))


def vector_loss(terms: Terms) -> Rho:
    """Return the loss of a mean of vectors, which is named in rho.

    Raises
    ------
    InvalidLossError
        When it is not.
    """
    if terms.rho is None:
        raise InvalidLossError(
            "a mean of vectors is asked for in rho (zero-concentrated privacy)",
            hint="pass rho=0.5; with delta=1e-6 that implies epsilon = 5.8",
        )
    loss = loss_of(None, terms.rho)
    assert isinstance(loss, Rho)  # noqa: S101 what rho names
    return loss


def checked_terms(question: MeanVector, terms: Terms, *, grouped: bool) -> Rho:
    """Return the loss of a mean of vectors, once its terms are known to go together.

    Raises
    ------
    DPError
        Whatever a release would be refused for before it looks at the frame.
    """
    loss = vector_loss(terms)
    _require_rows(terms)
    if grouped:
        _require_add_remove(question)
    _require_counted(question, terms)
    return loss


def _require_counted(question: MeanVector, terms: Terms) -> None:
    account = account_of(terms.ledger, terms.dataset, terms.note, terms.version)
    if question.neighbours == "replace" and not isinstance(account, NoAccount):
        raise InvalidLedgerError(
            "a ledger counts what adding or removing a row reveals, and replace protects less",
            hint="ask with neighbours='add-remove', or without a ledger",
        )


def _require_rows(terms: Terms) -> None:
    """Refuse terms that name another privacy unit than the row: nothing here bounds its rows."""
    if terms.unit is not None:
        raise InvalidQuestionError(
            "a mean of vectors protects rows, and the terms name another unit",
            hint="make one row of each unit first, or leave unit out",
        )


def _require_add_remove(question: MeanVector) -> None:
    if question.neighbours != "add-remove":
        raise InvalidQuestionError(
            "by group, neighbours have a row more or less: a replaced row may change its group",
            hint="leave neighbours out",
        )


def _columns(question: MeanVector, by: Sequence[Hashable], keys: PublicKeys | None) -> Columns:
    rows = () if keys is None else keys.rows
    listed = [[row[index] for row in rows] for index in range(len(by))]
    return Columns(by, dict.fromkeys(question.labels, question.wide), listed)


def _frame_names(by: Sequence[Hashable], question: MeanVector) -> list[str]:
    answers = [str(c) for c in question.labels] if question.wide else [question.name, "low", "high"]
    names = [*map(str, by), *answers, "count"]
    if len(set(names)) < len(names):
        raise InvalidQuestionError(
            "two columns of the result would have the same name",
            hint="rename the group column, or a coordinate that is called count, low or high",
        )
    return names


def _means(
    source: VectorSource,
    question: MeanVector,
    kept: pa.Table,
    rows: Sequence[NoisyRows],
    rho: Fraction,
) -> list[NoisyMean]:
    """Return the mean of each kept group; as many groups at a time as fit."""
    start = estimator(question, source.dimension, rho)
    at_once = max(_MOST_NUMBERS // (2048 * source.dimension), 1)
    means: list[NoisyMean] = []
    for first in range(0, len(rows), at_once):
        own = rows[first : first + at_once]
        labelled = labels_among(kept.slice(first, len(own)))
        passes = {number: start(count) for number, count in enumerate(own)}
        found = run_estimators(source, question, passes, labelled)
        means += [found[number] for number in range(len(own))]
    return means


def _table(
    kept: pa.Table,
    means: Sequence[NoisyMean],
    question: MeanVector,
    names: Sequence[str],
    level: float,
) -> pa.Table:
    values = [mean.value() for mean in means]
    columns: list[Any] = list(kept.columns)
    if question.wide:
        together = np.array(values).reshape(len(means), len(question.labels))
        columns += [pa.array(column) for column in together.T]
    else:
        ends = [mean.interval(level) for mean in means]
        kind = pa.list_(pa.float64())
        columns += [pa.array(values, kind)]
        columns += [pa.array([end[side] for end in ends], kind) for side in (0, 1)]
    columns.append(pa.array([mean.rows.value for mean in means], pa.int64()))
    return pa.table(columns, names=list(names))
