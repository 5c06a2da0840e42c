"""What was probably meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import NoReturn

from dfprivacy.errors import UnknownMethodError
from dfprivacy.statistics import STATISTICS

_ELSEWHERE = {
    "groupby": "group_by",
    "mode": "histogram",
    "nunique": "group_by",
    "value_counts": "group_by",
}
"""What other libraries call it, or what comes nearest to it here."""


def meant(name: str, known: Collection[str]) -> str | None:
    """Return the known name that was probably meant, if any comes near."""
    theirs = {alias: kind for kind, own in STATISTICS.items() for alias in own.aliases}
    near = [{**_ELSEWHERE, **theirs}.get(name, ""), *get_close_matches(name, known, 1)]
    return next((other for other in near if other in known), None)


def unknown(owner: object, name: str) -> NoReturn:
    """Refuse a name that `owner` does not have.

    Raises
    ------
    UnknownMethodError
        Always; it is an AttributeError too, so that `hasattr` and tools that probe still work.
    """
    kind = type(owner)
    if name.startswith("_"):
        message = f"{kind.__name__!r} object has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=owner)
    public = [known for known in dir(owner) if not known.startswith("_")]
    asked = [known for known in public if known not in {"explain", "local", "shuffle"}]
    other = meant(name, public)
    raise UnknownMethodError(
        f"there is no question {name!r}",
        hint=f"write .{other}(...)" if other else f"ask one of {', '.join(asked)}",
    )
