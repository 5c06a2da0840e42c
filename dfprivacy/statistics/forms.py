"""Say how statistics are called in SQL: names, arguments in their order, and what each measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from dfprivacy.statistics.base import STATISTICS, Argument, Statistic
from dfprivacy.statistics.octaves import OctavePart


def ends_of(argument: Argument) -> tuple[str, str]:
    """Return what the two ends of bounds are called in SQL: lo, hi; of several columns x_lo, x_hi.

    >>> from dfprivacy.statistics import Correlation
    >>> ends_of(Correlation.arguments()[3])
    ('y_lo', 'y_hi')
    """
    start = argument.name.removesuffix("bounds")
    return f"{start}lo", f"{start}hi"


@dataclass(frozen=True)
class Form:
    """One way to call a function: about rows or expressions, then constants in this order.

    A function that answers about a part of the rows, such as `dp_mean(x, lo, hi)`, takes an epsilon
    of its own as one more constant.
    """

    statistic: type[Statistic]
    about_rows: bool
    constants: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What the expressions are called that it is about."""
        places = self.statistic.places()
        return () if self.about_rows else ("x",) if len(places) == 1 else places

    @cached_property
    def ends(self) -> dict[str, tuple[str, str]]:
        """The ends of bounds among the constants, by the argument that they make."""
        own = (each for each in self.statistic.arguments() if each.form == "bounds")
        return {each.name: ends_of(each) for each in own if ends_of(each)[0] in self.constants}

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The constants, but for the ends of bounds."""
        own = {argument.name: argument for argument in self.statistic.arguments()}
        return tuple(own[name] for name in self.constants if name in own)

    def is_end(self, constant: str) -> bool:
        """Tell whether a constant is an end of bounds."""
        return any(constant in pair for pair in self.ends.values())

    def is_list(self, constant: str) -> bool:
        """Tell whether a constant is a list of numbers."""
        return any(own.name == constant and own.form == "numbers" for own in self.arguments)

    def question(self, values: Mapping[str, Any]) -> Statistic:
        """Return the question that constants ask about columns called as in `columns`."""
        given = {name: value for name, value in values.items() if not self.is_end(name)}
        for name, ends in self.ends.items():
            given[name] = tuple(values[end] for end in ends)
        about = dict(zip(self.statistic.places(), self.columns, strict=False))
        return self.statistic(**about, **given)

    @cached_property
    def sample(self) -> Statistic:
        """The question with constants that stand for any others of the same form."""
        values: dict[str, Any] = {own.name: own.sample for own in self.arguments}
        for lower, upper in self.ends.values():
            values |= {lower: 0.0, upper: 1.0}
        return self.question(values)

    @cached_property
    def part(self) -> Any:
        """What measures it; only what all constants have in common counts."""
        return part_of(self.sample)


def part_of(question: Statistic) -> Any:
    """Return what measures a question by itself, over one group."""
    question.check()
    if question.finds_bounds:
        own: Any = {question.kind: question}
        return OctavePart(question.column, own, grouped=False)
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


def function_of(name: str) -> type[Statistic] | None:
    """Return the statistic that an SQL function asks; the forms of others are not looked at."""
    named = [own for own in STATISTICS.values() if name in sql_names(own) and forms_of(own)]
    return named[-1] if named else None


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
    ends = [end for each in own if each.form == "bounds" for end in ends_of(each)]
    if ends:
        forms.append(Form(statistic, about_rows=False, constants=(*needed, *ends)))
    return tuple(form for form in forms if _is_measured(form))


def _is_measured(form: Form) -> bool:
    """Tell whether a form can be measured: not every statistic finds its own bounds."""
    try:
        return bool(form.part.weight)
    except ValueError:
        return False


def example_calls(name: str, statistic: type[Statistic]) -> list[str]:
    """Return how a function may be called, each form with and without an epsilon.

    >>> from dfprivacy.statistics import Quantile
    >>> for call in example_calls("dp_quantile", Quantile):
    ...     print(call)
    dp_quantile(x, 0.9)
    dp_quantile(x, 0.9, 0.5)
    dp_quantile(x, 0.9, 0, 100)
    dp_quantile(x, 0.9, 0, 100, 0.5)
    """
    calls = []
    for form in forms_of(statistic):
        values = [
            str(list(own.sample) if own.form == "numbers" else own.sample) for own in form.arguments
        ]
        values += ["0", "100"] * len(form.ends)
        if form.about_rows:
            calls.append(f"{name}(*)")
            continue
        calls += [f"{name}({', '.join([*form.columns, *values, *own])})" for own in ([], ["0.5"])]
    return calls
