"""Compare answers without noise with those of DuckDB."""

import math
from decimal import Decimal


def require_same_rows(ours, theirs, *, ordered, rel=1e-3, off=0.5):
    """Require DuckDB's names and rows, in its order or in any, and numbers but for some rest."""
    assert ours.columns == theirs.columns
    rows, expected = ours.fetchall(), theirs.fetchall()
    if not ordered:
        rows, expected = sorted(rows, key=repr), sorted(expected, key=repr)
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        assert is_close(row, other, rel, off), (row, other)


def is_close(value, other, rel, off):
    """Return whether a value is DuckDB's: NaN stands for NULL, and a note for nothing."""
    if isinstance(other, list | tuple):
        return all(is_close(*pair, rel, off) for pair in zip(value, other, strict=True))
    if isinstance(other, dict):
        value = dict(value)  # a map may be a list of pairs
        return all(is_close(value[name], part, rel, off) for name, part in other.items())
    if isinstance(value, float) and (other is None or math.isnan(other)):
        return math.isnan(value)
    if isinstance(value, float | Decimal) or isinstance(other, float | Decimal):
        return math.isclose(value, other, rel_tol=rel, abs_tol=off)
    return value == other
