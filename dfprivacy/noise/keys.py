"""The count at which a secret group may appear."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dfprivacy.errors import InvalidLossError
from dfprivacy.noise.laws import Noise
from dfprivacy.noise.tails import smallest_exceedance

_LEAST_DELTA = Fraction(1, 2**1074)


@dataclass(frozen=True)
class KeyRule:
    """When a secret group is shown: one that a unit alone has made, with probability <= `delta`.

    `delta` is for one group and one selection; `rows` is how many rows a unit can have in a group.
    """

    delta: Fraction
    rows: int = 1

    def least(self, noise: Noise, divisor: int, terms: int) -> int:
        """Return the noisy total, in units of 1/divisor rows, from which on a group is shown."""
        return threshold(noise, self.rows * divisor, terms, self.delta)

    def divided(self, selections: int) -> KeyRule:
        """Return the rule of one of several selections that share delta evenly."""
        return KeyRule(self.delta / selections, self.rows)


@lru_cache(maxsize=256)  # public arguments only
def threshold(noise: Noise, contribution: int, terms: int, delta: Fraction) -> int:
    """Return the smallest T with P(contribution + Z_1 + ... + Z_terms >= T) <= delta.

    Releasing a group if and only if its noisy total is at least T (>=, not >) makes a group that
    consists of one unit's contribution alone appear with probability at most delta: releasing the
    keys is then (0, delta)-differentially private for one unit in one group, added or removed. A
    unit in several groups needs its delta divided by their number first.

    Parameters
    ----------
    noise : Noise
        Law of one noise term, on the integer grid of the total.
    contribution : int
        The most that one unit adds to the total of a group, in grid units.
    terms : int
        How many independent noise terms are in the total, 1 to 64.
    delta : Fraction
        Probability in (0, 1).

    Returns
    -------
    int
        T in grid units; the tail of `noise` at T - contribution is a certified bound.

    Raises
    ------
    InvalidLossError
        When delta is not between 2**-1074 and 1.
    InvalidQuestionError
        When there are more terms than the tail bounds know.

    Notes
    -----
    Korolova et al. 2009 and Wilson et al. 2020 introduced thresholds; the proof for >= and for
    several noise terms is in docs/sampling.md.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from dfprivacy.noise.laws import DiscreteLaplace
    >>> threshold(DiscreteLaplace(Fraction(1)), 1, 1, Fraction(1, 10**6))
    15
    """
    if not _LEAST_DELTA <= delta < 1:
        raise InvalidLossError(
            "delta must be at least 2**-1074 and less than 1", hint="Use delta=1e-6."
        )
    exact = Fraction(delta)
    return contribution + smallest_exceedance(lambda excess: noise.tail(excess, terms), exact)
