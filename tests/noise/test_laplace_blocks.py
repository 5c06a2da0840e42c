"""How the discrete Laplace sampler asks for its words."""

import os
from fractions import Fraction

import pytest

from dfprivacy.noise.laplace import sample_laplace


@pytest.mark.parametrize("scale", [Fraction(1, 10**400), Fraction(1, 3), Fraction(1), Fraction(50)])
def test_one_block_of_words_is_nearly_always_enough(scale):
    """Words for the draws that are dropped are asked for at once: rarely is a second block needed.

    A block falls short beyond four standard deviations of a binomial number, below once in 30,000;
    twenty times in 200 is rarer than 1e-60.
    """
    asked = []

    def counting(size):
        asked.append(size // 8)
        return os.urandom(size)

    for _ in range(200):
        assert len(sample_laplace(scale, 2000, counting)) == 2000
    blocks = sum(words > 1 for words in asked)  # single words settle what floats leave open
    assert blocks < 220


def test_large_scales_ask_for_no_word_too_many():
    """Where (-, 0) is next to impossible one word a draw is asked for."""
    asked = []

    def counting(size):
        asked.append(size // 8)
        return os.urandom(size)

    sample_laplace(Fraction(2**31), 2000, counting)
    assert asked[0] == 2000
