"""Release answers about frames: questions become a request, and the frame's engine measures it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, singledispatch
from typing import Any, TypeVar

import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho, loss_of
from dfprivacy.accounting.memory import release_bytes
from dfprivacy.engine.adopt import Adopted, Columns, Wrap, adopt, rereadable
from dfprivacy.engine.keys import with_others
from dfprivacy.engine.returning import frame_of, kept_table
from dfprivacy.engine.run import guarded
from dfprivacy.errors import EngineError, UnsupportedDtypeError
from dfprivacy.frames.limit_finding import Exact, best_limits, found_sizes, measured_sizes, valued
from dfprivacy.frames.numbers import (
    Number,
    Release,
    moment_of,
    number_of,
    numbers_of,
    numbers_table,
)
from dfprivacy.frames.tables import Origin, answers_table, null_notes, prove_way_back, with_origin
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.release.pipeline import Answers, Measured, answered, counting_place, released
from dfprivacy.release.request import (
    SELECTION,
    Request,
    limits_of,
    request_for,
    searching,
    together,
)
from dfprivacy.release.terms import PublicKeys, Terms, Unit, interval_of
from dfprivacy.statistics import NUnique, Statistic, question_text
from dfprivacy.statistics.histogram import Histogram, HistogramPart
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.statistics.octaves import (
    MeasuredOctaves,
    OctavePart,
    in_fine_bins,
    measured_together,
)
from dfprivacy.statistics.part import Grouping, Part
from dfprivacy.statistics.split import shares, split

T = TypeVar("T")
Found = tuple[Wrap, pa.Table, T]
"""How a released table gets back to the caller's frame type, the group keys, and what is exact."""

_WRAPPED_BY_ENGINES = {"pyspark", "duckdb", "_duckdb", "ibis"}
"""Libraries whose frames are made by a query of an engine that has typed the keys itself."""


def request_of(
    questions: Mapping[str, Statistic],
    terms: Terms,
    by: Sequence[Hashable] = (),
    keys: PublicKeys | None = None,
    *,
    own: Mapping[str, Epsilon] | None = None,
    form: str = "frame",
    sets: tuple[tuple[int, ...], ...] = (),
) -> Request:
    """Return the release of answers to questions, to be made.

    `own` names questions that spend a loss of their own; the others share that of the terms. `form`
    is what the answers are made into: a ledger remembers one form as another release than another.
    `sets` are grouping sets: the answers are totals of the groups by some of the keys.
    """
    unit, apart = terms.unit, own or {}
    if unit is not None and all(
        isinstance(each, NUnique) and each.counts_units(unit) for each in questions.values()
    ):  # a unit counts as one row: enough where units themselves are counted
        unit = Unit(unit.column, 1, unit.max_groups)

    def settled(unit: Unit | None, part: Fraction) -> Request:
        own = {name: loss.share(part) for name, loss in apart.items()}
        left = replace(_part_of(terms, part), unit=unit)
        parts, losses = _shared_out(questions, left, own, by, keys)
        made = request_for(
            question_text(questions, by),
            left,
            by,
            keys,
            losses,
            parts=parts,
            questions=questions,
            known_by={"form": form, "names": list(questions), "own": own}
            | ({"sets": sets} if sets else {}),
            sampled=True,
        )
        return replace(made, sets=sets)

    return searching(settled, unit, by, keys)


def _part_of(terms: Terms, part: Fraction) -> Terms:
    """Return terms with a part of their loss."""
    if part == 1:
        return terms
    loss = loss_of(terms.epsilon, terms.rho).share(part)
    return terms.updated(**{loss.measure: loss.value})


def _shared_out(
    questions: Mapping[str, Statistic],
    terms: Terms,
    own: Mapping[str, Epsilon],
    by: Sequence[Hashable],
    keys: PublicKeys | None,
) -> tuple[tuple[Part, ...], list[Epsilon | Rho]]:
    """Return the parts of a release and the loss of each."""
    loss = loss_of(terms.epsilon, terms.rho)
    sharing = {name: question for name, question in questions.items() if name not in own}
    rows = 1 if terms.unit is None else terms.unit.max_rows
    cluster = rows if interval_of(terms.interval)[1] else 0
    groups = limits_of(terms.unit, by, keys)[1].groups
    made = partial(
        split, grouped=bool(by), cluster=cluster, units=terms.unit is not None, groups=groups
    )
    parts = made(sharing) if sharing or not own else ()
    losses = [loss.share(share) for share in shares(parts)]
    for name, apart in own.items():
        (part,) = made({name: questions[name]})
        if name.endswith(SELECTION):
            parts, losses = (part, *parts), [apart, *losses]
        else:
            parts, losses = (*parts, part), [*losses, apart]
    return parts, losses


def histogram_request(
    question: Histogram, terms: Terms, by: Sequence[Hashable] = (), keys: PublicKeys | None = None
) -> Request:
    """Return the release of a histogram, to be made: each of its bins can show a group."""
    text = f"{question.text} by {', '.join(map(repr, by))}" if by else question.text

    def settled(unit: Unit | None, share: Fraction) -> Request:
        left = replace(_part_of(terms, share), unit=unit)
        loss = loss_of(left.epsilon, left.rho)
        part = HistogramPart.of(question, loss, limits_of(unit, by, keys)[1])
        return request_for(
            text,
            left,
            by,
            keys,
            [loss],
            parts=[part],
            questions={part.name: question},
            selections=question.count,
            known_by={},
        )

    return searching(settled, terms.unit, by, keys)


def release_numbers(
    frame: object, questions: Mapping[str, Statistic], terms: Terms
) -> dict[str, Any]:
    """Release the answers about a whole frame, by name: numbers, or dates and times."""
    request = request_of(questions, terms, form="numbers")
    frame = _again(frame, request)

    def numbers(_: object, drawn: tuple[Request, Answers]) -> dict[str, Number]:
        settled, made = drawn
        answers = [answer for own in made.answers.values() for answer in own]
        found = settled.unit if request.search else None
        release = Release.made(request, found, len(answers))
        return {answer.name: number_of(answer, release) for answer in answers}

    made = released(
        request,
        lambda: gathered(frame, request)[1],
        lambda measured: _answered(frame, request, measured),
        numbers,
        recall=lambda table: numbers_of(table, Release.made(request, answers=table.num_rows)),
        keep=numbers_table,
    )
    return {name: moment_of(number) for name, number in made.items()}


def release_parts(
    frame: object,
    request: Request,
    names: Sequence[str],
    table: Callable[[Answers, Request, Sequence[str]], pa.Table],
    origin: Origin,
) -> Any:
    """Release what the parts of a request answer, as a table in the caller's own frame type."""
    frame = _again(frame, request)

    def drawn(found: Found[Gathered]) -> pa.Table:
        settled, made = _answered(frame, request, found[2])
        return table(made, settled, names)

    def measured() -> Found[Gathered]:
        adopted, exact = gathered(frame, request)
        return adopted.wrap, exact.measured[0].keys, exact

    return release_table(frame, request, names, measured, drawn, origin)


def release_table(  # noqa: PLR0917 the steps in their order
    frame: object,
    request: Request,
    names: Sequence[str],
    measured: Callable[[], Found[T]],
    draw: Callable[[Found[T]], pa.Table],
    origin: Origin,
) -> Any:
    """Release a table of columns with these names, keys first, in the caller's own frame type."""
    made = released(
        request,
        measured,
        draw,
        lambda found, table: guarded(lambda: found[0](table)),
        recall=lambda table: frame_of(frame, null_notes(table, len(request.by)), request.by),
        keep=lambda made: kept_table(made, frame, request.by),
        prove=lambda found: _prove(frame, request, names, found),
    )
    return with_origin(made, origin)


def _prove(frame: object, request: Request, names: Sequence[str], found: Found[Any]) -> None:
    """Wrap what any release could be, before it is paid for, unless an engine had to run for it."""
    if type(frame).__module__.partition(".")[0] in _WRAPPED_BY_ENGINES:
        return
    wrap, keys, _ = found
    try:
        public = request.keys is not None
        prove_way_back(lambda table: guarded(lambda: wrap(table)), keys, names, public=public)
    except EngineError:
        raise UnsupportedDtypeError(
            "group keys of this type can't be handed back in a frame like the caller's own",
            hint="make the group columns plain text, numbers or dates first",
        ) from None


def release_answers(frame: object, request: Request) -> pa.Table:
    """Release the answers of a request as an Arrow table of every end of every answer.

    Columns: the keys under their labels, then for each question `name` and, where it has an
    interval, `name_low` and `name_high`; of several quantiles `name_0`, `name_1` and so on; of
    bounds `name_lower` and `name_upper`. Rows are sorted by key, or as public keys were listed.
    """
    frame = _again(frame, request)
    return released(
        request,
        lambda: gathered(frame, request)[1],
        lambda measured: _answered(frame, request, measured),
        lambda _, drawn: answers_table(drawn[1], drawn[0]),
        recall=lambda table: null_notes(table, len(request.by)),
        keep=lambda table: table,
    )


def release_several(
    frames: Sequence[object], requests: Sequence[Request], form: str
) -> list[pa.Table]:
    """Release the answers of several requests of the same terms for one charge, as Arrow tables.

    A frame that depends on the answers before it is a function of these: it is measured when they
    are drawn, after the charge. What a ledger keeps of them is one row, with a column for each.
    """

    def measured() -> list[Gathered | None]:
        pairs = zip(frames, requests, strict=True)
        return [None if callable(own) else gathered(own, made)[1] for own, made in pairs]

    def drawn(found: Sequence[Gathered | None]) -> list[pa.Table]:
        tables: list[pa.Table] = []
        for given, request, exact in zip(frames, requests, found, strict=True):
            frame = given(tables) if callable(given) else given  # now it is known
            settled, made = _answered(frame, request, exact or gathered(frame, request)[1])
            tables.append(answers_table(made, settled))
        return tables

    return released(
        together(requests, form),
        measured,
        drawn,
        lambda _, tables: tables,
        recall=lambda table: [
            null_notes(pa.ipc.open_stream(column[0].as_buffer()).read_all(), len(request.by))
            for column, request in zip(table.columns, requests, strict=True)
        ],
        keep=lambda tables: pa.table(
            {f"release_{index}": [release_bytes(own)] for index, own in enumerate(tables)}
        ),
    )


@dataclass(frozen=True)
class Gathered:
    """What has been measured before a release is paid: exact and secret.

    `sizes` are those of units whose limits are still to be found; what is `measured` then is only
    tried out, so that nothing that would be refused is charged.
    """

    measured: list[Measured]
    sizes: Exact | None = None


def _again(frame: object, request: Request) -> object:
    """Return a frame that can be read as often as a request reads it."""
    return frame if request.search is None else guarded(lambda: rereadable(frame))


def gathered(frame: object, request: Request) -> tuple[Adopted, Gathered]:
    """Run the exact passes of a request; with limits to be found, over units as well."""
    search = request.search
    if search is None:
        adopted, measured = measured_for(frame, request)
        return adopted, Gathered(measured)
    questions = list(request.questions.values())
    values = dict.fromkeys(valued(questions).columns, True)
    columns = named_columns(request.by, request.keys, values, Unit(search.unit.column, 1))
    _, sizes = read(frame, columns, lambda a: measured_sizes(a, request.by, questions))
    tried = replace(request, unit=request.unit and replace(request.unit, max_groups=None))
    adopted, measured = measured_for(frame, tried)
    return adopted, Gathered(measured, sizes)


def _answered(frame: object, request: Request, found: Gathered) -> tuple[Request, Answers]:
    """Answer a request, measured again within limits that are drawn first where there are none."""
    search = request.search
    if search is None or found.sizes is None:
        return request, answered(request, found.measured)
    listed = None if request.keys is None else len(request.keys.rows)
    sizes = found_sizes(found.sizes, search.loss, grouped=bool(request.by), listed=listed)
    unit = search.unit
    rows, groups = best_limits(
        sizes, list(request.questions.values()), search.rest,
        rows=None if unit.rows else unit.max_rows, groups=unit.max_groups,
    )  # fmt: skip
    settled = search.settle(Unit(unit.column, rows, groups if request.by else None))
    return settled, answered(settled, measured_for(frame, settled)[1])


@singledispatch
def measured_for(frame: object, request: Request) -> tuple[Adopted, list[Measured]]:
    """Run the exact passes of a request; what has run them before registers how to get them."""
    return measure(frame, request.by, request.keys, request.parts, unit=request.unit)


def measure(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    parts: Sequence[Part],
    *,
    unit: Unit | None = None,
) -> tuple[Adopted, list[Measured]]:
    """Run the exact passes, one a part."""
    values: dict[Hashable, bool] = {}
    told = dict.fromkeys(own for part in parts if isinstance(part, LinearPart) for own in part.told)
    for part in parts:
        for column, numbers in part.columns.items():
            values[column] = values.get(column, False) or numbers
    grouping = Grouping(by, public=keys is not None)
    if len(parts) > 1:
        frame = guarded(lambda: rereadable(frame))
    if isinstance(frame, pa.RecordBatchReader):
        parts = in_fine_bins(parts)
    adopted, measured = read(
        frame,
        replace(named_columns(by, keys, values, unit), told=tuple(told)),
        lambda a: _measured(parts, a, grouping),
    )
    if by and len(parts) > 1:  # a frame can have other rows in each pass
        groups = measured[counting_place(parts)].keys
        measured = [own.of_groups(groups) for own in measured]

    def finer(part: OctavePart) -> BinTable:
        """Count the groups again, in finer bins."""
        _, (own,) = measure(frame, by, keys, [replace(part, fine=True)], unit=unit)
        assert isinstance(own, MeasuredOctaves)  # noqa: S101 what the part measures
        return own.table

    return adopted, [
        replace(own, finer=partial(finer, own.part))
        if isinstance(own, MeasuredOctaves) and own.part.grouped and not own.part.fine
        else own
        for own in measured
    ]


def _measured(parts: Sequence[Part], adopted: Adopted, grouping: Grouping) -> list[Measured]:
    octaves = [part for part in parts if isinstance(part, OctavePart)]
    found = measured_together(octaves, adopted, grouping)
    return [
        next(found) if isinstance(part, OctavePart) else part.measure(adopted, grouping)
        for part in parts
    ]


def named_columns(
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    values: Mapping[Hashable, bool],
    unit: Unit | None,
) -> Columns:
    """Return the columns of a release, with its public keys column by column."""
    rows = () if keys is None else keys.rows
    listed = [[row[index] for row in rows] for index in range(len(by))]
    return Columns(by, values, listed, unit, others=keys is not None and keys.others)


def read(frame: object, columns: Columns, measure_: Callable[[Adopted], T]) -> tuple[Adopted, T]:
    """Adopt a frame, measure it, and give up what the call opened."""
    adopted = guarded(lambda: adopt(frame, columns))
    try:
        if columns.others:
            known = adopted
            adopted = guarded(lambda: with_others(known, columns.keys[-1]))
        return adopted, measure_(adopted)
    finally:
        adopted.close()
