"""Define what a statistic is: its arguments, what it measures and how its answer is read.

A statistic is one frozen dataclass in one file. Its fields are its arguments, annotated once;
methods, SQL functions, options of the command line, fields of job files, files of statistics and
the reference page are made from them. Defining a subclass with a `kind` registers it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Self, get_args, get_type_hints

from dfprivacy.errors import InvalidQuestionError, MissingBoundsError
from dfprivacy.exact import describe, exact_number
from dfprivacy.labels import label_of
from dfprivacy.terms import Bounds, bounds_of

STATISTICS: dict[str, type[Statistic]] = {}
"""Every statistic by its kind, in the order in which they are defined."""


@dataclass(frozen=True)
class Argument:
    """One argument of a statistic, as every front end takes it.

    Attributes
    ----------
    name : str
        Its name in Python, and of the field in a job file.
    form : str
        What it is: "column", "bounds" (a pair of numbers), "number", "numbers" (a list), "whole"
        (a whole number) or "choice" (one of `choices`).
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
        """Tell whether it must be given."""
        return self.default is MISSING

    @property
    def keyword(self) -> bool:
        """Tell whether it is given by name only."""
        return not self.required and self.form == "choice"


def argument(
    doc: str, default: Any = MISSING, *, choices: Sequence[str] = (), sample: Any = 0.5
) -> Any:
    """Return a dataclass field that is an argument of a statistic, with what it means."""
    if choices and default is MISSING:
        default = choices[0]
    return field(
        default=default, metadata={"doc": doc, "choices": tuple(choices), "sample": sample}
    )


BOUNDS_DOC = (
    "Values are clipped to these bounds, (lower, upper). Choose them from what you know about the "
    "subject, never from the data. Found privately when left out."
)
"""What the bounds of a statistic mean that finds its own where it is given none."""


class Statistic(ABC):
    """What can be asked of a frame: a frozen dataclass whose fields are its arguments.

    A subclass that names a `kind` is known at every door. See docs/adding-a-statistic.md.

    Attributes
    ----------
    kind : str
        What it is called: the name of the method, of the command, and after `dp_` of the function.
    aliases : tuple of str
        What other libraries call it, for hints.
    sql_aliases : tuple of str
        Other names of its SQL function, after `dp_`.
    title : str
        What it asks for in a few words: "the mean".
    example : str
        One line that asks it of a frame `df` with a column `x`.
    has_interval : bool
        Whether its answer has an interval.
    is_whole : bool
        Whether its answer is a whole number.
    answers_one : bool
        Whether it has one answer; several are a list or a tuple.
    """

    kind: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    sql_aliases: ClassVar[tuple[str, ...]] = ()
    title: ClassVar[str]
    example: ClassVar[str] = ""
    has_interval: ClassVar[bool] = False
    is_whole: ClassVar[bool] = False
    answers_one: ClassVar[bool] = True
    column: Hashable

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register a statistic that has a kind of its own."""
        super().__init_subclass__(**kwargs)
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        known = STATISTICS.get(kind)
        if known is not None and known.__module__.startswith("dfprivacy."):
            message = f"there is a statistic called {kind!r} already"
            raise ValueError(message)
        STATISTICS[kind] = cls

    @classmethod
    def arguments(cls) -> tuple[Argument, ...]:
        """Return its arguments in order; the column is the first."""
        return _arguments(cls)

    def __post_init__(self) -> None:
        """Check each argument by its form."""
        for own in type(self).arguments():
            value = getattr(self, own.name)
            object.__setattr__(self, own.name, self._checked(own, value))

    def _checked(self, own: Argument, value: Any) -> Any:
        if own.form == "column":
            return label_of(value)
        if own.form == "bounds":
            return bounds_of(value)
        if own.form == "choice" and value not in own.choices:
            raise InvalidQuestionError(
                f"{self.kind} has no such {own.name}",
                hint=f"choose one of {', '.join(map(repr, own.choices))}",
            )
        if own.form == "number" and exact_number(value) is None:
            raise InvalidQuestionError(
                f"the {own.name} of {self.kind} must be a finite number, not {describe(value)}",
                hint=f"pass {own.name}=0.5" if own.required else f"leave {own.name} out",
            )
        return value

    @property
    def text(self) -> str:
        """The question as it was asked, for the history of a ledger."""
        shown = []
        for own in type(self).arguments():
            value = getattr(self, own.name)
            if own.required:
                shown.append(_shown(value))
            elif value != own.default:
                name = "" if own.form == "column" else f"{own.name}="
                shown.append(f"{name}{_shown(value)}")
        return f"{self.kind}({', '.join(shown)})"

    def about(self, column: Hashable) -> Self:
        """Return the same question about another column."""
        return replace(self, column=column)  # type: ignore[type-var]

    def within(self, bounds: Bounds) -> Self:
        """Return the same question within bounds; itself where it takes none."""
        return replace(self, bounds=bounds) if hasattr(self, "bounds") else self  # type: ignore[type-var]

    def completed(self, bounds: Bounds | None) -> Self:
        """Return the question with bounds that the terms of a frame know, where it has none."""
        lacks = getattr(self, "bounds", self) is None
        return self.within(bounds) if lacks and bounds is not None else self

    def gathered(self, numbers: Sequence[Any]) -> Any:
        """Return the numbers that answer it on a whole frame, as its method returns them."""
        return numbers[0]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What tells its answers apart in SQL and files; one nameless answer for most."""
        return ("",)

    def check(self) -> None:  # noqa: B027 most have nothing to refuse
        """Refuse arguments that do not go together; called before anything is planned."""

    def required_bounds(self) -> Bounds:
        """Return the bounds, or say how to give them.

        Raises
        ------
        MissingBoundsError
            When the question was asked without bounds.
        """
        bounds = bounds_of(getattr(self, "bounds", None))
        if bounds is None:
            raise MissingBoundsError(
                f"{self.kind} needs the bounds of column {self.column!r}",
                hint=f"pass {self.kind}({self.column!r}, bounds=(0, 100)) with numbers that you "
                "know without looking at the data",
            )
        return bounds

    def titles(self, name: str) -> tuple[str, ...]:
        """Return what its answers are called in a frame, if the question is called `name`."""
        return (name,)

    @property
    def halve(self) -> tuple[str, ...]:
        """The changes of the question itself that halve the error, to first order."""
        return ()

    @abstractmethod
    def part(self, name: str, *, grouped: bool) -> Any:
        """Return what measures and answers the question when it is measured by itself."""


@cache
def _arguments(kind: type[Statistic]) -> tuple[Argument, ...]:
    hints = get_type_hints(kind)
    return tuple(
        Argument(
            own.name,
            _form(own.name, hints[own.name], own.metadata.get("choices", ())),
            own.metadata.get("doc", ""),
            own.default,
            own.metadata.get("choices", ()),
            own.metadata.get("sample", 0.5),
        )
        for own in fields(kind)  # type: ignore[arg-type]
    )


def _form(name: str, hint: Any, choices: Sequence[str]) -> str:
    """Return the form of an argument, by its annotation."""
    if name == "column":
        return "column"
    if choices:
        return "choice"
    kinds = {hint, *get_args(hint)} - {type(None)}
    if Bounds in kinds:
        return "bounds"
    if float in kinds and len(kinds) > 1:
        return "numbers"
    return "whole" if int in kinds else "number"


def _shown(value: Any) -> str:
    if isinstance(value, Bounds):
        return f"({value.lower!r}, {value.upper!r})"
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def question_text(questions: Mapping[str, Statistic], by: Sequence[Hashable] = ()) -> str:
    """Return questions as they were asked, for the history of a ledger.

    >>> from dfprivacy.statistics import Mean
    >>> question_text({"x": Mean("x", Bounds(0, 9))}, ["city"])
    "mean('x', bounds=(0.0, 9.0)) by 'city'"
    """
    asked = ", ".join(question.text for question in questions.values())
    return f"{asked} by {', '.join(map(repr, by))}" if by else asked


def plain(value: Any) -> Any:
    """Return an argument as JSON has it; numbers of other types as floats."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Bounds):
        return [value.lower, value.upper]
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return float(value) if not isinstance(value, Fraction) else str(value)
