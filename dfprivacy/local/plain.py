"""What a protocol counts is a plain integer: JSON also writes 1 as 1.0, and true equals it."""

from __future__ import annotations

from dfprivacy.errors import InvalidProtocolError


def is_whole(value: object, least: int, most: int) -> bool:
    """Tell whether a value is an integer of a range, of no other type that equals one.

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
