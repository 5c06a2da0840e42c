"""Release answers about frames: questions become a request, and the frame's engine measures it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import singledispatch
from typing import Any, TypeVar

import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho, loss_of
from dfprivacy.engine.adopt import Adopted, Columns, Wrap, adopt, rereadable
from dfprivacy.engine.returning import frame_of, kept_table
from dfprivacy.engine.run import guarded
from dfprivacy.errors import EngineError, UnsupportedDtypeError
from dfprivacy.release.frames import (
    Origin,
    answers_table,
    frame_names,
    prove_way_back,
    released_table,
    with_origin,
)
from dfprivacy.release.numbers import Number, Release, number_of, numbers_of, numbers_table
from dfprivacy.release.pipeline import Answers, answered, released
from dfprivacy.release.request import SELECTION, Request, limits_of, request_for
from dfprivacy.statistics import Statistic, question_text
from dfprivacy.statistics.histogram import Histogram, HistogramPart, bins_table, histogram_names
from dfprivacy.statistics.part import Grouping, Measured, Part
from dfprivacy.statistics.split import selections, shares, split
from dfprivacy.terms import PublicKeys, Terms
from dfprivacy.unit import Unit

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
) -> Request:
    """Return the release of answers to questions, to be made.

    `own` names questions that spend a loss of their own; the others share that of the terms. `form`
    is what the answers are made into: a ledger remembers one form as another release than another.

    Raises
    ------
    DPError
        When anything about the questions or their terms can't be: nothing depends on data.
    """
    parts, losses = _shared_out(questions, terms, own or {}, grouped=bool(by))
    return request_for(
        question_text(questions, by),
        terms,
        by,
        keys,
        losses,
        parts=parts,
        questions=questions,
        selections=selections(parts) if by else 1,
        known_by={"form": form, "names": list(questions), "own": own or {}},
    )


def _shared_out(
    questions: Mapping[str, Statistic],
    terms: Terms,
    own: Mapping[str, Epsilon],
    *,
    grouped: bool,
) -> tuple[tuple[Part, ...], list[Epsilon | Rho]]:
    """Return the parts of a release and the loss of each."""
    loss = loss_of(terms.epsilon, terms.rho)
    sharing = {name: question for name, question in questions.items() if name not in own}
    parts = split(sharing, grouped=grouped) if sharing or not own else ()
    losses = [loss.share(share) for share in shares(parts)]
    for name, apart in own.items():
        (part,) = split({name: questions[name]}, grouped=grouped)
        if name.endswith(SELECTION):
            parts, losses = (part, *parts), [apart, *losses]
        else:
            parts, losses = (*parts, part), [*losses, apart]
    return parts, losses


def histogram_request(
    question: Histogram,
    terms: Terms,
    by: Sequence[Hashable] = (),
    keys: PublicKeys | None = None,
) -> Request:
    """Return the release of a histogram, to be made: each of its bins can show a group.

    Raises
    ------
    DPError
        When anything about the question or its terms can't be: nothing depends on data.
    """
    loss = loss_of(terms.epsilon, terms.rho)
    part = HistogramPart.of(question, loss, limits_of(terms.unit, by, keys)[1])
    text = f"{question.text} by {', '.join(map(repr, by))}" if by else question.text
    return request_for(
        text,
        terms,
        by,
        keys,
        [loss],
        parts=[part],
        questions={part.name: question},
        selections=question.bins,
        known_by={},
    )


def release_numbers(
    frame: object, questions: Mapping[str, Statistic], terms: Terms
) -> dict[str, Number]:
    """Release the answers about a whole frame, by name."""
    request = request_of(questions, terms, form="numbers")
    release = Release(request.charge.loss, 0.0, request.level)

    def numbers(_: object, made: Answers) -> dict[str, Number]:
        answers = [answer for own in made.answers.values() for answer in own]
        return {answer.name: number_of(answer, release) for answer in answers}

    return released(
        request,
        lambda: measured_for(frame, request)[1],
        lambda measured: answered(request, measured),
        numbers,
        recall=lambda table: numbers_of(table, release),
        keep=numbers_table,
    )


def release_frame(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    questions: Mapping[str, Statistic],
    terms: Terms,
) -> Any:
    """Release the answers by group, as the caller's own frame type."""
    request = request_of(questions, terms, by, keys)
    names = frame_names(request.parts, questions, [str(label) for label in by])
    return release_parts(frame, request, names, lambda made: released_table(made, request, names))


def release_histogram(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    question: Histogram,
    terms: Terms,
) -> Any:
    """Release a histogram, whole or by group, as the caller's own frame type: one row a bin."""
    request, names = histogram_request(question, terms, by, keys), histogram_names(by)
    return release_parts(
        frame, request, names, lambda made: bins_table(made, request, names), question.column
    )


def release_parts(
    frame: object,
    request: Request,
    names: Sequence[str],
    table: Callable[[Answers], pa.Table],
    about: object = "",
) -> Any:
    """Release what the parts of a request answer, as a table in the caller's own frame type."""

    def measured() -> Found[list[Measured]]:
        adopted, exact = measured_for(frame, request)
        return adopted.wrap, exact[0].keys, exact

    return release_table(
        frame, request, names, measured,
        lambda found: table(answered(request, found[2])), about,
    )  # fmt: skip


def release_table(  # noqa: PLR0917 the steps in their order
    frame: object,
    request: Request,
    names: Sequence[str],
    measured: Callable[[], Found[T]],
    draw: Callable[[Found[T]], pa.Table],
    about: object = "",
) -> Any:
    """Release a table of columns with these names, keys first, in the caller's own frame type."""
    made = released(
        request,
        measured,
        draw,
        lambda found, table: guarded(lambda: found[0](table)),
        recall=lambda table: frame_of(frame, table, request.by),
        keep=lambda made: kept_table(made, frame, request.by),
        prove=lambda found: _prove(frame, request, names, found),
    )
    return with_origin(made, Origin.of(request, about=about))


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


def release_answers(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    questions: Mapping[str, Statistic],
    terms: Terms,
    *,
    own: Mapping[str, Epsilon],
) -> pa.Table:
    """Release the answers, whole or by group, as an Arrow table of every end of every answer.

    Columns: the keys under their labels, then for each question `name` and, where it has an
    interval, `name_low` and `name_high`; of several quantiles `name_0`, `name_1` and so on; of
    bounds `name_lower` and `name_upper`. Rows are sorted by key. `own` names the questions that
    spend a loss of their own, on top of what the terms say, which the others share.
    """
    request = request_of(questions, terms, by, keys, own=own, form="answers")
    return released(
        request,
        lambda: measured_for(frame, request)[1],
        lambda measured: answered(request, measured),
        lambda _, made: answers_table(made, request),
        recall=lambda table: table,
        keep=lambda table: table,
    )


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
    """Run the exact passes, one a part.

    Raises
    ------
    EngineError
        When the frame's groups change while it is read.
    """
    values: dict[Hashable, bool] = {}
    for part in parts:
        for column, numbers in part.columns.items():
            values[column] = values.get(column, False) or numbers
    grouping = Grouping(by, public=keys is not None)
    adopted, measured = read(
        guarded(lambda: rereadable(frame)) if len(parts) > 1 else frame,
        named_columns(by, keys, values, unit),
        lambda a: [part.measure(a, grouping) for part in parts],
    )
    if by and any(not m.keys.equals(measured[0].keys) for m in measured[1:]):
        raise EngineError(
            "the frame changed while it was read", hint="ask again, on a copy of the data"
        )
    return adopted, measured


def named_columns(
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    values: Mapping[Hashable, bool],
    unit: Unit | None,
) -> Columns:
    """Return the columns of a release, with its public keys column by column."""
    rows = () if keys is None else keys.rows
    listed = [[row[index] for row in rows] for index in range(len(by))]
    return Columns(by, values, listed, unit)


def read(frame: object, columns: Columns, measure_: Callable[[Adopted], T]) -> tuple[Adopted, T]:
    """Adopt a frame, measure it, and give up what the call opened."""
    adopted = guarded(lambda: adopt(frame, columns))
    try:
        return adopted, measure_(adopted)
    finally:
        adopted.close()
