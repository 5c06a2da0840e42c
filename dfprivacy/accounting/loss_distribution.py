"""The tight total of many releases: their privacy loss distributions, composed by dp-accounting.

A release of pure epsilon is no more revealing than randomized response with that epsilon, whatever
its mechanism is (Kairouz, Oh and Viswanath 2015). Releases in rho, and epsilons too fine for the
grid of losses, count together as one rho-zCDP release. docs/ledger.md has the proof, and why what
comes out is an upper bound though dp-accounting computes with floats.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

from dfprivacy.accounting.charge import Budget
from dfprivacy.accounting.composition import Composition, upper_budget
from dfprivacy.accounting.concentrated import Floats, LossLaw, concentrated_law
from dfprivacy.accounting.conversion import approximate_epsilon
from dfprivacy.accounting.loss import Epsilon, Rho, delta_of
from dfprivacy.errors import LedgerError, MissingDeltaError

_CELLS = 2**17  # of the grid, for all losses that are not too rare to matter
_FINEST = 32  # cells in the smallest epsilon that has a distribution of its own
_LEVELS = 32  # different epsilons that have one
_RARE = Fraction(1, 2**60)
_NEGLIGIBLE = 2.0**-100
_INFLATION = 1 + 2.0**-30
_HALVINGS = 40
_REACH = 500  # exp(500): beyond, nothing is private, and no distribution is worth its price


def tight_total(composition: Composition, delta: object) -> Budget:
    """Return the least epsilon known for a delta, as floats that are not below it.

    Raises
    ------
    InvalidLossError
        When the releases themselves spent more than `delta`, or it is no number in (0, 1).
    MissingDeltaError
        Without a delta.
    LedgerError
        When dp-accounting is not installed.
    """
    exact = delta_of(delta)
    if exact is None:
        raise MissingDeltaError(
            "a tight total needs a delta", hint="pass the delta to quote, e.g. delta=1e-6"
        )
    library, plain = _library(), composition.approximate(exact)
    spare = composition.spare(exact)
    reach = composition.approximate(composition.delta + _RARE)
    if plain == 0 or spare == 0 or reach > _REACH:
        return upper_budget(plain, exact)
    found = _searched(library, composition, float(spare), float(plain))
    return upper_budget(min(plain, Fraction(found)), exact)


def _library() -> Any:
    try:
        return importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        raise LedgerError(
            "a tight total is computed by dp-accounting, which is not installed",
            hint="pip install 'dfprivacy[accounting]'",
        ) from None


def _searched(library: Any, composition: Composition, delta: float, most: float) -> float:
    """Return an epsilon up to `most` at which the composed distribution has a delta below `delta`.

    The delta is compared with what floats could have hidden, which is why `most` may come out.
    """
    cell = _cell(composition)
    pld, lost = _composed(library, _laws(composition, cell), cell)
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(pld.get_delta_for_epsilon(middle)) * _INFLATION + lost <= delta:
            high = middle
        else:
            low = middle
    return high


def _cell(composition: Composition) -> float:
    """Return the width of the grid, a power of two, so that its multiples are exact floats."""
    reach = composition.approximate(composition.delta + _RARE)
    return 2.0 ** math.ceil(math.log2(float(reach) / _CELLS))


def _laws(composition: Composition, cell: float) -> list[LossLaw]:
    """Return a law for each epsilon, rounded up to the grid, and one for everything else."""
    width, times, rho = Fraction(cell), Counter[int](), Fraction(0)
    for loss, count in composition.losses:
        if isinstance(loss, Epsilon) and loss.value >= _FINEST * width:
            times[math.ceil(loss.value / width)] += count
        else:
            rho += count * (loss if isinstance(loss, Rho) else loss.as_rho()).value
    laws = [responses_law(cells, count, cell) for cells, count in levelled(times).items()]
    if rho:
        reach = approximate_epsilon(rho, _RARE)
        laws.append(concentrated_law(float(rho) * _INFLATION, cell, float(reach)))
    return laws


def levelled(times: Counter[int]) -> Counter[int]:
    """Return the counts of few different epsilons, each rounded up to the next of them.

    >>> levelled(Counter(range(1, 65)))[2], len(levelled(Counter(range(1, 65))))
    (2, 32)
    """
    each = math.ceil(len(times) / _LEVELS)
    levels: Counter[int] = Counter()
    ascending = sorted(times)
    for place, cells in enumerate(ascending):
        highest = ascending[min(place - place % each + each, len(ascending)) - 1]
        levels[highest] += times[cells]
    return levels


def responses_law(cells: int, times: int, cell: float) -> LossLaw:
    """Return the law of independent randomized responses of epsilon = cells * cell.

    One response has loss epsilon with probability 1 / (1 + exp(-epsilon)), else -epsilon; of
    several, the positive ones are binomial. What is far too rare counts as infinite.
    """
    weights = _binomial(times, cells * cell)
    kept = weights > _NEGLIGIBLE
    masses = {
        cells * (2 * positive - times): float(weights[positive])
        for positive in np.flatnonzero(kept).tolist()
    }
    return LossLaw(masses, float(weights[~kept].sum()) + _NEGLIGIBLE)


def _binomial(times: int, epsilon: float) -> Floats:
    """Return the probabilities of 0, ..., times successes of odds exp(epsilon).

    Products from the likeliest number outwards: their relative error is below `times` * 2**-50.
    """
    number = np.arange(times, dtype=np.float64)
    ratios = (times - number) / (number + 1) * math.exp(min(epsilon, _REACH))
    mode = int(np.searchsorted(-ratios, -1.0))
    above, below = np.cumprod(ratios[mode:]), np.cumprod(1 / ratios[:mode][::-1])
    weights = np.concatenate([below[::-1], [1.0], above])
    return np.asarray(weights / weights.sum())


def _composed(library: Any, laws: list[LossLaw], cell: float) -> tuple[Any, float]:
    """Return the composition, and a bound on the delta that rounding could have hidden in it.

    A convolution of n numbers by fast Fourier transforms is wrong by at most 32 log2(n) units in
    the last place times the Euclidean norm of its smoother factor, in that norm, and by sqrt(n)
    times as much in all its numbers together. The norm of a composition is at most that of each of
    its laws, so that the smoothest comes first.
    """
    create = library.PrivacyLossDistribution.create_from_rounded_probability
    smoothest, *others = sorted(laws, key=_norm)
    whole = create(smoothest.masses, smoothest.infinite, cell)
    for law in others:
        whole = whole.compose(create(law.masses, law.infinite, cell))
    cells = 1 + sum(max(law.masses) - min(law.masses) for law in laws)
    hidden = 2.0**-48 * math.log2(2 * cells) * math.sqrt(cells) * _norm(smoothest)
    return whole, 2.0**-50 + len(others) * hidden


def _norm(law: LossLaw) -> float:
    return math.sqrt(sum(mass * mass for mass in law.masses.values()))
