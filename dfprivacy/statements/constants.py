"""Constants in a statement: numbers, arithmetic of numbers, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.refusals import Node, Refusal
from dfprivacy.statements.tree import arguments, called, literal

_MOST_DIGITS = 400


def number(node: Node, what: str) -> int | float:
    """Return the number that a constant expression stands for.

    Raises
    ------
    RefusedStatementError
        For anything but numbers, signs, parentheses, +, -, * and /.
    """
    exact = _exact(node, what)
    if exact.denominator == 1:
        return int(exact)
    return float(exact)


def numbers(node: Node, what: str) -> list[int | float]:
    """Return the numbers of a list in brackets.

    Raises
    ------
    RefusedStatementError
        For anything but a list of constants.
    """
    if called(node) != "list_value":
        raise _not_constant(what)
    return [number(item, what) for item in arguments(node)]


def whole_number(node: Node, what: str) -> int:
    """Return a number of rows, 0 or more.

    Raises
    ------
    RefusedStatementError
        For anything else.
    """
    sort, text = literal(node)
    if sort == "INTEGER" and text.isdecimal():
        return int(text)
    raise _not_constant(what)


def _exact(node: Node, what: str) -> Fraction:
    sort, text = literal(node)
    if sort in {"INTEGER", "NUMERIC"}:
        return _read(text.replace("_", ""), what)
    if called(node) not in {"+", "-", "*", "/"}:
        raise _not_constant(what)
    return _combined(called(node), [_exact(item, what) for item in arguments(node)], what)


def _combined(sign: str, given: Sequence[Fraction], what: str) -> Fraction:
    if len(given) == 1 and sign in {"+", "-"}:
        return given[0] if sign == "+" else -given[0]
    if len(given) != 2 or (sign == "/" and not given[1]):
        raise _not_constant(what)
    left, right = given
    if sign == "/":
        return left / right
    if sign == "*":
        return left * right
    return left + right if sign == "+" else left - right


def _read(text: str, what: str) -> Fraction:
    digits, _, power = text.lower().partition("e")
    size = power.lstrip("+-")
    if len(digits) > _MOST_DIGITS or len(size) > 3 or (size and int(size) > _MOST_DIGITS):
        raise _not_constant(what)
    try:
        return Fraction(text)
    except ValueError:
        raise _not_constant(what) from None


def _not_constant(what: str) -> RefusedStatementError:
    return Refusal(
        f"{what} that is no constant number",
        "noise and bounds are fixed before a row is read",
        "write numbers that you know without looking at the data: dp_mean(x, 0, 100, 0.5), "
        "dp_quantiles(x, [0.25, 0.75]), dp_keep(1e-6), LIMIT 10",
    ).error()
