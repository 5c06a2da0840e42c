"""What `.dp` returns: questions as methods, on a whole frame or by group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.spending import account_of
from dfprivacy.errors import InvalidQuestionError, UnknownMethodError, boundary
from dfprivacy.frames.crosstabs import CrosstabMethods
from dfprivacy.frames.describing import DescribeMethods, Description, release_description
from dfprivacy.frames.explaining import Explaining
from dfprivacy.frames.frequencies import FrequencyMethods
from dfprivacy.frames.methods import ColumnMethods
from dfprivacy.frames.numbers import Number
from dfprivacy.frames.releasing import release_frame, release_numbers
from dfprivacy.frames.viz.text import code
from dfprivacy.release.labels import label_of
from dfprivacy.release.terms import EPSILON, INTERVAL, PublicKeys, Terms
from dfprivacy.release.unit import Unit, unit_of
from dfprivacy.statistics import STATISTICS, Statistic

if TYPE_CHECKING:
    from dfprivacy.frames.surveys import LocalMethods, ShuffleMethods


class Private(
    DescribeMethods[Any, dict[str, Number]],
    CrosstabMethods[Any, dict[str, Number]],
    FrequencyMethods[Any, dict[str, Number]],
):
    """A frame that answers privately.

    Calling it sets terms for the questions that follow:

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"delay": [1.0, 5.0, 30.0] * 1000})
    >>> private = flights.dp(epsilon=0.5, bounds={"delay": (0, 60)})
    >>> private.mean("delay").epsilon
    0.5
    """

    def __init__(self, frame: Any, terms: Terms | None = None) -> None:
        self._frame = frame
        self._terms = Terms() if terms is None else terms

    def __call__(
        self,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float | str = INTERVAL,
        bounds: Mapping[Hashable, tuple[float, float]] | None = None,
        keys: Mapping[Hashable, Any] | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        version: str | None = None,
        note: str | None = None,
        period: str | None = None,
        analyst: str | None = None,
        unit: Hashable | Unit = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
    ) -> Private:
        """Return the same frame with terms for the questions that follow.

        `bounds` maps columns to (lower, upper), `keys` maps group columns to their public values.
        Every release is charged to the account of `dataset` in `ledger`, with `note` in its
        history, and to the part of the `analyst` who asks. `period` is the one that all rows are
        of, where the dataset comes in periods (`Ledger.announce`). A ledger that remembers answers
        gives the same one again for the same `version` of the data.

        `unit` names the column of who is protected, e.g. `unit="user_id"`: neighbours then differ
        by all rows of one user. Of a user's rows in one group at most `max_rows` count (more are
        scaled down to that), and the user counts in at most `max_groups` groups; the noise grows
        with max_rows * max_groups. Limits that are left out are found in each release, for an
        eighth of its loss. Rows without a unit are left out. Without `unit`, one row is protected.
        docs/users.md.

        Raises
        ------
        InvalidUnitError
            When a limit is no whole number from 1 on.
        """
        _require_mapping("bounds", bounds)
        _require_mapping("keys", keys)
        terms = self._terms.updated(
            epsilon=epsilon, rho=rho, delta=delta, interval=interval, bounds=bounds, keys=keys,
            ledger=ledger, dataset=dataset, version=version, note=note, period=period,
            analyst=analyst,
            unit=_unit(self._terms, unit, max_rows, max_groups),
        )  # fmt: skip
        account_of(
            terms.ledger, terms.dataset, terms.note, terms.version,
            period=terms.period, analyst=terms.analyst,
        )  # fmt: skip
        return Private(self._frame, terms)

    def group_by(self, *by: Hashable, keys: Any = None) -> PrivateGroupBy:
        """Group by one or several columns.

        With `keys` (a list of public values, or of tuples for several columns) exactly these
        groups are released. Without, keys are secret: a group comes out only if its noisy count
        shows, up to `delta`, that it can't have been made by one row alone.
        """
        return PrivateGroupBy(self._frame, self._terms, _labels(by), keys)

    @property
    def explain(self) -> Explaining:
        """Explain questions instead of answering them: no data is read, nothing is spent.

        `df.dp.explain(dfp.mean("x", (0, 100)), dfp.count(), epsilon=1)` explains an `agg`,
        `df.dp.explain.mean("x", (0, 100), epsilon=1)` a single question; see `Explaining`.
        """
        return Explaining(self._frame, self._terms)

    @property
    def local(self) -> LocalMethods:
        """Simulate protocols of the local model over a column."""
        from dfprivacy.frames.surveys import LocalMethods  # noqa: PLC0415 on first use

        return LocalMethods(self._frame, self._terms)

    @property
    def shuffle(self) -> ShuffleMethods:
        """Simulate protocols of the shuffle model over a column."""
        from dfprivacy.frames.surveys import ShuffleMethods  # noqa: PLC0415 on first use

        return ShuffleMethods(self._frame, self._terms)

    def __repr__(self) -> str:
        """Show the kind of frame, never what is in it."""
        return f"Private({type(self._frame).__module__.split('.')[0]} {type(self._frame).__name__})"

    def _repr_html_(self) -> str:
        return code(repr(self))

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> dict[str, Number]:
        return release_numbers(self._frame, questions, terms)

    def _describe(self, description: Description) -> Any:
        return release_description(description)

    def _several(self, question: Statistic, answers: dict[str, Number]) -> Any:
        return question.gathered(list(answers.values()))

    def _grouping(self) -> tuple[tuple[Hashable, ...], PublicKeys | None]:
        return (), None


@boundary
class PrivateGroupBy(FrequencyMethods[Any, Any]):
    """A frame by group; every question returns the caller's own frame type.

    One row a group, sorted by key, or as public keys were listed: the key columns, the answer,
    `low` and `high` of its interval, and `count`, the noisy number of values behind it. NULL and
    NaN keys are one group, the last.
    """

    def __init__(self, frame: Any, terms: Terms, by: tuple[Hashable, ...], keys: object) -> None:
        if not by or len({label_of(label) for label in by}) < len(by):
            raise InvalidQuestionError(
                "group_by needs one or several different columns",
                hint='name them, e.g. group_by("carrier", "month")',
            )
        self._frame, self._terms, self._by = frame, terms, by
        self._keys = terms.keys_for(by, keys)

    @property
    def explain(self) -> Explaining:
        """Explain questions by group instead of answering them: see `Private.explain`."""
        return Explaining(self._frame, self._terms, self._by, self._keys)

    @boundary
    def __getitem__(self, column: Hashable) -> PrivateColumn:
        """Return one column by group: `group_by("city")["income"].mean((0, 100))`."""
        if isinstance(column, list | tuple):
            raise InvalidQuestionError(
                "a frame by group is asked about one column at a time",
                hint='ask .agg(dfp.mean("x"), dfp.mean("y")), which shares one epsilon',
            )
        return PrivateColumn(self, label_of(column))

    def __getattr__(self, name: str) -> Any:
        """Return the method that asks a statistic, or say how a column is asked about."""
        if name not in STATISTICS and not name.startswith("_") and self._has(name):
            raise UnknownMethodError(
                f"{name!r} is a column, not a question",
                hint=f'ask about it by name: .mean("{name}", bounds=(0, 100)) or ["{name}"].mean()',
            )
        return super().__getattr__(name)

    @boundary
    def _has(self, name: str) -> bool:
        """Tell whether the frame declares a column of this name."""
        return name in map(str, getattr(self._frame, "columns", ()))

    def __repr__(self) -> str:
        """Show the group columns."""
        keys = "secret keys" if self._keys is None else f"{len(self._keys.rows)} public keys"
        return f"PrivateGroupBy({', '.join(map(repr, self._by))}; {keys})"

    def _repr_html_(self) -> str:
        return code(repr(self))

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Any:
        return release_frame(self._frame, self._by, self._keys, questions, terms)

    def _several(self, question: Statistic, answers: Any) -> Any:  # noqa: ARG002 frames hold all
        return answers

    def _grouping(self) -> tuple[tuple[Hashable, ...], PublicKeys | None]:
        return self._by, self._keys


@boundary
class PrivateColumn(ColumnMethods[Any]):
    """One column of a frame, whole or by group: the questions about it, without its name.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
    >>> flights.dp.group_by("carrier", keys=["AA", "UA"])["delay"].mean((0, 60)).columns
    ['carrier', 'delay', 'low', 'high', 'note', 'count']
    """

    def __init__(self, owner: Any, column: Hashable) -> None:
        self._owner, self._column = owner, column

    @property
    def explain(self) -> PrivateColumn:
        """Explain questions about the column instead of answering them."""
        return PrivateColumn(self._owner.explain, self._column)

    def histogram(self, *args: Any, **terms: Any) -> Any:
        """Count the values bin by bin: see `Private.histogram`."""
        return self._owner.histogram(self._column, *args, **terms)

    def value_counts(self, *args: Any, **terms: Any) -> Any:
        """Count how often each value is there: see `Private.value_counts`."""
        return self._owner.value_counts(self._column, *args, **terms)

    def top(self, *args: Any, **terms: Any) -> Any:
        """Return the values with the largest counts: see `Private.top`."""
        return self._owner.top(self._column, *args, **terms)

    def mode(self, *args: Any, **terms: Any) -> Any:
        """Return the most frequent value: see `Private.mode`."""
        return self._owner.mode(self._column, *args, **terms)

    def agg(self, *questions: Statistic, **named: Any) -> Any:
        """Answer several questions under one epsilon: see `Private.agg`."""
        return self._owner.agg(*questions, **named)

    def __repr__(self) -> str:
        """Show the column, and what it is a column of."""
        return f"{self._owner!r}[{self._column!r}]"

    def _ask(
        self, statistic: type[Statistic], asked: Mapping[str, Any], terms: Mapping[str, Any]
    ) -> Any:
        place = statistic.places()[0]
        return self._owner._ask(statistic, {place: self._column, **asked}, terms)  # noqa: SLF001


def _labels(by: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Return the group columns: as arguments, or as one list."""
    return tuple(by[0]) if len(by) == 1 and isinstance(by[0], list) else by


def _unit(terms: Terms, unit: object, max_rows: object, max_groups: object) -> Unit | None:
    """Return the unit that was named, or the terms' own with what is new of its limits."""
    limited = max_rows is not None or max_groups is not None
    named = terms.unit if unit is None and limited else unit
    return unit_of(named, max_rows, max_groups)


def _require_mapping(name: str, value: object) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidQuestionError(
            f"{name} of several columns come as a mapping from column to {name}",
            hint=f'pass {name}={{"column": ...}}',
        )
