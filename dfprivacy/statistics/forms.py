"""Say how statistics are called in SQL: names, arguments in their order, and what each measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.statistics.base import STATISTICS, Argument, Statistic
from dfprivacy.statistics.linear import LinearStatistic
from dfprivacy.statistics.octaves import OctavePart
from dfprivacy.terms import Bounds

ENDS = ("lo", "hi")
"""What the two ends of bounds are called in SQL."""


@dataclass(frozen=True)
class Form:
    """One way to call a function: about rows or an expression, then constants in this order.

    A function that answers about a part of the rows, such as `dp_mean(x, lo, hi)`, takes an epsilon
    of its own as one more constant.
    """

    statistic: type[Statistic]
    about_rows: bool
    constants: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The constants, but for the ends of bounds."""
        own = {argument.name: argument for argument in self.statistic.arguments()}
        return tuple(own[name] for name in self.constants if name not in ENDS)

    def is_list(self, constant: str) -> bool:
        """Tell whether a constant is a list of numbers."""
        return any(own.name == constant and own.form == "numbers" for own in self.arguments)

    def question(self, values: Mapping[str, Any], column: Any = "x") -> Statistic:
        """Return the question that constants ask about a column.

        Raises
        ------
        InvalidBoundsError, InvalidQuestionError
            When the constants are out of range.
        """
        given = {name: value for name, value in values.items() if name not in ENDS}
        if ENDS[0] in self.constants:
            given["bounds"] = Bounds(*(values[end] for end in ENDS))
        return self.statistic(**({} if self.about_rows else {"column": column}), **given)

    @property
    def sample(self) -> Statistic:
        """The question with constants that stand for any others of the same form."""
        values: dict[str, Any] = {own.name: own.sample for own in self.arguments}
        return self.question({**values, **dict(zip(ENDS, (0.0, 1.0), strict=True))})

    @property
    def part(self) -> Any:
        """What measures it; only what all constants have in common counts."""
        return part_of(self.sample)


def part_of(question: Statistic) -> Any:
    """Return what measures a question by itself, over one group."""
    question.check()
    if isinstance(question, LinearStatistic) and question.finds_bounds:
        return OctavePart(question.column, {question.kind: question}, grouped=False)
    return question.part(question.kind, grouped=False)


def sql_names(statistic: type[Statistic]) -> tuple[str, ...]:
    """Return the names of a statistic's SQL function.

    >>> from dfprivacy.statistics import Mean
    >>> sql_names(Mean)
    ('dp_mean', 'dp_avg')
    """
    return tuple(f"dp_{name}" for name in (statistic.kind, *statistic.sql_aliases))


def functions() -> dict[str, type[Statistic]]:
    """Return every statistic that SQL knows, by the names of its function."""
    return {name: own for own in STATISTICS.values() for name in sql_names(own) if forms_of(own)}


@cache
def forms_of(statistic: type[Statistic]) -> tuple[Form, ...]:
    """Return the ways to call the function of a statistic, without an epsilon of its own."""
    own = statistic.arguments()
    if any(argument.required and argument.form == "choice" for argument in own):
        return ()
    needed = tuple(a.name for a in own if a.required and a.form != "column")
    forms = [Form(statistic, about_rows=False, constants=needed)]
    if own[0].default is None:
        forms.insert(0, Form(statistic, about_rows=True, constants=()))
    if any(argument.form == "bounds" for argument in own):
        forms.append(Form(statistic, about_rows=False, constants=(*needed, *ENDS)))
    return tuple(form for form in forms if _is_measured(form))


def _is_measured(form: Form) -> bool:
    """Tell whether a form can be measured: not every statistic finds its own bounds."""
    try:
        return bool(form.part.weight)
    except InvalidQuestionError:
        return False
    except ValueError:
        return False


def example_value(argument: Argument) -> str:
    """Return a value of an argument as SQL, for hints."""
    return str(list(argument.sample)) if argument.form == "numbers" else str(argument.sample)


def example_calls(name: str, statistic: type[Statistic]) -> list[str]:
    """Return how a function may be called, each form with and without an epsilon.

    >>> from dfprivacy.statistics import Quantile
    >>> example_calls("dp_quantile", Quantile)
    ['dp_quantile(x, 0.9)', 'dp_quantile(x, 0.9, 0.5)']
    """
    calls = []
    for form in forms_of(statistic):
        values = [example_value(own) for own in form.arguments]
        values += ["0", "100"] if ENDS[0] in form.constants else []
        if form.about_rows:
            calls.append(f"{name}(*)")
            continue
        calls += [f"{name}({', '.join(['x', *values, *own])})" for own in ([], ["0.5"])]
    return calls
