"""Define what a statistic is: its arguments, what it measures and how its answer is read.

A statistic is one frozen dataclass in one file. Its fields are its arguments, annotated once;
methods, SQL functions, options of the command line, fields of job files, files of statistics and
the reference page are made from them. Defining a subclass with a `kind` registers it. So are
questions that only frames answer, such as histograms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from operator import itemgetter
from typing import Any, ClassVar, Self, get_args, get_type_hints

from dfprivacy.engine.objects import plain as plain_value
from dfprivacy.errors import InvalidQuestionError, MissingBoundsError, boundary
from dfprivacy.measurement.bounds import Bounds, read_bounds
from dfprivacy.measurement.exact import describe, exact_number
from dfprivacy.release.terms import find_label

STATISTICS: dict[str, type[Statistic]] = {}
"""Every statistic by its kind, in the order in which they are defined."""

QUESTIONS: dict[str, type[Question]] = {}
"""Every other question by its kind: the answer to one is a table or a vector."""


@dataclass(frozen=True)
class ArgumentType:
    """How methods annotate an argument, and what the command line and job files read it as."""

    annotation: str
    option: Any = str
    job_field: Any = None


ARGUMENT_TYPES = {
    "column": ArgumentType("Hashable", str, str),
    "bounds": ArgumentType(
        "tuple[float, float] | None", tuple[float, float], tuple[float | str, float | str]
    ),
    "number": ArgumentType("float", float, float | int),
    "numbers": ArgumentType("Sequence[float]", list[float], tuple[float | int, ...]),
    "whole": ArgumentType("int", int, int),
    "choice": ArgumentType("str", str, str),
    "flag": ArgumentType("bool", bool, bool),
    "value": ArgumentType("Any", str, Any),
    "Sequence[Hashable]": ArgumentType("Sequence[Hashable]", list[str], tuple[str, ...]),
    "Sequence[Hashable] | None": ArgumentType(
        "Sequence[Hashable] | None", list[str], tuple[str, ...]
    ),
}
"""The types of all arguments by their form; any other form is an annotation by itself."""


@dataclass(frozen=True)
class Argument:
    """One argument of a statistic, as every front end takes it.

    Attributes
    ----------
    name : str
        Its name in Python, and of the field in a job file.
    form : str
        What it is, by its annotation: "column" (Hashable), "bounds" (a pair of numbers), "number",
        "numbers" (a list), "whole" (a whole number), "value" (a constant of any plain type) or
        "choice" (one of `choices`) or "flag" (true or false); or its annotation itself, where its
        class checks it.
    doc : str
        What it means, for docstrings and --help.
    default : object
        What it is when it is left out; `dataclasses.MISSING` where it must be given.
    choices : tuple of str
        The values of a choice; the first is the default.
    sample : object
        A value that it may have, for examples and hints.
    """

    name: str
    form: str
    doc: str
    default: Any = MISSING
    choices: tuple[str, ...] = ()
    sample: Any = 0.5

    @property
    def required(self) -> bool:
        """True if the argument has no default."""
        return self.default is MISSING

    @property
    def type(self) -> ArgumentType:
        """Its types in methods, on the command line and in job files."""
        return ARGUMENT_TYPES.get(self.form) or ArgumentType(self.form)


def argument(
    doc: str,
    default: Any = MISSING,
    *,
    choices: Sequence[str] = (),
    sample: Any = 0.5,
    form: str = "",
) -> Any:
    """Return a dataclass field that is an argument of a question and carries its documentation."""
    if choices and default is MISSING:
        default = choices[0]
    metadata = {"doc": doc, "choices": tuple(choices), "sample": sample, "form": form}
    return field(default=default, metadata=metadata)


BOUNDS_DOC = (
    "Values are clipped to these bounds, (lower, upper). Choose them from what you know about the "
    "subject, never from the data. Estimated privately when left out."
)
"""Documentation of the bounds of a statistic that can find its own."""


class Question(ABC):
    """Base of all questions: a frozen dataclass whose fields are its arguments.

    `asked_of` says whether whole frames, frames by group and single columns have its method,
    `terms` which terms that takes, and `returns` what it returns.
    """

    kind: ClassVar[str]
    registry: ClassVar[dict[str, type[Any]]] = QUESTIONS
    asked_of: ClassVar[tuple[str, ...]] = ("frame", "group", "column")
    terms: ClassVar[tuple[str, ...]] = ("epsilon", "rho", "delta", "interval", "population")
    returns: ClassVar[str] = "The caller's own frame type."
    example: ClassVar[str] = ""
    has_interval: ClassVar[bool] = True
    tells_interval: Any = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = cls.__dict__.get("kind")
        if not isinstance(kind, str):  # a property names the kind of a question that is asked apart
            return
        registered = cls.registry.get(kind)
        if registered is not None and registered.__module__.startswith("dfprivacy."):
            raise ValueError(f"there is a statistic called {kind!r} already")
        cls.registry[kind] = cls

    @classmethod
    @cache
    def arguments(cls) -> tuple[Argument, ...]:
        """Return its arguments in order; columns come first."""
        hints = get_type_hints(cls)
        return tuple(
            Argument(
                attribute.name,
                attribute.metadata.get("form")
                or _form(hints[attribute.name], attribute.metadata.get("choices", ())),
                attribute.metadata.get("doc", ""),
                attribute.default,
                attribute.metadata.get("choices", ()),
                attribute.metadata.get("sample", 0.5),
            )
            for attribute in fields(cls)  # type: ignore[arg-type]
        )

    @classmethod
    @cache
    def places(cls) -> tuple[str, ...]:
        """Return the names of its arguments that are columns."""
        return tuple(argument.name for argument in cls.arguments() if argument.form == "column")

    @classmethod
    @cache
    def bounds_arguments(cls) -> Mapping[str, Argument]:
        """Map its arguments that are columns to those that are their bounds, x before y.

        Questions about the same columns have them in the same order, so that they can share draws.
        """
        ends = (argument for argument in cls.arguments() if argument.form == "bounds")
        return dict(sorted(zip(cls.places(), ends, strict=False), key=itemgetter(0)))

    def __post_init__(self) -> None:
        for argument in type(self).arguments():
            value = getattr(self, argument.name)
            object.__setattr__(self, argument.name, self._check_argument(argument, value))

    def _check_argument(self, argument: Argument, value: Any) -> Any:
        if argument.form == "column":
            return find_label(value)
        if argument.form == "bounds":
            return read_bounds(value)
        if argument.form == "choice" and value not in argument.choices:
            raise InvalidQuestionError(
                f"{self.kind} has no such {argument.name}",
                hint=f"choose one of {', '.join(map(repr, argument.choices))}",
            )
        if argument.form == "flag" and not isinstance(value, bool):
            raise InvalidQuestionError(
                f"{argument.name} of {self.kind} must be True or False, not {describe(value)}",
                hint=f"pass {argument.name}={not argument.default}, or leave it out",
            )
        if argument.form == "value":
            constant = plain_value(value)
            if constant is None:
                raise InvalidQuestionError(
                    f"the {argument.name} of {self.kind} must be a text, a number, true or false, "
                    f"a date or a time, not {describe(value)}",
                    hint=f"pass {argument.name}='JFK'",
                )
            return constant.shown
        if argument.form == "number" and not argument.required and value is None:
            return None
        if argument.form == "number" and exact_number(value) is None:
            raise InvalidQuestionError(
                f"the {argument.name} of {self.kind} must be a finite number, "
                f"not {describe(value)}",
                hint=f"pass {argument.name}=0.5"
                if argument.required
                else f"leave {argument.name} out",
            )
        return value

    @property
    def text(self) -> str:
        """The question as it was asked, for the history of a ledger."""
        shown = []
        for argument in type(self).arguments():
            value = getattr(self, argument.name)
            if argument.required:
                shown.append(_write_argument(value))
            elif value != argument.default:
                name = "" if argument.form == "column" else f"{argument.name}="
                shown.append(f"{name}{_write_argument(value)}")
        return f"{self.kind}({', '.join(shown)})"

    def complete(self, bounds_by_column: Mapping[Hashable, object]) -> Self:
        """Return the question with bounds that the terms of a frame know, where it has none."""
        bounds = {
            argument.name: self._check_argument(argument, bounds_by_column[column])
            for name, argument in self.bounds_arguments().items()
            if getattr(self, argument.name) is None
            and (column := getattr(self, name)) in bounds_by_column
        }
        return replace(self, **bounds) if bounds else self  # type: ignore[type-var]


@boundary
class Statistic(Question):
    """Base of all statistics: a frozen dataclass whose fields are its arguments.

    A subclass that names a `kind` is known at every door. See docs/reference/adding-a-statistic.md.

    Attributes
    ----------
    kind : str
        What it is called: the name of the method, of the command, and after `dp_` of the function.
    aliases : tuple of str
        What other libraries call it, for hints.
    sql_aliases : tuple of str
        Other names of its SQL function, after `dp_`.
    sql_names : tuple of str
        The ordinary aggregates of SQL that it answers privately: "avg" for the mean.
    title : str
        What it asks for in a few words: "the mean".
    example : str
        One line that asks it of a frame `df` with a column `x`.
    has_interval : bool
        Whether its answer can have an interval; `tells_interval` says whether one has.
    is_whole : bool
        Whether its answer is a whole number.
    answers_one : bool
        Whether it has one answer; several are a list or a tuple.
    adds_up : bool
        Whether what it measures in disjoint rows adds up, so that files of statistics can hold it.
    """

    registry: ClassVar[dict[str, type[Any]]] = STATISTICS
    returns: ClassVar[str] = "A number that knows its cost; by group, the caller's own frame type."
    aliases: ClassVar[tuple[str, ...]] = ()
    sql_aliases: ClassVar[tuple[str, ...]] = ()
    sql_names: ClassVar[tuple[str, ...]] = ()
    title: ClassVar[str]
    has_interval: ClassVar[bool] = False
    is_whole: ClassVar[bool] = False
    answers_one: ClassVar[bool] = True
    adds_up: ClassVar[bool] = True
    suffixes: Any = ("",)
    """Suffixes that distinguish several answers in SQL and files."""
    finds_bounds: Any = False
    """True if the bounds are missing and have to be found first."""
    answers_in_kind: ClassVar[bool] = False
    """True if the answer about a column of datetimes is a datetime."""
    column: Hashable
    """The column that the statistic reads, if it reads exactly one."""

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The columns that the statistic reads; none for rows."""
        labels = (getattr(self, name) for name in self.places())
        return tuple(column for column in labels if column is not None)

    @property
    def name(self) -> str:
        """The name of its answer: the only column, else the kind of statistic."""
        return str(self.columns[0]) if len(self.columns) == 1 else self.kind

    @property
    def full_name(self) -> str:
        """The name of its answer if another answer has the short name."""
        return "_".join([*map(str, self.columns or [self.kind]), self.kind])

    def with_columns(self, *columns: Hashable) -> Self:
        """Return the same question with other columns."""
        changes: Any = dict(zip(self.places(), columns, strict=False))
        return replace(self, **changes)  # type: ignore[type-var]

    def within(self, bounds: Bounds) -> Self:
        """Return the same question within bounds; itself where it takes none."""
        return replace(self, bounds=bounds) if hasattr(self, "bounds") else self  # type: ignore[type-var]

    def gather(self, numbers: Sequence[Any]) -> Any:
        """Return the numbers that answer it on a whole frame, as its method returns them."""
        return numbers[0]

    @property
    def has_note(self) -> bool:
        """True if an answer can carry a note that limits the use of its interval."""
        return bool(self.finds_bounds)

    @property
    def tells_interval(self) -> bool:
        """True if the answer carries an interval under these arguments."""
        return self.has_interval

    def with_ends(self, *, interval: bool) -> Self:
        """Return the question for a caller that shows an interval and a note, or neither.

        What is not shown costs nothing.
        """
        counts = bool(getattr(self, "clipped", None)) and not interval
        return replace(self, clipping=False) if counts else self  # type: ignore[type-var]

    def check(self) -> None:
        """Refuse arguments that do not go together; called before anything is planned."""

    def require_bounds(self, name: str = "bounds", column: Hashable = None) -> Bounds:
        """Return the bounds of a column, or say how to give them.

        Raises
        ------
        MissingBoundsError
            When the question was asked without bounds.
        """
        bounds = read_bounds(getattr(self, name, None))
        if bounds is None:
            about = ", ".join(map(repr, self.columns))
            names = [argument.name for argument in self.arguments() if argument.form == "bounds"]
            lacking = names or [name]
            example = ", ".join(f"{missing}=(0, 100)" for missing in lacking)
            raise MissingBoundsError(
                f"{self.kind} needs the bounds of column {column or self.columns[0]!r}",
                hint=f"pass {self.kind}({about}, {example}) with numbers that you "
                "know without looking at the data",
            )
        return bounds

    def titles(self, name: str) -> tuple[str, ...]:
        """Return the column titles of its answers in a frame, given the name of the question."""
        return (name,)

    def percent_base(self, rows: int) -> float | None:
        """Return the number that is 100 % of a half-width in a group of `rows` rows.

        None where no such number is known: its half-width is then named in its own unit.
        """
        return float(rows)

    @abstractmethod
    def part(self, name: str, *, grouped: bool) -> Any:
        """Return the mechanism that measures and answers this question alone."""


def _form(hint: Any, choices: Sequence[str]) -> str:
    """Return the form of an argument, by its annotation."""
    if choices:
        return "choice"
    plain = {Hashable: "column", Any: "value", bool: "flag"}
    if hint in plain:
        return plain[hint]
    kinds = {hint, *get_args(hint)} - {type(None)}
    if Bounds in kinds:
        return "bounds"
    if float in kinds and kinds - {hint} and type(None) not in get_args(hint):
        return "numbers"
    return "whole" if int in kinds else "number"


def _write_argument(value: Any) -> str:
    if isinstance(value, Bounds):
        return f"({value.lower!r}, {value.upper!r})"
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def question_text(questions: Mapping[str, Statistic], by: Sequence[Hashable] = ()) -> str:
    """Return questions as they were asked, for the history of a ledger.

    >>> from dfprivacy.statistics import Mean
    >>> question_text({"x": Mean("x", Bounds(0, 9))}, ["city"])
    "mean('x', bounds=(0.0, 9.0)) by 'city'"
    """
    texts = ", ".join(question.text for question in questions.values())
    return f"{texts} by {', '.join(map(repr, by))}" if by else texts


def plain(value: Any) -> Any:
    """Return an argument as JSON has it; numbers of other types as floats."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Bounds):
        return [value.lower, value.upper]
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return float(value) if not isinstance(value, Fraction) else str(value)
