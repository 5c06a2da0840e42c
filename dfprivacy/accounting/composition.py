"""Compose the releases of an account into one epsilon and one delta.

`Composition.total` adds epsilons up, or composes them as zero-concentrated privacy and converts the
sum. `tight_total` composes privacy loss distributions with dp-accounting. docs/how-to/ledger.md has
the proofs, and why the results are upper bounds though both search, and the latter computes,
with floats.
"""

from __future__ import annotations

import decimal
import importlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.charge import Budget, float_below, short
from dfprivacy.accounting.loss import Epsilon, Rho, read_delta
from dfprivacy.errors import InvalidLossError, LedgerError, MissingDeltaError
from dfprivacy.noise.tails import arithmetic, quotient

Floats = npt.NDArray[np.float64]

_WIDENING = Fraction(1, 10**39)
_STEPS = 100  # of the search for an order
_DOTS, _ORDERS = 4096, 2048  # of the profile of a concentrated release
_CELLS = 2**17  # of the grid, for all losses that are not too rare to matter
_FINEST = 32  # cells in the smallest epsilon that has a distribution of its own
_LEVELS = 32  # different epsilons that have one
_RARE = Fraction(1, 2**60)
_NEGLIGIBLE = 2.0**-100
_INFLATION = 1 + 2.0**-30
_HALVINGS = 40
_REACH = 500  # exp(500): beyond, nothing is private, and no distribution is worth its price


@dataclass(frozen=True)
class Composition:
    """Releases about one dataset: each loss with how often it was charged, and all deltas added up.

    >>> Composition(((Epsilon(Fraction(1, 10)), 3), (Rho(Fraction(1, 2)), 1))).rho()
    Fraction(103, 200)
    """

    losses: Sequence[tuple[Epsilon | Rho, int]]
    delta: Fraction = Fraction(0)

    def epsilon(self) -> Fraction | None:
        """Return the sum of the epsilons (Dwork and Roth 2014, Theorem 3.16). None beside a rho."""
        total = Fraction(0)
        for loss, times in self.losses:
            if isinstance(loss, Rho):
                return None
            total += loss.value * times
        return total

    def rho(self) -> Fraction:
        """Return the sum of the rhos, epsilon^2/2 for a pure epsilon (Bun and Steinke 2016)."""
        return sum((times * loss.as_rho().value for loss, times in self.losses), Fraction(0))

    def spare(self, delta: Fraction) -> Fraction:
        """Return the part of `delta` that the releases themselves have not spent."""
        if delta < self.delta:
            raise InvalidLossError(
                f"no epsilon holds at delta {short(delta)}: the deltas to be counted add up to "
                f"{short(self.delta)} already",
                hint=f"pass a delta above {short(self.delta)}: each release keeps its promise but "
                "for its own delta, and these add up",
            )
        return delta - self.delta

    def approximate(self, delta: Fraction) -> Fraction:
        """Return an epsilon for this delta: the smaller of both kinds of composition."""
        pure, spare = self.epsilon(), self.spare(delta)
        if spare > 0:
            concentrated = approximate_epsilon(self.rho(), spare)
            return concentrated if pure is None else min(concentrated, pure)
        if pure is None:
            spent = f": the releases themselves have spent all of {short(delta)}" if delta else ""
            enough = short(2 * delta or Fraction(1, 10**6))
            raise MissingDeltaError(
                f"releases in rho have no epsilon without a delta of their own{spent}",
                hint=f"pass a delta above what the releases spent themselves, e.g. delta={enough}: "
                "it is the chance with which a release in rho may exceed the epsilon",
            )
        return pure

    def total(self, delta: object) -> Budget:
        """Return epsilon and delta, as floats that are not below the exact amounts."""
        named = read_delta(delta)
        exact = self.delta if named is None else named
        return upper_budget(self.approximate(exact), exact)


def upper_budget(epsilon: Fraction, delta: Fraction) -> Budget:
    """Return epsilon and delta as floats whose decimals are not below them."""
    return Budget(epsilon=-float_below(-epsilon), delta=-float_below(-delta))


def approximate_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon for which rho-zCDP implies (epsilon, delta)-DP, rounded up.

    A rho-zCDP mechanism is so for every order a > 1 and every delta in (0, 1), with

        epsilon = a rho + ln(1 - 1/a) + (ln(1/delta) - ln(a)) / (a - 1)

    (Canonne, Kamath and Steinke 2020, Section 2.3). At a = 1 + sqrt(ln(1/delta) / rho) that is
    already less than rho + 2 sqrt(rho ln(1/delta)) of Bun and Steinke (2016, Proposition 1.3). A
    good order is searched for with floats. The result is computed with 60 digits and rounded up,
    so that a bad search could cost accuracy and never privacy. The result is within 10**-9,
    relatively, of the least value, for rho up to 2**62.

    >>> float(approximate_epsilon(Fraction(1, 2), Fraction(1, 10**6)))  # doctest: +ELLIPSIS
    5.22...
    """
    if rho == 0:
        return Fraction(0)
    return max(Fraction(0), epsilon_at_order(rho, delta, _good_order(rho, delta)))


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a rho of 20 bits for which rho-zCDP implies (epsilon, delta)-DP: nearly the largest.

    The first is that of Bun and Steinke (2016, Proposition 1.3), raised as far as
    `approximate_epsilon` allows, and rounded down.

    >>> float(rho_within(Fraction(1), Fraction(1, 10**6)))  # doctest: +ELLIPSIS
    0.02...
    """
    log = math.log(delta.denominator) - math.log(delta.numerator)
    root = float(epsilon) / (math.sqrt(log + float(epsilon)) + math.sqrt(log))
    base, factor = Fraction(root * root), Fraction(1)
    while approximate_epsilon(base, delta) > epsilon:  # floats could have rounded upwards
        base *= 1 - Fraction(1, 2**20)
    for step in range(1, 12):
        larger = factor + Fraction(1, 2**step)
        if approximate_epsilon(base * larger, delta) <= epsilon:
            factor = larger
    mantissa, exponent = math.frexp(base * factor)
    return math.floor(mantissa * 2**20) * Fraction(2) ** (exponent - 20)


def epsilon_at_order(rho: Fraction, delta: Fraction, above_one: Fraction) -> Fraction:
    """Return the epsilon of the formula at order 1 + `above_one` > 1, rounded up.

    Every operation is within a relative 10**-58 of its exact result. The sum of the sizes of all
    terms, and 1 for the terms inside the logarithms, times 10**-39 is far more than the errors'
    sum.
    """
    order = 1 + above_one
    with decimal.localcontext(arithmetic()):
        linear, above = quotient(order * rho), quotient(above_one)
        terms = (
            linear,
            quotient(above_one / order).ln(),
            -quotient(delta).ln() / above,
            -quotient(order).ln() / above,
        )
        size = 1 + sum((abs(term) for term in terms), Decimal(0))
        return Fraction(sum(terms, Decimal(0))) + Fraction(size) * _WIDENING


def _good_order(rho: Fraction, delta: Fraction) -> Fraction:
    """Return a - 1 for an order near the best: within a factor of 1024 of Bun and Steinke's."""
    slope, log = float(rho), math.log(delta.denominator) - math.log(delta.numerator)
    middle = 0.5 * (math.log(max(log, 1e-300)) - math.log(slope))
    low, high = max(middle - math.log(1024), -300.0), min(middle + math.log(1024), 300.0)
    for _ in range(_STEPS):
        third = (high - low) / 3
        if _estimate(slope, log, low + third) <= _estimate(slope, log, high - third):
            high -= third
        else:
            low += third
    return Fraction(math.exp((low + high) / 2))


def _estimate(rho: float, log: float, log_above: float) -> float:
    above = math.exp(log_above)
    inside = log_above - math.log1p(above)
    return (1 + above) * rho + inside + (log - math.log1p(above)) / above


def tight_total(composition: Composition, delta: object) -> Budget:
    """Return the least epsilon known for a delta, as floats that are not below it.

    A release of pure epsilon is no more revealing than randomized response with that epsilon,
    for any mechanism (Kairouz, Oh and Viswanath 2015). Releases in rho, and epsilons too
    fine for the grid of losses, count together as one rho-zCDP release.
    """
    exact = read_delta(delta)
    if exact is None:
        raise MissingDeltaError(
            "a tight total is an epsilon at a delta, and no delta was named",
            hint="pass the delta to quote, e.g. delta=1e-6",
        )
    try:
        library = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        raise LedgerError(
            "a tight total is computed by dp-accounting, which is not installed",
            hint="pip install 'dfprivacy[accounting]'",
        ) from None
    plain = composition.approximate(exact)
    spare = composition.spare(exact)
    reach = float(composition.approximate(composition.delta + _RARE))
    if plain == 0 or spare == 0 or reach > _REACH:
        return upper_budget(plain, exact)
    cell = 2.0 ** math.ceil(math.log2(reach / _CELLS))  # a power: its multiples are exact floats
    pld, lost = _compose(library, _laws(composition, cell), cell)
    low, high = 0.0, float(plain)
    for _ in range(_HALVINGS):  # the composed delta, rounding included, has to fit
        middle = (low + high) / 2
        if float(pld.get_delta_for_epsilon(middle)) * _INFLATION + lost <= float(spare):
            high = middle
        else:
            low = middle
    return upper_budget(min(plain, Fraction(high)), exact)


def _laws(composition: Composition, cell: float) -> list[LossLaw]:
    """Return a law for each epsilon, rounded up to the grid, and one for everything else."""
    width, times, rho = Fraction(cell), Counter[int](), Fraction(0)
    for loss, count in composition.losses:
        if isinstance(loss, Epsilon) and loss.value >= _FINEST * width:
            times[math.ceil(loss.value / width)] += count
        else:
            rho += count * loss.as_rho().value
    laws = [responses_law(cells, count, cell) for cells, count in merge_levels(times).items()]
    if rho:
        reach = approximate_epsilon(rho, _RARE)
        laws.append(build_concentrated_law(float(rho) * _INFLATION, cell, float(reach)))
    return laws


def merge_levels(times: Counter[int]) -> Counter[int]:
    """Return the counts of few different epsilons, each rounded up to the next of them.

    >>> merge_levels(Counter(range(1, 65)))[2], len(merge_levels(Counter(range(1, 65))))
    (2, 32)
    """
    step = math.ceil(len(times) / _LEVELS)
    levels: Counter[int] = Counter()
    ascending = sorted(times)
    for index, cells in enumerate(ascending):
        highest = ascending[min(index - index % step + step, len(ascending)) - 1]
        levels[highest] += times[cells]
    return levels


def responses_law(cells: int, times: int, cell: float) -> LossLaw:
    """Return the law of independent randomized responses of epsilon = cells * cell.

    One response has loss epsilon with probability 1 / (1 + exp(-epsilon)), else -epsilon. Of
    several, the positive ones are binomial. Values that are far too rare count as infinite.
    """
    number = np.arange(times, dtype=np.float64)  # outwards from the likeliest one
    ratios = (times - number) / (number + 1) * math.exp(min(cells * cell, _REACH))
    mode = int(np.searchsorted(-ratios, -1.0))
    above, below = np.cumprod(ratios[mode:]), np.cumprod(1 / ratios[:mode][::-1])
    weights: Floats = np.concatenate([below[::-1], [1.0], above])
    weights /= weights.sum()
    is_kept = weights > _NEGLIGIBLE
    masses = {
        cells * (2 * positive - times): float(weights[positive])
        for positive in np.flatnonzero(is_kept).tolist()
    }
    return LossLaw(masses, float(weights[~is_kept].sum()) + _NEGLIGIBLE)


def _compose(library: Any, laws: list[LossLaw], cell: float) -> tuple[Any, float]:
    """Return the composition, and a bound on the delta that rounding could have hidden in it.

    A convolution of n numbers by fast Fourier transforms is wrong by at most 32 log2(n) units in
    the last place times the Euclidean norm of its smoother factor, in that norm, and by sqrt(n)
    times as much in all its numbers together. The norm of a composition is at most that of each of
    its laws, so that the smoothest comes first.
    """
    create = library.PrivacyLossDistribution.create_from_rounded_probability
    smoothest, *others = sorted(laws, key=_norm)
    composed = create(smoothest.masses, smoothest.infinite, cell)
    for law in others:
        composed = composed.compose(create(law.masses, law.infinite, cell))
    cells = 1 + sum(max(law.masses) - min(law.masses) for law in laws)
    hidden = 2.0**-48 * math.log2(2 * cells) * math.sqrt(cells) * _norm(smoothest)
    return composed, 2.0**-50 + len(others) * hidden


def _norm(law: LossLaw) -> float:
    return math.sqrt(sum(mass * mass for mass in law.masses.values()))


@dataclass(frozen=True)
class LossLaw:
    """Probabilities of privacy losses: `masses` by the number of grid cells, and the infinite."""

    masses: dict[int, float]
    infinite: float


def build_concentrated_law(rho: float, cell: float, reach: float) -> LossLaw:
    """Return the law of a rho-zCDP release on a grid of `cell`, for losses up to `reach`.

    It is that of a pair of distributions that is no harder to tell apart than any rho-zCDP release
    could be: for every epsilon, its delta is at least that of every rho-zCDP mechanism, selections
    included. It is symmetric: a value of probability q at loss -l has exp(l) q at loss l.

    The deltas of `profile` at some epsilons are joined by straight lines over exp(epsilon), after
    the convex hull and the symmetry of a true profile have improved them.
    """
    stride = max(1, math.ceil(reach / cell / _DOTS))
    cells = np.arange(_DOTS + 1) * stride
    epsilons: Floats = cells * np.float64(cell)
    ratios = np.expm1(epsilons)  # exp(epsilon) - 1
    deltas = profile(rho, epsilons)
    deltas[0] = np.min((ratios + 2 * deltas) / (ratios + 2))
    corners = lower_hull(ratios, deltas)
    slopes = np.append(np.diff(deltas[corners]) / np.diff(ratios[corners]), 0.0)
    below = np.maximum(np.diff(slopes), 0.0)
    masses = {0: max(float(2 * slopes[0] + 1 - deltas[0]), 0.0)}
    for corner, mass in zip(corners[1:], below, strict=True):
        masses[-int(cells[corner])] = float(mass)
        masses[int(cells[corner])] = float(mass * (1 + ratios[corner]))
    return LossLaw(masses, float(deltas[corners[-1]]))


def profile(rho: float, epsilons: Floats) -> Floats:
    """Return a delta for each epsilon >= 0 (Canonne, Kamath, Steinke 2020), a little inflated."""
    largest = float(epsilons[-1])
    above = np.geomspace(1e-4, 1 + 2 * largest / rho, _ORDERS)
    constant = above * (1 + above) * rho - above * np.log1p(1 / above) - np.log1p(above)
    log_delta = np.zeros(len(epsilons))
    for slope, start in zip(above, constant, strict=True):
        np.minimum(log_delta, start - slope * epsilons, out=log_delta)
    return np.asarray(np.minimum(np.exp(log_delta) * _INFLATION, 1.0))


def lower_hull(across: Floats, up: Floats) -> list[int]:
    """Return the corners of the lower convex hull of points sorted by `across`, first and last too.

    >>> lower_hull(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 0.9, 0.1, 0.0]))
    [0, 2, 3]
    """
    corners: list[int] = []
    for point in range(len(across)):
        while len(corners) > 1:
            first, middle = corners[-2:]
            left = (up[middle] - up[first]) * (across[point] - across[middle])
            if left < (up[point] - up[middle]) * (across[middle] - across[first]):
                break  # the middle one lies below the line from the first to the point
            corners.pop()
        corners.append(point)
    return corners
