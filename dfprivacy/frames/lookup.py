"""Look statistics up by the names of their methods, and help callers who misspell one.

`methods.py` has the methods of this package's own statistics. Those that users register are found
here by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Mapping
from difflib import get_close_matches
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from dfprivacy.errors import MOVED_ARGUMENTS, UnknownArgumentError, UnknownMethodError, boundary
from dfprivacy.release.terms import EPSILON, INTERVAL
from dfprivacy.statistics import STATISTICS, Argument
from dfprivacy.statistics.base import QUESTIONS, Question

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

TERMS = {
    "epsilon": ("float", EPSILON, "What the whole call spends: pure privacy, Laplace noise."),
    "rho": ("float | None", None, "Instead of epsilon: what it spends as zCDP, Gaussian noise."),
    "delta": ("float | None", None, "By group with secret keys: what showing them spends."),
    "interval": ("float", INTERVAL, "The level of the interval."),
    "population": (
        "bool",
        False,
        "Whether it makes room for sampling: of counts, shares, sums, means and spreads.",
    ),
}
"""The terms that every method takes: annotation, default and meaning."""

_BEFORE = ("unit", "max_rows", "max_groups", "ledger", "dataset", "version", "note")
_MISPLACED_ARGUMENTS = {
    **MOVED_ARGUMENTS,
    **dict.fromkeys(("by", "groupby"), 'group first: .group_by("city").{kind}(...)'),
    "keys": 'list them when grouping: .group_by("city", keys=["Rome"]).{kind}(...)',
    "seed": "noise that can be drawn again hides nothing, so there is no seed",
    "within": "ask explain first: .explain.within(2.0).{kind}(...)",
    **dict.fromkeys(("skipna", "ignore_nulls", "dropna"), "leave it out: NULL and NaN never count"),
    **dict.fromkeys(("axis", "numeric_only"), 'leave it out: name one column, .{kind}("age")'),
    "ends": 'a median or a quantile takes it: .quantile("x", 0.9, ends=True)',
    "ddof": "leave it out: all rows are the population, as ddof=0 says",
    "normalize": "divide what was released, which costs nothing: "
    'dfp.released(counts).ratio_to("total")',
    **dict.fromkeys(_BEFORE, "say it of the frame first: df.dp({name}=...).{kind}(...)"),
}
"""Arguments that belong elsewhere, with a hint where."""


def list_statistics(scope: str) -> dict[str, type[Question]]:
    """Return the statistics of a "frame", a frame by "group" or a "column", by their names."""
    others = {name: kind for name, kind in QUESTIONS.items() if scope in kind.asked_of}
    return {**STATISTICS, **others}


class Registered(Generic[Answer]):
    """Base of classes with a method for each statistic: finds those that users have registered."""

    _scope: ClassVar[str]

    if TYPE_CHECKING:

        def _ask(self, statistic: Question, terms: Mapping[str, Any]) -> Any: ...

    def __getattr__(self, name: str) -> Any:
        """Return the method of a registered statistic, or suggest the name that was meant."""
        statistic = list_statistics(self._scope).get(name)
        if statistic is None:
            kind = type(self)
            if name.startswith("_"):
                message = f"{kind.__name__!r} object has no attribute {name!r}"
                raise AttributeError(message, name=name, obj=self)
            of_frame = _ELSEWHERE.get(name, name)
            if self._scope == "column" and hasattr(getattr(self, "_owner", None), of_frame):
                raise UnknownMethodError(
                    f"{name} is a question about a frame, and this is one column",
                    hint=f"ask the frame: df.dp.{of_frame}(...)",
                )
            names = [attribute for attribute in dir(self) if not attribute.startswith("_")]
            statistics = [attribute for attribute in names if attribute not in _NOT_STATISTICS]
            spelling = closest_name(name, names)
            hint = f"write .{spelling}(...)" if spelling else f"ask one of {', '.join(statistics)}"
            raise UnknownMethodError(
                f"there is no question {name!r}", hint=_OF_FRAMES.get(name, hint)
            )

        def method(*args: Any, **kwargs: Any) -> Any:
            terms = {term: kwargs.pop(term) for term in TERMS if term in kwargs}
            column = [self._column] if self._scope == "column" else []
            return self._ask(statistic(*column, *args, **kwargs), terms)

        describe_method(method, statistic, self._scope)
        return boundary(method)

    def __dir__(self) -> list[str]:
        """List the methods of all statistics and those of the class."""
        return sorted({*super().__dir__(), *list_statistics(self._scope)})


Method = Callable[Concatenate[Any, Hashable, Arguments], Any]
"""A method of a frame whose first argument is a column."""


class OfColumn(Generic[Arguments]):
    """The method of a column, as type checkers see it: it answers as that of the frame does."""

    if TYPE_CHECKING:

        def __get__(self, column: Registered[Answer], _: Any) -> Callable[Arguments, Answer]: ...


class SeveralOfColumn(OfColumn[Arguments]):
    """The method of a column that has several answers."""

    if TYPE_CHECKING:

        def __get__(self, column: Registered[Any], _: Any) -> Callable[Arguments, Any]: ...


def of_column(method: Method[Arguments]) -> OfColumn[Arguments]:
    """Return the method of a column: that of its frame, asked about the column."""

    @wraps(method)
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self._owner, self._column, *args, **kwargs)

    return ask  # type: ignore[return-value]


def several_of_column(method: Method[Arguments]) -> SeveralOfColumn[Arguments]:
    """Return the method of a column that has several answers."""
    return of_column(method)  # type: ignore[return-value]


def describe_method(method: Any, statistic: type[Question], scope: str) -> None:
    """Give a method the signature, docstring and hints of its statistic."""
    signature = build_signature(statistic, of_column=scope == "column")
    if "self" not in inspect.signature(method).parameters:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    method.__name__, method.__qualname__ = statistic.kind, f"Private.{statistic.kind}"
    method.__doc__ = documentation(statistic, signature)
    method.__signature__ = signature
    method.argument_hints = _MISPLACED_ARGUMENTS


def check_terms(statistic: Question, terms: Mapping[str, Any]) -> None:
    """Refuse keyword arguments that a statistic does not take.

    Raises
    ------
    UnknownArgumentError
        With a hint: where the argument belongs, the spelling that was meant, or all arguments.
    """
    kind = statistic.kind
    names = [name for name in build_signature(type(statistic)).parameters if name != "self"]
    for name in terms:
        if name in names:
            continue
        spelling = None if name in TERMS else closest_name(name, names)
        hint = f"write {spelling}=" if spelling else f"it takes {', '.join(names)}"
        if name == "epsilon":
            hint = "its noise is Gaussian, which costs rho: write rho=0.5"
        raise UnknownArgumentError(
            f"{kind} takes no argument {name!r}",
            hint=_MISPLACED_ARGUMENTS.get(name, hint).format(kind=kind, name=name),
        )


@cache
def build_signature(statistic: type[Question], *, of_column: bool = False) -> inspect.Signature:
    """Return the signature of a method: arguments, then terms, then choices and flags."""
    arguments = statistic.arguments()[1:] if of_column else statistic.arguments()
    options = [
        argument
        for argument in arguments
        if argument.form in {"choice", "flag"} and not argument.required
    ]
    positional, keyword = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    parameters = [inspect.Parameter("self", positional)]
    parameters += [
        _parameter(argument, positional) for argument in arguments if argument not in options
    ]
    parameters += [
        inspect.Parameter(name, keyword, default=TERMS[name][1], annotation=TERMS[name][0])
        for name in statistic.terms
        if name not in {"interval", "population"} or statistic.has_interval
    ]
    parameters += [_parameter(argument, keyword) for argument in options]
    return inspect.Signature(parameters)


def _parameter(argument: Argument, kind: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if argument.required else argument.default
    annotation = argument.type.annotation
    if argument.form in {"number", "whole"} and argument.default is None:
        annotation += " | None"
    return inspect.Parameter(argument.name, kind, default=default, annotation=annotation)


def documentation(statistic: type[Question], signature: inspect.Signature) -> str:
    """Return the docstring of a method: that of its statistic, and every parameter."""
    meanings = {name: meaning for name, (*_, meaning) in TERMS.items()}
    for argument in statistic.arguments():
        choices = f" One of {', '.join(map(repr, argument.choices))}." if argument.choices else ""
        meanings[argument.name] = f"{argument.doc}{choices}"
    lines = [inspect.cleandoc(statistic.__doc__ or ""), "", "Parameters", "----------"]
    for name, parameter in signature.parameters.items():
        if name != "self":
            lines += [f"{name} : {parameter.annotation}", f"    {meanings[name]}"]
    lines += ["", "Returns", "-------", "result", f"    {statistic.returns}"]
    lines += ["", "Raises", "------", "DPError"]
    lines.append("    Before anything is drawn, and never for what is in a row.")
    if statistic.example:
        lines += ["", "Examples", "--------", statistic.example]
    return "\n".join(lines)


_ELSEWHERE = {
    "groupby": "group_by",
    "pivot": "crosstab",
    "aggregate": "agg",
    "aggfunc": "aggregate",
    "shape": "count",
}
"""Names of other libraries, each with the nearest name here."""

_OF_FRAMES = {
    **dict.fromkeys(
        (
            *("filter", "where", "query", "loc", "iloc", "head", "sort", "columns", "collect"),
            *("select", "drop", "dropna", "drop_nulls", "fillna", "fill_null", "isna", "replace"),
            *("assign", "with_columns", "rename", "astype", "cast", "clip", "cut", "qcut", "eval"),
        ),
        "do it with the frame itself, row by row, then ask: df.filter(...).dp.mean(...)",
    ),
    **dict.fromkeys(
        ("plot", "show", "save"), "ask first, then dfp.plot(answer) or dfp.show(answer) draws it"
    ),
    "group_by": 'name all columns at once: group_by("city", "year")',
}
"""Methods of frames in other libraries, with a hint where to call them."""

_NOT_STATISTICS = {"explain", "local", "shuffle"}


def closest_name(name: str, names: Collection[str]) -> str | None:
    """Return the name among `names` that a caller probably meant, or None."""
    aliases = {alias: kind for kind, owner in STATISTICS.items() for alias in owner.aliases}
    candidates = [{**_ELSEWHERE, **aliases}.get(name, ""), *get_close_matches(name, names, 1, 0.7)]
    return next((candidate for candidate in candidates if candidate in names), None)
