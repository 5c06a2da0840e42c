"""What a release costs: a function of its description, never of the data."""

from __future__ import annotations

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.accounting.memory import fingerprint
from dfprivacy.histogram import histogram_request
from dfprivacy.jobs.description import QuerySource, Release
from dfprivacy.released_frame import frame_names
from dfprivacy.request import request_of
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
    terms = terms_of(release)
    if release.histogram is not None:
        return histogram_request(release.histogram, terms, release.by, release.keys).charge
    request = request_of(release.numbers, terms, release.by, release.keys)
    if release.by:
        frame_names(request.parts, release.numbers, release.by)
    return request.charge


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
