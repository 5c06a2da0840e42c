"""Plan the release of statistics, then release them: as a frame, as estimates, or in Arrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Contribution, Epsilon, read_loss
from dfprivacy.accounting.memory import REMARKS, REMEMBERED, is_remembered, release_bytes
from dfprivacy.engine.adopt import Filtered, Wrap
from dfprivacy.engine.files import DataFiles
from dfprivacy.engine.passes import UnitTable
from dfprivacy.engine.returning import build_frame, build_kept_table, check_schema
from dfprivacy.engine.run import run_guarded
from dfprivacy.engine.text_files import LEFT_OUT, is_text
from dfprivacy.errors import InvalidQuestionError, log_note, log_once
from dfprivacy.frames.estimates import name_estimates
from dfprivacy.frames.limit_finding import draw_limits, find_limits, read_units
from dfprivacy.frames.measuring import measure_plan
from dfprivacy.frames.tables import Origin, with_origin
from dfprivacy.release.answers import Answers, Estimated, arrow
from dfprivacy.release.pipeline import Release, Source, release, run_mechanisms
from dfprivacy.release.plan import (
    NOTE,
    SEARCH,
    SELECTION,
    JointPlan,
    PartLimits,
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
from dfprivacy.statistics.histogram import Histogram, HistogramPart, HistogramPlan, histogram_names
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
    part = HistogramPart(question).within_limits(PartLimits(Contribution(), loss, 1))
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


@dataclass(eq=False, repr=False)
class ArrowSource(Source):
    """The rows of a frame, relation or file, whose release stays an Arrow table."""

    frame: object
    table: UnitTable | None = field(default=None, init=False)

    def release(self, plan: Plan) -> tuple[Plan, Release]:
        """Find missing limits of a unit, and release the plan within them."""
        if plan.search is not None:
            self.frame, self.table, plan = find_limits(self.frame, plan)
        return plan, release(self, plan)

    def measure(self, plan: Any) -> Any:
        """Return the exact, secret measurement of each part of a plan."""
        return measure_plan(self.frame, plan, self.table)[1]

    def answer(self, plan: Any, exact: Any) -> Release:
        """Draw the noise of each part, and return the release."""
        answers = run_mechanisms(plan, exact)
        return Release(plan.build_table(answers), plan.info, answers)


@dataclass(eq=False, repr=False)
class FrameSource(ArrowSource):
    """The rows of a frame, relation or file, and the way back to its type."""

    wrap: Wrap | None = field(default=None, init=False)

    def release(self, plan: Plan) -> tuple[Plan, Release]:
        """Release a plan, and say once in a process that texts of files are left out."""
        rows = self.frame.rows if isinstance(self.frame, Filtered) else self.frame
        source = rows.source if isinstance(rows, DataFiles) else rows
        plan, released = super().release(plan)
        if is_text(source) and any(any(part.columns.values()) for part in plan.parts):
            log_once(LEFT_OUT)
        return plan, released

    def measure(self, plan: Any) -> Any:
        """Return the exact measurement of each part, if its answers can be handed back."""
        opened, measured = measure_plan(self.frame, plan, self.table)
        self.wrap = opened.wrap
        if plan.by:
            keys, public = measured[0].keys, plan.keys is not None
            check_schema(self.frame, opened.wrap, keys, plan.names, public=public)
        return measured

    def to_caller(self, plan: Plan, table: pa.Table) -> Any:
        """Return a released table as a frame of the caller's type, whose schema is its types."""
        plain, wrap = table.replace_schema_metadata(None), self.wrap
        if wrap is None:
            return build_frame(self.frame, plain, plan.by)
        return run_guarded(lambda: wrap(plain))

    def to_memory(self, plan: Plan, released: Release) -> pa.Table | None:
        """Return the table that a ledger keeps: its keys are values, not codes of an engine."""
        if not plan.by:
            return released.table
        table = build_kept_table(self.to_caller(plan, released.table), self.frame, plan.by)
        metadata = released.table.schema.metadata
        return None if table is None else table.replace_schema_metadata(metadata)


NO_GROUPS = "no group is shown: noisy counts are too low"


def no_groups_note(plan: Plan) -> str:
    """Return the note that no group is shown, and what tells how many rows groups need."""
    if plan.search is None and not plan.lost:
        return f"{NO_GROUPS}, explain says how many rows groups need"
    threshold = plan.info.shown_from
    below = "" if threshold is None else f", below {threshold:,},"
    return (
        f"{NO_GROUPS}{below} for the limits that were found; smaller max_rows and max_groups "
        "need fewer rows"
    )


def log_no_groups(plan: Plan, released: pa.Table) -> None:
    """Log that no secret key is among released answers, which are a table without rows then."""
    if plan.by and plan.keys is None and not released.num_rows:
        log_note(no_groups_note(plan))


def log_notes(notes: Iterable[str]) -> None:
    """Log the notes of a table that has no column of notes."""
    for note in notes:
        log_note(note)


@singledispatch
def release_plan(plan: Plan, frame: object) -> Any:
    """Release a plan as its caller gets it: a frame of the caller's type, unless it registers."""
    return release_frame(plan, FrameSource(frame))


def release_frame(plan: Plan, source: FrameSource) -> Any:
    """Release a plan as a frame of the caller's type."""
    plan, released = source.release(plan)
    log_no_groups(plan, released.table)
    if plan.lost:  # limits that a caller has named are no news
        log_notes(plan.limit_notes)
    log_notes(plan.list_doubts(released.table))
    table = released.table
    if len(plan.names) == table.num_columns:  # a remembered table may have those of another method
        metadata = table.schema.metadata
        table = table.rename_columns(plan.names).replace_schema_metadata(metadata)
    return with_origin(source.to_caller(plan, table), Origin.of(plan, table))


@release_plan.register
def release_estimates(plan: EstimatesPlan, frame: object) -> dict[str, Any]:
    """Release the answers about a whole frame, by name."""
    within, released = FrameSource(frame).release(plan)
    return name_estimates(released, within)


def release_answers(plan: Plan, frame: object) -> pa.Table:
    """Release a plan as an Arrow table.

    Columns: the keys under their labels, then for each question `name` and, where it has an
    interval, `name_low` and `name_high`; of several quantiles `name_0`, `name_1` and so on; of
    bounds `name_lower` and `name_upper`. Rows are sorted by key, or as public keys were listed.
    """
    within, released = ArrowSource(frame).release(plan)
    return _with_remarks(released.table, within)


def _with_remarks(table: pa.Table, plan: Plan) -> pa.Table:
    """Return a table that says which limits and bounds were found, and the least count."""
    lines = "\n".join(Origin.of(plan, table).remarks)
    facts = {REMEMBERED: b""} if is_remembered(table) else {}
    return table.replace_schema_metadata({REMARKS: lines, **facts}) if lines else table


Later = Callable[[Sequence[pa.Table]], object]
"""A frame that depends on the tables of the releases before it."""


def release_several(plan: JointPlan, frames: Sequence[object | Later]) -> list[pa.Table]:
    """Release several plans for one charge, as Arrow tables; the frames can be read again."""
    table = release(JointSource(frames), plan).table
    tables = [pa.ipc.open_stream(column[0].as_buffer()).read_all() for column in table.columns]
    if not is_remembered(table):
        return tables
    facts = [{**(answers.schema.metadata or {}), REMEMBERED: b""} for answers in tables]
    return list(map(pa.Table.replace_schema_metadata, tables, facts))


@dataclass(eq=False, repr=False)
class JointSource(Source):
    """Several frames; one that depends on earlier answers is measured after the charge."""

    frames: Sequence[object | Later]

    def measure(self, plan: JointPlan) -> list[Any]:
        """Return the measurement of each plan; sizes of units for plans that find limits."""
        pairs = zip(self.frames, plan.plans, strict=True)
        return [None if callable(frame) else _measure_first(frame, part) for frame, part in pairs]

    def answer(self, plan: JointPlan, exact: list[Any]) -> Release:
        """Return one row, with the table of each plan as bytes."""
        tables: list[pa.Table] = []
        for source, part, measured in zip(self.frames, plan.plans, exact, strict=True):
            frame = source(tables) if callable(source) else source
            statistics = _measure_first(frame, part) if callable(source) else measured
            if part.search is not None:
                frame, table, sizes = statistics
                part = draw_limits(part, sizes)  # noqa: PLW2901 the same within limits
                statistics = measure_plan(frame, part, table)[1]
            answers = run_mechanisms(part, statistics)
            tables.append(_with_remarks(part.build_table(answers), part))
        columns = {f"release_{i}": [release_bytes(table)] for i, table in enumerate(tables)}
        return Release(pa.table(columns), plan.info)


def _measure_first(frame: object, plan: Plan) -> Any:
    if plan.search is not None:
        return read_units(frame, plan)
    return measure_plan(frame, plan)[1]
