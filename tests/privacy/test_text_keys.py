"""Public keys of pandas columns of text: one rule, whatever text the rows are."""

import decimal

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dfp

DTYPES = [
    pd.StringDtype(storage, na) for storage in ("python", "pyarrow") for na in (pd.NA, np.nan)
]
ODD = "\ud800"
"""A text without a UTF-8 form, which only some of these dtypes hold."""


class Word(str):
    """A text that hides another one."""

    __slots__ = ()

    def __str__(self):
        return "b"


def columns(dtype):
    """Return a column without rows, with some, and with one more that has no UTF-8 form."""
    odd = [["a"] * 30 + [ODD]] if dtype.storage == "python" else []
    return [pd.Series(texts, dtype=dtype) for texts in ([], ["a"] * 30, *odd)]


def count_rows(column, public_keys):
    table = pd.DataFrame({"k": column}).dp.group_by("k", keys=public_keys).count(epsilon=1e9)
    return [*table["k"].fillna("NULL")], [*table["count"]]


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.parametrize(
    "key", [b"a", bytearray(b"a"), 1, 1.5, True, ODD, ("a",), decimal.Decimal(1)], ids=ascii
)
def test_what_is_no_text_is_no_key_of_text(dtype, key):
    """A key that is no text, or has no UTF-8 form, is refused in the same words for any rows."""
    messages = set()
    for column in columns(dtype):
        with pytest.raises(dfp.errors.InvalidKeysError) as caught:
            count_rows(column, ["a", key])
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.parametrize("key", ["a", np.str_("a"), Word("a")], ids=lambda key: type(key).__name__)
def test_text_is_a_key_of_text(dtype, key):
    """Text of any class counts the rows that have it; missing keys are NULL in any form."""
    for column, rows in zip(columns(dtype), (0, 30, 30), strict=False):
        for missing in (None, pd.NA, np.nan):
            assert count_rows(column, [key, missing]) == (["a", "NULL"], [rows, 0])


@pytest.mark.parametrize("key", [b"a", 1, True, ODD], ids=ascii)
@pytest.mark.parametrize("kind", ["objects", "categories"])
def test_objects_and_categories_take_keys_as_they_are_written(kind, key):
    """A key that no row has is a group of none, whatever text the other rows are."""
    categories = pd.CategoricalDtype(pd.Index(["a", ODD], dtype=pd.StringDtype("python")))
    for codes in ([], [0] * 30, [0] * 30 + [1]):
        column = pd.Series(pd.Categorical.from_codes(codes, dtype=categories))
        column = column.astype(object) if kind == "objects" else column
        _, counts = count_rows(column, ["a", key])
        assert sorted(counts) == sorted([codes.count(0), codes.count(1) if key == ODD else 0])
