"""Constants in a statement: numbers, arithmetic of numbers, and lists of them."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only

_MOST_DIGITS = 400
_SIGNS = (exp.Add, exp.Sub, exp.Mul, exp.Div)


def number(node: object, what: str) -> int | float:
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


def numbers(node: object, what: str) -> list[int | float]:
    """Return the numbers of a list in brackets.

    Raises
    ------
    RefusedStatementError
        For anything but a list of constants.
    """
    if not isinstance(node, exp.Array):
        raise _not_constant(what)
    only(node, "expressions")
    return [number(item, what) for item in node.expressions]


def whole_number(node: object, what: str) -> int:
    """Return a number of rows, 0 or more.

    Raises
    ------
    RefusedStatementError
        For anything else.
    """
    if isinstance(node, exp.Literal) and not node.args.get("is_string") and node.this.isdecimal():
        return int(node.this)
    raise _not_constant(what)


def _exact(node: object, what: str) -> Fraction:
    if isinstance(node, exp.Paren):
        only(node, "this")
        return _exact(node.this, what)
    if isinstance(node, exp.Neg):
        only(node, "this")
        return -_exact(node.this, what)
    if isinstance(node, _SIGNS):
        only(node, "this", "expression", "typed", "safe")
        return _combined(node, _exact(node.this, what), _exact(node.expression, what), what)
    if isinstance(node, exp.Literal) and not node.args.get("is_string"):
        return _read(str(node.this), what)
    raise _not_constant(what)


def _combined(node: exp.Expression, left: Fraction, right: Fraction, what: str) -> Fraction:
    if isinstance(node, exp.Div) and not right:
        raise _not_constant(what)
    if isinstance(node, exp.Div):
        return left / right
    if isinstance(node, exp.Mul):
        return left * right
    return left + right if isinstance(node, exp.Add) else left - right


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
