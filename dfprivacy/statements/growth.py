"""How much longer than what a row holds the values of an expression can get: by a public factor.

An engine that runs out of memory ends the query, and that it ended tells something about a row. So
what could make a value of any size out of a small one is refused, by the text alone: every value in
an expression has at most `_FACTOR` times the characters of the longest value in the row, plus
`_LENGTH`.

The bound of a text is read off its tokens, from the innermost parentheses outwards. It adds up all
that stands between two parentheses; a condition counts nothing, and a call that can repeat what it
is given multiplies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Refusal

_FACTOR = 1_000
_LENGTH = 200_000

_WORD = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()\[\],]|[^\s'"()\[\],]+""")
_CONDITIONS = frozenset(
    ("=", "!=", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE",
     "GLOB", "~", "^@")
)  # fmt: skip
_DATE = 40
"""What a sign of a date's format stands for has fewer characters."""


@dataclass
class _Size:
    """A bound: so many times the longest value in the row, and so many characters.

    `exact` is the length of an argument that is one constant, which is all there is to it.
    """

    factor: int = 0
    length: int = 0
    tokens: int = 0
    exact: int | None = None

    def add(self, factor: int, length: int, exact: int | None = None) -> None:
        """Put one thing more into what is bounded."""
        self.factor += factor
        self.length += length
        self.exact = exact if self.tokens == 0 else None
        self.tokens += 1

    def times(self, number: int, more: int = 0) -> _Size:
        """Return the bound of so many of the same, and of more characters."""
        return _Size(self.factor * number, self.length * number + more)


@dataclass
class _Group:
    """What stands between two parentheses, after the name of a function if there is one."""

    name: str = ""
    arguments: list[_Size] = field(default_factory=lambda: [_Size()])
    condition: bool = False
    texts: bool = False

    @property
    def total(self) -> _Size:
        """The bound of all arguments one after the other."""
        return _Size(
            sum(size.factor for size in self.arguments), sum(size.length for size in self.arguments)
        )

    def size(self) -> _Size:
        """Return the bound of the value that it stands for."""
        rule = _RULES.get(self.name)
        if rule is not None:
            return rule(self)
        return _Size() if self.condition else self.total


def _replaced(group: _Group) -> _Size:
    """Bound replace(text, what, by): `what` has one character at least, or nothing is replaced."""
    text, what, by, *_ = [*group.arguments, _Size(), _Size()]
    if by.factor:
        raise _too_long()
    return text.times(max(-(-by.length // (what.exact or 1)), 1))


def _matched(group: _Group) -> _Size:
    """Bound regexp_replace(text, pattern, by): each sign of `by` may stand for the whole text."""
    _, _, by, *_ = [*group.arguments, _Size(), _Size()]
    if by.factor:
        raise _too_long()
    return group.total.times(1 + by.length, by.length)


def _joined(group: _Group) -> _Size:
    """Bound concat_ws(between, ...)."""
    between, total = group.arguments[0].times(len(group.arguments)), group.total
    return _Size(total.factor + between.factor, total.length + between.length)


def _cast(group: _Group) -> _Size:
    """Bound a cast: as a text, a list shows each of its texts with signs escaped."""
    return group.total.times(2 if group.texts else 1, _DATE)


_RULES: Mapping[str, Callable[[_Group], _Size]] = {
    "replace": _replaced,
    "regexp_replace": _matched,
    "concat_ws": _joined,
    "strftime": lambda group: group.total.times(_DATE),
    "cast": _cast,
    "try_cast": _cast,
}


def check_growth(sql: str) -> None:
    """Refuse an expression, as this package writes it, that could make values of any size.

    Raises
    ------
    RefusedStatementError
        The same on any rows.
    """
    groups, before = [_Group()], ""
    for word in _WORD.findall(sql):
        if word in "([":
            groups.append(_Group(before))
        elif word in ")]":
            _close(groups)
        else:
            _take(groups[-1], word)
        before = folded(word)
    _close([_Group(), *groups])


def _close(groups: list[_Group]) -> None:
    size = groups.pop().size()
    if size.factor > _FACTOR or size.length > _LENGTH:
        raise _too_long()
    groups[-1].arguments[-1].add(size.factor, size.length)


def _take(group: _Group, word: str) -> None:
    argument = group.arguments[-1]
    if word.startswith("'"):
        length = len(word[1:-1].replace("''", "'"))
        argument.add(0, length, length)
    elif word.startswith('"'):
        argument.add(1, 0)
    elif word == ",":
        group.arguments.append(_Size())
    elif word in _CONDITIONS:
        group.condition = True
    else:
        group.texts = group.texts or word == "VARCHAR"
        argument.add(0, 0)


def _too_long() -> RefusedStatementError:
    return Refusal(
        "an expression whose value grows too long",
        "an engine that runs out of memory on one row would say something about that row",
        "replace by a short constant, replace(city, ',', ', '), or prepare a table first: "
        "CREATE TABLE prepared AS SELECT ...",
    ).error()
