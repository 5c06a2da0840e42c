"""Write protocols of both models as JSON, read them back in full, plan them from arguments.

A protocol has a plan: a method, and its estimates so far. Both are frozen and public.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from dfprivacy.errors import InvalidBoundsError, InvalidProtocolError
from dfprivacy.measurement.exact import describe, number_within, whole_number
from dfprivacy.noise.entropy import fresh_id

MOST_USERS = 2**33


class Record:
    """A frozen dataclass of plain numbers, texts and tuples that is written as JSON."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of the kind and all fields, tuples as lists."""
        values = {field_.name: getattr(self, field_.name) for field_ in fields(self)}  # type: ignore[arg-type]  # a dataclass
        json_values = {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}
        return {"kind": self.kind, **json_values}


def _has_type(value: object, hint: Any) -> bool:
    """Check whether a field is of its declared type: a plain one, None, or a tuple of one."""
    if get_origin(hint) is tuple:
        return type(value) is tuple and all(_has_type(entry, get_args(hint)[0]) for entry in value)
    return type(value) in (get_args(hint) or (hint,)) or (
        type(value) is tuple and any(_has_type(value, member) for member in get_args(hint))
    )


class Plan(Record, abc.ABC):
    """A method and its results so far. Each model lists its own methods in `kinds`."""

    kinds: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            cls.kinds[cls.kind] = cls

    @classmethod
    def from_json(cls, fields_: Mapping[str, Any]) -> Self:
        """Return the plan that `to_json` has written. A field of another type is refused."""
        values = {
            n: tuple(v) if isinstance(v, list) else v for n, v in fields_.items() if n != "kind"
        }
        plan: Self = cls.kinds[fields_["kind"]](**values)
        hints = get_type_hints(type(plan))
        names = [field_.name for field_ in fields(plan)]  # type: ignore[arg-type]  # a dataclass
        if not all(_has_type(getattr(plan, name), hints[name]) for name in names):
            raise no_plan()
        return plan

    @abc.abstractmethod
    def advance(self, protocol: Any, counts: Any, /) -> Self:
        """Return the plan with the results of a round, from its summed reports."""

    def half_width(self, protocol: Any, level: float) -> float | None:  # noqa: ARG002 one interface
        """Return half the width of the interval, where it is known before there are reports."""
        return None


class Published(abc.ABC):
    """A protocol of either model: JSON both ways, one round at a time."""

    FORMAT: ClassVar[str]
    round: int
    plan: Any

    @abc.abstractmethod
    def terms(self) -> dict[str, Any]:
        """Return the published terms besides the round and the plan."""

    @classmethod
    @abc.abstractmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return the protocol of a JSON object, checked as a new one is."""

    def half_width(self, level: float) -> float | None:
        """Return half the width of the interval, where it is known before there are reports."""
        half: float | None = self.plan.half_width(self, level)
        return half

    def to_json(self) -> str:
        """Return the protocol as JSON, for the analyst to publish. The same text every time."""
        fields = {"format": self.FORMAT, "round": self.round, "plan": self.plan.to_json()}
        return json.dumps(fields | self.terms(), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the protocol that `to_json` has written, if that is all that the text says.

        Raises
        ------
        InvalidProtocolError
            When the text is no protocol.
        """
        with suppress(*_UNREADABLE):
            fields = json.loads(text)
            protocol = cls.read(fields)
            if protocol.to_json() == json.dumps(fields, sort_keys=True):
                return protocol
        raise InvalidProtocolError(
            f"{describe(text)} is no protocol, or was changed",
            hint="pass the text that protocol.to_json() has returned",
        )


_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""Errors of reading a text that is no protocol."""


def is_whole(value: object, lower: int, upper: int) -> bool:
    """Check whether a value is an integer of a range, of no other type that equals one.

    JSON also writes 1 as 1.0, and true equals it.

    >>> is_whole(1, 1, 2), is_whole(1.0, 1, 2), is_whole(True, 1, 2)
    (True, False, False)
    """
    return type(value) is int and lower <= value <= upper


def is_radius(value: object) -> bool:
    """Check whether a value is a length that floats can square."""
    return type(value) is float and 2.0**-300 <= value <= 2.0**300


def no_plan() -> InvalidProtocolError:
    """Return the error for a plan with numbers that no planning and no round leads to."""
    return InvalidProtocolError(
        "the plan is none that can be made, or that reports lead to",
        hint="plan with dfp.local or dfp.shuffle, and take each next round from its aggregate",
    )


def user_count(users: object) -> int:
    """Return the public number of users."""
    message = "the number of users is a whole number from 1 to 2**33"
    hint = "pass how many users there are: users=100_000"
    return whole_number(users, 1, MOST_USERS, InvalidProtocolError, message, hint=hint)


def vector_radius(radius: object) -> float:
    """Return the greatest length of a vector, a number that floats can square."""
    what = "the radius must be a positive, finite number"
    hint = "pass the greatest length that a vector can have: radius=100.0"
    smallest, largest = Fraction(1, 2**300), 2**300
    return float(number_within(radius, smallest, largest, InvalidBoundsError, what, hint=hint))


def campaign_name(campaign: object) -> str:
    """Return the name of a campaign. A new random one for None."""
    if campaign is None:
        return f"survey-{fresh_id(8)}"
    if not isinstance(campaign, str) or not campaign or len(campaign) > 200:
        raise InvalidProtocolError(
            "a campaign has a name of 1 to 200 characters", hint='pass campaign="commuting 2026"'
        )
    return campaign
