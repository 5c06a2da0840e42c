"""One report a user, whatever the order in which reports arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.local.sheet import Sheet
from dfprivacy.local.users import Integers


@dataclass(frozen=True)
class Distinct:
    """Reports of different users, and the users who are barred for two different reports."""

    users: Integers
    groups: npt.NDArray[np.int32]
    values: Integers
    barred: Integers


def settled(pieces: Sequence[Distinct], sheet: Sheet) -> Distinct:
    """Return several pieces as one.

    Equal reports of a user count once; a user with two different ones is barred, with all of
    theirs, from here on.
    """
    width = (sheet.reported_width,) if sheet.reported_width else ()
    users = np.concatenate([np.empty(0, np.int64), *(piece.users for piece in pieces)])
    groups = np.concatenate([np.empty(0, np.int32), *(piece.groups for piece in pieces)])
    values = np.concatenate([np.empty((0, *width), np.int64), *(p.values for p in pieces)])
    barred = np.unique(np.concatenate([np.empty(0, np.int64), *(p.barred for p in pieces)]))
    if not _all_different(users, sheet):
        order, clashing = _unique(users, values)
        users, groups, values = users[order], groups[order], values[order]
        barred = np.union1d(barred, clashing)
    if len(barred):
        kept = ~np.isin(users, barred)
        users, groups, values = users[kept], groups[kept], values[kept]
    return Distinct(users, groups, values, barred)


def _all_different(users: Integers, sheet: Sheet) -> bool:
    if sheet.named:
        return bool(np.all(users[1:] > users[:-1]))
    if len(users) > sheet.users:
        return False
    seen = np.zeros(sheet.users, bool)
    seen[users] = True
    return int(np.count_nonzero(seen)) == len(users)


def _unique(users: Integers, values: Integers) -> tuple[Integers, Integers]:
    """Return where one report of each user is, and the users whose reports differ."""
    order = np.argsort(users, kind="stable")
    again = np.flatnonzero(users[order[1:]] == users[order[:-1]])
    differs = _differ(values[order[again]], values[order[again + 1]])
    first = np.ones(len(users), bool)
    first[again + 1] = False
    return order[first], np.unique(users[order[again[differs]]])


def _differ(some: Integers, others: Integers) -> npt.NDArray[np.bool_]:
    unlike: Any = some != others
    return np.asarray(unlike if unlike.ndim == 1 else unlike.any(axis=1))
