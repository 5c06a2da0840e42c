"""Frames that calls with a wrong argument are made on, and how these are refused."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

SECRET = 271_828_182
FRAME = pl.DataFrame({"g": ["a", "b"] * 50, "x": [float(SECRET)] * 100})
ASKS = {
    "count": lambda private, **terms: private.count(**terms),
    "mean": lambda private, **terms: private.mean("x", (0, 1), **terms),
    "var": lambda private, **terms: private.var("x", (0, 1), **terms),
    "sum": lambda private, **terms: private.sum("x", (0, 1), **terms),
    "agg": lambda private, **terms: private.agg(dfp.count(), **terms),
    "by group": lambda private, **terms: private.group_by("g", keys=["a"]).count(**terms),
    "secret keys": lambda private, **terms: private.group_by("g").mean(
        "x", (0, 1), **{"delta": 0.1, **terms}
    ),
}

NO_NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    0.0,
    -0.0,
    True,
    False,
    "1",
    b"1",
    1j,
    [1],
    (1,),
    {},
    object(),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Fraction(0),
    np.float64("nan"),
    np.float32("inf"),
    np.bool_(True),
    np.array(1.0),
    np.array([1.0]),
    5e-324,
    1e-300,
    1e308,
    2.0**61,
    10**400,
    pd.NA,
    pd.Series([float(SECRET)]),
    pl.Series([float(SECRET)]),
    pl.col("x"),
    FRAME,
    lambda: 1,
    print,
]


def require_refusal(work, entropy_calls, kinds, match=None):
    """Check that the call raises our error, draws nothing and says nothing of the data."""
    with pytest.raises(kinds, match=match) as caught:
        work()
    assert isinstance(caught.value, dfp.DPError)
    assert entropy_calls == []
    assert str(SECRET) not in str(caught.value)
    assert "Hint:" in str(caught.value)
