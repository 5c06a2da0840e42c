"""Add noise: the door from secret sums to public numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.linear import Linear
from dfprivacy.measurement.sums import Statistics
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.laws import Noise
from dfprivacy.noise.recording import recordable

_SAFE = 2**61  # up to three such integers add up within an int64


@dataclass(frozen=True)
class NoisyVector:
    """Noisy integer coordinates of one linear, one column a group. Public."""

    coordinates: npt.NDArray[Any]
    noise: Noise

    def total(self, indices: Sequence[int]) -> npt.NDArray[Any]:
        """Return the exact sum of some coordinates, one a group."""
        rows = [self.coordinates[index] for index in indices]
        if any(_is_large(row, _SAFE // len(rows)) for row in rows):
            rows = [row.astype(object) for row in rows]
        return np.asarray(sum(rows[1:], start=rows[0]))

    def of_groups(self, groups: npt.NDArray[np.int64]) -> NoisyVector:
        """Return the coordinates of some groups."""
        return NoisyVector(self.coordinates[:, groups], self.noise)

    def excess(self, indices: Sequence[int], threshold: int) -> npt.NDArray[Any]:
        """Return by how much the sum of some coordinates exceeds a whole number of any size."""
        total = self.total(indices)
        if max(abs(threshold), self.noise.variance) >= _SAFE:  # public: no row decides the dtype
            total = total.astype(object)
        return np.asarray(total - threshold)


def add_noise(
    statistics: Statistics, linears: Sequence[Linear], noises: Sequence[Noise]
) -> list[NoisyVector]:
    """Return a vector of each linear, with independent noise on every coordinate of each group."""
    return [
        NoisyVector(add_to(statistics.coordinates(linear), noise), noise)
        for linear, noise in zip(linears, noises, strict=True)
    ]


@recordable
def add_to(
    exact: npt.NDArray[np.int64], noise: Noise, entropy: EntropySource = system_entropy
) -> npt.NDArray[Any]:
    """Return integers plus noise, unbounded where noisy integers say int64 could overflow."""
    noise_values = noise.sample(exact.size, entropy).reshape(exact.shape)
    if not (_is_large(exact) or _is_large(noise_values)):
        return np.asarray(exact + noise_values)
    noisy = np.asarray(exact.astype(object) + noise_values.astype(object))
    fits = all(abs(value) < 2 * _SAFE for value in noisy.flat)
    return noisy.astype(np.int64) if fits else noisy


def add_up_columns(
    noisy: npt.NDArray[Any], group: npt.NDArray[np.int64], groups: int
) -> npt.NDArray[Any]:
    """Return sums of columns of noisy integers: column i goes to the group `group[i]`."""
    many = max(noisy.shape[1], 1)
    large = _is_large(noisy) or (noisy.size and int(np.abs(noisy).max()) >= _SAFE // many)
    sums = np.zeros((noisy.shape[0], groups), dtype=object if large else np.int64)
    for row, column in zip(sums, noisy.astype(sums.dtype), strict=True):
        np.add.at(row, group, column)
    return sums


def _is_large(values: npt.NDArray[Any], limit: int = _SAFE) -> bool:
    if values.dtype == object:
        return True
    return bool(values.size) and max(int(values.max()), -int(values.min())) >= limit
