"""Draw geometric numbers, discrete Laplace and discrete Gaussian noise, exactly.

Geometric numbers, P(G >= k) = exp(-k / scale) for k = 0, 1, 2, ...: G = floor(-scale * ln U) for a
uniform U. `Geometric` draws blocks of int64 by one of two plans:

- scales up to 2**33: the certified floating-point enclosure of -ln U, times the scale.
- scales up to 2**51: G = c * High + Low with c = 2**k. As the probability of c * h + l factorizes
  into a**(c * h) and a**l, High is geometric of scale / c (the first plan) and Low is uniform on
  [0, c), kept with probability exp(-Low / scale), which is almost 1.

Elements that the enclosure can't decide go down the exact path with the same uniform. Beyond
2**51 only the exact path is left, and Python integers.

The discrete Laplace law, P(x) = (1 - a) / (1 + a) * a**|x| with a = exp(-1 / scale): a sign bit and
a geometric magnitude (Canonne, Kamath and Steinke 2020, Algorithm 2). The pair (-, 0) is
dropped and drawn anew, since zero would count twice otherwise. One 64-bit word gives the sign and
63 digits of the uniform behind the magnitude.

The discrete Gaussian law, P(x) proportional to exp(-x**2 / (2 * sigma_squared)): their Algorithm 3.
Propose Y of the discrete Laplace law with scale t = floor(sigma) + 1 and accept it with probability
exp(-z), z = (|Y| - sigma**2 / t)**2 / (2 * sigma**2). Accepting means -ln V > z for a uniform V:
decided in floating point where the enclosures of both sides lie apart, and with more digits of the
same V elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import EntropyError
from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.entropy import EntropySource, random_words
from dfprivacy.noise.uniform import (
    BITS,
    LazyUniform,
    Workspace,
    floor_of_scaled_log,
    is_certified,
    log_exceeds,
    negative_log,
)

LARGEST_INT64_SCALE = 2**51
"""No draw exceeds 768 scales (`LARGEST_LOG`), so that int64 holds the sum of any two."""

ATTEMPTS = 4096
"""Refusals in a row, of probability below 2**-1000, that mean a broken source."""

_LARGEST_FILTER_SCALE = 2**33
_SPLIT_BITS = 20
_LEAST_FILTER_SCALE = Fraction(1, 2**10)


class Geometric:
    """Geometric numbers of one scale for one call, at most `block` at a time."""

    def __init__(self, scale: Fraction, block: int, entropy: EntropySource) -> None:
        self._entropy = entropy
        self._scale = scale
        is_split = scale > _LARGEST_FILTER_SCALE
        self._low_bits = int(scale).bit_length() - _SPLIT_BITS if is_split else 0
        self._high_scale = scale / 2**self._low_bits
        self._work = Workspace.of(block)
        self._certified = is_certified()

    def draw(self, mantissas: Integers) -> Integers:
        """Return one number for each uniform cell [m, m + 1] / 2**63."""
        work = self._work.first(len(mantissas))
        high = np.empty(len(mantissas), np.int64)
        if self._certified:
            certain_floors(mantissas, self._high_scale, work, high)
        else:
            work.agrees[:] = False  # all go down the exact path
        for index in np.flatnonzero(~work.agrees).tolist():
            uniform = LazyUniform(int(mantissas[index]), BITS, self._entropy)
            high[index] = floor_of_scaled_log(uniform, self._high_scale)
        if self._low_bits == 0:
            return high
        np.left_shift(high, self._low_bits, out=high)
        return np.add(high, self._low_parts(len(high)), out=high)

    def laplace(self, size: int) -> Integers:
        """Return the discrete Laplace draws of `size` words, without those that gave (-, 0)."""
        words = random_words(size, self._entropy)
        magnitudes = self.draw((words >> np.uint64(1)).view(np.int64))
        signs = (words & np.uint64(1)).view(np.int64)
        np.negative(signs, out=signs)
        draws = np.bitwise_xor(magnitudes, signs)  # two's complement: -m = (m ^ -1) + 1
        np.subtract(draws, signs, out=draws)
        twice = (draws == 0) & (signs != 0)
        return draws[~twice] if twice.any() else draws

    def _low_parts(self, size: int) -> Integers:
        bits = self._low_bits
        words = random_words(size, self._entropy)
        parts = (words & np.uint64(2**bits - 1)).view(np.int64)
        is_kept = (words >> np.uint64(bits)).view(np.int64) < surely_kept(self._scale, bits)
        for index in np.flatnonzero(~is_kept).tolist():
            parts[index] = low_part(int(words[index]), bits, self._scale, self._entropy)
        return parts


def certain_floors(
    mantissas: Integers, scale: Fraction, work: Workspace, magnitudes: Integers
) -> None:
    """Write floor(-scale * ln U) wherever one integer fits the whole cell of U.

    work.agrees says where. Elsewhere `magnitudes` is meaningless. Below a scale of 2**-10 the
    floats would be pointlessly small: the largest word of any use gives 0 there as at 2**-10.
    """
    factor = float(max(scale, _LEAST_FILTER_SCALE))
    value, error, spare = work.value, work.error, work.spare
    with np.errstate(all="ignore"):
        negative_log(mantissas, work)
        np.multiply(value, factor, out=value)
        np.multiply(error, factor * (1 + 2.0**-20), out=error)
        np.multiply(value, 2.0**-50, out=spare)  # rounding of factor, product, sum and difference
        np.add(error, spare, out=error)
        np.subtract(value, error, out=spare)
        np.add(value, error, out=value)
        np.floor(spare, out=spare)
        np.floor(value, out=value)
        np.equal(spare, value, out=work.agrees)
        np.copyto(magnitudes, value, casting="unsafe")


def surely_kept(scale: Fraction, bits: int) -> int:
    """Return how many of the 2**(64 - bits) top parts of a word keep any low part below 2**bits.

    exp(-low / scale) > 1 - 2**bits / scale, so a cell [v, v + 1] that ends below that is kept.
    """
    return int((1 - 2**bits / scale) * 2 ** (64 - bits))


def low_part(word: int, bits: int, scale: Fraction, entropy: EntropySource) -> int:
    """Return l in [0, 2**bits) with probability proportional to exp(-l / scale), from `word` on."""
    for _ in range(ATTEMPTS):
        low = word & ((1 << bits) - 1)
        if log_exceeds(LazyUniform(word >> bits, 64 - bits, entropy), low / scale):
            return low
        word = int(random_words(1, entropy)[0])
    raise stuck()


def exact_geometric(mantissa: int, scale: Fraction, entropy: EntropySource) -> int:
    """Return floor(-scale * ln U) for a uniform that begins with 63 given digits."""
    return floor_of_scaled_log(LazyUniform(mantissa, BITS, entropy), scale)


def stuck() -> EntropyError:
    """Return the error for a source whose words are all refused."""
    return EntropyError("the random source repeats itself")


BLOCK = 2**14
"""Words a block: its buffers stay in the processor's cache."""


_LEAST_SCALE = Fraction(1, 2**10)
"""Below it one sign in two gives (-, 0), as at it."""


def sample_laplace(scale: Fraction, size: int, entropy: EntropySource) -> npt.NDArray[Any]:
    """Return `size` independent draws: int64, or Python integers for scales above 2**51."""
    if scale > LARGEST_INT64_SCALE:
        draws = np.empty(size, dtype=object)
        draws[:] = [exact_laplace(scale, entropy) for _ in range(size)]
        return draws
    refused = -math.expm1(-1 / float(max(scale, _LEAST_SCALE))) / 2
    odds = refused / (1 - refused)  # words that give (-, 0) for one that does not, on average
    geometric = Geometric(scale, _words_for(size, odds), entropy)
    return collect_draws(geometric.laplace, size, lambda missing: _words_for(missing, odds))


def _words_for(missing: int, odds: float) -> int:
    """Return so many words that they probably give all that is missing, at most a block."""
    refused = missing * odds
    return min(BLOCK, missing + int(refused + 4 * math.sqrt(refused)))


def exact_laplace(scale: Fraction, entropy: EntropySource) -> int:
    """Return one draw by integer arithmetic alone."""
    for _ in range(ATTEMPTS):
        word = int(random_words(1, entropy)[0])
        magnitude = exact_geometric(word >> 1, scale, entropy)
        if word % 2 == 0:
            return magnitude
        if magnitude != 0:
            return -magnitude
    raise stuck()


def collect_draws(
    draw: Callable[[int], Integers], size: int, block: Callable[[int], int]
) -> Integers:
    """Return the first `size` draws of blocks, each sized by the missing number."""
    draws = np.empty(size, np.int64)
    filled = fruitless = 0
    while filled < size:
        block_size = block(size - filled)
        sample = draw(block_size)[: size - filled]
        draws[filled : filled + len(sample)] = sample
        filled += len(sample)
        fruitless = 0 if len(sample) else fruitless + block_size
        if fruitless >= ATTEMPTS:
            raise stuck()
    return draws


_LEAST_FILTER_VARIANCE = Fraction(1, 2**200)
"""Below it 1 / sigma**2 could overflow float64: every decision is exact then."""


def sample_gaussian(sigma_squared: Fraction, size: int, entropy: EntropySource) -> npt.NDArray[Any]:
    """Return `size` independent draws: int64, or Python integers for sigma of 2**51 and more."""
    scale = proposal_scale(sigma_squared)
    if scale > LARGEST_INT64_SCALE:
        draws = np.empty(size, dtype=object)
        draws[:] = [exact_gaussian(sigma_squared, entropy) for _ in range(size)]
        return draws
    geometric = Geometric(Fraction(scale), BLOCK, entropy)
    odds = GaussianOdds(sigma_squared, proposal_center(sigma_squared), BLOCK, entropy)

    def draw(size: int) -> Integers:
        proposals = geometric.laplace(size)
        words = random_words(len(proposals), entropy)
        return proposals[odds.decide(proposals, (words >> np.uint64(1)).view(np.int64))]

    return collect_draws(draw, size, lambda missing: min(BLOCK, missing * 4 // 3 + 16))


def proposal_scale(sigma_squared: Fraction) -> int:
    """Return floor(sigma) + 1."""
    return math.isqrt(int(sigma_squared)) + 1


def proposal_center(sigma_squared: Fraction) -> Fraction:
    """Return sigma**2 / t: proposals of that size are always accepted."""
    return sigma_squared / proposal_scale(sigma_squared)


def log_odds(proposal: int, sigma_squared: Fraction, center: Fraction) -> Fraction:
    """Return z, where exp(-z) is the probability of accepting a proposal."""
    return (abs(proposal) - center) ** 2 / (2 * sigma_squared)


def exact_gaussian(sigma_squared: Fraction, entropy: EntropySource) -> int:
    """Return one draw by integer arithmetic alone."""
    scale = Fraction(proposal_scale(sigma_squared))
    for _ in range(ATTEMPTS):
        proposal = exact_laplace(scale, entropy)
        chance = LazyUniform(int(random_words(1, entropy)[0]) >> 1, BITS, entropy)
        if log_exceeds(chance, log_odds(proposal, sigma_squared, proposal_center(sigma_squared))):
            return proposal
    raise stuck()


class GaussianOdds:
    """Accept numbers y of each block with probability exp(-(|y| - center)**2 / (2 sigma**2))."""

    def __init__(
        self, sigma_squared: Fraction, center: Fraction, block: int, entropy: EntropySource
    ) -> None:
        self._sigma_squared, self._center = sigma_squared, center
        self._entropy = entropy
        self._work = Workspace.of(block)
        self._certified = is_certified() and sigma_squared >= _LEAST_FILTER_VARIANCE

    def decide(self, proposals: npt.NDArray[Any], mantissas: Integers) -> npt.NDArray[np.bool_]:
        """Decide each number with the uniform cell [m, m + 1] / 2**63."""
        work = self._work.first(len(proposals))
        accepts = np.zeros(len(proposals), np.bool_)
        if self._certified and proposals.dtype == np.int64:
            spread, center = self._sigma_squared, self._center
            certain_acceptances(proposals, mantissas, spread, work, accepts, center=center)
        else:
            work.agrees[:] = False  # all go down the exact path
        for index in np.flatnonzero(~work.agrees).tolist():
            chance = LazyUniform(int(mantissas[index]), BITS, self._entropy)
            level = log_odds(int(proposals[index]), self._sigma_squared, self._center)
            accepts[index] = log_exceeds(chance, level)
        return accepts


def certain_acceptances(
    proposals: Integers,
    mantissas: Integers,
    sigma_squared: Fraction,
    work: Workspace,
    accepts: npt.NDArray[np.bool_],
    *,
    center: Fraction,
) -> None:
    """Write -ln V > z wherever that holds, or fails, for the whole cell of V.

    work.agrees says where. With d = |Y| - c the computed d is off by at most
    (|Y| + c) * 2**-50, and d**2 by (|d| + |Y| + c) * (|Y| + c) * 2**-50 <= (|Y| + c)**2 * 2**-49,
    which also covers the rounding of the square itself.
    """
    middle, halved = float(center), float(1 / (2 * sigma_squared))
    value, error, spare = work.value, work.error, work.spare
    with np.errstate(all="ignore"):
        negative_log(mantissas, work)
        np.abs(proposals, out=spare, casting="unsafe")
        np.add(spare, middle, out=spare)
        np.multiply(spare, spare, out=spare)
        np.multiply(spare, halved * 2.0**-47, out=spare)  # four times what is needed
        np.add(error, spare, out=error)
        np.abs(proposals, out=spare, casting="unsafe")
        np.subtract(spare, middle, out=spare)
        np.multiply(spare, spare, out=spare)
        np.multiply(spare, halved, out=spare)
        np.subtract(value, spare, out=value)
        np.greater(value, error, out=accepts)
        np.less(value, -error, out=work.agrees)
        np.logical_or(accepts, work.agrees, out=work.agrees)
