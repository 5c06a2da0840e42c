"""Memory that the tables of one call share from block to block; it never outlives the call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt


class Buffers:
    """Arrays by name, made once and cut to the size asked for."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def floats(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return an array of float64 with anything in it."""
        return self._array(name, shape, np.float64)

    def integers(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Return an array of int64 with anything in it."""
        return self._array(name, shape, np.int64)

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or len(held) < size:
            held = np.empty(size, dtype)
            self._held[name] = held
        return held[:size].reshape(shape)
