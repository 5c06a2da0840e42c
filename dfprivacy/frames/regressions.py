"""Lines of several columns, as a method: one row a coefficient."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.errors import InvalidBoundsError
from dfprivacy.frames.asking import Asked, Asking, Many, One
from dfprivacy.frames.releasing import request_of
from dfprivacy.frames.tables import Origin
from dfprivacy.release.answers import arrow
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request
from dfprivacy.release.terms import EPSILON, INTERVAL, Terms, label_of
from dfprivacy.statistics import question_text
from dfprivacy.statistics.regression import Regression

NAMES = ("term", "coefficient", "low", "high")
"""The columns of the result."""


class RegressionMethods(Asking[One, Many]):
    """The regression of one column on several, as a method."""

    def regression(
        self,
        y: Hashable,
        xs: Sequence[Hashable],
        bounds: Mapping[Hashable, tuple[float, float]] | None = None,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> Any:
        """Explain `y` by several columns: the line of least squares, one row a coefficient.

        By group there is one row a group, with a column for each coefficient.

        Privacy: one noisy vector of sums of products, discrete Laplace noise for `epsilon`,
        discrete Gaussian noise for `rho` (zCDP), when one row, or all rows of a unit, are added or
        removed. With p columns the noise of each sum grows with p squared under epsilon, and with p
        under rho, which suits from four columns on.

        Values are clipped to their bounds; a row that lacks one of the values is left out. Where
        noise could hide that columns vary apart from each other, the coefficients have a ridge, so
        that they are drawn to 0 instead of being any number, and their intervals are infinite.

        Parameters
        ----------
        y : Hashable
            The column of numbers that is explained.
        xs : sequence of Hashable
            The columns of numbers that explain it, 20 at most.
        bounds : mapping
            (lower, upper) of each column, from what you know and never from the data; those that
            the terms of the frame know are used as well.
        epsilon, rho : float
            What the whole call spends.
        delta : float
            By group with secret keys: what showing them spends.
        interval : float
            The level of the intervals: they cover the noise, not the sampling of rows.

        Returns
        -------
        frame
            The caller's own frame type: term ("intercept", then the columns), coefficient in units
            of y, or of y a unit of the column, and low and high, the ends of its interval. By
            group: the keys, for each term a column of its name and those of its ends, and count.

        >>> import dfprivacy as dfp, polars as pl
        >>> rows = [(a, b, 2 * a - b + 5) for a in range(10) for b in range(10)] * 1000
        >>> frame = pl.DataFrame(rows, schema=["a", "b", "y"], orient="row")
        >>> known = {"a": (0, 10), "b": (0, 10), "y": (-10, 40)}
        >>> frame.dp.regression("y", ["a", "b"], known, epsilon=1)["coefficient"].round(0).to_list()
        [5.0, 2.0, -1.0]
        """
        if bounds is not None and not isinstance(bounds, Mapping):
            raise InvalidBoundsError(
                "the bounds of a regression are a mapping of columns",
                hint='pass bounds={"delay": (-60, 240), "distance": (0, 5000)}',
            )
        terms = self._terms.updated(epsilon=epsilon, rho=rho, delta=delta, interval=interval)
        given = {label_of(column): own for column, own in (bounds or {}).items()}
        asked = Regression.of(y, xs, {**self._terms.bounds, **given})
        if self._grouping()[0]:
            return self._answer(asked.questions, terms)
        return self._release(line(asked), terms)


def regression_request(asked: Regression, terms: Terms) -> Request:
    """Return the release of a regression, to be made."""
    questions = asked.questions
    made = request_of(questions, terms, form="regression")
    rest = made.charge.question.removeprefix(question_text(questions))
    return replace(made, charge=replace(made.charge, question=asked.text + rest))


def line(asked: Regression) -> Asked:
    """Return a regression about all rows: one row a coefficient."""
    return Asked(
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
