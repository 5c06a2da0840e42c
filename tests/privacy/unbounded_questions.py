"""Questions without bounds, and frames of a few groups of rows to ask them about."""

import polars as pl

import dfprivacy as dfp

ASKED = {
    "mean": {"x": dfp.mean("x")},
    "sum": {"x": dfp.sum("x")},
    "var": {"x": dfp.var("x")},
    "mean and var": {"m": dfp.mean("x"), "v": dfp.var("x")},
    "std and count": {"x": dfp.std("x"), "n": dfp.count("x")},
    "several": {"m": dfp.mean("x"), "s": dfp.sum("x"), "v": dfp.var("x"), "n": dfp.count()},
    "two columns": {"m": dfp.mean("x"), "i": dfp.mean("i"), "n": dfp.count("i")},
    "bounds": {"b": dfp.mean("x", (0, 1)), "x": dfp.sum("x")},
}


def frame(values, groups="a"):
    """Return rows of one group, or of several named groups."""
    named = {groups: values} if isinstance(groups, str) else dict(zip(groups, values, strict=True))
    g = [name for name, group_values in named.items() for _ in group_values]
    x = [value for group_values in named.values() for value in group_values]
    integers = [None if v is None or v != v else int(max(min(v, 2**62), -(2**62))) for v in x]
    return pl.DataFrame(
        {"g": g, "x": x, "i": integers}, schema={"g": pl.String, "x": pl.Float64, "i": pl.Int64}
    )


KINDS = {
    "polars": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "arrow": lambda table: table.to_arrow(),
}
