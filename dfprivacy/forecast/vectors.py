"""The explanation of a mean of vectors: errors in lengths at which vectors are clipped."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Rho
from dfprivacy.estimators.private_quantiles import RELATIONS
from dfprivacy.forecast.explaining import plain_explanation, protects
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.forecast import SIZES, Forecast, by_size, halving_loss, reaching
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.terms import PublicKeys, Terms
from dfprivacy.vectors.question import MeanVector
from dfprivacy.vectors.release import GROUP_COUNT_SHARE, vector_request

_SUM_SHARES = {"clipped": Fraction(3, 4), "shifted": Fraction(9, 16)}
"""The part of rho that pays for the clipped sum, and for the number of rows."""

_UNTOLD = "noise goes by private deviations of the coordinates: no half-width before there is data"


def explain_vector(
    by: Sequence[Hashable], keys: PublicKeys | None, question: MeanVector, terms: Terms
) -> Explanation:
    """Return the explanation of a mean of vectors, whole or by group.

    Raises
    ------
    DPError
        Whatever would be refused before anything is charged.
    """
    request = vector_request(question, terms, by, keys)
    loss, level = request.charge.loss, request.level
    assert isinstance(loss, Rho)  # noqa: S101 it is named in rho
    left = loss.share(1 - GROUP_COUNT_SHARE) if by else loss
    noise = loss.share(GROUP_COUNT_SHARE).noise(1, 1) if by else None
    draws = [(left, question.text)]
    if noise is not None:
        draws = [(loss.share(GROUP_COUNT_SHARE), "the rows of each group"), *draws]
    made = vector_forecast(question, left, level, counted=noise)
    who = "one row, replaced by another" if question.neighbours == "replace" else protects(None)
    explanation = plain_explanation(
        request.charge, (made,), draws, level, request.account, protects=who
    )
    if request.rule is None or noise is None:
        return explanation
    return replace(explanation, shown=reaching(request.rule.least(noise, 1, 1), noise))


def vector_forecast(
    question: MeanVector, loss: Rho, level: float, *, counted: DiscreteGaussian | None
) -> Forecast:
    """Return the forecast; `counted` is the noise of a count that was paid for apart."""
    made = Forecast(
        question.name, question.text, f"{question.chosen_method}: discrete Gaussian on every sum",
        halve=(halving_loss(loss), "double the number of rows"),
    )  # fmt: skip
    dimension = len(question.labels) if question.wide else question.dimension or question.universe
    share = _SUM_SHARES.get(question.chosen_method)
    if share is None or question.binary:
        return made.noted(_UNTOLD)
    relation = RELATIONS[question.neighbours]
    cost, noise = loss.value * share, counted
    if noise is None and relation.count_share:
        noise = Rho(cost * relation.count_share).noise(1, 1)
        cost *= 1 - relation.count_share
    deviation = relation.sum_factor / math.sqrt(2 * cost)
    made = replace(
        made, scale=deviation, scale_unit="lengths at which vectors are clipped, on each sum"
    )
    if dimension is None:
        return made.noted("name dimension= to learn the error of the whole vector")
    half = _half_width(dimension, deviation, 1 - level, noise)
    return replace(
        made, unit="lengths at which vectors are clipped, in Euclidean norm",
        certain=by_size(half), ordinary=by_size(half),
    )  # fmt: skip


def _half_width(
    dimension: int, deviation: float, outside: float, noise: DiscreteGaussian | None
) -> np.ndarray:
    """Return a bound on the norm of the error: half of `outside` for the sum, half for the count.

    With n rows, a count that is c off and a sum that is z off, the mean is at most (z + c)/(n - c)
    off, in lengths of clipping; it is never more than two of them off.
    """
    reach = math.sqrt(dimension) + math.sqrt(2 * math.log(2 / outside))
    off = 0 if noise is None else noise.quantile(outside / 2)
    rows = np.array(SIZES, dtype=np.float64) - off
    half = np.divide(deviation * reach + off, rows, out=np.full_like(rows, 2.0), where=rows > 0)
    return np.minimum(half, 2.0)
