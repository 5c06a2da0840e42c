"""Put `.dp` on the frames and series of pandas and polars."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl

from dfprivacy.frames.private import Private, PrivateSeries


class Accessor:
    """The attribute `.dp` of a class of frames.

    It makes a new object at each access. The accessor of `polars.api` keeps that object on the
    frame, and the cycle would keep a deleted frame in memory.
    """

    def __init__(self, private: type[Any]) -> None:
        self._private = private

    def __get__(self, frame: object, _: type) -> Any:
        """Return the private frame, or its class where the attribute is read from a class."""
        return self._private if frame is None else self._private(frame)


def register_accessors() -> None:
    """Register `.dp`. Expressions get none: OpenDP uses that name there."""
    for frame in (pd.DataFrame, pl.DataFrame, pl.LazyFrame):
        frame.dp = Accessor(Private)  # type: ignore[union-attr]
    for series in (pd.Series, pl.Series):
        series.dp = Accessor(PrivateSeries)  # type: ignore[union-attr]
