"""Release the answers about frames, as a frame of the caller's type, as estimates, or in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import pyarrow as pa

from dfprivacy.accounting.memory import REMARKS, REMEMBERED, is_remembered, release_bytes
from dfprivacy.engine.adopt import Filtered, Wrap
from dfprivacy.engine.files import DataFiles
from dfprivacy.engine.passes import UnitTable
from dfprivacy.engine.returning import build_frame, build_kept_table, check_schema
from dfprivacy.engine.run import run_guarded
from dfprivacy.engine.text_files import LEFT_OUT, is_text
from dfprivacy.errors import log_note, log_once
from dfprivacy.frames.estimates import name_estimates
from dfprivacy.frames.limit_finding import draw_limits, find_limits, read_units
from dfprivacy.frames.measuring import measure_plan
from dfprivacy.frames.planning import EstimatesPlan
from dfprivacy.frames.tables import Origin, with_origin
from dfprivacy.release.pipeline import Release, Source, release, run_mechanisms
from dfprivacy.release.plan import JointPlan, Plan


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
