"""What all protocols are read by: their text in full, and counts that are plain integers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.exact import describe


class Written(Protocol):
    """What can be written as JSON."""

    def to_json(self) -> str:
        """Return the text."""


T = TypeVar("T", bound=Written)


def read_whole(text: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    """Return what a text says, if that is all that it says.

    Raises
    ------
    InvalidProtocolError
        When the text is no protocol.
    """
    try:
        found = read(json.loads(text))
        whole = found.to_json() == json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise InvalidProtocolError(
            f"{describe(text)} is no protocol, or was changed",
            hint="pass the text that protocol.to_json() has returned",
        )
    return found


def is_whole(value: object, least: int, most: int) -> bool:
    """Tell whether a value is an integer of a range, of no other type that equals one.

    JSON also writes 1 as 1.0, and true equals it.

    >>> is_whole(1, 1, 2), is_whole(1.0, 1, 2), is_whole(True, 1, 2)
    (True, False, False)
    """
    return type(value) is int and least <= value <= most


def no_plan() -> InvalidProtocolError:
    """Return the error for a plan with numbers that no planning and no round leads to."""
    return InvalidProtocolError(
        "the plan is none that can be made, or that reports lead to",
        hint="plan with dfp.local or dfp.shuffle, and take each next round from its aggregate",
    )
