"""Define the SQL functions of statistics: names and arguments in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from dfprivacy.statistics.base import STATISTICS, Argument, Statistic
from dfprivacy.statistics.octaves import OctavePart


def name_ends(argument: Argument) -> tuple[str, str]:
    """Return the SQL names of the two ends of bounds: lo, hi; with several columns x_lo, x_hi.

    >>> from dfprivacy.statistics import Correlation
    >>> name_ends(Correlation.arguments()[3])
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
        """Names of the expressions that are its columns."""
        places = self.statistic.places()
        return () if self.about_rows else ("x",) if len(places) == 1 else places

    @cached_property
    def ends(self) -> dict[str, tuple[str, str]]:
        """The ends of bounds among the constants, by the argument that they make."""
        arguments = (
            argument for argument in self.statistic.arguments() if argument.form == "bounds"
        )
        return {
            argument.name: name_ends(argument)
            for argument in arguments
            if name_ends(argument)[0] in self.constants
        }

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The constants, but for the ends of bounds."""
        arguments = {argument.name: argument for argument in self.statistic.arguments()}
        return tuple(arguments[name] for name in self.constants if name in arguments)

    def is_end(self, constant: str) -> bool:
        """Check whether a constant is an end of bounds."""
        return any(constant in pair for pair in self.ends.values())

    def is_list(self, constant: str) -> bool:
        """Check whether a constant is a list of numbers."""
        return any(
            argument.name == constant and argument.form == "numbers" for argument in self.arguments
        )

    def question(self, values: Mapping[str, Any]) -> Statistic:
        """Return the question that constants ask about columns called as in `columns`."""
        arguments = {name: value for name, value in values.items() if not self.is_end(name)}
        for name, ends in self.ends.items():
            arguments[name] = tuple(values[end] for end in ends)
        about = dict(zip(self.statistic.places(), self.columns, strict=False))
        return self.statistic(**about, **arguments)

    @cached_property
    def sample(self) -> Statistic:
        """The question with constants that stand for any others of the same form."""
        values: dict[str, Any] = {argument.name: argument.sample for argument in self.arguments}
        for lower, upper in self.ends.values():
            values |= {lower: 0.0, upper: 1.0}
        return self.question(values)

    @cached_property
    def part(self) -> Any:
        """Mechanism that measures the sample question."""
        return build_part(self.sample)


def build_part(question: Statistic) -> Any:
    """Return the mechanism of one question over one group."""
    question.check()
    if question.finds_bounds and len(question.columns) == 1:
        questions: Any = {question.kind: question}
        return OctavePart(question.column, questions, grouped=False)
    return question.part(question.kind, grouped=False)


def functions() -> dict[str, type[Statistic]]:
    """Return every statistic that SQL knows, by the names of its function.

    >>> [name for name, statistic in functions().items() if statistic.kind == "mean"]
    ['dp_mean', 'dp_avg']
    """
    return {
        f"dp_{name}": statistic
        for statistic in STATISTICS.values()
        for name in (statistic.kind, *statistic.sql_aliases)
        if list_forms(statistic)
    }


@cache
def list_forms(statistic: type[Statistic]) -> tuple[Form, ...]:
    """Return the ways to call the function of a statistic, without an epsilon of its own."""
    arguments = statistic.arguments()
    needed = tuple(a.name for a in arguments if a.required and a.form != "column")
    forms = [Form(statistic, about_rows=False, constants=needed)]
    if arguments[0].default is None:
        forms.insert(0, Form(statistic, about_rows=True, constants=()))
    ends = [
        end for argument in arguments if argument.form == "bounds" for end in name_ends(argument)
    ]
    if ends:
        forms.append(Form(statistic, about_rows=False, constants=(*needed, *ends)))
    return tuple(form for form in forms if _is_measured(form))


def _is_measured(form: Form) -> bool:
    """Check whether a form can be measured: not every statistic finds its own bounds."""
    try:
        return bool(form.part.weight)
    except ValueError:
        return False


def example_calls(name: str, statistic: type[Statistic]) -> list[str]:
    """Return example calls of a function: each form with and without an epsilon.

    >>> from dfprivacy.statistics import Quantile
    >>> for call in example_calls("dp_quantile", Quantile):
    ...     print(call)
    dp_quantile(x, 0.9)
    dp_quantile(x, 0.9, 0.5)
    dp_quantile(x, 0.9, 0, 100)
    dp_quantile(x, 0.9, 0, 100, 0.5)
    """
    calls = []
    for form in list_forms(statistic):
        values = [
            str(list(argument.sample) if argument.form == "numbers" else argument.sample)
            for argument in form.arguments
        ]
        values += ["0", "100"] * len(form.ends)
        if form.about_rows:
            calls.append(f"{name}(*)")
            continue
        calls += [
            f"{name}({', '.join([*form.columns, *values, *epsilon])})" for epsilon in ([], ["0.5"])
        ]
    return calls
