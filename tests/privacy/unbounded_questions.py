"""Frames of a few groups of rows, for questions without bounds."""

import polars as pl


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
