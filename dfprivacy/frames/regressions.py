"""Release a line of several columns, one row a coefficient: the method `regression`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dfprivacy.frames.asking import AskedTable, By, Release, asked_of, together
from dfprivacy.frames.releasing import request_of
from dfprivacy.frames.tables import Origin
from dfprivacy.release.answers import arrow
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request
from dfprivacy.release.terms import PublicKeys, Terms
from dfprivacy.statistics import question_text
from dfprivacy.statistics.regression import Regression

NAMES = ("term", "coefficient", "low", "high")
"""The columns of the result."""


@asked_of.register
def _(question: Regression, _: object, __: Terms, by: By, keys: PublicKeys | None) -> Release:
    return together(question.questions) if by else line(question), by, keys


def regression_request(asked: Regression, terms: Terms) -> Request:
    """Return the release of a regression, to be made."""
    questions = asked.questions
    made = request_of(questions, terms, form="regression")
    rest = made.charge.question.removeprefix(question_text(questions))
    return replace(made, charge=replace(made.charge, question=asked.text + rest))


def line(asked: Regression) -> AskedTable:
    """Return a regression about all rows: one row a coefficient."""
    return AskedTable(
        asked.columns,
        lambda terms, *_: regression_request(asked, terms),
        lambda _: NAMES,
        coefficients,
        lambda request: replace(Origin.of(request), keys=NAMES[:1]),
    )


def coefficients(made: Answers, request: Request, _: Sequence[str]) -> pa.Table:
    """Return one row a term: its coefficient with the ends of its interval."""
    found = [own.columns(request.level) for (own,) in made.answers.values()]
    values = [arrow(np.concatenate(own)) for own in zip(*found, strict=True)]
    return pa.table([pa.array(list(made.answers), pa.string()), *values], names=list(NAMES))
