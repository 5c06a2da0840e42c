"""Explain a release before it is made: its cost, its draws and its errors, as text and as HTML.

Where a caller names the half-width that answers are to have, find the least loss with three digits
that reaches it.
"""

from __future__ import annotations

import math
import re
import textwrap
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.engine.columns import Declared
from dfprivacy.errors import InvalidLossError, InvalidQuestionError, InvalidUnitError, boundary
from dfprivacy.frames.limit_finding import finding_draws
from dfprivacy.frames.vector_release import DENSE, GROUP_COUNT_SHARE, VectorPlan, find_grid
from dfprivacy.frames.viz.text import render
from dfprivacy.measurement.exact import decimal_number, describe, whole_number
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.release.plan import JointPlan, Plan, add_losses, index_of_counting_part
from dfprivacy.release.terms import Default, Terms, Unit, UnlimitedUnit
from dfprivacy.statistics.estimators.vector_means import RELATIONS
from dfprivacy.statistics.mean_vector import MeanVector
from dfprivacy.statistics.part import (
    SIZES,
    Circumstances,
    Forecast,
    Reach,
    by_size,
    name_condition,
    reaching,
)

_WIDTH, _TITLE = 100, 10

_TABLE = pa.schema(
    {
        "answer": pa.string(),
        "question": pa.string(),
        "rows": pa.int64(),
        "typical": pa.float64(),
        "unit": pa.string(),
    }
)


@dataclass(frozen=True, repr=False)
class Draw:
    """One noisy vector or selection: its cost, and the questions that it answers.

    >>> Draw(0.5, ("count()",))
    Draw(epsilon=0.5, questions=('count()',))
    """

    epsilon: float | None
    questions: tuple[str, ...]
    rho: float | None = None

    def __repr__(self) -> str:
        return f"Draw({Budget(self.epsilon, self.rho).arguments()}, questions={self.questions!r})"

    @property
    def text(self) -> str:
        """The cost, and the questions."""
        name, value = ("epsilon", self.epsilon) if self.rho is None else ("rho", self.rho)
        return f"{name} {value:.6g} on {', '.join(self.questions)}"


@dataclass(frozen=True)
class Account:
    """A dataset's remaining budget before a release, and after it: None if too little."""

    dataset: str
    before: Budget
    after: Budget | None


@boundary
@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """The cost and the error of a release that is not made. It reads no data and spends nothing.

    `asks` is the question as a ledger's history would show it, `protects` who may be added or
    removed. `epsilon` or `rho`, the one that was named, and `delta`, for secret keys, are what one
    privacy unit pays; `draws` say how that is shared. `answers` are the forecasts with their
    half-widths at `level`, `shown` the sizes from which on a group of secret keys is shown, for
    three probabilities. `account` is what a ledger has left, `remembered` whether it returns this
    release again at no cost, `reaches` what a loss was found for, where a half-width was named.
    """

    asks: str
    protects: str
    epsilon: float | None
    rho: float | None = None
    delta: float = 0.0
    draws: tuple[Draw, ...] = ()
    level: float = 0.95
    answers: tuple[Forecast, ...] = ()
    shown: Reach | None = None
    account: Account | None = None
    remembered: bool = False
    reaches: str = ""

    def __getitem__(self, name: str) -> Forecast:
        """Return the forecast of an answer by its name; a `KeyError` where none is called that."""
        for answer in self.answers:
            if answer.name == name:
                return answer
        raise KeyError(name)

    @property
    def table(self) -> pa.Table:
        """Every half-width, one row an answer and size: answer, question, rows, typical, unit."""
        records = [
            (answer.name, answer.question, *half_width, answer.unit)
            for answer in self.answers
            for half_width in zip(answer.rows, answer.typical, strict=True)
        ]
        rows = [dict(zip(_TABLE.names, record, strict=True)) for record in records]
        return pa.Table.from_pylist(rows, _TABLE)

    @property
    def cost(self) -> str:
        """The charge in words."""
        return Budget(self.epsilon, self.rho, self.delta).text()

    def head(self) -> list[tuple[str, str]]:
        """Return the lines above the answers, each with its title."""
        return [
            ("asks", self.asks),
            ("protects", self.protects),
            ("costs", f"nothing: {self.cost} was paid before" if self.remembered else self.cost),
            *([("reaches", self.reaches)] if self.reaches else ()),
            *self.details(),
            *(("spends", draw.text) for draw in self.draws),
            *([("hint", self.hint)] if self.hint else ()),
        ]

    @property
    def hint(self) -> str:
        """The rho that takes less noise for as many draws; empty where epsilon takes less."""
        if self.rho is not None or not self.epsilon or not self.draws:
            return ""
        delta = self.delta or 1e-6
        root = math.sqrt(-math.log(delta) + self.epsilon) - math.sqrt(-math.log(delta))
        draws, rho = len(self.draws), root**2  # rho + 2 sqrt(rho ln(1 / delta)) = epsilon
        if math.sqrt(draws / (2 * rho)) > math.sqrt(2) * draws / self.epsilon:
            return ""
        return (
            f"{draws} draws share epsilon: rho={rho:.2g} keeps it at delta {short(delta)}, "
            "with less noise"
        )

    def details(self) -> list[tuple[str, str]]:
        """Return the lines on ledger, draws and groups, each with its title."""
        lines = []
        if self.remembered:
            lines.append(("ledger", "remembers this release: it is returned again, at no cost"))
        elif self.account is not None:
            after = self.account.after
            rest = ": too little, so the release would be refused"
            rest = rest if after is None else f", and {after.arguments()} afterwards"
            before = self.account.before.arguments()
            lines.append(("ledger", f"{self.account.dataset!r} has {before} left{rest}"))
        if self.shown is not None:
            lines.append(("groups", f"are shown {self.shown}"))
        return lines

    def lines(self) -> list[str]:
        """Return the head as lines of at most 100 characters."""
        return [line for title, text in self.head() for line in _wrap_titled(title, text)]

    def __repr__(self) -> str:
        lines = self.lines()
        for answer in self.answers:
            lines.append("")
            if len(answer.name) < _TITLE:
                lines += _wrap_titled(answer.name, answer.question)
            else:
                lines += textwrap.wrap(f"{answer.name}:", _WIDTH)
                lines += _wrap_titled("", answer.question)
            for title, text in _facts(answer, self.level):
                lines += _wrap_titled("", f"{title}: {text}")
            lines += [
                "".join([f"{'':<{_TITLE}}{name:<9}", *(f"{text:>12}" for text in texts)])
                for name, *texts in zip(*_widths(answer), strict=True)
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        answers = [
            (answer, _facts(answer, self.level), list(_widths(answer))) for answer in self.answers
        ]
        return render("explanation.html", head=self.head(), answers=answers)


def _wrap_titled(title: str, text: str) -> list[str]:
    """Return a text behind its title, wrapped."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{title:<{_TITLE - 1}} ",
        subsequent_indent=" " * _TITLE,
        break_on_hyphens=False,
    )


def _facts(answer: Forecast, level: float) -> list[tuple[str, str]]:
    """Return the facts besides half-widths, each with its title."""
    noise = answer.mechanism
    if answer.scale is not None:
        noise = f"{noise}, scale {_number(answer.scale)} ({answer.scale_unit})"
    facts = [("Noise", noise)]
    if answer.answered is not None:
        facts.append(("There is an answer", str(answer.answered)))
    facts += [("Note", remark) for remark in answer.remarks]
    if answer.is_known:
        facts.append((f"Half-width at {100 * level:.6g}%", f"in {answer.unit}"))
    return facts


def _widths(answer: Forecast) -> Iterator[tuple[str, ...]]:
    """Yield the table of half-widths under its heads; nothing where none is known."""
    if answer.is_known:
        yield "rows", "typical"
        for rows, half_width in zip(answer.rows, answer.typical, strict=True):
            yield f"{rows:,}", _number(half_width)


def _number(value: float | None) -> str:
    """Return a number with three digits.

    >>> _number(0.0123456), _number(12345.0), _number(1e-9), _number(None)
    ('0.0123', '12,345', '1e-09', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


SIZE = 1000  # the size of group that a target is for where none is named

_PERCENT = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(%?)\s*\Z")
_LEAST, _DECADES, _STEPS = -9, 12, 900  # 1e-9 to 999, in 900 steps of three digits a decade

Made = TypeVar("Made", bound=Explanation)
Making = Callable[[Terms, tuple[int, ...]], Made]
"""Explains a release with terms that name a loss, with half-widths for groups of some sizes."""


@dataclass(frozen=True)
class Within:
    """A half-width that an answer should reach: in its own unit, or as a part of what is 100 %."""

    amount: Fraction
    relative: bool

    def __str__(self) -> str:
        return f"{short(100 * self.amount)}%" if self.relative else short(self.amount)


@dataclass(frozen=True)
class Target:
    """Targets of half-widths in groups of `size` rows: of each answer by name, "" for all.

    >>> read_target("2%", 500)
    Target(within={'': Within(amount=Fraction(1, 50), relative=True)}, size=500)
    """

    within: Mapping[str, Within]
    size: int = SIZE


def no_loss_beside(epsilon: object, rho: object = None) -> None:
    """Refuse a loss that is named beside what it is to reach."""
    if rho is not None or not isinstance(epsilon, Default):
        raise InvalidLossError(
            "within and a loss were both given: one says what the other is to be",
            hint="leave epsilon out; df.dp(rho=1).explain(..., within=2.0) looks for a rho",
        )


def read_target(within: object, size: object = SIZE) -> Target:
    """Return the target that a caller named."""
    rows = whole_number(
        size,
        1,
        10**12,
        InvalidQuestionError,
        "size must be a number of rows, from 1 on",
        hint="name the rows of the group that matters, e.g. size=1000",
    )
    named_targets = within if isinstance(within, Mapping) else {"": within}
    if not named_targets:
        raise InvalidQuestionError("within names no answer", hint="pass e.g. within=2.0")
    return Target({str(name): _read_target(entry) for name, entry in named_targets.items()}, rows)


def _read_target(target: object) -> Within:
    amount, relative = decimal_number(target), False
    if isinstance(target, str) and (match := _PERCENT.match(target)):
        try:
            amount, relative = Fraction(match[1]), bool(match[2])
        except ValueError:
            amount = None
    if amount is None or amount <= 0:
        raise InvalidQuestionError(
            f"within must be a half-width, not {describe(target)}",
            hint="pass a positive number in units of the answer, within=2.0, or a part of what it "
            'can be, within="2%"',
        )
    return Within(amount / 100 if relative else amount, relative)


def solve_target(target: Target, terms: Terms, explain: Making[Made]) -> tuple[Terms, list[str]]:
    """Return terms with the least loss that reaches a target, and the answers that have one.

    The loss is epsilon, or rho where the terms name rho.
    """
    sizes, top = (target.size,), _DECADES * _STEPS - 1
    names = _find_targets(target, explain(_with_loss(terms, top), sizes))

    noisiest = explain(_with_loss(terms, 0), sizes)
    for name in names:
        if _is_narrow_enough(noisiest[name], target):
            raise InvalidQuestionError(
                f"every loss brings {name!r} within {_find_target(noisiest[name], target)}, "
                f"which is in {noisiest[name].unit}",
                hint="name a narrower half-width; beside bounds= it is in units of the column",
            )

    def is_enough(step: int) -> bool:
        page = explain(_with_loss(terms, step), sizes)
        return all(_reaches(page[name], target) for name in names)

    step = bisect_left(range(top), True, key=is_enough)  # noqa: FBT003 what is looked for
    return _with_loss(terms, step), names


def _with_loss(terms: Terms, step_number: int) -> Terms:
    """Return terms with one of the losses of three digits."""
    decade, step = divmod(step_number, _STEPS)
    amount = float(Fraction(100 + step) * Fraction(10) ** (decade + _LEAST - 2))
    if terms.rho is not None:
        return replace(terms, rho=amount)
    return replace(terms, epsilon=amount)


def _find_targets(target: Target, best: Explanation) -> list[str]:
    """Return the answers that have a target, which the largest loss reaches."""
    names = [answer.name for answer in best.answers]
    for name in target.within:
        if name and name not in names:
            raise InvalidQuestionError(
                f"within names {name!r}, and there is no such answer",
                hint=f"the answers are {', '.join(map(repr, names))}",
            )
    targets = []
    for answer in best.answers:
        if _find_target(answer, target) is None:
            continue
        if answer.open_limits:
            raise InvalidUnitError(
                f"{answer.name!r} can't be promised within a half-width: that grows with "
                f"{' and '.join(answer.open_limits)}, which the release finds",
                hint=f"pass {', '.join(f'{limit}=3' for limit in answer.open_limits)}, known "
                "without looking at the data (docs/how-to/users.md says how), or name epsilon",
            )
        if not answer.is_known:
            raise InvalidQuestionError(
                f"{answer.name!r} has no half-width before there is data: none can be a target",
                hint='name the answers that matter: within={"rows": 20}',
            )
        if not _reaches(answer, target):
            smallest = min(half for half in answer.typical if half is not None)
            raise InvalidLossError(
                f"no loss up to 999 brings {answer.name!r} within "
                f"{_find_target(answer, target)} in {target.size:,} rows: "
                f"the least is {smallest:.3g} ({answer.unit})",
                hint="name a wider half-width or a larger size",
            )
        targets.append(answer.name)
    return targets


def _find_target(answer: Forecast, target: Target) -> Within | None:
    return target.within.get(answer.name, target.within.get(""))


def _reaches(answer: Forecast, target: Target) -> bool:
    """Check whether bounds are mostly found, and whether an answer is then within its target."""
    return answer.bounds_from <= target.size and _is_narrow_enough(answer, target)


def _is_narrow_enough(answer: Forecast, target: Target) -> bool:
    """Check whether the half-width of an answer is within its target."""
    within = _find_target(answer, target)
    assert within is not None  # noqa: S101 only answers with a target are looked at
    (half,), (percent_base,) = answer.typical, answer.percent_base
    if not within.relative:
        return half is not None and half <= float(within.amount)
    if percent_base is None:
        raise InvalidQuestionError(
            f"{answer.name!r} has nothing that a half-width could be a percentage of",
            hint=f"name it in {answer.unit}: within=0.1",
        )
    return half is not None and half <= float(within.amount * Fraction(percent_base))


def reach_target(target: Target | None, terms: Terms, explain: Making[Made]) -> Made:
    """Return the explanation of a release, at the loss and size of its target if it has one."""
    if target is None:
        return explain(terms, SIZES)
    solved_terms, names = solve_target(target, terms, explain)
    nearest = min(SIZES, key=lambda size: max(size / target.size, target.size / size))
    explanation = explain(
        solved_terms, tuple(target.size if size == nearest else size for size in SIZES)
    )
    targets = [f"{name} within {_find_target(explanation[name], target)}" for name in names]
    measure = "epsilon" if terms.rho is None else "rho"
    text = f"the least {measure} of three digits for half-widths in {target.size:,} rows: "
    return replace(explanation, reaches=text + ", ".join(targets))


def read_columns(plan: Plan) -> list[Hashable]:
    """Return the columns that a plan reads."""
    if isinstance(plan, VectorPlan):
        return [*plan.by, *plan.question.labels]
    if isinstance(plan, JointPlan):
        return [column for part in plan.plans for column in read_columns(part)]
    columns = [column for question in plan.questions.values() for column in question.columns]
    return [*plan.by, *columns, *([] if plan.unit is None else [plan.unit.column])]


@singledispatch
def explain_plan(
    request: Plan,
    declared: Declared | None = None,
    sizes: tuple[int, ...] = SIZES,
    titles: Mapping[str, str] | None = None,
) -> Explanation:
    """Return the explanation of a plan: its cost, its draws and its errors.

    No data is read, nothing is charged. `titles` are names of answers to be shown.
    """
    shown = _sizes_shown(request)
    remarks = [request.remark] if shown is not None and request.remark else []
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
            forecast = forecast.with_open_limits(list_open_limits(request, part))
            forecasts_by_name[name].append(forecast.add_remarks(*remarks))
    unit = request.unit if request.search is None else request.search.unit
    return _page(
        request,
        [answer for forecasts in forecasts_by_name.values() for answer in forecasts],
        list_draws(request),
        protects=protects(unit, request.copies),
        shown=shown,
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

    Where a search for bounds comes first, its noise is not known: the smallest size is that of the
    smallest noise, the others are those of the most.
    """
    if request.rule is None:
        return None
    index = index_of_counting_part(request.parts)
    part, loss = request.parts[index], request.row_losses[index]
    reach, smallest = (
        reaching(request.rule.threshold(*law), *law)
        for law in (part.count_noise(loss), part.least_count_noise(loss))
    )
    reach = replace(reach, rarely=min(smallest.rarely, reach.rarely))
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
