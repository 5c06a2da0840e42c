"""Bound tails from above, certified. Find the smallest integer at which a tail is small enough.

Decimal arithmetic of 60 significant digits and more, widened by a relative 10**-39 at the end:
the result is never below the true probability. The closed forms for sums of discrete Laplace
draws are proved in docs/explanation/sampling.md.

For sums of n discrete Gaussian draws, complete the square. Then
P(Z_1 + ... + Z_n = k) = exp(-k**2 / (2 n s)) * w(k mod n) / theta(s)**n,
where s = sigma**2, theta(s) is the sum of exp(-j**2 / (2 s)) over all integers j, and w(r) is a
theta sum over a shifted lattice of n - 1 dimensions: almost constant for s >= 4, added up term by
term below. The rest, the sum of exp(-k**2 / (2 v)) over k >= m, is added up directly or by the
Euler-Maclaurin formula with its remainder. All steps carry a lower and an upper bound. The proofs
are in docs/explanation/sampling.md.
"""

from __future__ import annotations

import decimal
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dfprivacy.errors import InvalidQuestionError

_PRECISION = 60
_WIDENING = Fraction(1, 10**39)
LARGEST_EXPONENT = 11_520
"""exp(-11520) < 10**-5000: tails beyond are reported as 10**-5000."""

_LEAST_TAIL = Fraction(1, 10**5000)


def laplace_tail(scale: Fraction, at_least: int, terms: int) -> Fraction:
    """Return a bound, tight to 10**-38, on P(Z_1 + ... + Z_terms >= at_least)."""
    check_terms(terms)
    if at_least > 0:
        return widen_number(_laplace_exceedance(scale, at_least, terms))
    return 1 - round_down(_laplace_exceedance(scale, 1 - at_least, terms))


@functools.lru_cache(maxsize=256)  # public arguments only
def laplace_variance(scale: Fraction) -> float:
    """Return 2 a / (1 - a)**2, rounded up."""
    with decimal.localcontext(arithmetic(scale)):
        ratio = exponential(-1 / scale)
        return round_up_moment(2 * ratio / (1 - ratio) ** 2)


def _laplace_exceedance(scale: Fraction, at_least: int, terms: int) -> Decimal:
    """Sum the probabilities of j >= m by n binomial tails (docs/explanation/sampling.md)."""
    if at_least / scale > LARGEST_EXPONENT:
        return Decimal(0)
    with decimal.localcontext(arithmetic(scale)):
        ratio = exponential(-1 / scale)
        rest, square, total = 1 - ratio, ratio * ratio, Decimal(0)
        for power in range(terms):
            degree = terms - 1 - power
            parts = (
                (math.comb(power - 1, power - i) if power else 1)
                * math.comb(terms - 1 + i, i)
                * square**i
                / (1 - square) ** (terms + i)
                for i in range(min(power, 1), power + 1)
            )
            weight = rest ** (terms + power) * sum(parts, Decimal(0))
            terms_of_power = (
                math.comb(at_least + degree, i) * rest**i * ratio ** (degree - i)
                for i in range(degree + 1)
            )
            total += weight * sum(terms_of_power, Decimal(0))
        return exponential(-at_least / scale) * total


def smallest_exceedance(tail: Callable[[int], Fraction], probability: Fraction) -> int:
    """Return the smallest integer m with tail(m) <= probability, by secant and halving steps."""
    excesses = [_excess(tail, 0, probability)]
    low, high = _ends(tail, probability, excesses)
    while high - low > 1:
        guess = _crossing(*excesses[-2:]) if len(excesses) % 4 else None
        guess = (low + high) // 2 if guess is None else min(max(guess, low + 1), high - 1)
        excesses.append(_excess(tail, guess, probability))
        low, high = (low, guess) if excesses[-1].small else (guess, high)
    return high


@dataclass(frozen=True)
class _Excess:
    """Size of a tail at an integer: small enough or not, and its logarithm minus the goal's."""

    at: int
    small: bool
    logarithm: float


def _excess(tail: Callable[[int], Fraction], at: int, probability: Fraction) -> _Excess:
    value = tail(at)
    ratio = value / probability
    logarithm = math.log(ratio.numerator) - math.log(ratio.denominator) if ratio else -math.inf
    return _Excess(at, value <= probability, logarithm)


def _ends(
    tail: Callable[[int], Fraction], probability: Fraction, excesses: list[_Excess]
) -> tuple[int, int]:
    """Return two integers around the crossing, and append the visited points to `excesses`."""
    side, step = -1 if excesses[0].small else 1, 1
    while excesses[-1].small is excesses[0].small:
        excesses.append(_excess(tail, side * step, probability))
        step *= 256
    low, high = sorted((excesses[-2].at, excesses[-1].at))
    return low, high


def _crossing(first: _Excess, second: _Excess) -> int | None:
    """Return where the line through two logarithms meets the goal, if it does."""
    fall = second.logarithm - first.logarithm
    if not math.isfinite(fall) or not fall:
        return None
    way = (second.at - first.at) * Fraction(second.logarithm / fall)
    return second.at - math.floor(way) + (0 if second.small else 1)


def check_terms(terms: int) -> None:
    """Refuse anything but a number of terms from 1 to 64."""
    if terms not in range(1, 65):
        raise InvalidQuestionError(
            f"tails of sums are known for 1 to 64 terms, not {terms!r}", hint="Use terms=1."
        )


def arithmetic(*sizes: Fraction) -> decimal.Context:
    """Return a context that keeps 60 digits though numbers as large as `sizes` cancel."""
    digits = sum(max(0, int(size).bit_length()) * 2 // 3 for size in sizes)
    return isolate_context(_PRECISION + digits, reach=999_999_999)


def isolate_context(
    digits: int, rounding: str = decimal.ROUND_HALF_EVEN, reach: int = 999_999
) -> decimal.Context:
    """Return arithmetic of so many digits that the caller's decimal context can't influence."""
    traps = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
    return decimal.Context(
        digits, rounding, -reach, reach, capitals=1, clamp=0, flags=[], traps=traps
    )


def quotient(number: Fraction) -> Decimal:
    """Return a fraction as a decimal number of the current context."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def exponential(exponent: Fraction) -> Decimal:
    """Return exp(exponent) for exponent <= 0. Less than 10**-9000 becomes 0."""
    if exponent < -2 * LARGEST_EXPONENT:
        return Decimal(0)
    return quotient(exponent).exp()


def widen_number(probability: Decimal) -> Fraction:
    """Round up by more than all the errors of the computation."""
    bound = Fraction(probability) * (1 + _WIDENING)
    return min(Fraction(1), max(bound, _LEAST_TAIL))


def round_down(probability: Decimal) -> Fraction:
    """Round down by more than all the errors of the computation."""
    return Fraction(probability) * (1 - _WIDENING)


def round_up_moment(moment: Decimal) -> float:
    """Round up by more than the errors of the computation. 10**-5000 covers underflow."""
    return round_up(Fraction(moment) * (1 + _WIDENING) + _LEAST_TAIL)


def round_up(number: Fraction) -> float:
    """Return the smallest float that is not below a number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


Bounds = tuple[Decimal, Decimal]

_PI = Decimal("3.141592653589793238462643383279502884197169399375105820974944592307816406286")
_FLAT = 4  # from this sigma**2 on, w(r) is constant to a relative 10**-16
_MOST_WEIGHED = 3  # of more terms there are too many vectors to add up
_DIRECT_VARIANCE = 1024  # up to here, a direct sum has few terms
_DIRECT_DECAY = 16  # from m = v / 16 on, terms fall fast enough for a direct sum
_RELATIVE_REMAINDER = Decimal("1e-40")
_SERIES_END = 6
_SERIES_ERROR = Decimal("1e-50")


def gaussian_tail(sigma_squared: Fraction, at_least: int, terms: int) -> Fraction:
    """Return a bound on P(Z_1 + ... + Z_terms >= at_least).

    It is tight to 10**-8 but for more than three terms of a variance below 4.
    """
    check_terms(terms)
    excess = at_least if at_least > 0 else 1 - at_least
    if excess**2 / (2 * terms * sigma_squared) > LARGEST_EXPONENT:
        low, high = Decimal(0), Decimal(0)
    else:
        with decimal.localcontext(arithmetic()):
            low, high = _exceedance(sigma_squared, excess, terms)
    return widen_number(high) if at_least > 0 else 1 - round_down(low)


def gaussian_variance(sigma_squared: Fraction) -> float:
    """Return the variance, rounded up. It is sigma_squared from 4 on, where they agree."""
    if sigma_squared >= _FLAT:
        return round_up(sigma_squared)
    with decimal.localcontext(arithmetic()):
        squares = (k * k for k in range(1, _reach(sigma_squared)))
        moment = 2 * sum(n * exponential(-n / (2 * sigma_squared)) for n in squares)
        return round_up_moment(moment / _theta(sigma_squared)[0])


def _exceedance(sigma_squared: Fraction, at_least: int, terms: int) -> Bounds:
    """Return bounds on P(Z_1 + ... + Z_terms >= at_least), for at_least >= 1."""
    spread = terms * sigma_squared
    if sigma_squared < _FLAT and terms > _MOST_WEIGHED:
        return Decimal(0), exponential(-(at_least**2) / (2 * spread))  # Chernoff's bound
    if sigma_squared < _FLAT:
        weights = tuple(_weight(sigma_squared, residue, terms) for residue in range(terms))
        low, high = _direct_sum(spread, at_least, weights)
    else:
        flat, relative = _flat_weight(sigma_squared, terms)
        low, high = _plain_sum(spread, at_least)
        low, high = low * flat * (1 - relative), high * flat * (1 + relative)
    theta_low, theta_high = _theta(sigma_squared)
    return low / theta_high**terms, high / theta_low**terms


@functools.lru_cache(maxsize=64)
def _theta(variance: Fraction) -> Bounds:
    """Return bounds on the sum of exp(-j**2 / (2 variance)) over all integers j.

    From 1 on it is sqrt(2 pi variance) times the sum of exp(-2 pi**2 variance j**2), by Poisson
    summation: few terms count either way.
    """
    with decimal.localcontext(arithmetic()):
        if variance < 1:
            factor, rate = Decimal(1), 1 / (2 * quotient(variance))
        else:
            factor = (2 * _PI * quotient(variance)).sqrt()
            rate = 2 * _PI**2 * quotient(variance)
        total, j, term = Decimal(1), 1, Decimal(1)
        while term.adjusted() > -_PRECISION:
            term = 2 * (-rate * j * j).exp()
            total, j = total + term, j + 1
        total *= factor
        return total * (1 - _SERIES_ERROR), total * (1 + _SERIES_ERROR)


@functools.lru_cache(maxsize=64)
def _weight(variance: Fraction, residue: int, terms: int) -> Decimal:
    """Return w(residue), the sum of exp(-(|x|**2 - residue**2 / terms) / (2 variance)).

    x runs over the vectors of `terms` integers that add up to `residue`. Those left out add less
    than a relative 10**-43.
    """
    reach = range(-_reach(variance), _reach(variance) + 1)
    norms: Counter[int] = Counter()
    for free in itertools.product(reach, repeat=terms - 1):
        norms[sum(x * x for x in free) + (residue - sum(free)) ** 2] += 1
    shift = Fraction(residue**2, terms)
    with decimal.localcontext(arithmetic()):
        parts = (n * exponential((shift - norm) / (2 * variance)) for norm, n in norms.items())
        return sum(parts, Decimal(0))


def _flat_weight(variance: Fraction, terms: int) -> Bounds:
    """Return w(r) for every r up to a relative error, and that error (variance >= 4)."""
    if terms == 1:
        return Decimal(1), Decimal(0)
    root = (2 * _PI * quotient(variance)).sqrt()
    flat = root ** (terms - 1) / Decimal(terms).sqrt()
    return flat, max(7, 3 * terms) * (-(_PI**2) * quotient(variance)).exp()


def _reach(variance: Fraction) -> int:
    """Return j from which on exp(-j**2 / (2 variance)) is nothing, for variance < 4."""
    return math.isqrt(int(240 * variance)) + 4


def _plain_sum(variance: Fraction, start: int) -> Bounds:
    """Return bounds on the sum of exp(-k**2 / (2 variance)) over k >= start >= 1."""
    if variance <= _DIRECT_VARIANCE or _DIRECT_DECAY * start >= variance:
        return _direct_sum(variance, start, (Decimal(1),))
    return _euler_maclaurin(variance, start)


def _direct_sum(variance: Fraction, start: int, weights: tuple[Decimal, ...]) -> Bounds:
    """Add weights[k mod n] * exp(-k**2 / (2 variance)) over k >= start, with the rest bounded.

    Each term is the one before times a ratio below 1 that shrinks by a constant factor.
    """
    term = exponential(-(start**2) / (2 * variance))
    ratio = exponential(-(2 * start + 1) / (2 * variance))
    shrink = exponential(-1 / variance)
    heaviest = max(weights)
    total = Decimal(0)
    for k in itertools.count(start):
        total += weights[k % len(weights)] * term
        term *= ratio
        ratio *= shrink
        if heaviest * term <= _RELATIVE_REMAINDER * total * (1 - ratio):
            break
    return total, total * (1 + _RELATIVE_REMAINDER)


def _euler_maclaurin(variance: Fraction, start: int) -> Bounds:
    """Return the same sum by three terms of the Euler-Maclaurin formula and its remainder."""
    sigma = quotient(variance).sqrt()
    z = start / sigma
    density = exponential(-(start**2) / (2 * variance))
    low, high = _normal_integral(z, density)
    ends = (
        density / 2
        + density * z / (12 * sigma)
        - density * (z**3 - 3 * z) / (720 * sigma**3)
        + density * (z**5 - 10 * z**3 + 15 * z) / (30240 * sigma**5)
    )
    # 2 zeta(6) / (2 pi)**6 < 3.31e-5 times the integral of |f|
    rest = Decimal("3.31e-5") * _sixth_moments(z, density, high) / sigma**5
    return sigma * low + ends - rest, sigma * high + ends + rest


def _sixth_moments(z: Decimal, density: Decimal, integral: Decimal) -> Decimal:
    """Return the integral of (x**6 + 15 x**4 + 45 x**2 + 15) exp(-x**2 / 2) from z on."""
    second = z * density + integral
    fourth = z**3 * density + 3 * second
    sixth = z**5 * density + 5 * fourth
    return sixth + 15 * fourth + 45 * second + 15 * integral


def _normal_integral(z: Decimal, density: Decimal) -> Bounds:
    """Return bounds on the integral of exp(-x**2 / 2) from z on, where density = exp(-z**2 / 2)."""
    if z >= _SERIES_END:
        even, odd = density * _mills(z, 80), density * _mills(z, 81)
        return min(even, odd), max(even, odd)
    middle = (_PI / 2).sqrt() - density * _series(z)
    return middle - _SERIES_ERROR, middle + _SERIES_ERROR


def _series(z: Decimal) -> Decimal:
    """Return z + z**3 / 3 + z**5 / (3 * 5) + ..., to 10**-54."""
    term = total = z
    for odd in itertools.count(3, 2):
        term = term * z * z / odd
        total += term
        if odd > 2 * z * z and term < _SERIES_ERROR / 10**4:
            break
    return total


def _mills(z: Decimal, depth: int) -> Decimal:
    """Return a convergent of 1 / (z + 1 / (z + 2 / (z + ...))). Neighbors enclose the limit."""
    tail = z
    for numerator in range(depth, 0, -1):
        tail = z + numerator / tail
    return 1 / tail
