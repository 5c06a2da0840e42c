"""Reports as an Arrow table: protocol, user, group and value; four numbers an owner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dfprivacy.local.sheet import Sheet
from dfprivacy.local.users import Integers

COLUMNS = ("protocol", "user", "group", "value")


@dataclass(frozen=True)
class Rows:
    """Room for reports, filled from the top."""

    users: Integers
    groups: Integers
    values: Integers

    @classmethod
    def of(cls, size: int, width: int) -> Rows:
        """Return room for `size` reports: of a number each, or of `width` where it is not 0."""
        shape = (size, width) if width else (size,)
        return cls(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(shape, np.int64))

    def after(self, start: int) -> Rows:
        """Return what is left of the room behind the first rows."""
        return Rows(self.users[start:], self.groups[start:], self.values[start:])

    def table(self, size: int, sheet: Sheet) -> pa.Table:
        """Return the first rows as a table."""
        protocol = np.full(size, sheet.fingerprint)
        values = self.values[:size]
        return pa.table(
            {
                "protocol": protocol,
                "user": self.users[:size],
                "group": self.groups[:size],
                "value": value_column(values),
            }
        )


def value_column(values: Integers) -> pa.Array:
    """Return reported values as Arrow: numbers, or lists of one length."""
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
