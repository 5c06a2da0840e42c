"""The one way from questions to a release: parts, exact passes, charge, noise, answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Epsilon, Rho, delta_of, loss_of
from dfprivacy.accounting.spending import account_of
from dfprivacy.answers import Answer, Counted
from dfprivacy.engine.adopt import Adopted, Columns, adopt, rereadable
from dfprivacy.engine.run import guarded
from dfprivacy.errors import EngineError, MissingDeltaError
from dfprivacy.parts.part import Grouping, Measured, Part
from dfprivacy.parts.split import selections, shares, split
from dfprivacy.questions import Question, question_text
from dfprivacy.release import Number, Release, number_of
from dfprivacy.released_frame import (
    answer_names,
    everyone,
    frame_names,
    released_table,
    shows_count,
)
from dfprivacy.terms import PublicKeys, Terms, interval_level

T = TypeVar("T")


def release_numbers(
    frame: object, questions: Mapping[str, Question], terms: Terms
) -> dict[str, Number]:
    """Release the answers about a whole frame, by name."""
    loss, level = loss_of(terms.epsilon, terms.rho), interval_level(terms.interval)
    delta_of(terms.delta)
    parts = split(questions, grouped=False)
    account = account_of(terms.ledger, terms.dataset, terms.note)
    charge = Charge(loss, question=question_text(questions))
    account.check(charge)
    _, measured = measure(frame, (), None, parts)
    account.pay(charge)
    answers, _, _ = _answered(parts, measured, loss, None)
    release = Release(loss, 0.0, level)
    return {n: number_of(answers[n], release) for n in answer_names(parts, questions)}


def release_frame(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    questions: Mapping[str, Question],
    terms: Terms,
) -> Any:
    """Release the answers by group, as the caller's own frame type."""
    loss, level = loss_of(terms.epsilon, terms.rho), interval_level(terms.interval)
    delta = required_delta(delta_of(terms.delta), keys)
    parts = split(questions, grouped=True)
    names = frame_names(parts, questions, [str(label) for label in by])
    account = account_of(terms.ledger, terms.dataset, terms.note)
    charge = Charge(loss, delta or Fraction(0), question_text(questions, by))
    account.check(charge)
    adopted, measured = measure(frame, by, keys, parts)
    account.pay(charge)
    each = None if delta is None else delta / selections(parts)
    answers, counted, found = _answered(parts, measured, loss, each)
    kept = everyone(found.num_rows) if each is None else counted.kept(each)
    ordered = [answers[name] for name in answer_names(parts, questions)]
    count = counted if shows_count(parts) else None
    table = released_table(found, ordered, count, kept, names=names, level=level)
    return adopted.wrap(table)


def required_delta(delta: Fraction | None, keys: PublicKeys | None) -> Fraction | None:
    """Return the delta that key selection spends; None where keys are public."""
    if keys is not None:
        return None
    if delta is None:
        raise MissingDeltaError(
            "group keys are secret, and showing them needs a delta",
            hint="pass delta=1e-6, or list keys that are public anyway: group_by(..., keys=[...])",
        )
    return delta


def measure(
    frame: object, by: Sequence[Hashable], keys: PublicKeys | None, parts: Sequence[Part]
) -> tuple[Adopted, list[Measured]]:
    """Run the exact passes, one a part.

    Raises
    ------
    EngineError
        When the frame's groups change while it is read.
    """
    columns: dict[Hashable, bool] = {}
    for part in parts:
        for column, numbers in part.columns.items():
            columns[column] = columns.get(column, False) or numbers
    grouping = Grouping(by, public=keys is not None)
    again = rereadable(frame) if len(parts) > 1 else frame
    adopted, measured = read(
        again, by, keys, columns, lambda a: [part.measure(a, grouping) for part in parts]
    )
    if by and any(not m.keys.equals(measured[0].keys) for m in measured[1:]):
        raise EngineError(
            "the frame changed while it was read", hint="ask again, on a copy of the data"
        )
    return adopted, measured


def read(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    columns: Mapping[Hashable, bool],
    measure_: Callable[[Adopted], T],
) -> tuple[Adopted, T]:
    """Adopt a frame, measure it, and give up what the call opened."""
    rows = () if keys is None else keys.rows
    listed = [[row[index] for row in rows] for index in range(len(by))]
    adopted = guarded(lambda: adopt(frame, Columns(by, columns, listed)))
    try:
        return adopted, measure_(adopted)
    finally:
        adopted.close()


def _answered(
    parts: Sequence[Part],
    measured: Sequence[Measured],
    loss: Epsilon | Rho,
    delta: Fraction | None,
) -> tuple[dict[str, Answer], Counted, pa.Table]:
    """Let every part answer for its share; return answers, the counts that select, and the keys."""
    answered = [
        exact.answer(loss.share(share), delta)
        for exact, share in zip(measured, shares(tuple(parts)), strict=True)
    ]
    answers = {answer.name: answer for own in answered for answer in own.answers}
    counting = [own for part, own in zip(parts, answered, strict=True) if part.counts]
    counted = counting[0].counted if counting else None
    return answers, counted or Counted(1, ()), answered[0].keys
