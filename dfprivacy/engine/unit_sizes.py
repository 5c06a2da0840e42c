"""How much each privacy unit has: in how many groups it is, and its most rows in one of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import key_expressions
from dfprivacy.engine.public_keys import known_units
from dfprivacy.engine.run import exact_table
from dfprivacy.engine.units import UNIT
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.sums import key_name

_ROWS, _GROUPS, _UNITS = "rows", "groups", "units"


def unit_sizes(adopted: Adopted, labels: Sequence[Hashable]) -> tuple[Integers, Integers, Integers]:
    """Return most rows in one group, number of groups, and how many units have both. Secret.

    Raises
    ------
    UnsupportedDtypeError
        When a column's declared dtype does not allow it.
    EngineError
        When the engine fails; the message says nothing of the data.
    """
    table = exact_table(adopted, partial(_build, labels=labels), [_ROWS, _GROUPS])
    rows, groups, counts = (
        np.asarray(table.column(name).to_numpy(), dtype=np.int64)
        for name in (_ROWS, _GROUPS, _UNITS)
    )
    return rows, groups, counts


def _build(adopted: Adopted, labels: Sequence[Hashable]) -> nw.LazyFrame[Any]:
    names = [key_name(index) for index in range(len(labels))]
    frame = known_units(adopted.lazy.select(*key_expressions(adopted, labels)), adopted)
    pairs = frame.group_by(UNIT, *names).agg(nw.len().cast(nw.Int64).alias(_ROWS))
    units = pairs.group_by(UNIT).agg(
        nw.col(_ROWS).max(), nw.len().cast(nw.Int64).alias(_GROUPS)
    )  # fmt: skip
    return units.group_by(_ROWS, _GROUPS).agg(nw.len().cast(nw.Int64).alias(_UNITS))
