"""Questions to Ibis tables and Spark frames, and to other frames of the same rows."""

import numpy as np
import pandas as pd
import pyarrow as pa

import dfprivacy as dfp

SUMS = {
    "rows": dfp.count(),
    "texts": dfp.count("g"),
    "variance": dfp.std("x", (-60.0, 61.5)),
    "total": dfp.sum("x", (-7, 100)),
    "whole": dfp.mean("i", (-9, 100)),
}
RELEASES = {
    "moments": lambda f: f.agg(
        n=dfp.count(), s=dfp.sum("x", (0, 9)), m=dfp.mean("x", (0, 9)), v=dfp.var("x", (0, 9)),
        d=dfp.std("x", (0, 9)), rho=0.5,
    ),
    "without bounds": lambda f: f.agg(m=dfp.mean("x"), s=dfp.sum("i"), d=dfp.std("x"), epsilon=2),
    "ranks": lambda f: f.agg(
        m=dfp.median("x"), q=dfp.quantile("x", 0.9), t=dfp.quantiles("i", [0.2, 0.4]), epsilon=2
    ),
    "center": lambda f: f.center("x", 2, epsilon=2),
    "bounds": lambda f: f.bounds("x", epsilon=2),
    "histogram": lambda f: f.histogram("x", bins=3, epsilon=2),
    "description": lambda f: f(bounds={"x": (0, 9)}).describe(["x", "i", "g"], rho=2, delta=1e-3),
    "by group": lambda f: f.group_by("g").agg(
        n=dfp.count(), m=dfp.mean("x"), q=dfp.median("x"), epsilon=9, delta=1e-3
    ),
    "listed": lambda f: f.group_by("g", keys=["b", "zz", None]).var("x", bounds=(0, 9)),
    "histogram by group": lambda f: f.group_by("g").histogram(
        "x", bins=3, bounds=(0, 9), delta=1e-3
    ),
}  # fmt: skip


def of_units(max_groups):
    """Return a release by group that protects users, who are in at most so many groups."""
    return lambda f: f(unit="u", max_rows=2, max_groups=max_groups).group_by("g").mean(
        "x", bounds=(0, 9), epsilon=9, delta=1e-3
    )  # fmt: skip


def many_rows():
    """Return 6,000 rows of 400 users in 4 groups, with values of all magnitudes."""
    generator = np.random.default_rng(1)
    size = 6_000
    x = generator.normal(40, 60, size) * 2.0 ** generator.integers(-3, 60, size)
    x[::97], x[::101], x[::103], x[::107] = np.nan, np.inf, -0.0, 5e-324
    return pa.table(
        {
            "g": generator.choice(["a", "b", "c", None], size).tolist(),
            "x": x,
            "i": generator.integers(-(2**62), 2**62, size),
            "u": generator.integers(0, 400, size),
            "f": generator.choice([0.0, -0.0, 1.5, np.nan], size),
        }
    )


def shown(released):
    """Return the values of a release, from a frame of any kind."""
    for convert in ("to_pyarrow", "toArrow", "to_arrow_table"):
        released = getattr(released, convert)() if hasattr(released, convert) else released
    if isinstance(released, pd.DataFrame | pa.Table):
        table = pa.table(released) if isinstance(released, pd.DataFrame) else released
        return {name: table[name].to_pylist() for name in table.column_names}
    values = released.values() if isinstance(released, dict) else released
    return list(map(float, values)) if isinstance(values, list | tuple) else repr(values)
