"""Column labels, as a frame's own list of columns has them."""

from __future__ import annotations

from collections.abc import Hashable

from dfprivacy.accounting.exact import describe
from dfprivacy.errors import InvalidQuestionError


def label_of(column: object) -> Hashable:
    """Return a column's label, as the frame's own list of columns has it.

    Raises
    ------
    InvalidQuestionError
        For an expression, a list or a column itself.
    """
    if _is_hashable(column) and not hasattr(column, "__array__"):
        return column
    raise InvalidQuestionError(
        f"a column is named by its label, not by {describe(column)}",
        hint='pass its name, e.g. "income"; compute new columns on the frame first, row by row',
    )


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
