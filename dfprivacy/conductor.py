"""The one way from questions to a release: plan, one exact pass, charge, noise, estimates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.accounting.spending import account_of
from dfprivacy.engine.adopt import Adopted, Columns, adopt
from dfprivacy.engine.passes import build_pass
from dfprivacy.engine.run import align, guarded, run_pass
from dfprivacy.errors import MissingDeltaError
from dfprivacy.mechanisms.additive import add_noise
from dfprivacy.plan import Plan, plan_release
from dfprivacy.questions import Question, question_text
from dfprivacy.release import Estimate, Release, estimates, frame_names, released_table
from dfprivacy.statistics.linear_query import Source
from dfprivacy.statistics.statistics import Statistics
from dfprivacy.terms import PublicKeys, Terms, interval_level


def release_numbers(
    frame: object, questions: Mapping[str, Question], terms: Terms
) -> dict[str, Estimate]:
    """Release the answers about a whole frame, by name."""
    loss, level = loss_of(terms.epsilon, terms.rho), interval_level(terms.interval)
    delta_of(terms.delta)
    plan = plan_release(questions, grouped=False)
    account = account_of(terms.ledger, terms.dataset, terms.note)
    charge = Charge(loss, question=question_text(questions))
    account.check(charge)
    _, statistics = _exact(frame, (), None, plan)
    account.pay(charge)
    noisy = add_noise(statistics, plan.queries, plan.noises(loss))
    return estimates(plan, noisy, Release(loss, 0.0, level))


def release_frame(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    questions: Mapping[str, Question],
    terms: Terms,
) -> Any:
    """Release the answers by group, as the caller's own frame type."""
    loss, level = loss_of(terms.epsilon, terms.rho), interval_level(terms.interval)
    delta = _required_delta(delta_of(terms.delta), keys)
    plan = plan_release(questions, grouped=True)
    names = frame_names(plan, [str(label) for label in by])
    account = account_of(terms.ledger, terms.dataset, terms.note)
    charge = Charge(loss, delta or Fraction(0), question_text(questions, by))
    account.check(charge)
    adopted, statistics = _exact(frame, by, keys, plan)
    account.pay(charge)
    noisy = add_noise(statistics, plan.queries, plan.noises(loss))
    if delta is not None:
        query, weights = plan.counting()
        noisy = noisy.select(query, weights, delta)
    release = Release(loss, float(delta or 0), level)
    return adopted.wrap(released_table(plan, noisy, names, release))


def _required_delta(delta: Fraction | None, keys: PublicKeys | None) -> Fraction | None:
    """Return the delta that key selection spends; None where keys are public."""
    if keys is not None:
        return None
    if delta is None:
        raise MissingDeltaError(
            "group keys are secret, and showing them needs a delta",
            hint="pass delta=1e-6, or list keys that are public anyway: group_by(..., keys=[...])",
        )
    return delta


def _exact(
    frame: object, by: Sequence[Hashable], keys: PublicKeys | None, plan: Plan
) -> tuple[Adopted, Statistics]:
    """Run the exact pass, once."""
    sources = tuple(dict.fromkeys(query.source for query in plan.queries))
    adopted = guarded(lambda: adopt(frame, _columns(by, keys, sources)))
    try:
        lazy = guarded(lambda: build_pass(adopted, by, sources))
        statistics = run_pass(lazy, len(by), sources)
    finally:
        adopted.close()
    return adopted, statistics if keys is None else align(statistics, adopted.listed)


def _columns(by: Sequence[Hashable], keys: PublicKeys | None, sources: Sequence[Source]) -> Columns:
    values: dict[Hashable, bool] = {}
    for source in sources:
        if source.column is not None:
            values[source.column] = values.get(source.column, False) or source.grid is not None
    rows = () if keys is None else keys.rows
    listed = [[row[index] for row in rows] for index in range(len(by))]
    return Columns(by, values, listed)
