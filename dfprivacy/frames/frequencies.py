"""Count how often each value is there, the largest first: `value_counts`, `top` and `mode`."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.engine.objects import is_missing
from dfprivacy.engine.returning import values_of
from dfprivacy.errors import InvalidKeysError, InvalidQuestionError
from dfprivacy.frames.asking import AskedTable, By, Release, asked_of
from dfprivacy.frames.releasing import request_of
from dfprivacy.frames.tables import Origin, released_table
from dfprivacy.measurement.exact import whole_number
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request
from dfprivacy.release.terms import PublicKeys, Terms
from dfprivacy.statistics import Count
from dfprivacy.statistics.base import Question, argument

UNSURE = "may not be among the largest"
"""What is noted of a value whose count noise may have lifted over one that is left out."""

OTHERS = "values that are not listed"
"""What is noted of their count, whose key is missing."""


@dataclass(frozen=True)
class Frequencies(Question):
    """Counts of the values of a column: all, or the `k` largest a group."""

    column: Hashable = argument("The column whose values are counted.")

    k: ClassVar[int | None] = None
    other: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[Hashable]:
        """The column whose values are counted."""
        return (self.column,)

    def names(self, by: Sequence[Hashable], name: str = "count") -> list[str]:
        """Return the columns of the result; those that are grouped by end with the value."""
        noted = ["note"] if self.other or self.k is not None else []
        names = [*map(str, by), name, "low", "high", *noted]
        if len(set(names)) < len(names):
            raise InvalidQuestionError(
                "a column has the name of a column of the result",
                hint="rename it; counts by value have the columns count, low, high, note",
            )
        return names

    def asked(self, name: str = "count") -> AskedTable:
        """Return the release of counts called `name`; the last group column is the value."""
        return AskedTable(
            self.columns,
            self.request,
            lambda own: self.names(own.by, name),
            lambda made, request, names: ranked(made, request, names, self.k),
            partial(Origin.of, about=self.column),
        )

    def request(self, terms: Terms, by: Sequence[Hashable], keys: PublicKeys | None) -> Request:
        """Return the release of the counts, to be made."""
        form = "value counts" if self.k is None else f"top {self.k}"
        if self.other:
            form, keys = f"{form} and others", _with_others(keys)
        made = request_of({"count": Count(self.column)}, terms, by, keys, form=form)
        self.names(by)
        return made


def _with_others(keys: PublicKeys | None) -> PublicKeys:
    """Return public keys with one more for the other values, in each group."""
    rows = () if keys is None else keys.rows
    values = list(dict.fromkeys(row[-1] for row in rows if not is_missing(row[-1])))
    groups = list(dict.fromkeys(row[:-1] for row in rows))
    if not values or len({row for row in rows if not is_missing(row[-1])}) < (
        len(groups) * len(values)
    ):
        raise InvalidKeysError(
            "the other values are those that are not listed, and they are listed for all groups "
            "together",
            hint='list the values: value_counts("city", keys=["Rome", "Oslo"], other=True)',
        )
    return PublicKeys(
        tuple((*group, value) for group in groups for value in (*values, None)), others=True
    )


_KEYS = "Public values: exactly these come out. Without, values are secret and need a delta."


@dataclass(frozen=True)
class ValueCounts(Frequencies):
    """Count how often each value of a column is there: one row a value, the largest first.

    It is `group_by(column).count(column)` in another order: a row is in one count, so that all have
    the noise of one. Secret values come out where their count shows, up to `delta`, that no single
    row has made it. Missing values are not counted. By group the values of each group stand
    together.

    >>> import dfprivacy as dfp, polars as pl
    >>> frame = pl.DataFrame({"city": ["Rome"] * 900 + ["Oslo"] * 100})
    >>> frame.dp.value_counts("city", epsilon=1, delta=1e-6)["city"].to_list()
    ['Rome', 'Oslo']
    """

    kind: ClassVar[str] = "value_counts"

    keys: Any = argument(_KEYS, None, form="Any")
    other: bool = argument(  # type: ignore[misc]
        "Count all values that are not among the keys together, in a last row whose key is missing "
        "and whose note says so; with a unit they are one group of it.",
        False,  # noqa: FBT003 a default
    )


@dataclass(frozen=True)
class Top(Frequencies):
    """Return the `k` values of a column with the largest noisy counts, by group in each group.

    All counts are noisy, so that ranking them costs nothing, whatever `k` is. `note` says of a
    value that it may not be among them: its count is so near to the largest one that is left out,
    or that secret values may have, that noise may have swapped them (at `interval`).

    >>> import dfprivacy as dfp, polars as pl
    >>> frame = pl.DataFrame({"city": ["Rome"] * 900 + ["Oslo"] * 500 + ["Bari"] * 99})
    >>> frame.dp.top("city", 2, keys=["Rome", "Oslo", "Bari"], epsilon=1)["city"].to_list()
    ['Rome', 'Oslo']
    """

    kind: ClassVar[str] = "top"

    k: int = argument("How many values.", 10)  # type: ignore[misc]
    keys: Any = argument(_KEYS, None, form="Any")

    def __post_init__(self) -> None:
        super().__post_init__()
        what = "k must be a whole number of values, from 1 on"
        most = whole_number(self.k, 1, 2**31 - 1, InvalidQuestionError, what, hint="pass e.g. k=10")
        object.__setattr__(self, "k", most)


@dataclass(frozen=True)
class Mode(Frequencies):
    """Return the most frequent value of a column, by group that of each group: `top` with k=1.

    One row: the value, its count with an interval, and a note where another may be the one.

    >>> import dfprivacy as dfp, polars as pl
    >>> frame = pl.DataFrame({"city": ["Rome"] * 900 + ["Oslo"] * 100})
    >>> frame.dp.mode("city", epsilon=1, delta=1e-6)["city"].to_list()
    ['Rome']
    """

    kind: ClassVar[str] = "mode"
    k: ClassVar[int] = 1

    keys: Any = argument(_KEYS, None, form="Any")


@asked_of.register
def _(question: Frequencies, _: object, terms: Terms, by: By, keys: PublicKeys | None) -> Release:
    """Return the release by the groups and the value, the last, with public keys of both."""
    own = terms.keys_for((question.column,), question.keys)  # type: ignore[attr-defined]
    if (own is None) != (keys is None) and by:
        raise InvalidKeysError(
            "the keys of the groups and those of the values are public together or not at all",
            hint="list both: group_by('city', keys=[...]).value_counts('kind', keys=[...])",
        )
    if own is not None and keys is not None:
        rows = itertools.product(keys.rows, own.rows)
        own = PublicKeys(tuple((*a, *b) for a, b in rows))
    return question.asked(), (*by, question.column), own


def ranked(made: Answers, request: Request, names: Sequence[str], k: int | None) -> pa.Table:
    """Return counts by value in each group, the largest first, and the `k` largest alone.

    The value is the last of the keys: where it is missing there is nothing to count, or it stands
    for other values, which come last.
    """
    groups = len(request.by)
    table = released_table(made, request, names[: groups + 3])
    others = request.keys is not None and request.keys.others
    if not others:
        table = table.filter(table.column(groups - 1).is_valid())
    last = np.asarray(table.column(groups - 1).is_null())
    counts = np.asarray(table.column(groups).to_numpy(), dtype=np.int64)
    outer = _numbered(table.select(list(range(groups - 1))))
    order = np.lexsort((-counts, last, outer))
    counts, outer = counts[order], outer[order]
    sorted_ = table.take(pa.array(order))
    if others:
        told = pa.array([OTHERS if own else None for own in last[order]], pa.string())
        return sorted_.append_column("note", told)
    if k is None:
        return sorted_
    (part,), (loss,) = request.parts, request.row_losses
    law = part.count_noise(loss)
    hidden = 0 if request.rule is None else request.rule.least(*law) - 1
    near = law[0].quantile(1 - request.level, 2)
    starts = np.searchsorted(outer, outer)  # where each group begins
    kept = np.flatnonzero(np.arange(len(outer)) - starts < k)
    after = starts[kept] + k
    inside = after < np.searchsorted(outer, outer[kept], side="right")
    following = np.where(inside, counts[np.minimum(after, len(counts) - 1)], hidden)
    listed = request.keys is not None
    unsure = (counts[kept] - following <= near) & (inside | (not listed))
    notes = pa.array([UNSURE if own else None for own in unsure], pa.string())
    return sorted_.take(pa.array(kept)).append_column("note", notes)


def _numbered(keys: pa.Table) -> Any:
    """Return the number of each row's group; rows come sorted by key."""
    if not keys.num_columns:
        return np.zeros(keys.num_rows, np.int64)
    rows = list(zip(*(values_of(column) for column in keys.columns), strict=True))
    changed = [0, *(int(a != b) for a, b in itertools.pairwise(rows))]
    return np.cumsum(changed)[: len(rows)]
