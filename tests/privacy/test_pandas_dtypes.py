"""Value columns of a pandas frame: which dtypes have numbers, and what is missing in them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp

NUMBERS = [
    "int8", "uint64", "float16", "float32", "longdouble", ">f8", ">i4", "bool", "Int8", "Float32",
    "boolean", "Sparse[float64]", "Sparse[int64]", "Sparse[bool]", "double[pyarrow]",
    "uint8[pyarrow]", "bool[pyarrow]",
]  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS)
def test_columns_of_all_dtypes_of_numbers_have_a_mean(dtype):
    """A column of numbers or booleans is aggregated whatever dtype holds them, with rows or none.

    The mean that is released without noise to speak of is that of the column.
    """
    full = pd.Series([False, True, True, True] * 100).astype(dtype)
    assert dfp.frame(pd.DataFrame({"x": full})).mean("x", (0, 1), epsilon=1e12) == pytest.approx(
        0.75, abs=1e-6
    )
    empty = dfp.frame(pd.DataFrame({"x": full.iloc[:0]}))
    assert empty.count("x", epsilon=1e12) == 0
    assert abs(empty.sum("x", (0, 1), epsilon=1e12)) < 1e-6


@pytest.mark.parametrize("dtype", ["complex128", "Sparse[complex128]", "timedelta64[ns]", object])
def test_columns_without_numbers_are_refused(dtype):
    """A dtype that holds no real numbers is refused by its name, with rows or without."""
    for rows in ([], [0, 1]):
        frame = pd.DataFrame({"x": pd.Series(rows, dtype="int64").astype(dtype)})
        with pytest.raises(dfp.UnsupportedDtypeError):
            dfp.frame(frame).mean("x", (0, 1))


@pytest.mark.filterwarnings("error")
def test_a_long_number_warns_of_nothing():
    """A number beyond 64-bit floats is infinite by itself; no warning tells that it is there."""
    large = np.array([1, 0] * 50 + ["1e4000"], dtype=np.longdouble)
    private = dfp.frame(pd.DataFrame({"x": large}))
    assert private.mean("x", (0, 1), epsilon=1e12) == pytest.approx(51 / 101, abs=1e-6)


NAN = [float("nan")] * 5 + [1.0] * 5
MISSING = {
    "float64": pd.Series(NAN),
    "Float64": pd.Series([0.0] * 5 + [1.0] * 5, dtype="Float64").pipe(lambda x: x / x),
    "arrow": pd.Series(pd.array(pa.array(NAN), dtype=pd.ArrowDtype(pa.float64()))),
    "arrow, NULL as well": pd.Series(
        pd.array(pa.array([None, *NAN[1:]], pa.float32()), dtype=pd.ArrowDtype(pa.float32()))
    ),
    "half floats": pd.Series(NAN, dtype="float16"),
    "half floats of Arrow": pd.Series(NAN, dtype="float32").astype("halffloat[pyarrow]"),
    "sparse": pd.Series(NAN, dtype="Sparse[float64]"),
    "category": pd.Series(NAN, dtype="category"),
    "objects": pd.Series(NAN, dtype=object),
}


@pytest.mark.parametrize("kind", MISSING)
def test_nan_is_no_value_to_count(kind):
    """A count of a column leaves NaN out, alone or beside a mean."""
    private = dfp.frame(pd.DataFrame({"x": MISSING[kind]}))
    assert private.count("x", epsilon=1e12) == 5
    if kind not in {"category", "objects"}:
        both = private.agg(n=dfp.count("x"), m=dfp.mean("x", (0, 2)), epsilon=1e12)
        assert (both["n"], both["m"]) == (5, pytest.approx(1.0, abs=1e-6))
