"""What owners are asked in a round: how a value becomes the input of an exact randomiser.

Every ask is plain data. It maps one owner's value, by any function of that value alone, to an
integer, and names the randomiser that makes the integer private; whatever the mapping, the report
is as private as the randomiser. A value that is missing (NaN) is mapped to the input that carries
nothing.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.local.grid_noise import BallGaussian, GridLaplace
from dfprivacy.local.response import MISSING, RandomisedResponse
from dfprivacy.local.users import Integers, Words

Floats = npt.NDArray[np.float64]
Law = RandomisedResponse | GridLaplace | BallGaussian

STEPS = 2**20
"""Steps of the grid on which numbers are reported."""


@dataclass(frozen=True)
class Ask(abc.ABC):
    """What the users of one part are asked; `part` counts the protocol's parts from 0."""

    kind: ClassVar[str]
    part: int

    @property
    def width(self) -> int:
        """How many numbers a value has, where it is a vector; 0 for a plain number."""
        return 0

    @property
    def reported_width(self) -> int:
        """How many numbers a report has, where it is a vector; 0 for a plain number."""
        return 0

    @property
    @abc.abstractmethod
    def groups(self) -> int:
        """Into how many groups the users of this part fall."""

    @abc.abstractmethod
    def law(self, loss: Epsilon | Rho) -> Law:
        """Return the randomiser that every report goes through."""

    @abc.abstractmethod
    def encode(self, values: Floats, groups: Integers, words: Words) -> Integers:
        """Return the randomiser's input for each value; NaN is a value that is missing."""

    def to_json(self) -> dict[str, Any]:
        """Return the ask as JSON can hold it."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value for name, value in own.items()
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the ask that `to_json` has written."""
        own: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
            if name != "kind"
        }
        return cls(**own)


@dataclass(frozen=True)
class Digit(Ask):
    """Base-4 digits: group g reports floor(x / 2**levels[g]) mod 4 by randomised response."""

    kind: ClassVar[str] = "digit"
    levels: tuple[int, ...]

    @property
    def groups(self) -> int:
        """One group a level."""
        return len(self.levels)

    def law(self, loss: Epsilon | Rho) -> RandomisedResponse:
        """Return randomised response over four categories."""
        return RandomisedResponse(4, loss.pure())

    def encode(self, values: Floats, groups: Integers, words: Words) -> Integers:  # noqa: ARG002 one interface
        """Return the digit of each value at its group's level."""
        units = np.ldexp(1.0, -np.array(self.levels))
        scaled = np.floor(values * units[groups])
        return _with_missing(values, scaled, lambda whole: whole & 3)


@dataclass(frozen=True)
class Side(Ask):
    """Sides: group g reports whether x lies above the nearest point of its lattice.

    The lattice of group g is points[g] + spacing * (all integers), or points[g] alone where
    spacing is 0.
    """

    kind: ClassVar[str] = "side"
    points: tuple[float, ...]
    spacing: float = 0.0

    @property
    def groups(self) -> int:
        """One group a lattice."""
        return len(self.points)

    def law(self, loss: Epsilon | Rho) -> RandomisedResponse:
        """Return randomised response over two categories."""
        return RandomisedResponse(2, loss.pure())

    def encode(self, values: Floats, groups: Integers, words: Words) -> Integers:  # noqa: ARG002 one interface
        """Return 1 for values at or above the nearest point, 0 for those below."""
        away = values - np.array(self.points)[groups]
        if self.spacing:
            away /= self.spacing
            away -= np.rint(away)
        return _with_missing(values, away, lambda _: (away >= 0).astype(np.int64))


@dataclass(frozen=True)
class Distance(Ask):
    """Numbers: group g reports x, less the nearest point of its lattice, with Laplace noise.

    What is reported is the distance on a grid of `steps` steps over widths[g], the middle of the
    grid being the point: with one point and no lattice, values are clipped to widths[g] around it.
    """

    kind: ClassVar[str] = "distance"
    points: tuple[float, ...]
    widths: tuple[float, ...]
    lattice: bool = False
    steps: int = STEPS

    @property
    def groups(self) -> int:
        """One group a point."""
        return len(self.points)

    def law(self, loss: Epsilon | Rho) -> GridLaplace:
        """Return discrete Laplace noise over the grid."""
        return GridLaplace(self.steps, loss.pure())

    def encode(self, values: Floats, groups: Integers, words: Words) -> Integers:  # noqa: ARG002 one interface
        """Return the grid integer of each value."""
        away = (values - np.array(self.points)[groups]) / np.array(self.widths)[groups]
        if self.lattice:
            away -= np.rint(away)
        np.clip(away, -0.5, 0.5, out=away)
        away[np.isnan(away)] = 0.0
        return np.asarray(np.rint((away + 0.5) * self.steps), dtype=np.int64)


def _with_missing(values: Floats, scaled: Floats, category: Any) -> Integers:
    """Return the category of each value, and `MISSING` for NaN."""
    absent = np.isnan(values)
    with np.errstate(invalid="ignore"):
        inputs: Integers = category(scaled.astype(np.int64))
    if absent.any():
        inputs[absent] = MISSING
    return inputs
