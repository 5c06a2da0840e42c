"""Plan the release of statistics of a frame, whole or by group."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Contribution, Epsilon, read_loss
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.release.answers import Answers, Estimated, arrow
from dfprivacy.release.plan import (
    NOTE,
    SEARCH,
    SELECTION,
    Plan,
    list_ends,
    name_columns,
    needs_limits,
    plan_release,
    with_search,
    with_smallest_limits,
)
from dfprivacy.release.terms import PublicKeys, Terms, Unit, UnlimitedUnit
from dfprivacy.statistics import NUnique, Statistic, question_text
from dfprivacy.statistics.histogram import (
    Histogram,
    HistogramPart,
    HistogramPlan,
    histogram_names,
)
from dfprivacy.statistics.regression import Regression
from dfprivacy.statistics.split import shares, split

By = Sequence[Hashable]


@singledispatch
def plan_question(
    question: Any, frame: object, terms: Terms, by: By, keys: PublicKeys | None
) -> Plan:
    """Return the plan of a question that is no statistic; the file of each registers its own."""
    raise NotImplementedError


def plan_answers(
    questions: Mapping[str, Statistic],
    terms: Terms,
    by: By = (),
    keys: PublicKeys | None = None,
    form: str = "frame",
) -> Plan:
    """Return the plan of statistics: estimates of a whole frame, or a frame by group."""
    if not by:
        plan = plan_statistics(questions, terms, form="estimates")
        return EstimatesPlan.of_plan(plan, notes_limits=plan.search is not None)
    plan = plan_statistics(questions, terms, by, keys, form=form)
    has_notes = plan.search is not None
    names = name_columns(plan.parts, questions, list(map(str, by)), has_notes=has_notes)
    return replace(plan, names=names, notes_limits=has_notes)


def plan_statistics(
    questions: Mapping[str, Statistic],
    terms: Terms,
    by: By = (),
    keys: PublicKeys | None = None,
    *,
    own_losses: Mapping[str, Epsilon] | None = None,
    form: str = "frame",
    sets: tuple[tuple[int, ...], ...] = (),
) -> Plan:
    """Return the plan of statistics, without the names of its columns.

    `own_losses` are those of questions that don't share the loss of the terms. `form` tells the
    release from others of the same answers that a ledger remembers. `sets` are grouping sets, whose
    answers are totals of the groups by some of the keys.
    """
    unit = terms.unit
    if unit is not None and all(
        isinstance(question, NUnique) and question.counts_units(unit)
        for question in questions.values()
    ):  # counting distinct units: one row per unit is enough
        seeks_groups = isinstance(unit, UnlimitedUnit) and unit.max_groups is None and bool(by)
        seeks_groups &= keys is None or len(keys.rows) > 1
        unit = (
            UnlimitedUnit(unit.column, 1, rows=False)
            if seeks_groups
            else Unit(unit.column, 1, unit.max_groups)
        )
        terms = replace(terms, unit=unit)
    known_by: dict[str, object] = {"form": form, "names": list(questions)}
    known_by |= {"sets": sets} if sets else {}

    named_losses = own_losses or {}
    unlimited = unit if unit is not None and needs_limits(unit, by, keys) else None
    if unlimited is not None:
        terms = with_smallest_limits(terms, unlimited, by, keys)
        named_losses = {name: loss.share(1 - SEARCH) for name, loss in named_losses.items()}
    split_questions = partial(
        split,
        grouped=bool(by),
        sampled=terms.population,
        unit=terms.unit,
        searching=unlimited is not None,
    )
    sharing = {name: question for name, question in questions.items() if name not in named_losses}
    loss = read_loss(terms.epsilon, terms.rho)
    parts = split_questions(sharing) if sharing or not named_losses else ()
    losses = [loss.share(share) for share in shares(parts)]
    for name, own_loss in named_losses.items():
        (part,) = split_questions({name: questions[name]})
        if name.endswith(SELECTION):
            parts, losses = (part, *parts), [own_loss, *losses]
        else:
            parts, losses = (*parts, part), [*losses, own_loss]
    plan = plan_release(
        question_text(questions, by),
        terms,
        by,
        keys,
        losses,
        parts=parts,
        questions=questions,
        known_by={**known_by, "own": named_losses},
        sampled=True,
    )
    plan = replace(plan, sets=sets) if sets else plan
    return plan if unlimited is None else with_search(plan, unlimited)


@dataclass(frozen=True)
class EstimatesPlan(Plan):
    """The plan of estimates of a whole frame: one row, which holds standard errors too."""

    def tabulate(self, answers: Answers) -> pa.Table:
        """Return one row with value, low, high, note and standard error of each answer."""
        columns: dict[str, pa.Array] = {}
        every_answer = [answer for parts in answers.answers.values() for answer in parts]
        for index, answer in enumerate(every_answer):  # names of answers may have no UTF-8 form
            values = answer.columns(self.level)
            for end, value in zip(list_ends(len(values)), values, strict=True):
                columns[f"answer_{index}{end}"] = arrow(value, answer.declared)
            if len(values) > 2:
                error = math.nan
                if isinstance(answer, Estimated):
                    piece = answer.pieces[0]
                    error = float(piece.estimator.standard_error(piece.vector)[0])
                columns[f"answer_{index}_std_error"] = pa.array([error])
        return pa.table(columns)


@plan_question.register
def plan_histogram(
    question: Histogram, _: object, terms: Terms, by: By = (), keys: PublicKeys | None = None
) -> Plan:
    """Return the plan of a histogram: each of its bins can show a group."""
    text = f"{question.text} by {', '.join(map(repr, by))}" if by else question.text

    unlimited = terms.unit if needs_limits(terms.unit, by, keys) else None
    if unlimited is not None:
        terms = with_smallest_limits(terms, unlimited, by, keys)
    loss = read_loss(terms.epsilon, terms.rho)
    part = HistogramPart.of(question, loss, Contribution())
    plan = plan_release(
        text,
        terms,
        by,
        keys,
        [loss],
        parts=[part],
        questions={part.name: question},
        selections=question.count,
        known_by={},
    )
    histogram = HistogramPlan.of_plan(plan, names=tuple(histogram_names(by)))
    return histogram if unlimited is None else with_search(histogram, unlimited)


@plan_question.register
def _(
    question: Regression, _: object, terms: Terms, by: By = (), keys: PublicKeys | None = None
) -> Plan:
    if by:
        return plan_answers(question.questions, terms, by, keys)
    plan = plan_statistics(question.questions, terms, form="regression")
    has_notes = plan.search is not None or any(term.has_note for term in plan.questions.values())
    rest = plan.charge.question.removeprefix(question_text(question.questions))
    charge = replace(plan.charge, question=question.text + rest)
    names = ("term", "coefficient", "low", "high", *([NOTE] if has_notes else []))
    return RegressionPlan.of_plan(
        plan, charge=charge, names=names, notes_limits=plan.search is not None
    )


@dataclass(frozen=True)
class RegressionPlan(Plan):
    """The plan of a regression, whose table has one row a coefficient."""

    has_independent_rows: ClassVar[bool] = False

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The names of the coefficients."""
        return ("term",)

    def tabulate(self, answers: Answers) -> pa.Table:
        """Return one row a coefficient, with the ends of its interval."""
        columns = [answer.columns(self.level) for (answer,) in answers.answers.values()]
        values = [arrow(np.concatenate(ends)) for ends in zip(*columns, strict=True)]
        terms = pa.array(list(answers.answers), pa.string())
        return pa.table([terms, *values], names=list(self.names))


def questions_by_name(
    questions: Sequence[Statistic], named: Mapping[str, Statistic], terms: Terms
) -> dict[str, Statistic]:
    """Return questions by name, with bounds that the terms know where they have none.

    A question is called as its column, with the kind where it is asked twice.
    """
    everything = [*questions, *named.values()]
    if any(not isinstance(question, Statistic) for question in everything):
        raise InvalidQuestionError(
            "agg takes questions", hint='ask e.g. agg(dfp.mean("x", bounds=(0, 100)), dfp.count())'
        )
    plain = [question.name for question in questions]
    names = [
        question.full_name if plain.count(question.name) > 1 else question.name
        for question in questions
    ]
    if len({*names, *named}) < len(names) + len(named):
        raise InvalidQuestionError(
            "two answers would have the same name", hint="name one: agg(first=dfp.mean(...))"
        )
    completed = (question.complete(terms.bounds) for question in everything)
    return dict(zip([*names, *named], completed, strict=True))
