"""Count how often each value is there, the largest first: `value_counts`, `top` and `mode`."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.engine.objects import is_missing
from dfprivacy.engine.returning import list_values
from dfprivacy.errors import InvalidKeysError, InvalidQuestionError
from dfprivacy.frames.releasing import By, plan_question, plan_statistics
from dfprivacy.measurement.exact import whole_number
from dfprivacy.release.answers import Answers, join_notes
from dfprivacy.release.plan import NOTE, Plan
from dfprivacy.release.terms import PublicKeys, Terms
from dfprivacy.statistics import Count
from dfprivacy.statistics.base import Question, argument

SELECTED = "selected by noisy counts"
"""Start of the notes of values that are shown for their counts."""

OTHERS = "rows with other values or none"
"""Note on the count of all rows whose value is not listed; its key is missing."""


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

    def plan(self, terms: Terms, by: By, keys: PublicKeys | None, name: str = "count") -> Plan:
        """Return the plan of counts called `name`; the last group column is the value."""
        form = "value counts" if self.k is None else f"top {self.k}"
        if self.other:
            rows = () if keys is None else keys.rows
            values = list(dict.fromkeys(row[-1] for row in rows if not is_missing(row[-1])))
            groups = list(dict.fromkeys(row[:-1] for row in rows))
            if not values or len({row for row in rows if not is_missing(row[-1])}) < (
                len(groups) * len(values)
            ):
                raise InvalidKeysError(
                    "the other values are those that are not listed, and they are listed for all "
                    "groups together",
                    hint='list the values: value_counts("city", keys=["Rome", "Oslo"], other=True)',
                )
            shown = tuple((*group, value) for group in groups for value in (*values, None))
            form, keys = f"{form} and others", PublicKeys(shown, others=True)
        counted = Count() if self.k is None else Count(self.column)
        plan = plan_statistics({"count": counted}, terms, by, keys, form=form)
        has_notes = plan.search is not None
        noted = [NOTE] if has_notes or self.other or self.k is not None else []
        names = (*map(str, by), name, "low", "high", *noted)
        if len(set(names)) < len(names):
            raise InvalidQuestionError(
                "a column has the name of a column of the result",
                hint="rename it; counts by value have the columns count, low, high, note",
            )
        return FrequencyPlan.of_plan(plan, names=names, k=self.k, notes_limits=has_notes)


_KEYS = "Public values: exactly these are shown. Values are secret when left out, and need a delta."


@dataclass(frozen=True)
class ValueCounts(Frequencies):
    """Count how often each value of a column is there: one row a value, the largest first.

    It is `group_by(column).count()` in another order: a row is in one count, so that all have the
    noise of one. Secret values come out where their count shows, up to `delta`, that no single row
    has made it. Rows without a value are a group, too. By group the values of each group stand
    together.

    >>> import dfprivacy as dfp, polars as pl
    >>> frame = pl.DataFrame({"city": ["Rome"] * 900 + ["Oslo"] * 100})
    >>> frame.dp.value_counts("city", epsilon=1, delta=1e-6)["city"].to_list()
    ['Rome', 'Oslo']
    """

    kind: ClassVar[str] = "value_counts"

    keys: Any = argument(_KEYS, None, form="Any")
    other: bool = argument(  # type: ignore[misc]
        "Count all rows whose value is not among the keys together, in a last row whose key is "
        "missing and whose note says so; with a unit they are one group of it.",
        False,  # noqa: FBT003 a default
    )


@dataclass(frozen=True)
class Top(Frequencies):
    """Return the `k` values of a column with the largest noisy counts, by group in each group.

    Rows without a value don't count. All counts are noisy, so that ranking them costs nothing,
    whatever `k` is. `note` names the noisy count from which secret values are shown. It marks a
    value that may not be among the k largest: at `interval`, noise may have swapped it with one
    that is left out. Intervals don't include this selection.

    >>> import dfprivacy as dfp, polars as pl
    >>> frame = pl.DataFrame({"city": ["Rome"] * 900 + ["Oslo"] * 500 + ["Bari"] * 99})
    >>> frame.dp.top("city", 2, keys=["Rome", "Oslo", "Bari"], epsilon=1)["city"].to_list()
    ['Rome', 'Oslo']
    """

    kind: ClassVar[str] = "top"

    k: int = argument("The number of values.", 10)  # type: ignore[misc]
    keys: Any = argument(_KEYS, None, form="Any")

    def __post_init__(self) -> None:
        super().__post_init__()
        what = "k must be a whole number of values, from 1 on"
        count = whole_number(
            self.k, 1, 2**31 - 1, InvalidQuestionError, what, hint="pass e.g. k=10"
        )
        object.__setattr__(self, "k", count)


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


@plan_question.register
def _(question: Frequencies, _: object, terms: Terms, by: By, keys: PublicKeys | None) -> Plan:
    """Return the plan by the groups and the value, the last, with public keys of both."""
    values = terms.keys_for((question.column,), question.keys)  # type: ignore[attr-defined]
    if (values is None) != (keys is None) and by:
        raise InvalidKeysError(
            "the keys of the groups and those of the values are public together or not at all",
            hint="list both: group_by('city', keys=[...]).value_counts('kind', keys=[...])",
        )
    if values is not None and keys is not None:
        rows = itertools.product(keys.rows, values.rows)
        values = PublicKeys(tuple((*a, *b) for a, b in rows))
    return question.plan(terms, (*by, question.column), values)


@dataclass(frozen=True)
class FrequencyPlan(Plan):
    """The plan of counts by value, the largest first in each group, or the `k` largest."""

    k: int | None = None

    @property
    def subject(self) -> str:
        """The column whose values are counted."""
        return str(self.by[-1])

    def tabulate(self, answers: Answers) -> pa.Table:
        """Return one row a value.

        The value is the last of the keys. A missing value is none of the `k` largest, or stands for
        the other values, which come last.
        """
        groups = len(self.by)
        names = self.names[: groups + 3 + self.notes_limits]
        table = replace(self, names=names).list_groups(answers)
        others = self.keys is not None and self.keys.others
        if self.k is not None:
            table = table.filter(table.column(groups - 1).is_valid())
        last = np.asarray(table.column(groups - 1).is_null()) & others
        counts = np.asarray(table.column(groups).to_numpy(), dtype=np.int64)
        outer = np.zeros(
            table.num_rows, np.int64
        )  # the number of each row's group: they are sorted
        if groups > 1:
            keys = zip(*map(list_values, table.columns[: groups - 1]), strict=True)
            outer[1:] = np.cumsum([a != b for a, b in itertools.pairwise(keys)])
        order = np.lexsort((-counts, last, outer))
        table = table.take(pa.array(order))
        if others:
            return _append_notes(table, [OTHERS if missing else None for missing in last[order]])
        if self.k is None:
            return table
        # A count is unsure that is near to the next one, or to one that secret values may have.
        counts = counts[order]
        outer = outer[order]
        (part,), (loss,) = self.parts, self.row_losses
        law = part.count_noise(loss)
        hidden = 0 if self.rule is None else self.rule.threshold(*law) - 1
        quantile = law[0].quantile(1 - self.level, 2)
        starts = np.searchsorted(outer, outer)  # the first row of each row's group
        shown = np.flatnonzero(np.arange(len(outer)) - starts < self.k)
        after = starts[shown] + self.k
        inside = after < np.searchsorted(outer, outer[shown], side="right")
        following = np.where(inside, counts[np.minimum(after, len(counts) - 1)], hidden)
        unsure = (counts[shown] - following <= quantile) & (inside | (self.keys is None))
        size = -(-(hidden + 1) // law[1])
        hides = [f"values with noisy counts below {size:,} are not shown"] * (self.rule is not None)
        doubt = f"may not be among the {self.k:,} largest, and its interval may lie too high"
        texts = ["; ".join([doubt] * bool(is_unsure) + hides) for is_unsure in unsure]
        notes = [f"{SELECTED}: {text}" if text else None for text in texts]
        return _append_notes(table.take(pa.array(shown)), notes)


def _append_notes(table: pa.Table, notes: Sequence[str | None]) -> pa.Table:
    """Return a table with notes of its rows, in front of those that it has in its last column."""
    if table.column_names[-1] == NOTE:
        *_, last = table.columns
        notes = list(map(join_notes, zip(notes, last.to_pylist(), strict=True)))
        table = table.remove_column(table.num_columns - 1)
    return table.append_column(NOTE, pa.array(notes, pa.string()))
