"""Intervals hold the noise: coverage at small and large n, for every question and both noises."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

import dfprivacy as dfp

ALPHA = 1e-9  # of each check; fewer than 300 checks, so a false alarm has probability below 1e-6


def least_coverage(hits, total):
    """Return the Clopper-Pearson upper limit of a coverage at confidence 1 - ALPHA."""
    return 1.0 if hits == total else float(beta.ppf(1 - ALPHA, hits + 1, total - hits))


def releases(values, question, copies, **terms):
    """Return `copies` independent releases about the same values, from one grouped call."""
    frame = pl.DataFrame(
        {"copy": np.repeat(np.arange(copies), len(values)), "x": np.tile(values, copies)},
        schema={"copy": pl.Int64, "x": pl.Float64},
    )
    return frame.dp.group_by("copy", keys=range(copies)).agg(answer=question, **terms)


QUESTIONS = {
    "count": (dfp.count("x"), len),
    "sum": (dfp.sum("x", (-1, 3)), np.sum),
    "mean": (dfp.mean("x", (-1, 3)), np.mean),
    "shifted mean": (dfp.mean("x", (-1, 3), method="shifted"), np.mean),
    "independent mean": (dfp.mean("x", (-1, 3), method="independent"), np.mean),
    "variance": (dfp.var("x", (-1, 3)), np.var),
    "deviation": (dfp.std("x", (-1, 3)), np.std),
}
SHAPES = {
    "spread": lambda n: np.linspace(-1, 3, n) if n > 1 else np.full(n, 0.5),
    "one end": lambda n: np.full(n, 3.0),
    "skewed": lambda n: np.where(np.arange(n) % 10 == 0, 3.0, -0.9),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 5, 20, 300])
@pytest.mark.parametrize("name", QUESTIONS)
def test_intervals_cover(name, n, shape):
    """At least `level` of the intervals hold the noise-free answer, pure and zCDP noise alike."""
    question, truth = QUESTIONS[name]
    values = SHAPES[shape](n)
    settings = [({"epsilon": 1.0}, 0.95), ({"epsilon": 0.1}, 0.8), ({"rho": 0.5}, 0.95)]
    for terms, level in settings:
        table = releases(values, question, 2000, interval=level, **terms)
        exact = float(truth(values))
        slack = 1e-8
        held = (table["low"] <= exact + slack) & (table["high"] >= exact - slack)
        assert least_coverage(int(held.sum()), len(table)) >= level


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_intervals_cover_in_depth(name, level):
    """The same with 40,000 releases each, at four levels, epsilons 0.1, 1 and 5, and rho."""
    question, truth = QUESTIONS[name]
    for n in (2, 50, 1000):
        values = SHAPES["spread"](n)
        for terms in ({"epsilon": 0.1}, {"epsilon": 1.0}, {"epsilon": 5.0}, {"rho": 0.1}):
            table = releases(
                values, question, 40_000 if n < 1000 else 4_000, interval=level, **terms
            )
            exact = float(truth(values))
            held = (table["low"] <= exact + 1e-8) & (table["high"] >= exact - 1e-8)
            assert least_coverage(int(held.sum()), len(table)) >= level


@pytest.mark.parametrize("name", ["count", "sum"])
def test_exact_intervals_are_not_wider_than_needed(name):
    """Count and sum use the exact law: coverage exceeds the level by no more than one grid point.

    At epsilon 0.05 one grid point of a count has probability below 0.025.
    """
    question, truth = QUESTIONS[name]
    values = SHAPES["spread"](20)
    table = releases(values, question, 20_000, epsilon=0.05, interval=0.9)
    held = (table["low"] <= truth(values) + 1e-8) & (table["high"] >= truth(values) - 1e-8)
    hits = int(held.sum())
    lowest = float(beta.ppf(ALPHA, hits, len(table) - hits + 1))
    assert lowest <= 0.9 + 0.025


def test_empty_groups_have_the_widest_answer_without_error():
    """With no rows the mean's interval is all of the bounds in nearly every release."""
    table = releases(np.array([]), dfp.mean("x", (-1, 3)), 2000, epsilon=1.0)
    assert len(table) == 2000
    assert (table["low"] >= -1).all()
    assert (table["high"] <= 3).all()
    assert ((table["low"] == -1) & (table["high"] == 3)).mean() > 0.8
