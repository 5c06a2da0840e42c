"""Explain a release or a protocol before it is made: its cost, its draws and its forecasts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from dfprivacy.accounting.charge import short
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.engine.columns import Declared
from dfprivacy.frames.explanation import Account, Draw, Explanation
from dfprivacy.frames.limit_finding import finding_draws
from dfprivacy.frames.vector_release import (
    DENSE,
    GROUP_COUNT_SHARE,
    VectorPlan,
    find_grid,
)
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.release.plan import (
    JointPlan,
    Plan,
    add_losses,
    index_of_counting_part,
)
from dfprivacy.release.terms import Unit, UnlimitedUnit
from dfprivacy.statistics.estimators.private_quantiles import RELATIONS
from dfprivacy.statistics.forecast import (
    SIZES,
    Circumstances,
    Forecast,
    Reach,
    by_size,
    name_condition,
    reaching,
)
from dfprivacy.statistics.linear import list_shown_sizes
from dfprivacy.statistics.mean_vector import MeanVector


@singledispatch
def explain_plan(plan: Plan, declared: Declared | None, sizes: tuple[int, ...]) -> Explanation:
    """Return the explanation of a plan: its cost, its draws and its errors."""
    page = explain_titled_plan(plan, declared, sizes=sizes)
    if page.shown is None or not plan.remark:
        return page
    return replace(page, answers=tuple(answer.add_remarks(plan.remark) for answer in page.answers))


def read_columns(plan: Plan) -> list[Hashable]:
    """Return the columns that a plan reads."""
    if isinstance(plan, VectorPlan):
        return [*plan.by, *plan.question.labels]
    if isinstance(plan, JointPlan):
        return [column for part in plan.plans for column in read_columns(part)]
    columns = [column for question in plan.questions.values() for column in question.columns]
    return [*plan.by, *columns, *([] if plan.unit is None else [plan.unit.column])]


def explain_titled_plan(
    request: Plan,
    declared: Declared | None = None,
    titles: Mapping[str, str] | None = None,
    sizes: tuple[int, ...] = SIZES,
) -> Explanation:
    """Return the explanation of a plan, with titles of its answers. No data, no charge."""
    draws = list_draws(request)
    circumstances = Circumstances(request.level, request.unit, declared or {}, sizes)
    forecasts_by_name: dict[str, list[Forecast]] = {name: [] for name in request.questions}
    for part, loss in zip(request.parts, request.row_losses, strict=True):
        names = {shown: name for name in part.names for shown in (*part.names[name], name)}
        for answer in part.forecasts(loss, circumstances):
            name, title = names[answer.name], answer.name
            if title.startswith(name):  # the total of a table has a name of its own
                title = (titles or {}).get(name, name) + title.removeprefix(name)
            question = request.questions[name]
            totals = tuple(map(getattr(question, "percent_base", float), sizes))
            forecast = replace(answer, name=title, question=question.text)
            forecast = forecast.with_sizes(sizes, totals)
            open_limits = list_open_limits(request, part)
            forecasts_by_name[name].append(forecast.with_open_limits(open_limits))
    unit = request.unit if request.search is None else request.search.unit
    return _page(
        request,
        [answer for forecasts in forecasts_by_name.values() for answer in forecasts],
        draws,
        protects=protects(unit, request.copies),
        shown=_sizes_shown(request),
    )


def list_open_limits(request: Plan, part: Any) -> tuple[str, ...]:
    """Return the limits that a release finds and that the noise of a part grows with."""
    search = request.search
    if search is None:
        return ()
    rows = search.unit.rows and not part.counts_units
    groups = bool(request.by) and request.keys is None and search.unit.max_groups is None
    return (*(("max_rows",) if rows else ()), *(("max_groups",) if groups else ()))


def _page(
    request: Plan,
    answers: Sequence[Forecast],
    draws: Sequence[Draw],
    *,
    protects: str,
    shown: Reach | None = None,
) -> Explanation:
    """Return the explanation of a plan from its draws and the forecasts of its answers."""
    charge, account, budgets = request.charge, request.account, None
    if not isinstance(account, NoAccount):
        ledger, dataset, who = account.ledger, account.dataset, account.analyst
        left = ledger.remaining(dataset, analyst=who)
        budgets = Account(dataset, left, ledger.would_leave(dataset, charge, analyst=who))
    return Explanation(
        asks=charge.question,
        protects=protects,
        **_name_loss(charge.loss),
        delta=float(charge.delta),
        draws=tuple(draws),
        level=request.level,
        answers=tuple(answers),
        shown=shown,
        account=budgets,
        remembered=account.recall(request.mark) is not None,
    )


def describe_draw(loss: Epsilon | Rho, questions: tuple[str, ...]) -> Draw:
    """Return a draw of this loss."""
    return Draw(**_name_loss(loss), questions=questions)


def _name_loss(loss: Epsilon | Rho) -> dict[str, Any]:
    return {"epsilon": None, loss.measure: float(loss.value)}


def protects(unit: Unit | None, copies: int = 1) -> str:
    """Describe the neighbors: who may be added or removed."""
    if unit is None:
        many = "" if copies == 1 else f", which counts as at most {copies} rows"
        return f"one row, added or removed{many}"
    if isinstance(unit, UnlimitedUnit):
        return f"all rows of one {unit.column!r}, within limits that the release finds"
    rows = f"counted as at most {unit.max_rows} rows"
    groups = "group" if unit.max_groups is None else f"of at most {unit.max_groups} groups"
    return f"all rows of one {unit.column!r}, {rows} in each {groups}"


def groups_text(request: Plan) -> str:
    """Describe whether keys are public, and when secret ones are shown."""
    if request.keys is not None:
        return f"public, exactly the {len(request.keys.rows)} listed"
    return f"secret, shown if the noisy count is large enough, delta {short(request.charge.delta)}"


def in_one(
    pages: Sequence[Explanation], request: Plan, draws: tuple[Draw, ...] | None = None
) -> Explanation:
    """Return one explanation of several releases that are charged together."""
    return _page(
        request,
        [answer for page in pages for answer in page.answers],
        draws or [draw for page in pages for draw in page.draws],
        protects=pages[0].protects,
        shown=next((page.shown for page in pages if page.shown is not None), None),
    )


def _sizes_shown(request: Plan) -> Reach | None:
    """Return the sizes from which on groups of secret keys are shown.

    Where a search for bounds comes first, its noise is not known: the least size is that of the
    least noise, the others are those of the most.
    """
    if request.rule is None:
        return None
    index = index_of_counting_part(request.parts)
    part, loss = request.parts[index], request.row_losses[index]
    reach = list_shown_sizes(part.count_noise(loss), request.rule)
    threshold = list_shown_sizes(part.least_count_noise(loss), request.rule)
    reach = replace(reach, rarely=min(threshold.rarely, reach.rarely))
    open_limits = list_open_limits(request, part)
    return replace(reach, condition=name_condition(open_limits)) if open_limits else reach


def list_draws(request: Plan) -> tuple[Draw, ...]:
    """Return each noisy vector or selection with its loss; together they cost the charge."""
    texts = {name: question.text for name, question in request.questions.items()}
    total = sum((loss.value for loss in request.losses), start=Fraction(0))
    draws, rest, search = [], request.charge.loss, request.search
    if search is not None:
        rest = add_losses(request.losses)
        draws = [describe_draw(loss, (what,)) for loss, what in finding_draws(request)]
    for part, loss in zip(request.parts, request.losses, strict=True):
        share = rest.value * loss.value / total
        for names, of_part in part.draws():
            cost = type(rest)(share * of_part)
            draws.append(describe_draw(cost, tuple(texts.get(name, name) for name in names)))
    return tuple(draws)


REPLACED = "one row, replaced by another: the number of rows is public"


def explain_survey(survey: Plan, forecast: Forecast) -> Explanation:
    """Return the explanation of a protocol over a column."""
    draws = [describe_draw(survey.charge.loss, (survey.charge.question,))]
    return _page(survey, [forecast], draws, protects=REPLACED)


_UNTOLD = "noise goes by private deviations of the coordinates: no half-width before there is data"


@explain_plan.register
def explain_vector(request: VectorPlan, _: Declared | None, sizes: tuple[int, ...]) -> Explanation:
    """Return the explanation of a mean of vectors, whole or by group."""
    question, by = request.question, request.by
    loss, level = request.charge.loss, request.level
    assert isinstance(loss, Rho)  # noqa: S101 it is named in rho
    left = loss.share(1 - GROUP_COUNT_SHARE) if by else loss
    noise = loss.share(GROUP_COUNT_SHARE).noise(1, 1) if by else None
    draws = [describe_draw(left, (question.text,))]
    if noise is not None:
        draws.insert(0, describe_draw(loss.share(GROUP_COUNT_SHARE), ("the rows of each group",)))
    forecast = vector_forecast(question, left, level, counted=noise, sizes=sizes)
    forecast = forecast.with_sizes(sizes, (1.0,) * len(sizes))
    who = "one row, replaced by another" if question.neighbors == "replace" else protects(None)
    shown = None
    if request.rule is not None and noise is not None:
        shown = reaching(request.rule.threshold(noise, 1, 1), noise)
    return _page(request, [forecast], draws, protects=who, shown=shown)


def vector_forecast(
    question: MeanVector,
    loss: Rho,
    level: float,
    *,
    counted: DiscreteGaussian | None,
    sizes: tuple[int, ...] = SIZES,
) -> Forecast:
    """Return the forecast; `counted` is the noise of a count that was paid for apart."""
    forecast = Forecast(
        question.name,
        f"{question.chosen_method}: discrete Gaussian on every sum",
        question.text,
    )
    dimension = (
        len(question.labels) if question.is_wide else question.dimension or question.universe
    )
    if question.chosen_method not in DENSE or question.binary:
        return forecast.add_remarks(_UNTOLD)
    relation, cost, noise = RELATIONS[question.neighbors], Fraction(0), counted
    estimator = DENSE[question.chosen_method](
        find_grid(question, dimension or 1), loss.value, relation
    )
    if noise is None and relation.secret_rows:
        cost = loss.value * estimator.count_share
        noise = Rho(cost).noise(1, 1)
    deviations = [
        relation.sum_factor / math.sqrt(2 * estimator.last(cost, rows).sum) for rows in (1, *sizes)
    ]
    forecast = replace(
        forecast,
        scale=deviations[0],
        scale_unit="lengths at which vectors are clipped, on each sum",
    )
    if dimension is None:
        return forecast.add_remarks("name dimension= to learn the error of the whole vector")
    # A bound on the norm of the error: half of `outside` for the sum, half for the count. With n
    # rows, a count that is c off and a sum that is z off, the mean is at most (z + c)/(n - c) off,
    # in lengths of clipping; it is never more than two of them off.
    outside = 1 - level
    reach = math.sqrt(dimension) + math.sqrt(2 * math.log(2 / outside))
    off = 0 if noise is None else noise.quantile(outside / 2)
    rows = np.array(sizes, dtype=np.float64) - off
    error = np.array(deviations[1:]) * reach + off
    ratio = np.divide(error, rows, out=np.full_like(rows, 2.0), where=rows > 0)
    half: np.ndarray = np.minimum(ratio, 2.0)
    return replace(
        forecast,
        unit="lengths at which vectors are clipped, in Euclidean norm",
        typical=by_size(half),
    )
