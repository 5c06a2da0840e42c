"""Describe every column of a frame by its declared type, for one price.

A description is several releases with one charge: one of all numbers, and one of the values of each
column of text, which are secret keys. docs/how-to/describe.md says how they share the loss. Columns
and types are what the frame declares: they are public.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa

from dfprivacy.accounting.composition import rho_within
from dfprivacy.accounting.loss import SMALLEST, Epsilon, Rho, read_delta, read_loss
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.engine.adopt import Adopted, Filtered, rereadable
from dfprivacy.engine.columns import (
    BOOLEAN,
    INTEGER,
    MOMENTS,
    NUMBER,
    TEXT,
    Declared,
    find_declared_columns,
    find_engine_columns,
    require_columns,
)
from dfprivacy.engine.embedded import open_embedded
from dfprivacy.engine.files import DataFiles, declare_file, list_data_files
from dfprivacy.engine.returning import list_values
from dfprivacy.engine.run import run_guarded
from dfprivacy.engine.text_files import TextFile
from dfprivacy.errors import (
    InvalidQuestionError,
    InvalidUnitError,
    MissingDeltaError,
    UnsupportedFrameError,
)
from dfprivacy.frames.arithmetic import divide_ranges
from dfprivacy.frames.estimates import name_estimates
from dfprivacy.frames.explanation import Explanation, describe_draw, explain_plan, in_one
from dfprivacy.frames.frequencies import FrequencyPlan
from dfprivacy.frames.measuring import measure_plan
from dfprivacy.frames.releasing import (
    By,
    EstimatesPlan,
    FrameSource,
    plan_question,
    plan_statistics,
    release_frame,
    release_plan,
)
from dfprivacy.frames.tables import convert_released
from dfprivacy.frames.viz.text import legible, shorten
from dfprivacy.measurement.exact import whole_number
from dfprivacy.measurement.grid import plain_type
from dfprivacy.release.answers import TOO_FEW, Answers, Measured, join_notes
from dfprivacy.release.pipeline import Release, run_mechanisms
from dfprivacy.release.plan import JointPlan, Plan
from dfprivacy.release.terms import PublicKeys, Terms, UnlimitedUnit, find_label
from dfprivacy.statistics import Count, Mean, Quantiles, Share, StandardDeviation, Statistic
from dfprivacy.statistics.base import Question, argument
from dfprivacy.statistics.split import shares, split

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SHOWN = 3  # how many of the most frequent values of a column are shown

ROWS = "rows"


@dataclass(frozen=True)
class Describe(Question):
    """Describe every column by its declared type: one row a column, for one price.

    Of numbers: how many there are, the share that is missing, mean, standard deviation and
    quantiles, within the bounds that the terms know or that are found; of booleans the share that
    is true; of text and categories the most frequent values; of dates and times quantiles, to the
    day; of any other type how many there are.

    Every question has the same share of the loss (`explain.describe` says which): a column of
    numbers, dates or text has two, others one, the number of rows one. With `rho` the noise is
    Gaussian, which suits many columns. Secret values of text need a delta, for all columns
    together; those in `keys` of the terms need none. With `epsilon` and `delta`, and columns enough
    that it is more accurate, the noise is that of the rho which these two allow: delta pays for
    that too. Epsilon and delta are charged as they are named. Quantiles are not a number where
    rows are too few to say their rank.

    >>> import dfprivacy as dfp, polars as pl
    >>> frame = pl.DataFrame({"x": range(5000), "late": [True, False] * 2500})
    >>> made = frame.dp(bounds={"x": (0, 5000)}).describe(epsilon=1)
    >>> made["column"].to_list(), made["type"].to_list()
    (['x', 'late'], ['integer', 'boolean'])
    """

    kind: ClassVar[str] = "describe"
    asked_of: ClassVar[tuple[str, ...]] = ("frame",)
    returns: ClassVar[str] = "The caller's own frame type; `dfp.show` makes a page of it."

    columns: Sequence[Hashable] | None = argument(
        "The columns to describe, in this order; all when left out, but for the unit.",
        None,
        form="Sequence[Hashable] | None",
    )
    exclude: Sequence[Hashable] = argument("Columns to leave out.", (), form="Sequence[Hashable]")
    quantiles: Sequence[float] = argument("The quantiles of numbers and dates.", QUANTILES)
    top: int = argument("The number of most frequent values of text.", SHOWN)
    numbers: Sequence[Hashable] = argument(
        "Columns of a text file (CSV, TSV) to read as numbers: such a file declares no types. "
        "Those with bounds are numbers anyway.",
        (),
        form="Sequence[Hashable]",
    )


@plan_question.register
def _(question: Describe, frame: object, terms: Terms, by: By, _: PublicKeys | None) -> Plan:
    if by:
        raise InvalidQuestionError(
            "a description is of a whole frame", hint="ask frame.dp.explain.describe(...)"
        )
    columns = _list_described_columns(
        frame, question.columns, question.exclude, question.numbers, terms
    )
    top = whole_number(
        question.top,
        1,
        100,
        InvalidQuestionError,
        "top must be a whole number of values from 1 to 100",
        hint="pass e.g. top=3",
    )
    description = Description(terms, columns, tuple(question.quantiles), top)
    if terms.population:
        raise InvalidQuestionError(
            "the intervals of a description are of noise alone", hint="leave population out"
        )
    if isinstance(terms.unit, UnlimitedUnit):
        unit, groups = terms.unit.column, ", max_groups=3" if description.secret else ""
        raise InvalidUnitError(
            "a description has one limit for all questions, and nothing says how many rows of a "
            "unit count",
            hint=f"pass max_rows=5{groups}, chosen without looking at the data, or find max_rows "
            f"first: unit=dfp.suggest_limits(df, unit={unit!r}, epsilon=0.1){groups}",
        )
    if terms.unit is not None and terms.unit.max_groups is None and description.secret:
        raise InvalidUnitError(
            "a unit may hold any number of values of text, and nothing says of how many it counts",
            hint="pass max_groups=3, or leave columns of text out",
        )
    joint_plan = JointPlan.of(description.plans, "describe")
    protected = description.plans[0].unit
    text = f"describe({', '.join(map(repr, columns))})"
    charge = replace(
        joint_plan.charge, question=text if protected is None else f"{text}; {protected.text}"
    )
    if description.allowed is not None:
        charge = replace(charge, loss=description.named[0], delta=description.named[1])
    return DescriptionPlan.of_plan(
        joint_plan, charge=charge, unit=protected, description=description
    )


def _list_described_columns(
    frame: object,
    columns: Sequence[Hashable] | None,
    exclude: Sequence[Hashable],
    numbers: Sequence[Hashable],
    terms: Terms,
) -> dict[Hashable, str]:
    """Return the columns to describe, and the kind of each."""
    for name, labels_given in (("columns", columns), ("exclude", exclude), ("numbers", numbers)):
        if isinstance(labels_given, str | bytes):
            raise InvalidQuestionError(
                f"{name} are a list of columns", hint=f"pass {name}=[{labels_given!r}]"
            )
    kinds = _list_typed_columns(frame, {find_label(label) for label in numbers}, terms)
    unit = [] if terms.unit is None else [terms.unit.column]
    chosen = [label for label in kinds if label not in unit] if columns is None else columns
    labels = [find_label(label) for label in chosen]
    out = [find_label(label) for label in exclude]
    require_columns([*labels, *out], [*kinds])
    described = {label: kinds[label] for label in labels if label not in out}
    if not described:
        raise InvalidQuestionError(
            "there is no column to describe", hint="name some: describe(['x', 'y'])"
        )
    return described


def _list_typed_columns(
    frame: object, numbers: set[Hashable], terms: Terms
) -> Mapping[Hashable, str]:
    """Return the columns of a frame with their kinds; those of a text file as the caller says."""
    kinds = find_declared_columns(frame)
    frame = frame.rows if isinstance(frame, Filtered) else frame
    if kinds is None and isinstance(frame, Path | TextFile | DataFiles):
        files = list_data_files(frame)
        with open_embedded() as connection:
            kinds = run_guarded(lambda: find_declared_columns(declare_file(connection, files)))
        if kinds is not None and isinstance(files, DataFiles) and files.is_text:
            require_columns(list(numbers), list(kinds))
            numeric = {*numbers, *terms.bounds}
            return {label: NUMBER if label in numeric else TEXT for label in kinds}
    if kinds is None:
        kinds = run_guarded(lambda: find_engine_columns(frame))
    if kinds is None:
        raise UnsupportedFrameError(
            f"an object of type {type(frame).__name__} declares no columns to describe",
            hint="pass a pandas or polars frame, an Arrow, Ibis or Spark table, a DuckDB relation "
            "or a file",
        )
    if numbers:
        raise InvalidQuestionError(
            "columns are described by their declared types, and this frame declares them",
            hint="cast the columns that are to be numbers, and leave numbers out",
        )
    return kinds


@dataclass(frozen=True)
class Description:
    """A description to be made: the columns with their kinds, and the releases that answer."""

    terms: Terms
    columns: Mapping[Hashable, str]
    quantiles: tuple[float, ...]
    top: int

    @cached_property
    def questions(self) -> dict[str, Statistic]:
        """The questions about all rows: the number of rows, then `place_role` for each column."""
        questions: dict[str, Statistic] = {ROWS: Count()}
        for index, (column, kind) in enumerate(self.columns.items()):
            roles: dict[str, Statistic] = {"count": Count(column)}
            if kind in {INTEGER, NUMBER}:
                roles |= {"mean": Mean(column), "std": StandardDeviation(column)}
            if kind == BOOLEAN:
                roles["mean"] = Share(column)
            if kind in {INTEGER, NUMBER, *MOMENTS}:
                roles["quantiles"] = Quantiles(column, self.quantiles)
            for role, question in roles.items():
                questions[f"{index}_{role}"] = question.complete(self.terms.bounds)
        return questions

    @cached_property
    def texts(self) -> tuple[Hashable, ...]:
        """The columns whose most frequent values are shown."""
        return tuple(column for column, kind in self.columns.items() if kind == TEXT)

    @cached_property
    def secret(self) -> int:
        """How many columns have values that only delta can show."""
        return sum(column not in self.terms.keys for column in self.texts)

    @cached_property
    def _weights(self) -> tuple[Fraction, Fraction]:
        """The weight of the questions about all rows, and the weight of all questions."""
        parts = split(self.questions, grouped=False)
        weight = sum((part.weight for part in parts), start=Fraction(0))
        return weight, weight + len(self.texts)

    @cached_property
    def named(self) -> tuple[Epsilon | Rho, Fraction]:
        """The loss that the terms name, and delta; 0 for none."""
        terms = self.terms
        return read_loss(terms.epsilon, terms.rho), read_delta(terms.delta) or Fraction(0)

    @cached_property
    def allowed(self) -> Rho | None:
        """The rho that epsilon and delta allow, if a share of it answers better than of epsilon.

        Noise of rho = epsilon**2 / 4 has the variance of that of epsilon. Of half as much rho it
        has 1.4 times the deviation, and quantiles have twice the epsilon, as each of them takes
        only the root of its part.
        """
        loss, delta = self.named
        if not delta or isinstance(loss, Rho):
            return None
        rho = Rho(rho_within(loss.value, delta / 2 if self.secret else delta))
        fraction = 1 / self._weights[1]
        ranked = any(isinstance(question, Quantiles) for question in self.questions.values())
        rho_needed = loss.share(fraction).value ** 2 / (8 if ranked else 4)
        return rho if rho.share(fraction).value > max(rho_needed, SMALLEST) else None

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of all numbers, then one of the values of each column of text."""
        (weight, total_weight), (loss, delta) = self._weights, self.named
        loss = self.allowed or loss
        if self.secret and not delta:
            column = next(label for label in self.texts if label not in self.terms.keys)
            raise MissingDeltaError(
                f"the values of column {column!r} are secret, and showing them needs a delta",
                hint=f"pass delta=1e-6, or leave the column out: exclude=[{column!r}]",
            )
        if self.secret:
            delta /= self.secret * (1 if self.allowed is None else 2)
        numbers, values = (
            replace(self.terms.update(**{loss.measure: loss.value * part}), delta=delta or None)
            for part in (weight / total_weight, 1 / total_weight)
        )
        whole_frame = plan_statistics(self.questions, numbers, form="describe")
        plans: list[Plan] = [EstimatesPlan.of_plan(whole_frame)]
        for column in self.texts:
            keys, form = values.keys_for((column,), None), f"top {self.top}"
            plan = plan_statistics({"count": Count(column)}, values, (column,), keys, form=form)
            names = ("value", "count", "low", "high", "note")
            plans.append(FrequencyPlan.of_plan(plan, names=names, k=self.top))
        return tuple(plans)


@dataclass(frozen=True)
class DescriptionPlan(JointPlan):
    """The plan of a description: one of all numbers, and one of each column of text."""

    description: Description = field(kw_only=True)

    @property
    def limit_notes(self) -> tuple[str, ...]:
        """The notes about limits of all its parts."""
        return tuple(dict.fromkeys(note for plan in self.plans for note in plan.limit_notes))


Found = tuple[Adopted, list[Measured]]  # a frame that was opened, and its exact statistics


class DescribedSource(FrameSource):
    """A frame that is described."""

    def measure(self, plan: DescriptionPlan) -> list[Found]:
        """Return the exact statistics of each plan."""
        frame = self.frame
        source = run_guarded(lambda: rereadable(frame)) if len(plan.plans) > 1 else frame
        return [measure_plan(source, part) for part in plan.plans]

    def answer(self, plan: DescriptionPlan, exact: list[Found]) -> Release:
        """Draw the noise of each plan, and return one row a column."""
        numbers, *texts = zip(plan.plans, exact, strict=True)
        answers = run_mechanisms(numbers[0], numbers[1][1])
        values_by_column: dict[Hashable, list[Value]] = {}  # the most frequent ones
        for column, (part, (opened, measured)) in zip(plan.description.texts, texts, strict=True):
            table = part.tabulate(run_mechanisms(part, measured))
            values = table["value"]
            if isinstance(self.frame, pd.DataFrame):  # its objects stand behind codes
                values = convert_released(opened.wrap(table))["value"]
            rest = (table[name].to_pylist() for name in ("count", "low", "high"))
            shown = map(legible, list_values(values))
            values_by_column[column] = list(zip(shown, *rest, strict=True))
        return Release(_table(plan, answers, values_by_column), plan.info)


@release_plan.register
def release_description(plan: DescriptionPlan, frame: object) -> Any:
    """Release a description, as the caller's own frame type."""
    return release_frame(plan, DescribedSource(frame))


Value = tuple[str, int, float, float]
"""A value as text, its noisy count and the ends of its interval."""


def _table(
    plan: DescriptionPlan, answers: Answers, values: Mapping[Hashable, list[Value]]
) -> pa.Table:
    """Return one row a column; its columns follow from the types."""
    description, numbers = plan.description, plan.plans[0]
    released = Release(numbers.build_table(answers), plan.info, answers)
    estimates: dict[str, dict[str, Any]] = {}
    for name, estimate in name_estimates(released, numbers).items():
        owner, _, role = name.partition("_")
        estimates.setdefault(owner, {})[role] = estimate
    schema, rows = _schema(description), []
    for index, (column, kind) in enumerate(description.columns.items()):
        about = estimates[str(index)]
        row: dict[str, Any] = {"column": str(column), "type": kind}
        row |= _ends("count", about["count"])
        row |= _missing(about["count"], estimates[ROWS][""])
        for role in ("mean", "std"):
            row |= _ends(role, about[role]) if role in about else {}
        for q in description.quantiles if f"quantiles_{description.quantiles[0]}" in about else ():
            number = about[f"quantiles_{q}"]
            if isinstance(number, dt.datetime) and number.tzinfo is not None:
                number = number.astimezone(dt.UTC).replace(tzinfo=None)
            elif kind not in MOMENTS:
                number = round(float(number), 0) if kind == INTEGER else float(number)
            row[_level(q, kind)] = number
        row |= _summarize_values(
            values.get(column, []), about.get("mean") if kind == BOOLEAN else None
        )
        note_of_mean = getattr(about.get("mean"), "note", None)
        levels = ((q, row.get(_level(q, row["type"]), 0.0)) for q in description.quantiles)
        unanswered = [f"{100 * q:.12g}%" for q, value in levels if pd.isna(value)]
        too_few_rows = f"{TOO_FEW}: {', '.join(unanswered)}"
        if unanswered and description.allowed is None and isinstance(description.named[0], Epsilon):
            too_few_rows += (
                " (rho=0.05 instead of epsilon, or delta=1e-6 beside it, needs far fewer)"
            )
        quantiles = [about.get(f"quantiles_{q}") for q in description.quantiles]
        notes = [getattr(quantile, "note", None) for quantile in quantiles]
        ranks = next((f"quantiles: {note}" for note in notes if note not in (None, TOO_FEW)), "")
        has_zone = any(getattr(answer, "tzinfo", None) for answer in quantiles)
        zone = "times in UTC" if has_zone else ""
        texts = (note_of_mean, ranks, too_few_rows if unanswered else "", zone)
        row["note"] = join_notes(texts)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema)


def _schema(description: Description) -> pa.Schema:
    kinds = set(description.columns.values())
    ends = [*_name_ends("count"), *_name_ends("missing")]
    columns = [("column", pa.string()), ("type", pa.string()), ("count", pa.int64())]
    columns += [(name, pa.float64()) for name in ends[1:]]
    if kinds & {INTEGER, NUMBER, BOOLEAN}:
        columns += [(name, pa.float64()) for name in _name_ends("mean")]
    if kinds & {INTEGER, NUMBER}:
        names = [*_name_ends("std"), *(_level(q, NUMBER) for q in description.quantiles)]
        columns += [(name, pa.float64()) for name in names]
    for kind in (moment_kind for moment_kind in MOMENTS if moment_kind in kinds):
        columns += [(_level(q, kind), plain_type(kind)) for q in description.quantiles]
    if TEXT in kinds:
        columns += [("top", pa.string()), ("top_count", pa.int64())]
        columns += [(name, pa.float64()) for name in ("top_low", "top_high")]
    if kinds & {TEXT, BOOLEAN}:
        columns.append(("values", pa.string()))
    return pa.schema([*columns, ("note", pa.string())])


def _name_ends(name: str) -> tuple[str, str, str]:
    return name, f"{name}_low", f"{name}_high"


def _level(q: float, kind: str) -> str:
    return f"{100 * q:.12g}%" + (f" {kind}" if kind in MOMENTS else "")


def _ends(name: str, number: Any) -> dict[str, Any]:
    ends = (int(number) if name == "count" else float(number), number.low, number.high)
    return dict(zip(_name_ends(name), ends, strict=True))


def _missing(count: Any, rows: Any) -> dict[str, Any]:
    """Return the share of rows without a value: two counts with noise of their own."""
    level = rows.info.level
    there = divide_ranges(count.range_at(level), rows.range_at(level), independent=True)
    ends = (there.value if rows > 0 else math.nan, there.high, there.low)
    return {
        name: end if math.isnan(end) else min(max(1 - end, 0.0), 1.0)
        for name, end in zip(_name_ends("missing"), ends, strict=True)
    }


def _summarize_values(values: list[Value], share: Any) -> dict[str, Any]:
    """Return the most frequent values of text, or the share of a boolean that is true."""
    if share is not None:
        return {"values": f"true {share}"}
    if not values:
        return {}
    texts = [f"{shorten(value)} {count:,}" for value, count, _, _ in values]
    first = dict(zip(("top", "top_count", "top_low", "top_high"), values[0], strict=True))
    return {**first, "values": "; ".join(texts)}


@explain_plan.register
def explain_description(
    plan: DescriptionPlan, declared_types: Declared, sizes: tuple[int, ...]
) -> Explanation:
    """Return the explanation of a description: each column with its share of the loss."""
    description = plan.description
    titles = {
        name: f"{column} {name.partition('_')[2]}"
        for index, column in enumerate(description.columns)
        for name in description.questions
        if name.partition("_")[0] == str(index)
    }
    numbers_plan, *values = (replace(part, account=NoAccount()) for part in plan.plans)
    pages = [explain_plan(numbers_plan, declared_types, sizes, titles)]
    for column, values_plan in zip(description.texts, values, strict=True):
        pages.append(
            explain_plan(values_plan, declared_types, sizes, {"count": f"{column} values"})
        )
    numbers_plan, *values = description.plans
    keys = [ROWS, *map(str, range(len(description.columns)))]
    costs = dict.fromkeys(keys, Fraction(0))
    for part, share in zip(numbers_plan.parts, shares(numbers_plan.parts), strict=True):
        for names, of_part in part.draws():
            costs[names[0].partition("_")[0]] += numbers_plan.charge.loss.value * share * of_part
    for column, values_plan in zip(description.texts, values, strict=True):
        costs[str(list(description.columns).index(column))] += values_plan.charge.loss.value
    kind = type(numbers_plan.charge.loss)
    names = ["the number of rows", *map(repr, description.columns)]
    draws = tuple(
        describe_draw(kind(cost), (name,)) for name, cost in zip(names, costs.values(), strict=True)
    )
    return in_one(pages, plan, draws)
