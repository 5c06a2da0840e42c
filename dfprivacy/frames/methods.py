"""Turn questions into methods: one for each that is registered, with its arguments and texts.

`methods.pyi` spells the methods of this package's own questions for type checkers; a test keeps
it the same as what is made here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from dfprivacy.errors import UnknownArgumentError, UnknownMethodError, boundary
from dfprivacy.release.terms import EPSILON, INTERVAL
from dfprivacy.statistics import STATISTICS, Argument
from dfprivacy.statistics.base import QUESTIONS, Question

One = TypeVar("One")

TERMS = {
    "epsilon": ("float", EPSILON, "What the whole call spends: pure privacy, Laplace noise."),
    "rho": ("float | None", None, "Instead of epsilon: what it spends as zCDP, Gaussian noise."),
    "delta": ("float | None", None, "By group with secret keys: what showing them spends."),
    "interval": (
        "float | str",
        INTERVAL,
        'The level of the interval; "population" covers sampling too, at 95 %.',
    ),
}
"""The terms that every method takes: annotation, default and meaning."""

_BEFORE = ("unit", "max_rows", "max_groups", "ledger", "dataset", "version", "note")
_SAID_ELSEWHERE = {
    **dict.fromkeys(("by", "groupby"), 'group first: .group_by("city").{kind}(...)'),
    "keys": 'list them when grouping: .group_by("city", keys=["Rome"]).{kind}(...)',
    "seed": "noise that can be drawn again hides nothing, so there is no seed",
    "within": "ask explain first: .explain.within(2.0).{kind}(...)",
    **dict.fromkeys(("skipna", "ignore_nulls", "dropna"), "leave it out: NULL and NaN never count"),
    **dict.fromkeys(("axis", "numeric_only"), 'leave it out: name one column, .{kind}("age")'),
    "ddof": "leave it out: all rows are the population, as ddof=0 says",
    "normalize": "divide what was released, which costs nothing: "
    'dfp.released(counts).ratio_to("total")',
    **dict.fromkeys(_BEFORE, "say it of the frame first: df.dp({name}=...).{kind}(...)"),
}
"""Where a call says what users try to say as an argument of a question."""

TYPES = {
    "column": "Hashable",
    "bounds": "tuple[float, float] | None",
    "number": "float",
    "numbers": "Sequence[float]",
    "whole": "int",
    "choice": "str",
    "flag": "bool",
    "value": "Any",
}
"""How the forms of arguments are annotated."""


def questions_of(place: str) -> dict[str, type[Question]]:
    """Return what can be asked of a "frame", a frame by "group" or a "column", by kind."""
    others = {kind: own for kind, own in QUESTIONS.items() if place in own.asked_of}
    return {**STATISTICS, **others}


class Methods(Generic[One]):
    """What asks registered questions by their names, of whole frames."""

    _place: ClassVar[str] = "frame"

    def __getattr__(self, name: str) -> Any:
        """Return the method that asks a question, or say what was probably meant."""
        known = questions_of(self._place)
        if name in known:
            return method_of(known[name], of_column=self._place == "column").__get__(self)
        return _unknown(self, name)

    def __dir__(self) -> list[str]:
        """List the methods of every question beside those of the class."""
        return sorted({*super().__dir__(), *questions_of(self._place)})


class GroupMethods(Methods[One]):
    """What asks registered questions of frames by group."""

    _place = "group"


class ColumnMethods(Methods[One]):
    """What asks registered questions about one column."""

    _place = "column"


@cache
def method_of(statistic: type[Question], *, of_column: bool = False) -> Callable[..., Any]:
    """Return the method that asks a question; that of a series knows its column."""
    signature = signature_of(statistic, of_column=of_column)
    names = [own.name for own in statistic.arguments()]

    def method(self: Any, *args: Any, **given: Any) -> Any:
        taken = bound_arguments(signature, statistic.kind, (self, *args), given)
        del taken["self"]
        asked = {name: taken.pop(name) for name in names if name in taken}
        return self._ask(statistic, asked, taken)

    method.__name__ = statistic.kind
    method.__qualname__ = f"Private.{statistic.kind}"
    method.__doc__ = documentation(statistic, signature)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return boundary(method)


def bound_arguments(
    signature: inspect.Signature, kind: str, args: tuple[Any, ...], given: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    known = [name for name in signature.parameters if name != "self"]
    for name in given:
        if name not in known:
            other = None if name in TERMS else meant(name, known)
            hint = f"write {other}=" if other else f"it takes {', '.join(known)}"
            if name == "epsilon":
                hint = "its noise is Gaussian, which costs rho: write rho=0.5"
            raise UnknownArgumentError(
                f"{kind} takes no argument {name!r}",
                hint=_SAID_ELSEWHERE.get(name, hint).format(kind=kind, name=name),
            )
    try:
        return dict(signature.bind(*args, **given).arguments)
    except TypeError:  # the text of which is Python's
        raise _wrongly_called(signature, kind, len(args), given) from None


def _wrongly_called(
    signature: inspect.Signature, kind: str, places: int, given: Collection[str]
) -> UnknownArgumentError:
    """Return what a call lacks, or has too much of; `places` arguments came without their names."""
    told = [own for own in signature.parameters.values() if own.name != "self"]
    in_order = [own.name for own in told if own.kind is own.POSITIONAL_OR_KEYWORD]
    taken = {*in_order[: places - 1], *given}
    lacking = [own.name for own in told if own.default is own.empty and own.name not in taken]
    if places - 1 > len(in_order):
        pair = "; bounds are one pair, e.g. bounds=(0, 100)" if "bounds" in in_order else ""
        return UnknownArgumentError(
            f"{kind} takes no more than {', '.join(in_order) or 'none'} without their names",
            hint=f"write the others as name=value{pair}",
        )
    if lacking:
        return UnknownArgumentError(
            f"{kind} needs {' and '.join(lacking)}",
            hint=f"it takes {', '.join(own.name for own in told)}",
        )
    return UnknownArgumentError(
        f"{kind} was given an argument twice, by its place and by its name",
        hint=f"without names, arguments are {', '.join(in_order)}",
    )


def signature_of(statistic: type[Question], *, of_column: bool = False) -> inspect.Signature:
    """Return the signature of a method: arguments, then the terms, then methods and the like."""
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = statistic.arguments()[1:] if of_column else statistic.arguments()
    named = [each for each in own if each.form in {"choice", "flag"} and not each.required]
    terms = [name for name in statistic.terms if name != "interval" or statistic.has_interval]
    parameters = [inspect.Parameter("self", place)]
    parameters += [_parameter(each, place) for each in own if each not in named]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [
        inspect.Parameter(name, keyword, default=TERMS[name][1], annotation=TERMS[name][0])
        for name in terms
    ]
    parameters += [_parameter(each, keyword) for each in named]
    return inspect.Signature(parameters)


def _parameter(argument: Argument, place: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if argument.required else argument.default
    annotation = TYPES.get(argument.form, argument.form)
    if argument.form in {"number", "whole"} and argument.default is None:
        annotation += " | None"
    return inspect.Parameter(argument.name, place, default=default, annotation=annotation)


def documentation(statistic: type[Question], signature: inspect.Signature) -> str:
    """Return the docstring of a method: what the question says, and every parameter."""
    text = inspect.cleandoc(statistic.__doc__ or "")
    lines = [text, "", "Parameters", "----------"]
    said = {name: meaning for name, (*_, meaning) in TERMS.items()}
    for own in statistic.arguments():
        among = f" One of {', '.join(map(repr, own.choices))}." if own.choices else ""
        said[own.name] = f"{own.doc}{among}"
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        lines.append(f"{name} : {parameter.annotation}")
        lines.append(f"    {said[name]}")
    lines += ["", "Returns", "-------", "result", f"    {statistic.returns}"]
    lines += ["", "Raises", "------", "DPError"]
    lines.append("    Before anything is drawn, and never for what is in a row.")
    if statistic.example:
        lines += ["", "Examples", "--------", statistic.example]
    return "\n".join(lines)


_ELSEWHERE = {"groupby": "group_by", "pivot": "crosstab", "aggfunc": "aggregate"}
"""Names of other libraries, each with the nearest name here."""

_OF_FRAMES = {
    **dict.fromkeys(
        ("filter", "query", "head", "select", "drop", "loc", "iloc", "sort", "columns", "collect"),
        "do it with the frame itself, row by row, then ask: df.filter(...).dp.mean(...)",
    ),
    "group_by": 'name all columns at once: group_by("city", "year")',
}
"""What other libraries do with frames, and where that is done."""


def meant(name: str, known: Collection[str]) -> str | None:
    """Return the known name that a caller probably meant, if one is similar."""
    theirs = {alias: kind for kind, own in STATISTICS.items() for alias in own.aliases}
    near = [{**_ELSEWHERE, **theirs}.get(name, ""), *get_close_matches(name, known, 1)]
    return next((other for other in near if other in known), None)


def _unknown(owner: Any, name: str) -> NoReturn:
    """Refuse a name that `owner` does not have, with an AttributeError: `hasattr` still works."""
    kind = type(owner)
    if name.startswith("_"):
        message = f"{kind.__name__!r} object has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=owner)
    of_frame = _ELSEWHERE.get(name, name)
    if kind._place == "column" and hasattr(getattr(owner, "_owner", None), of_frame):  # noqa: SLF001
        raise UnknownMethodError(
            f"{name} is a question about a frame, and this is one column",
            hint=f"ask the frame: df.dp.{of_frame}(...)",
        )
    public = [known for known in dir(owner) if not known.startswith("_")]
    asked = [known for known in public if known not in {"explain", "local", "shuffle"}]
    other = meant(name, public)
    hint = f"write .{other}(...)" if other else f"ask one of {', '.join(asked)}"
    raise UnknownMethodError(f"there is no question {name!r}", hint=_OF_FRAMES.get(name, hint))
