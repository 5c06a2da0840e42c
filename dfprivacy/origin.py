"""What a released frame cost, kept beside the frame for as long as it lives.

A frame by group is a plain frame of the caller's own type and has no place for its cost. Only the
object that a release has returned is known here: a copy or a selection of it is another frame.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dfprivacy.accounting.charge import Charge
from dfprivacy.release import Release

Frame = TypeVar("Frame")


@dataclass(frozen=True)
class Origin:
    """The question, the cost and the level of intervals behind a frame, and its key columns."""

    question: str
    cost: str
    level: float | None
    keys: tuple[str, ...]
    about: str = ""

    @classmethod
    def of(
        cls, charge: Charge, level: float, keys: Sequence[object], *, about: object = ""
    ) -> Origin:
        """Return the origin of what a charge has paid for; `about` names the column asked about."""
        cost = Release(charge.loss, float(charge.delta), level).cost
        return cls(charge.question, cost, level, tuple(map(str, keys)), str(about))


_KNOWN: dict[int, tuple[weakref.ref[Any], Origin]] = {}


def with_origin(frame: Frame, origin: Origin) -> Frame:
    """Keep the origin of a frame until the frame is gone, and return the frame as it is."""
    place = id(frame)

    def drop(gone: weakref.ref[Any]) -> None:
        if place in _KNOWN and _KNOWN[place][0] is gone:
            del _KNOWN[place]

    _KNOWN[place] = (weakref.ref(frame, drop), origin)
    return frame


def origin_of(frame: object) -> Origin | None:
    """Return the origin of a frame that a release has returned; None for any other."""
    known = _KNOWN.get(id(frame))
    return known[1] if known is not None and known[0]() is frame else None
