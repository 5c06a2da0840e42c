"""What a release costs: a function of its description, never of the data."""

from __future__ import annotations

from fractions import Fraction

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.fingerprint import fingerprint
from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.jobs.description import QuerySource, Release
from dfprivacy.released_frame import frame_names
from dfprivacy.request import limits_of, request_of, required_delta
from dfprivacy.terms import Terms


def terms_of(release: Release) -> Terms:
    """Return the terms of a release, without a ledger."""
    budget = release.budget
    return Terms(
        epsilon=budget.epsilon,
        rho=budget.rho,
        delta=budget.delta,
        interval=release.interval,
        unit=release.unit,
    )


def charge_of(release: Release) -> Charge:
    """Return what a release of questions costs.

    Raises
    ------
    DPError
        When its questions, keys, unit and losses do not go together.
    """
    if release.histogram is not None:
        return _histogram_charge(release)
    request = request_of(release.numbers, terms_of(release), release.by, release.keys)
    if release.by:
        frame_names(request.parts, release.numbers, release.by)
    return request.charge


def _histogram_charge(release: Release) -> Charge:
    budget, asked = release.budget, release.histogram
    assert asked is not None  # noqa: S101 the caller has seen it
    delta = delta_of(budget.delta)
    spent = required_delta(delta, release.keys) if release.by else None
    limits_of(release.unit, release.by, release.keys)
    return Charge(loss_of(budget.epsilon, budget.rho), spent or Fraction(0), asked.text)


def mark_of(release: Release) -> bytes:
    """Return what a release is known by: where its rows come from, what is asked, what it spends.

    Where it is written is no part of it, nor is the rest of the description.
    """
    budget, source = release.budget, release.source
    loss = loss_of(budget.epsilon, budget.rho)
    asked: dict[str, object] = {
        "source": [type(source).__name__, source.text],
        "by": release.by,
        "keys": None if release.keys is None else release.keys.rows,
        "names": list(release.questions),
        "questions": list(release.questions.values()),
        "unit": release.unit,
        "interval": release.interval,
        "loss": loss,
        "delta": delta_of(budget.delta),
    }
    if isinstance(source, QuerySource):
        asked |= {"query": source.query, "tables": source.files}
    return fingerprint(budget.dataset, budget.version, "run", asked)
