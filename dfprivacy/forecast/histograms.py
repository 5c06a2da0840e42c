"""The explanation of a histogram."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.octave_bounds import SHARE
from dfprivacy.forecast.explaining import plain_explanation, protects
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.forecast.forecast import SIZES, Forecast, halving_loss, reaching
from dfprivacy.histogram import Histogram, histogram_request
from dfprivacy.noise.laws import Noise, name_of, spread_of
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
    asked = histogram_request(question, terms, by, keys)
    loss, contribution, rule = asked.charge.loss, asked.contribution, asked.rule
    finds = question.edges is None
    noise = contribution.row_loss(loss.share(1 - SHARE) if finds else loss).noise(1, 1)
    made = replace(_forecast(question, noise, asked.level), halve=(halving_loss(loss),))
    if finds:
        found = bounds_reach(contribution.pooled().row_loss(loss.share(SHARE)).pure())
        made = made.noted(f"edges are found by rows in one octave, in all groups: {found}")
    if rule is not None:
        made = made.noted("a group is shown by its fullest bin")
    explanation = plain_explanation(
        asked.charge,
        (made,),
        _draws(question, loss),
        asked.level,
        asked.account,
        protects=protects(asked.unit),
    )
    return replace(
        explanation,
        shown=None if rule is None else reaching(rule.least(noise, 1, 1), noise),
        remembered=asked.account.remembered(asked.mark) is not None,
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
