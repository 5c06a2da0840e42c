"""Find the loss that brings half-widths down to a target: the least one with three digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dfprivacy.accounting.charge import short
from dfprivacy.accounting.exact import decimal_number, describe, exact_number
from dfprivacy.errors import InvalidLossError, InvalidQuestionError
from dfprivacy.frames.explanation import Explanation
from dfprivacy.release.terms import Terms
from dfprivacy.statistics.forecast import SIZES, Forecast

SIZE = 1000
"""The size of group that a target is for where none is named."""

_PERCENT = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(%?)\s*\Z")
_LEAST, _DECADES, _STEPS = -9, 12, 900  # 1e-9 to 999, in 900 steps of three digits a decade

Making = Callable[[Terms, tuple[int, ...]], Explanation]
"""Explains a release with terms that name a loss, with half-widths for groups of some sizes."""


@dataclass(frozen=True)
class Within:
    """A half-width that an answer should reach: in its own unit, or as a part of what is 100 %."""

    amount: Fraction
    relative: bool

    def __str__(self) -> str:
        """Show it as it was named."""
        return f"{short(100 * self.amount)}%" if self.relative else short(self.amount)


@dataclass(frozen=True)
class Target:
    """What half-widths should be in groups of `size` rows: of each answer by name, "" for all.

    >>> target_of("2%", 500)
    Target(within={'': Within(amount=Fraction(1, 50), relative=True)}, size=500)
    """

    within: Mapping[str, Within]
    size: int = SIZE


def target_of(within: object, size: object = SIZE) -> Target:
    """Return the target that a caller named.

    Raises
    ------
    InvalidQuestionError
        When it is no half-width, or the size is no number of rows.
    """
    exact = exact_number(size)
    if exact is None or exact.denominator != 1 or not 1 <= exact <= 10**12:
        raise InvalidQuestionError(
            f"size must be a number of rows, from 1 on, not {describe(size)}",
            hint="name the rows of the group that matters, e.g. size=1000",
        )
    named = within if isinstance(within, Mapping) else {"": within}
    if not named:
        raise InvalidQuestionError("within names no answer", hint="pass e.g. within=2.0")
    return Target({str(name): _within(own) for name, own in named.items()}, int(exact))


def _within(given: object) -> Within:
    amount, relative = decimal_number(given), False
    if isinstance(given, str) and (found := _PERCENT.match(given)):
        try:
            amount, relative = Fraction(found[1]), bool(found[2])
        except ValueError:
            amount = None
    if amount is None or amount <= 0:
        raise InvalidQuestionError(
            f"within must be a half-width, not {describe(given)}",
            hint="pass a positive number in units of the answer, within=2.0, or a part of what it "
            'can be, within="2%"',
        )
    return Within(amount / 100 if relative else amount, relative)


def solved(target: Target, terms: Terms, explain: Making) -> tuple[Terms, dict[str, str]]:
    """Return terms with the least loss that reaches a target, and which half-width each answer has.

    Of each answer that is the half-width that holds for all data within the bounds, "at most",
    where a loss brings it down to the target; the "ordinary" one where none does. The loss is
    epsilon, or rho where the terms name rho.

    Raises
    ------
    InvalidLossError
        When none of up to 999 does.
    InvalidQuestionError
        When there is no answer of a name, or none with a half-width.
    """
    sizes, top = (target.size,), _DECADES * _STEPS - 1
    chosen = _chosen(target, explain(_with_loss(terms, top), sizes))

    def reached(place: int) -> bool:
        answers = {own.name: own for own in explain(_with_loss(terms, place), sizes).answers}
        return all(
            _reaches(answers[name], target, certain=certain) for name, certain in chosen.items()
        )

    low, high = -1, top
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    words = {name: "at most" if certain else "ordinary" for name, certain in chosen.items()}
    return _with_loss(terms, high), words


def _with_loss(terms: Terms, place: int) -> Terms:
    """Return terms with one of the losses of three digits."""
    decade, step = divmod(place, _STEPS)
    amount = float(Fraction(100 + step) * Fraction(10) ** (decade + _LEAST - 2))
    if terms.rho is not None:
        return replace(terms, rho=amount)
    return replace(terms, epsilon=amount)


def _chosen(target: Target, best: Explanation) -> dict[str, bool]:
    """Return the answers that have a target, and whether by the half-width for all data."""
    known = [own.name for own in best.answers]
    for name in target.within:
        if name and name not in known:
            raise InvalidQuestionError(
                f"within names {name!r}, and there is no such answer",
                hint=f"the answers are {', '.join(map(repr, known))}",
            )
    chosen = {}
    for own in best.answers:
        if _within_of(own, target) is None:
            continue
        if not own.told:
            raise InvalidQuestionError(
                f"{own.name!r} has no half-width before there is data: none can be a target",
                hint='name the answers that matter: within={"rows": 20}',
            )
        certain = _reaches(own, target, certain=True)
        if not certain and not _reaches(own, target, certain=False):
            least = min(half for half in own.certain + own.ordinary if half is not None)
            raise InvalidLossError(
                f"no loss up to 999 brings {own.name!r} within {_within_of(own, target)} in "
                f"{target.size:,} rows: the least is {least:.3g} ({own.unit})",
                hint="name a wider half-width or a larger size",
            )
        chosen[own.name] = certain
    return chosen


def _within_of(own: Forecast, target: Target) -> Within | None:
    return target.within.get(own.name, target.within.get(""))


def _reaches(own: Forecast, target: Target, *, certain: bool) -> bool:
    """Tell whether an answer is within its target, for all data or for ordinary data."""
    within = _within_of(own, target)
    assert within is not None  # noqa: S101 only answers with a target are looked at
    (half,), (whole,) = own.certain if certain else own.ordinary, own.whole
    if not within.relative:
        return half is not None and half <= float(within.amount)
    if whole is None:
        raise InvalidQuestionError(
            f"{own.name!r} has nothing that a half-width could be a percentage of",
            hint=f"name it in {own.unit}: within=0.1",
        )
    return half is not None and half <= float(within.amount * Fraction(whole))


def reached(target: Target | None, terms: Terms, explain: Making) -> Explanation:
    """Return the explanation of a release, with the loss that reaches a target if there is one.

    Half-widths are shown for the size of the target in place of the one nearest to it.
    """
    if target is None:
        return explain(terms, SIZES)
    found, words = solved(target, terms, explain)
    nearest = min(SIZES, key=lambda size: max(size / target.size, target.size / size))
    made = explain(found, tuple(target.size if size == nearest else size for size in SIZES))
    named = [
        f"{name} within {target.within.get(name) or target.within['']} ({which})"
        for name, which in words.items()
    ]
    measure = "epsilon" if found.rho is None else "rho"
    text = f"the least {measure} of three digits for half-widths in {target.size:,} rows: "
    return replace(made, reaches=text + ", ".join(named))
