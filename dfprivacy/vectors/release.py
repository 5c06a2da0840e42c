"""Release means of vectors, whole or by group.

These methods are adaptive: they draw noise between passes. Everything is therefore charged before
the first random byte, and what can be refused is refused by declared types before that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Rho, loss_of
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.engine.adopt import Columns
from dfprivacy.errors import InvalidLedgerError, InvalidLossError, InvalidQuestionError
from dfprivacy.estimators.clipped_mean import NoisyMean
from dfprivacy.estimators.private_quantiles import NoisyRows
from dfprivacy.measurement.linear import ROWS
from dfprivacy.measurement.sums import Statistics
from dfprivacy.noise.additive import add_noise
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.release.numbers import Release
from dfprivacy.release.pipeline import paid
from dfprivacy.release.request import Request, request_for
from dfprivacy.releasing import Found, named_columns, release_table
from dfprivacy.terms import PublicKeys, Terms
from dfprivacy.vectors.estimate import VectorEstimate
from dfprivacy.vectors.passes import estimator, group_rows, labels_among, run_estimators
from dfprivacy.vectors.question import MeanVector
from dfprivacy.vectors.source import VectorSource, open_source

GROUP_COUNT_SHARE = Fraction(1, 16)
"""By group, the part of rho that counts the rows of each group."""

_MOST_NUMBERS = 2**26
"""So many table entries, half a GiB, are held at once: more groups take more passes."""


def vector_request(
    question: MeanVector,
    terms: Terms,
    by: Sequence[Hashable] = (),
    keys: PublicKeys | None = None,
) -> Request:
    """Return the release of a mean of vectors, to be made.

    Raises
    ------
    DPError
        Whatever a release would be refused for before it looks at the frame.
    """
    loss = _vector_loss(terms)
    if terms.unit is not None:  # nothing here bounds the rows of another one
        raise InvalidQuestionError(
            "a mean of vectors protects rows, and the terms name another unit",
            hint="make one row of each unit first, or leave unit out",
        )
    if by and question.neighbours != "add-remove":
        raise InvalidQuestionError(
            "by group, neighbours have a row more or less: a replaced row may change its group",
            hint="leave neighbours out",
        )
    text = f"{question.text} by {', '.join(map(repr, by))}" if by else question.text
    request = request_for(text, terms, by, keys, [loss])
    if question.neighbours == "replace" and not isinstance(request.account, NoAccount):
        raise InvalidLedgerError(
            "a ledger counts what adding or removing a row reveals, and replace protects less",
            hint="ask with neighbours='add-remove', or without a ledger",
        )
    return request


def _vector_loss(terms: Terms) -> Rho:
    """Return the loss of a mean of vectors, which is named in rho."""
    if terms.rho is None:
        raise InvalidLossError(
            "a mean of vectors is asked for in rho (zero-concentrated privacy)",
            hint="pass rho=0.5; with delta=1e-6 that implies epsilon = 5.8",
        )
    loss = loss_of(None, terms.rho)
    assert isinstance(loss, Rho)  # noqa: S101 what rho names
    return loss


def release_vector(frame: object, question: MeanVector, terms: Terms) -> VectorEstimate:
    """Release the mean of all vectors of a frame."""
    request = vector_request(question, terms)
    loss = request.charge.loss

    def draw(source: VectorSource) -> NoisyMean:
        passes = estimator(question, source.dimension, loss.value)(None)
        return run_estimators(source, question, {0: passes})[0]

    with ExitStack() as opened:
        columns = _columns(question, (), None)
        _, mean = paid(request, lambda: _opened(opened, frame, question, columns), draw)
    return VectorEstimate(question, mean, Release(loss, 0.0, request.level))


def release_vector_frame(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    question: MeanVector,
    terms: Terms,
) -> Any:
    """Release the mean of the vectors of each group, as the caller's own frame type."""
    request, names = vector_request(question, terms, by, keys), _frame_names(by, question)

    with ExitStack() as opened:

        def measured() -> Found[tuple[VectorSource, Statistics]]:
            source = _opened(opened, frame, question, _columns(question, by, keys))
            exact = group_rows(source, question, len(by), public=keys is not None)
            return source.wrap, exact.key_table(), (source, exact)

        return release_table(
            frame, request, names, measured,
            lambda found: _group_means(*found[2], question, request, names),
        )  # fmt: skip


def _opened(
    opened: ExitStack, frame: object, question: MeanVector, columns: Columns
) -> VectorSource:
    """Return the source of the vectors; it is closed with the stack."""
    return opened.enter_context(closing(open_source(frame, question, columns)))


def _group_means(
    source: VectorSource,
    exact: Statistics,
    question: MeanVector,
    request: Request,
    names: Sequence[str],
) -> pa.Table:
    """Return one row a shown group: count the groups, then average the vectors of each."""
    loss = request.charge.loss
    assert isinstance(loss, Rho)  # noqa: S101 it is named in rho
    noise = loss.share(GROUP_COUNT_SHARE).noise(1, 1)
    counted = add_noise(exact, [ROWS], [noise])
    noisy = counted.vectors[0].coordinates[0]
    shown = _shown(noisy, noise, request.rule)
    kept = counted.keys.take(pa.array(shown))
    rows = [NoisyRows(int(noisy[index]), noise) for index in shown]
    means = _means(source, question, kept, rows, loss.value * (1 - GROUP_COUNT_SHARE))
    return _table(kept, means, question, names, request.level)


def _shown(noisy: Any, noise: DiscreteGaussian, rule: KeyRule | None) -> Any:
    """Return the groups to show: all public ones, or those that more than one row has made."""
    if rule is None:
        return np.arange(len(noisy))
    return np.flatnonzero(noisy >= rule.least(noise, 1, 1))


def _columns(question: MeanVector, by: Sequence[Hashable], keys: PublicKeys | None) -> Columns:
    return named_columns(by, keys, dict.fromkeys(question.labels, question.wide), None)


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
