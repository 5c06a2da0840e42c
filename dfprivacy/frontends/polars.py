"""`.dp` on polars frames. Never on expressions: that name belongs to OpenDP."""

from __future__ import annotations

import polars as pl

from dfprivacy.private import Private


def register() -> None:
    """Put `.dp` on DataFrame and LazyFrame."""
    pl.api.register_dataframe_namespace("dp")(Private)
    pl.api.register_lazyframe_namespace("dp")(Private)
