"""By which noisy count groups of secret keys are shown, and from which size on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.octave_bounds import SHARE
from dfprivacy.forecast.reaching import Reach, reaching
from dfprivacy.forecast.sums import UNIT_BOUNDS, subset_plan
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.mechanisms.noise import Noise
from dfprivacy.parts.linear import LinearPart
from dfprivacy.parts.octaves import OctavePart
from dfprivacy.parts.part import ColumnPart
from dfprivacy.parts.subset import SubsetPart
from dfprivacy.parts.table_count import COUNT_SHARE
from dfprivacy.plan import Plan


@dataclass(frozen=True)
class Counting:
    """A noisy count: `terms` noises on a total that grows by `divisor` a row."""

    noise: Noise
    divisor: int = 1
    terms: int = 1

    def reach(self, rule: KeyRule) -> Reach:
        """Return the sizes from which on groups are shown."""
        least = rule.least(self.noise, self.divisor, self.terms)
        return reaching(least, self.noise, self.divisor, self.terms)


@singledispatch
def counting(part: Any, loss: Epsilon | Rho) -> Counting:
    """Return the count by which a part selects groups; `loss` is that of one row.

    Raises
    ------
    TypeError
        For a part that is not known.
    """
    raise TypeError(f"{type(part).__name__}, {type(loss).__name__}")


@counting.register
def _(part: LinearPart, loss: Epsilon | Rho) -> Counting:
    return _of(part.plan, loss)


@counting.register
def _(part: OctavePart, loss: Epsilon | Rho) -> Counting:
    return _of(part.plan(UNIT_BOUNDS), loss.share(1 - SHARE))


@counting.register
def _(part: SubsetPart, loss: Epsilon | Rho) -> Counting:
    return _of(*subset_plan(part, loss))


@counting.register
def _(part: ColumnPart, loss: Epsilon | Rho) -> Counting:  # noqa: ARG001 one interface
    return Counting(loss.share(COUNT_SHARE).noise(1, 1))


def _of(plan: Plan, loss: Epsilon | Rho) -> Counting:
    query, weights = plan.counting()
    return Counting(plan.noises(loss)[query], weights.divisor, len(weights.indices))
