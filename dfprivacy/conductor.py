"""The one way from questions to a release: parts, exact passes, charge, noise, answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import singledispatch
from typing import Any, TypeVar

import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.accounting.spending import Account, NoAccount
from dfprivacy.answers import Answer, Counted, everyone
from dfprivacy.engine.adopt import Adopted, Columns, adopt, rereadable
from dfprivacy.engine.run import guarded
from dfprivacy.errors import EngineError
from dfprivacy.origin import Origin, with_origin
from dfprivacy.release import Number, Release, number_of
from dfprivacy.released_frame import answers_table, frame_names, released_table, shows_count
from dfprivacy.remembered import frame_of, kept_table, numbers_of, numbers_table
from dfprivacy.request import Request, request_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.part import Grouping, Measured, Part
from dfprivacy.statistics.split import selections
from dfprivacy.terms import PublicKeys, Terms
from dfprivacy.unit import Unit

T = TypeVar("T")


def release_numbers(
    frame: object, questions: Mapping[str, Statistic], terms: Terms
) -> dict[str, Number]:
    """Release the answers about a whole frame, by name."""
    request = request_of(questions, terms, form="numbers")
    release = Release(request.charge.loss, 0.0, request.level)
    kept = request.account.remembered(request.mark)
    if kept is not None:
        return numbers_of(kept, release)
    _, measured = paid(request.account, request.charge, lambda: measured_for(frame, request))
    answers, _, _ = _answered(request, measured)
    made = [number_of(answer, release) for own in answers.values() for answer in own]
    names = [answer.name for own in answers.values() for answer in own]
    numbers = dict(zip(names, made, strict=True))
    keep(request.account, request.mark, lambda: numbers_table(numbers))
    return numbers


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
    origin = Origin.of(request.charge, request.level, by)
    remembered = request.account.remembered(request.mark)
    if remembered is not None:
        return with_origin(frame_of(frame, remembered, by), origin)
    adopted, measured = paid(request.account, request.charge, lambda: measured_for(frame, request))
    answers, counted, found = _answered(request, measured)
    ordered = [answer for own in answers.values() for answer in own]
    count = counted if shows_count(request.parts) else None
    kept = _kept(request, counted, found)
    table = released_table(found, ordered, count, kept, names=names, level=request.level)
    released = adopted.wrap(table)
    keep(request.account, request.mark, lambda: kept_table(released, frame, by))
    return with_origin(released, origin)


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
    remembered = request.account.remembered(request.mark)
    if remembered is not None:
        return remembered
    _, measured = paid(request.account, request.charge, lambda: measured_for(frame, request))
    answers, counted, found = _answered(request, measured)
    kept = _kept(request, counted, found) if by else everyone(1)
    named = found.rename_columns([str(label) for label in by])
    table = answers_table(named, answers, questions, kept, level=request.level)
    request.account.remember(request.mark, table)
    return table


def keep(
    account: Account | NoAccount, mark: bytes | None, table: Callable[[], pa.Table | None]
) -> None:
    """Let a ledger remember a release that has a table; the release comes out whatever fails."""
    if mark is None:
        return
    made = None
    with suppress(Exception):  # it is charged already; its keys may fail as they like
        made = table()
    if made is not None:
        account.remember(mark, made)


def paid(account: Account | NoAccount, charge: Charge, measured: Callable[[], T]) -> T:
    """Return what is measured once it has been paid for; nothing may be drawn before.

    A budget that can't cover the charge refuses before the engine runs.
    """
    account.check(charge)
    exact = measured()
    account.pay(charge)
    return exact


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


def _answered(
    request: Request, measured: Sequence[Measured]
) -> tuple[dict[str, tuple[Answer, ...]], Counted, pa.Table]:
    """Let every part answer for its loss.

    Return the answers in the order of their questions, the counts that select, and the keys.
    """
    rule = request.rule and request.rule.divided(selections(request.parts))
    answered = [
        exact.answer(loss, rule) for exact, loss in zip(measured, request.row_losses, strict=True)
    ]
    found = {name: own for part in answered for name, own in part.answers.items()}
    answers = {name: found[name] for name in request.questions}
    counting = [own for part, own in zip(request.parts, answered, strict=True) if part.counts]
    counted = counting[0].counted if counting else None
    return answers, counted or Counted(1, ()), answered[0].keys


def _kept(request: Request, counted: Counted, found: pa.Table) -> Any:
    """Return the groups that are shown: all of them where keys are public."""
    if request.rule is None:
        return everyone(found.num_rows)
    return counted.kept(request.rule.divided(selections(request.parts)))
