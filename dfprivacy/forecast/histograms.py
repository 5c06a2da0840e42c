"""The explanation of a histogram."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.octave_bounds import SHARE
from dfprivacy.forecast.advice import halving_loss
from dfprivacy.forecast.explaining import plain_explanation, protects
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.forecast import SIZES, Forecast
from dfprivacy.forecast.reaching import reaching
from dfprivacy.noise.laws import Noise, name_of, spread_of
from dfprivacy.releasing import histogram_request
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.octaves import bounds_reach
from dfprivacy.terms import PublicKeys, Terms


def explain_histogram(
    by: Sequence[Hashable], keys: PublicKeys | None, question: Histogram, terms: Terms
) -> Explanation:
    """Return the explanation of a histogram, whole or by group.

    Raises
    ------
    DPError
        Whatever would be refused before anything is charged.
    """
    request = histogram_request(question, terms, by, keys)
    (part,), (row_loss,), loss = request.parts, request.row_losses, request.charge.loss
    noise, rule = part.left(row_loss).noise(1, 1), request.each
    made = replace(_forecast(question, noise, request.level), halve=(halving_loss(loss),))
    if part.finding is not None:
        found = bounds_reach(part.finding.pure())
        made = made.noted(f"edges are found by rows in one octave, in all groups: {found}")
    if rule is not None:
        made = made.noted("a group is shown by its fullest bin")
    explanation = plain_explanation(
        request.charge,
        (made,),
        _draws(question, loss),
        request.level,
        request.account,
        protects=protects(request.unit),
    )
    return replace(
        explanation,
        shown=None if rule is None else reaching(rule.least(noise, 1, 1), noise),
        remembered=request.account.remembered(request.mark) is not None,
    )


def _forecast(question: Histogram, noise: Noise, level: float) -> Forecast:
    half = (float(noise.quantile(1 - level)),) * len(SIZES)
    return Forecast(
        "count", question.text, name_of(noise), scale=spread_of(noise), scale_unit="rows",
        unit="rows, in each bin", certain=half, ordinary=half,
    )  # fmt: skip


def _draws(question: Histogram, loss: Epsilon | Rho) -> list[tuple[Epsilon | Rho, str]]:
    if question.edges is not None:
        return [(loss, question.text)]
    finding = (loss.share(SHARE), "the bounds of the bins")
    return [finding, (loss.share(1 - SHARE), question.text)]
