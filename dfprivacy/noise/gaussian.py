"""The discrete Gaussian law, P(x) proportional to exp(-x**2 / (2 * sigma_squared)), exactly.

Canonne, Kamath and Steinke 2020, Algorithm 3: propose Y of the discrete Laplace law with scale
t = floor(sigma) + 1 and accept it with probability exp(-z), z = (|Y| - sigma**2 / t)**2 /
(2 * sigma**2). Accepting means -ln V > z for a uniform V: decided in floating point where the
enclosures of both sides lie apart, and with more digits of the same V elsewhere.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.entropy import EntropySource, random_words
from dfprivacy.noise.laplace import (
    ATTEMPTS,
    BLOCK,
    LARGEST_INT64_SCALE,
    LaplaceBlocks,
    collected,
    exact_laplace,
    stuck,
)
from dfprivacy.noise.uniform import (
    BITS,
    LazyUniform,
    Workspace,
    certified,
    log_exceeds,
    negative_log,
)

_LEAST_FILTER_VARIANCE = Fraction(1, 2**200)
"""Below it 1 / sigma**2 could overflow float64: every decision is exact then."""


def sample_gaussian(sigma_squared: Fraction, size: int, entropy: EntropySource) -> npt.NDArray[Any]:
    """Return `size` independent draws: int64, or Python integers for sigma of 2**51 and more."""
    scale = proposal_scale(sigma_squared)
    if scale > LARGEST_INT64_SCALE:
        draws = np.empty(size, dtype=object)
        draws[:] = [exact_gaussian(sigma_squared, entropy) for _ in range(size)]
        return draws
    blocks = GaussianBlocks(sigma_squared, entropy)
    return collected(blocks.draw, size, lambda missing: min(BLOCK, missing * 4 // 3 + 16))


def proposal_scale(sigma_squared: Fraction) -> int:
    """Return floor(sigma) + 1."""
    return math.isqrt(int(sigma_squared)) + 1


def log_odds(proposal: int, sigma_squared: Fraction) -> Fraction:
    """Return z, where exp(-z) is the probability of accepting a proposal."""
    centre = sigma_squared / proposal_scale(sigma_squared)
    return (abs(proposal) - centre) ** 2 / (2 * sigma_squared)


def exact_gaussian(sigma_squared: Fraction, entropy: EntropySource) -> int:
    """Return one draw by integer arithmetic alone."""
    scale = Fraction(proposal_scale(sigma_squared))
    for _ in range(ATTEMPTS):
        proposal = exact_laplace(scale, entropy)
        chance = LazyUniform(int(random_words(1, entropy)[0]) >> 1, BITS, entropy)
        if log_exceeds(chance, log_odds(proposal, sigma_squared)):
            return proposal
    raise stuck()


class GaussianBlocks:
    """Blocks of draws of one variance for one call."""

    def __init__(self, sigma_squared: Fraction, entropy: EntropySource) -> None:
        self._sigma_squared = sigma_squared
        self._entropy = entropy
        self._proposals = LaplaceBlocks(Fraction(proposal_scale(sigma_squared)), BLOCK, entropy)
        self._work = Workspace.of(BLOCK)
        self._certified = certified() and sigma_squared >= _LEAST_FILTER_VARIANCE

    def draw(self, size: int) -> Integers:
        """Return the accepted ones of at most `size` proposals."""
        proposals = self._proposals.draw(size)
        words = random_words(len(proposals), self._entropy)
        return proposals[self.accepted(proposals, (words >> np.uint64(1)).view(np.int64))]

    def accepted(self, proposals: Integers, mantissas: Integers) -> npt.NDArray[np.bool_]:
        """Decide each proposal with the uniform cell [m, m + 1] / 2**63."""
        work = self._work.first(len(proposals))
        accepts = np.zeros(len(proposals), np.bool_)
        if self._certified:
            certain_acceptances(proposals, mantissas, self._sigma_squared, work, accepts)
        else:
            work.settle_nothing()
        for index in np.flatnonzero(~work.agrees).tolist():
            chance = LazyUniform(int(mantissas[index]), BITS, self._entropy)
            level = log_odds(int(proposals[index]), self._sigma_squared)
            accepts[index] = log_exceeds(chance, level)
        return accepts


def certain_acceptances(
    proposals: Integers,
    mantissas: Integers,
    sigma_squared: Fraction,
    work: Workspace,
    accepts: npt.NDArray[np.bool_],
) -> None:
    """Write -ln V > z wherever that holds, or fails, for the whole cell of V.

    work.agrees says where. With d = |Y| - c the computed d is off by at most
    (|Y| + c) * 2**-50, and d**2 by (|d| + |Y| + c) * (|Y| + c) * 2**-50 <= (|Y| + c)**2 * 2**-49,
    which also covers the rounding of the square itself.
    """
    centre = float(sigma_squared / proposal_scale(sigma_squared))
    halved = float(1 / (2 * sigma_squared))
    value, error, spare = work.value, work.error, work.spare
    with np.errstate(all="ignore"):
        negative_log(mantissas, work)
        np.abs(proposals, out=spare, casting="unsafe")
        np.add(spare, centre, out=spare)
        np.multiply(spare, spare, out=spare)
        np.multiply(spare, halved * 2.0**-47, out=spare)  # four times what is needed
        np.add(error, spare, out=error)
        np.abs(proposals, out=spare, casting="unsafe")
        np.subtract(spare, centre, out=spare)
        np.multiply(spare, spare, out=spare)
        np.multiply(spare, halved, out=spare)
        np.subtract(value, spare, out=value)
        np.greater(value, error, out=accepts)
        np.less(value, -error, out=work.agrees)
        np.logical_or(accepts, work.agrees, out=work.agrees)
