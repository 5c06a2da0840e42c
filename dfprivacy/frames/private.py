"""Offer questions as methods of `.dp`, on a whole frame or by group, to answer or explain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar, overload

import pandas as pd
import polars as pl

from dfprivacy.accounting.ledger import Ledger
from dfprivacy.engine.columns import BOOLEAN, find_declared_columns, require_declared
from dfprivacy.engine.files import open_source
from dfprivacy.engine.run import run_guarded
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.errors import (
    InvalidQuestionError,
    InvalidUnitError,
    UnknownArgumentError,
    UnknownMethodError,
    boundary,
)
from dfprivacy.frames import crosstabs, describing, frequencies, vector_release  # noqa: F401 their questions
from dfprivacy.frames.estimates import Estimate, EstimateList
from dfprivacy.frames.explanation import (
    SIZE,
    Explanation,
    Target,
    explain_plan,
    no_loss_beside,
    reach_target,
    read_columns,
    read_target,
)
from dfprivacy.frames.lookup import check_terms, describe_method, list_statistics
from dfprivacy.frames.methods import ColumnMethods, FrameMethods, GroupMethods
from dfprivacy.frames.releasing import plan_answers, plan_question, questions_by_name, release_plan
from dfprivacy.frames.viz.text import code
from dfprivacy.release.plan import Plan
from dfprivacy.release.terms import (
    EPSILON,
    INTERVAL,
    PublicKeys,
    Terms,
    Unit,
    find_label,
    read_unit,
)
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.base import Question

if TYPE_CHECKING:
    from dfprivacy.frames.surveys import LocalMethods, ShuffleMethods

Frame = TypeVar("Frame")
Answer = TypeVar("Answer")
Answers = TypeVar("Answers")
Estimates = dict[str, Estimate]
Asked = Question | Mapping[str, Statistic]
"""One question, or several statistics by their names."""


for _scope, _class in (("group", GroupMethods), ("frame", FrameMethods), ("column", ColumnMethods)):
    for _name, _statistic in list_statistics(_scope).items():
        if _name in vars(_class):
            describe_method(vars(_class)[_name], _statistic, _scope)


class Queryable(ABC, Generic[Answers]):
    """The questions that a frame, or a frame by group, can be asked.

    Privacy, for every method: neighbors differ by adding or removing one row. The whole call
    spends `epsilon` (pure, discrete Laplace noise) or `rho` (zero-concentrated, discrete Gaussian
    noise), whatever it asks for; secret group keys add `delta`. Replacing a row costs twice as
    much. Errors come before anything is drawn and never depend on a row.
    """

    _frame: Any
    _terms: Terms
    _by: tuple[Hashable, ...] = ()
    _keys: PublicKeys | None = None

    @abstractmethod
    def _run(self, questions: Asked, terms: Terms) -> Any:
        """Release the answers to one question or several, or explain them."""

    def agg(
        self,
        *questions: Statistic,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        population: bool | None = None,
        **named: Statistic,
    ) -> Answers:
        """Answer several questions under one epsilon.

        Questions about one column with the same bounds share one noisy vector and cost what the
        strongest of them costs; what is left shares epsilon evenly.

        >>> import dfprivacy as dfp, polars as pl
        >>> frame = pl.DataFrame({"x": range(1000)})
        >>> sorted(frame.dp.agg(dfp.mean("x", (0, 1000)), rows=dfp.count(), epsilon=1))
        ['rows', 'x']
        """
        terms = self._terms.update(
            epsilon=epsilon, rho=rho, delta=delta, interval=interval, population=population
        )
        by_name = questions_by_name(questions, named, terms)
        read_kinds = cache(self._read_kinds)
        completed = {
            name: complete_booleans(question, read_kinds) for name, question in by_name.items()
        }
        answers: Answers = self._run(completed, terms)
        return answers

    def _ask(self, statistic: Question, terms: Mapping[str, Any]) -> Any:
        """Answer one question with the keyword arguments of its method."""
        check_terms(statistic, terms)
        completed = complete_booleans(statistic.complete(self._terms.bounds), self._read_kinds)
        return self._run(completed, self._terms.update(**terms))

    def _read_kinds(self) -> Mapping[Hashable, str]:
        """Return the declared kind of each column, as far as the frame declares them."""
        return run_guarded(lambda: find_declared_columns(self._frame)) or {}

    def _plan(self, questions: Asked, terms: Terms) -> Plan:
        """Return the plan of one question, or of several by their names."""
        if isinstance(questions, Statistic):
            questions = {questions.name: questions}
        if isinstance(questions, Mapping):
            return plan_answers(questions, terms, self._by, self._keys)
        return plan_question(questions, self._frame, terms, self._by, self._keys)


def complete_booleans(question: Any, read_kinds: Callable[[], Mapping[Hashable, str]]) -> Any:
    """Return a question with the bounds 0 and 1 for columns of booleans.

    Declared types are looked at where bounds are missing; no boolean is clipped.
    """
    if isinstance(question, crosstabs.Crosstab):
        return replace(question, values=complete_booleans(question.question, read_kinds))
    if not getattr(question, "finds_bounds", False):
        return question
    kinds = read_kinds()
    truths = {label: (0, 1) for label in question.columns if kinds.get(label) == BOOLEAN}
    typed = question.complete(truths)
    if typed.finds_bounds:
        return question
    has_numbers = len(truths) < len(question.columns)
    return typed if has_numbers else replace(typed, clipping=False)


@boundary
class Explaining(FrameMethods[Explanation], Queryable[Explanation]):
    """The questions of a frame, or of a frame by group, explained instead of answered.

    Every method takes the arguments of the method of `.dp` by its name, refuses what that refuses
    before it looks at data, and returns an `Explanation`: what would be charged and how it is
    shared, the noise, half-widths by size of group, and which groups would be shown. To call it is
    to explain `agg`.

    Privacy: it reads no data (of a frame in memory, a lazy frame, a table or a relation it looks at
    the declared names and types of columns, of others not even that), draws nothing and charges
    nothing. What it returns is a function of the arguments, those types and what a ledger has left.
    docs/how-to/explain.md has the figures' proofs.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.LazyFrame({"carrier": ["AA"], "delay": [1.0]})
    >>> plan = flights.dp.explain.mean("delay", bounds=(0, 60), epsilon=1)
    >>> plan.epsilon, plan["delay"].rows[2], round(plan["delay"].typical[2], 2)
    (1.0, 1000, 0.13)
    """

    def __init__(
        self,
        frame: Any,
        terms: Terms,
        by: tuple[Hashable, ...] = (),
        keys: PublicKeys | None = None,
        target: Target | None = None,
    ) -> None:
        self._frame, self._terms, self._by, self._keys = frame, terms, by, keys
        self._target = target

    def __call__(
        self,
        *questions: Statistic,
        within: object = None,
        size: int = SIZE,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        population: bool | None = None,
        **named: Statistic,
    ) -> Explanation:
        """Explain what `agg` would do with these questions.

        Parameters
        ----------
        *questions, **named : Statistic
            As in `agg`: `dfp.mean("x", bounds=(0, 100))`, `dfp.count()` and so on.
        within : float, str or mapping, optional
            The half-width to reach, instead of `epsilon`: the least epsilon of three digits is
            found that brings every answer within it, or rho where the terms of the frame name rho.
            2.0 is in the unit of the answer. "2%" is a part of what is 100 %: the rows for counts
            and ranks, the distance between the bounds for means and deviations (its square for
            variances), the largest possible sum, 1 for shares. A mapping names some answers alone.
            It is the typical half-width, that of values in the middle of the bounds or spread
            evenly over them.
        size : int
            The rows of the group, or of the table, that `within` is for.
        epsilon, rho, delta, interval, population
            As in `agg`.

        Returns
        -------
        Explanation
            It prints as a page; `answers`, `draws`, `shown` and `table` hold its figures.

        Raises
        ------
        DPError
            What `agg` would raise before it looks at data, but for a budget that is too small;
            an `InvalidLossError` when no epsilon up to 999 reaches the target, an
            `InvalidUnitError` when the error grows with limits of a unit that the release finds.

        Examples
        --------
        >>> import dfprivacy as dfp, pandas as pd
        >>> flights = pd.DataFrame({"carrier": ["AA", "UA"], "delay": [1.0, 9.0]})
        >>> by_carrier = flights.dp.group_by("carrier")
        >>> plan = by_carrier.explain(dfp.mean("delay", (0, 60)), epsilon=1, delta=1e-6)
        >>> plan.shown
        Reach(rarely=14, half=18, mostly=21)
        >>> flights.dp.explain(dfp.mean("delay", (0, 60)), within=2.0, size=1000).epsilon
        0.0671
        """
        explaining = self
        if within is not None:
            no_loss_beside(epsilon, rho)
            explaining, epsilon, rho = self.within(within, size=size), EPSILON, None
        return explaining.agg(
            *questions,
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            interval=interval,
            population=population,
            **named,
        )

    def within(self, half_width: object, *, size: int = SIZE) -> Explaining:
        """Explain questions with the least epsilon that reaches a half-width.

        `half_width` and `size` are those of a call with `within`, for every method: the loss that
        a method names is set aside, but for whether it is epsilon or rho.

        >>> import dfprivacy as dfp, polars as pl
        >>> flights = pl.LazyFrame({"carrier": ["AA"], "delay": [1.0]})
        >>> flights.dp.explain.within("5%", size=200).histogram("delay", [0, 15, 60]).epsilon
        0.285
        """
        target = read_target(half_width, size)
        return Explaining(self._frame, self._terms, self._by, self._keys, target)

    def __repr__(self) -> str:
        by = f" by {', '.join(map(repr, self._by))}" if self._by else ""
        return f"Explaining(questions{by}; no data is read, nothing is spent)"

    def _run(self, questions: Asked, terms: Terms) -> Explanation:
        declared = require_declared(self._frame, read_columns(self._plan(questions, terms)))

        def explain(terms: Terms, sizes: tuple[int, ...]) -> Explanation:
            return explain_plan(self._plan(questions, terms), declared, sizes)

        return reach_target(self._target, terms, explain)


class _Columns(Generic[Answer]):
    """Attribute access to the columns of a frame, whole or by group."""

    _frame: Any
    _scope: ClassVar[str]

    @boundary
    def __getitem__(self, column: Hashable) -> PrivateColumn[Answer]:
        """Return one column: `df.dp["income"].mean((0, 100))`, or the same by group."""
        if isinstance(column, list | tuple):
            raise InvalidQuestionError(
                "a frame is asked about one column at a time",
                hint='ask .agg(dfp.mean("x"), dfp.mean("y")), which shares one epsilon',
            )
        return PrivateColumn(self, find_label(column))

    @boundary
    def __iter__(self) -> NoReturn:
        """Refuse to go through rows: without this, Python would ask for column after column."""
        raise UnknownArgumentError(
            "rows are secret, and what answers privately has none to go through",
            hint="ask about a column: df.dp.count(), df.dp.mean('age')",
        )

    def __getattr__(self, name: str) -> Any:
        """Return the method that asks a statistic, or say how a column is asked about."""
        if name not in list_statistics(self._scope) and name[:1] != "_" and self._has(name):
            raise UnknownMethodError(
                f"{name!r} is a column, not a question",
                hint=f'ask about it by name: .mean("{name}", bounds=(0, 100)) or ["{name}"].mean()',
            )
        return super().__getattr__(name)  # type: ignore[misc]  # that of the methods

    @boundary
    def _repr_html_(self) -> str:
        return code(repr(self))

    @boundary
    def _has(self, name: str) -> bool:
        """Return True if the frame declares a column of this name."""
        columns = getattr(self._frame, "columns", ())
        return name in map(str, getattr(self._frame, "column_names", columns))


@boundary
class Private(_Columns[Estimate], FrameMethods[Estimate], Queryable[Estimates], Generic[Frame]):
    """A frame that answers privately.

    Calling it sets terms for the questions that follow:

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"delay": [1.0, 5.0, 30.0] * 1000})
    >>> private = flights.dp(epsilon=0.5, bounds={"delay": (0, 60)})
    >>> private.mean("delay").epsilon
    0.5

    `encoding`, `delimiter` and `multiline` are those of `TextFile`, where the frame is the path of
    a CSV or TSV file.
    """

    @overload
    def __init__(
        self: Private[Any],
        frame: str | PathLike[str],
        terms: Terms | None = None,
        *,
        encoding: str | None = None,
        delimiter: str | None = None,
        multiline: bool = False,
    ) -> None: ...

    @overload
    def __init__(self, frame: Frame, terms: Terms | None = None) -> None: ...

    def __init__(
        self,
        frame: Any,
        terms: Terms | None = None,
        *,
        encoding: str | None = None,
        delimiter: str | None = None,
        multiline: bool = False,
    ) -> None:
        self._frame = open_source(
            frame, encoding=encoding, delimiter=delimiter, multiline=multiline
        )
        self._terms = Terms() if terms is None else terms
        if isinstance(self._frame, Snapshot):
            self._terms = replace(self._terms, snapshot=self._frame.version)

    __init__.argument_hints = dict.fromkeys(  # type: ignore[attr-defined]
        (*Terms.__dataclass_fields__, "max_rows", "max_groups"),
        "call the frame with its terms: dfp.frame(df)({name}=...)",
    )

    def __call__(
        self,
        *,
        epsilon: float = EPSILON,
        rho: float | None = None,
        delta: float | None = None,
        interval: float = INTERVAL,
        population: bool | None = None,
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
    ) -> Private[Frame]:
        """Return the same frame with terms for the questions that follow.

        `bounds` maps columns to (lower, upper), `keys` maps group columns to their public values.
        With `population` intervals make room for sampling: docs/explanation/intervals.md.
        Every release is charged to the account of `dataset` in `ledger`, with `note` in its
        history, and to the part of the `analyst` who asks. `period` is the one that all rows are
        of, where the dataset comes in periods (`Ledger.announce`). A ledger that remembers answers
        gives the same one again for the same `version` of the data.

        `unit` names the column of who is protected, e.g. `unit="user_id"`: neighbors then differ
        by all rows of one user. Of a user's rows in one group at most `max_rows` count (more are
        scaled down to that), and the user counts in at most `max_groups` groups; the noise grows
        with max_rows * max_groups. Limits that are left out are found in each release, for a
        quarter of its loss. Rows without a unit are left out. Without `unit`, one row is protected.
        docs/how-to/users.md.

        Raises
        ------
        InvalidUnitError
            When a limit is no whole number from 1 on.
        """
        _require_mapping("bounds", bounds)
        _require_mapping("keys", keys)
        limited = max_rows is not None or max_groups is not None
        named = self._terms.unit if unit is None and limited else unit  # with new limits
        terms = self._terms.update(
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            interval=interval,
            population=population,
            bounds=bounds,
            keys=keys,
            ledger=ledger,
            dataset=dataset,
            version=version,
            note=note,
            period=period,
            analyst=analyst,
            unit=read_unit(named, max_rows, max_groups),
        )
        _ = terms.account
        return Private(self._frame, terms)

    def group_by(self, *by: Hashable, keys: Any = None) -> PrivateGroupBy[Frame]:
        """Group by one or several columns.

        With `keys` (a list of public values, of tuples for several columns, or a mapping from
        columns to lists, which names the columns as well) exactly these groups are released.
        Without, keys are secret: a group comes out only if its noisy count
        shows, up to `delta`, that it can't have been made by one row alone.
        """
        if not by and isinstance(keys, Mapping):
            by = tuple(keys)
        elif len(by) == 1 and isinstance(by[0], list):
            by = tuple(by[0])
        return PrivateGroupBy(self._frame, self._terms, by, keys)

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

    def _run(self, questions: Asked, terms: Terms) -> Any:
        answers = release_plan(self._plan(questions, terms), self._frame)
        if not isinstance(questions, Statistic):
            return answers
        answer = questions.gather(list(answers.values()))
        return EstimateList(answer) if isinstance(answer, list) else answer


@boundary
class PrivateGroupBy(_Columns[Frame], GroupMethods[Frame], Queryable[Frame]):
    """A frame by group; every question returns the caller's own frame type.

    One row a group, sorted by key, or as public keys were listed: the key columns, the answer,
    `low` and `high` of its interval, and `count`, the noisy number of values behind it. NULL and
    NaN keys are one group, the last.
    """

    def __init__(self, frame: Frame, terms: Terms, by: tuple[Hashable, ...], keys: object) -> None:
        if not by or len({find_label(label) for label in by}) < len(by):
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

    def __repr__(self) -> str:
        keys = "secret keys" if self._keys is None else f"{len(self._keys.rows)} public keys"
        return f"PrivateGroupBy({', '.join(map(repr, self._by))}; {keys})"

    def _run(self, questions: Asked, terms: Terms) -> Any:
        return release_plan(self._plan(questions, terms), self._frame)


@boundary
class PrivateColumn(ColumnMethods[Answer]):
    """One column of a frame, whole or by group: the questions about it, without its name.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
    >>> flights.dp.group_by("carrier", keys=["AA", "UA"])["delay"].mean((0, 60)).columns
    ['carrier', 'delay', 'low', 'high', 'note', 'count']
    """

    def __init__(self, owner: Any, column: Hashable) -> None:
        self._owner, self._column = owner, column

    @property
    def explain(self) -> PrivateColumn[Explanation]:
        """Explain questions about the column instead of answering them."""
        return PrivateColumn(self._owner.explain, self._column)

    def agg(self, *questions: Statistic, **named: Any) -> Any:
        """Answer several questions under one epsilon: see `Private.agg`."""
        return self._owner.agg(*questions, **named)

    def __repr__(self) -> str:
        return f"{self._owner!r}[{self._column!r}]"

    def _ask(self, statistic: Question, terms: Mapping[str, Any]) -> Any:
        return self._owner._ask(statistic, terms)  # noqa: SLF001


def _require_mapping(name: str, value: object) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidQuestionError(
            f"{name} of several columns come as a mapping from column to {name}",
            hint="pass "
            + ("bounds={'age': (0, 100)}" if name == "bounds" else "keys={'city': ['Rome']}"),
        )


@boundary
class PrivateSeries(PrivateColumn[Estimate]):
    """A series of pandas or polars that answers privately: the questions about its one column.

    Calling it sets terms for the questions that follow, as those of a frame. A unit is then a
    series of the same length, or with pandas the name of a level of the index.

    >>> import dfprivacy as dfp, pandas as pd
    >>> 0 <= pd.Series(range(100)).dp(epsilon=2).mean(bounds=(0, 100)) <= 100
    True
    """

    def __init__(
        self, series: pd.Series[Any] | pl.Series, owner: Private[Any] | None = None
    ) -> None:
        label = "value" if series.name in {None, ""} else series.name
        super().__init__(owner or Private(series.to_frame(label)), label)  # type: ignore[arg-type]
        self._series = series

    def __call__(self, *, unit: Any = None, **terms: Any) -> PrivateSeries:
        """Return the same series with terms for the questions that follow: see `Private`."""
        if unit is None:
            return PrivateSeries(self._series, self._owner(**terms))
        values: Any = unit
        if isinstance(self._series, pd.Series) and not isinstance(unit, pd.Series | pl.Series):
            index = self._series.index
            values = index.get_level_values(unit) if unit in index.names else None
        if not isinstance(values, pd.Index | pd.Series | pl.Series):
            raise InvalidUnitError(
                "the unit of a series is another series, or a level of its index",
                hint="pass a series of the same length: .dp(unit=df['user_id'])",
            )
        if len(values) != len(self._series):
            raise InvalidUnitError(
                "the units are not as many as the values", hint="pass a series of the same length"
            )
        label = "unit" if self._column != "unit" else "unit_"
        frame: Any = self._series.to_frame(self._column)  # type: ignore[arg-type]
        if isinstance(frame, pl.DataFrame):
            frame = frame.with_columns(pl.Series(label, values))
        else:
            frame[label] = pd.Series(values).array
        owner = self._owner.__class__(frame, self._owner._terms)  # noqa: SLF001 one of ours
        return PrivateSeries(self._series, owner(unit=label, **terms))


class Accessor:
    """The attribute `.dp` of a class of frames.

    It makes a new object at each access. The accessor of `polars.api` keeps that object on the
    frame, and the cycle would keep a deleted frame in memory.
    """

    def __init__(self, private: type[Any]) -> None:
        self._private = private

    def __get__(self, frame: object, _: type) -> Any:
        """Return the private frame, or its class where the attribute is read from a class."""
        return self._private if frame is None else self._private(frame)


def register_accessors() -> None:
    """Register `.dp`. Expressions get none: OpenDP uses that name there."""
    for frame in (pd.DataFrame, pl.DataFrame, pl.LazyFrame):
        frame.dp = Accessor(Private)  # type: ignore[union-attr]
    for series in (pd.Series, pl.Series):
        series.dp = Accessor(PrivateSeries)  # type: ignore[union-attr]
