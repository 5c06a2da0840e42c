"""The charges of a ledger as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

import pandas as pd
import pyarrow as pa

from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA, Measure

SCHEMA = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"),
        "dataset": pa.string(),
        "question": pa.string(),
        "epsilon": pa.float64(),
        "rho": pa.float64(),
        "delta": pa.float64(),
        "note": pa.string(),
        "uuid": pa.string(),
        "version": pa.string(),
    }
)


def history_frame(rows: Sequence[tuple[Any, ...]], measure: Measure) -> pd.DataFrame:
    """Return charges, as the file has them, as a frame of the same types whatever is in them."""
    lines = [dict(zip(SCHEMA.names, _line(row, measure), strict=True)) for row in rows]
    frame: pd.DataFrame = pa.Table.from_pylist(lines, SCHEMA).to_pandas()
    return frame


def _line(row: tuple[Any, ...], measure: Measure) -> tuple[Any, ...]:
    time, dataset, question, asked, amount, cost, delta, note, uuid, code = row
    epsilon = float(Fraction(amount)) if asked == "epsilon" else None
    rho = float(Fraction(cost, PER_ONE)) if measure == "rho" else None
    spent = float(Fraction(delta, PER_ONE_DELTA))
    when = datetime.fromisoformat(time)
    return when, dataset, question, epsilon, rho, spent, note, uuid, code
