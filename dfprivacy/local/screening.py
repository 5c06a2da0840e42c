"""Which reports of a batch are reports of this round at all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dfprivacy.local.distinct import Distinct
from dfprivacy.local.reading import Batch
from dfprivacy.local.sheet import Sheet
from dfprivacy.local.users import Integers

Mask = npt.NDArray[np.bool_]

REASONS = ("malformed", "protocol", "user", "group", "value")
BLOCK = 2**16


def screened(sheet: Sheet, batch: Batch) -> tuple[Distinct, dict[str, int]]:
    """Return the reports that pass, and how many do not, by the first reason against each."""
    good = np.empty(len(batch.users), bool)
    groups = np.empty(len(batch.users), np.int32)
    rejected = dict.fromkeys(REASONS, 0) | {"malformed": batch.malformed}
    for start in range(0, len(good), BLOCK):
        block = slice(start, start + BLOCK)
        rows = batch.rows(block)
        own = sheet.groups(sheet.words(rows.users))
        good[block], groups[block] = _passing(sheet, rows, own, rejected), own
    nobody = np.empty(0, np.int64)
    if good.all():
        return Distinct(batch.users, groups, batch.values, nobody), rejected
    return Distinct(batch.users[good], groups[good], batch.values[good], nobody), rejected


def _passing(sheet: Sheet, batch: Batch, groups: Integers, rejected: dict[str, int]) -> Mask:
    good = batch.protocols == sheet.fingerprint
    rejected["protocol"] += len(good) - int(np.count_nonzero(good))
    known = batch.users >= 0
    if not sheet.named:
        known &= batch.users < sheet.users
    good = _and(rejected, "user", good, known)
    good = _and(rejected, "group", good, (groups == batch.groups) & (groups >= 0))
    return _and(rejected, "value", good, _possible(sheet, groups, batch.values))


def _possible(sheet: Sheet, groups: Integers, values: Integers) -> Mask:
    if len(sheet.parts) == 1:
        return sheet.parts[0].law.possible(values)
    possible = np.zeros(len(groups), bool)
    for part in sheet.parts:
        mine = (groups >= part.first) & (groups < part.last)
        possible |= mine & part.law.possible(values)
    return possible


def _and(rejected: dict[str, int], reason: str, good: Mask, more: Mask) -> Mask:
    both = good & more
    rejected[reason] += int(np.count_nonzero(good)) - int(np.count_nonzero(both))
    return both
