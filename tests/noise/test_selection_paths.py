"""Every path gives the choice of infinitely precise arithmetic, on the same words."""

import itertools
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import ctx

import dfprivacy
from dfprivacy.noise import race
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.race import (
    EXPONENTIAL,
    UNIFORM,
    Race,
    certain_keys,
    certain_rivals,
    excess_losses,
)
from dfprivacy.noise.uniform import Workspace
from tests.noise.exact_references import TOP, ball
from tests.noise.race_references import (
    RATE,
    TIMES,
    Played,
    all_digits,
    crafted_words,
    reference_key,
)
from tests.noise.selection_laws import both, runs_of
from tests.numbered_bytes import SOURCE


def reference_winner(words, lengths, levels, times):
    ctx.prec = 1600
    keys = [
        reference_key(all_digits(word), length, level, times)
        for word, length, level in zip(words, lengths, levels, strict=True)
    ]
    for index, key in enumerate(keys):
        if all(key < other for place, other in enumerate(keys) if place != index):
            return index
    raise AssertionError("more digits needed")


def near_tie(times, word, length, level, other_length, other_level):
    """Return the word that makes a second run arrive with the key of the first, or None."""
    ctx.prec = 700
    key = reference_key(all_digits(word), length, level, times) - ball(other_level)
    arrival = key.exp()
    if times is UNIFORM:
        if not arrival < 1:
            return None
        arrival = -(-arrival).log1p()
    uniform = (-arrival * other_length).exp() * TOP
    found = int(uniform.floor().unique_fmpz())
    return found if 3 <= found < TOP - 3 else None


LENGTHS = [1, 2, 3, 50, 10**6, 2**40 + 1, 2**62 - 1]


def near_ties(times):
    """(words, lengths, losses) of two runs whose keys differ in the last digits of a word."""
    random = np.random.default_rng(5)
    cases = []
    for length, other_length in itertools.product(LENGTHS, LENGTHS):
        for gap in (0, 1, 20):
            word = int(random.integers(1, TOP))
            if times is EXPONENTIAL:
                balanced = max(0, round(3 * math.log(other_length / length))) + gap
            else:
                balanced = gap
            other = near_tie(times, word, length, 0, other_length, RATE * balanced)
            if other is not None:
                cases += [
                    ((word, other + step), (length, other_length), (0, balanced))
                    for step in (-2, -1, 0, 1, 2)
                    if (length, 0, word) != (other_length, balanced, other + step)
                ]
    assert len(cases) > 150
    return cases


@pytest.mark.parametrize("times", TIMES, ids=["exponential", "uniform"])
@pytest.mark.parametrize("trusted", [True, False], ids=["fast", "exact"])
def test_near_ties_are_decided_exactly(times, trusted, monkeypatch):
    """Runs whose words differ by 2**-63 from a tie: the winner is that of ball arithmetic."""
    if not trusted:
        monkeypatch.setattr(race, "certified", lambda: False)
    for words, lengths, losses in near_ties(times):
        runner = Race(times, RATE, 2, Played([]))
        found = runner.decided(
            np.array(words), np.zeros(1, np.int64), np.array(lengths), np.array(losses)
        )
        levels = [RATE * (loss - min(losses)) for loss in losses]
        assert found.tolist() == [reference_winner(words, lengths, levels, times)]


@pytest.mark.parametrize("times", TIMES, ids=["exponential", "uniform"])
def test_winners_are_those_of_ball_arithmetic(times):
    """Groups of any shape, words at the ends of the range among them: the exact winner."""
    words = crafted_words(200)
    random = np.random.default_rng()
    for _ in range(400):
        size = int(random.integers(1, 6))
        chosen = [int(words[k]) for k in random.choice(len(words), size, replace=False)]
        lengths = [int(2 ** random.uniform(0, 61.9)) for _ in range(size)]
        losses = random.integers(0, 150, size)
        starts = np.zeros(1, np.int64)
        runner = Race(times, RATE, size, Played([]))
        found = runner.decided(np.array(chosen), starts, np.array(lengths), losses)
        levels = [RATE * gap for gap in excess_losses(losses, starts).tolist()]
        assert found.tolist() == [reference_winner(chosen, lengths, levels, times)]


@both
@pytest.mark.parametrize(
    "rate", [Fraction(1, 2**500), RATE, Fraction(50), Fraction(2**500)], ids=str
)
def test_without_the_filter_the_choice_is_the_same(mechanism, rate, monkeypatch):
    """Refusing the certificate changes no choice: the same bytes, the same candidates."""
    random = np.random.default_rng()
    groups = [
        [
            (int(random.integers(-(2**62), 2**62)), int(2 ** random.uniform(0, 61)), int(loss))
            for loss in random.integers(0, random.choice([2, 20, 2**53]), random.integers(1, 9))
        ]
        for _ in range(150)
    ]
    words = crafted_words(3000)
    random.shuffle(words)
    runs = runs_of(*groups)
    fast = mechanism(rate).select(runs, Played(words))
    monkeypatch.setattr(race, "certified", lambda: False)
    assert fast.tolist() == mechanism(rate).select(runs, Played(words)).tolist()


def test_few_groups_need_the_exact_path():
    """Of 100,000 random groups of 4 runs none is expected on the exact path (below 1e-5)."""
    size = 400_000
    words = (np.frombuffer(system_entropy(8 * size), np.uint64) >> np.uint64(1)).view(np.int64)
    starts = np.arange(0, size, 4)
    lengths = np.random.default_rng().integers(1, 2**40, size)
    for times in TIMES:
        work = Workspace.of(size)
        with np.errstate(all="ignore"):
            certain_keys(words, lengths, np.zeros(size), times, work)
            assert len(certain_rivals(starts, work)) <= len(starts) + 2


ROUNDING = (
    SOURCE
    + """
import ctypes, ctypes.util
from fractions import Fraction
import numpy as np
from dfprivacy.noise.uniform import certified
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip

spread = np.arange(900)
runs = Runs(spread[::3], spread, 1 + spread**6, spread * 7919 % 60)

def chosen():
    laws = [ExponentialMechanism(Fraction(1, 3)), PermuteAndFlip(Fraction(1, 3))]
    return [law.select(runs, NumberedBytes()).tolist() for law in laws]

expected = chosen()
assert certified()
libm = ctypes.CDLL(ctypes.util.find_library("m"))
for mode in (0x400, 0x800, 0xC00):
    assert libm.fesetround(mode) == 0
    try:
        trusted, found = certified(), chosen()
    finally:
        libm.fesetround(0)
    assert not trusted
    assert found == expected
"""
)


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64",
    reason="numbers of the rounding modes are those of Linux on x86-64",
)
def test_other_rounding_modes_change_no_choice():
    """Rounding down, up or to zero is noticed at every call and the choices stay the same."""
    package = str(Path(dfprivacy.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package}
    subprocess.run([sys.executable, "-c", ROUNDING], check=True, env=environment)
