"""Choices cost what they say: draws are replayed on data that lack one row."""

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from benchmarks.releases import plain
from dfprivacy import papers
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.noise.selection import PermuteAndFlip
from tests.replayed_draws import replay

pytestmark = pytest.mark.slow

SPOTS = [-1e300, -2.0, 1.0, 1e300]
ROWS = [*SPOTS, math.inf, math.nan, 0.0]
SMALL = [d for n in range(3) for d in itertools.combinations_with_replacement(SPOTS, n)]
LARGE = [(1.0,) * 60, (-1e300,) * 40 + (1e300,) * 30, (*np.linspace(-2, 2, 5_000),), (0.0,) * 3]
CHOICES = {
    "subset_mean": (papers.SubsetMean("x"), [1 / 4, 1 / 4]),
    "dick_mean": (papers.DickMean("x"), [3 / 10, 3 / 10]),
    "dick_center": (papers.DickCenter("x", 2), [5 / 24, 5 / 24, 5 / 12]),
    "center": (dfp.center("x", 1.5), [25 / 48]),
    "center within bounds": (dfp.center("x", 2, (-1e300, 1e300)), [5 / 6]),
    "third power within bounds": (dfp.center("x", 3, (-4, 4)), [5 / 6]),
    "inverse_quantile": (papers.InverseQuantile("x", 0.5), [5 / 6]),
    "median": (dfp.median("x"), [19 / 24]),
    "quantiles": (dfp.quantiles("x", [0.0, 1 / 3, 0.5, 1.0], (-4, 4)), [19 / 72] * 3),
    "min": (dfp.min("x"), [19 / 24]),
    "ends": (dfp.quantile("x", 0.3, ends=True), [19 / 60, 19 / 120, 19 / 120]),
    "seven": (dfp.quantiles("x", [k / 8 for k in range(1, 8)]), [19 / 72] * 3),
}
"""Questions with the parts of the loss that their choices cost, in the order of these."""
AT_RHO = {"dick_mean": [9 / 100, 9 / 100]}  # all of it is pure, at epsilon = sqrt(2 rho)


def pay(question, loss):
    """Yield what any further row costs, and the parts of the loss that choices are made for."""
    ((measure, charged),) = loss.items()

    def ask(rows):
        return pl.DataFrame({"x": np.array(rows, float)}).dp.agg(question, **loss)

    for rows, row in itertools.product([*SMALL, *LARGE], ROWS):
        larger_release, smaller_release, tape = replay(ask, (*rows, row), rows)
        assert plain(larger_release) == plain(smaller_release)
        laws = [draw.inputs["self"] for draw in tape.draws if draw.mechanism == "select"]
        parts = [getattr(law, measure)(sensitivity=1) / Fraction(charged) for law in laws]
        yield getattr(tape.loss, measure), parts


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("loss", [{"epsilon": 1.5}, {"rho": 0.125}], ids=str)
def test_a_row_costs_no_more_than_is_charged(name, loss):
    """All draws of a release together, each choice at its part, for all small and large data."""
    question, parts = CHOICES[name]
    parts = AT_RHO.get(name, parts) if "rho" in loss else parts
    (charged,) = loss.values()
    paid, chosen = zip(*pay(question, loss), strict=True)
    assert charged / 8 < max(paid) <= charged
    assert max(map(len, chosen)) == len(parts)
    for choice_parts in filter(None, chosen):  # without values there is no choice for some
        assert [float(part) for part in choice_parts] == pytest.approx(parts, rel=1e-12)


def test_the_audit_has_power(monkeypatch):
    """Choices of six times the rate are seen. Laws are kept, so that the loss is of this test."""

    def select(loss, sensitivity):
        return PermuteAndFlip.for_epsilon(6 * loss.value, sensitivity)

    monkeypatch.setattr(Epsilon, "selection", select)
    for name in ("subset_mean", "median"):
        question, _ = CHOICES[name]
        assert max(paid for paid, _ in pay(question, {"epsilon": 1.4375})) > 1.4375


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("loss", [{"epsilon": 5}, {"rho": 2.5}], ids=str)
def test_centers_within_bounds_by_rank_are_near(p, loss):
    """With 40,001 rows evenly around 1e6, half width 100, every center comes within 5 of it.

    False alarms: a bound would have to err by 15,000 rows, or a length by 1,000, where one in 1e9
    errs by 50.
    """
    frame = pl.DataFrame({"x": 1e6 + 100 * np.linspace(-1, 1, 40_001)})
    assert abs(frame.dp.agg(papers.DickCenter("x", p), **loss)["x"] - 1e6) < 5
