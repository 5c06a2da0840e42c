"""Estimates: floats that know their noise, and nothing else."""

import copy
import pickle
import re
import statistics

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy import papers

FRAME = pl.DataFrame({"x": [1.0, 2.0, 3.0] * 100})
BOUNDS = (0, 4)
KINDS = ("sum", "mean", "var", "std")


def estimate(kind="mean", **terms):
    if kind == "count":
        return FRAME.dp.count("x", **terms)
    return getattr(FRAME.dp, kind)("x", BOUNDS, **terms)


@pytest.mark.parametrize("kind", ["count", *KINDS])
def test_an_estimate_is_a_float(kind):
    """It adds, formats, compares and converts like the float it is."""
    number = estimate(kind)
    assert isinstance(number, float)
    assert number + 1 == float(number) + 1
    assert f"{number:.3f}" == f"{float(number):.3f}"
    assert np.float64(number) == float(number)
    assert str(number) == (str(int(number)) if kind == "count" else repr(float(number)))


@pytest.mark.parametrize("kind", ["count", *KINDS])
@pytest.mark.parametrize("terms", [{"epsilon": 0.5}, {"rho": 0.25}], ids=str)
def test_copies_are_equal_in_everything(kind, terms):
    """A pickle or a copy has the same value, intervals, error and cost."""

    def list_facts(number):
        cost = number.epsilon, number.rho, number.delta
        return number, number.interval(0.9), number.std_error, cost, repr(number)

    original = estimate(kind, **terms)
    for clone in (copy.copy, copy.deepcopy, lambda number: pickle.loads(pickle.dumps(number))):
        assert list_facts(clone(original)) == list_facts(original)


def test_cost_and_mechanism():
    """An estimate names what its call spent and the noise behind it; the other loss is None."""
    pure, concentrated = estimate(epsilon=0.5), estimate(rho=0.5)
    assert (pure.epsilon, pure.rho, pure.delta) == (0.5, None, 0.0)
    assert (concentrated.epsilon, concentrated.rho) == (None, 0.5)
    assert repr(pure.mechanism).startswith("DiscreteLaplace(scale=Fraction(")
    assert repr(concentrated.mechanism).startswith("DiscreteGaussian(sigma_squared=Fraction(")


def test_one_line():
    """The repr is one line: name, value, interval, level and cost."""
    text = repr(estimate(epsilon=1e9))
    numbers = r"x 2\.0+ \[(2\.0+|1\.9+\d*), 2\.0+\d*\]"
    assert re.fullmatch(numbers + r" at 95%, epsilon=1e\+09", text), text
    assert repr(estimate(rho=0.5, interval=0.9, clipping=False)).endswith("at 90%, rho=0.5")


@pytest.mark.parametrize("kind", KINDS)
def test_standard_error_is_the_spread_of_the_noise(kind):
    """Over 4,000 releases the spread agrees with std_error within 12 per cent.

    A sample deviation of 4,000 draws of kurtosis 6 is off by 6.2 * 0.0177 = 11 % with probability
    below 1e-9.
    """
    n, copies = 3000, 4000
    frame = pl.DataFrame({"g": np.repeat(np.arange(copies), 3), "x": [1.0, 2.0, 3.0] * copies})
    wide = pl.concat([frame] * (n // 300))
    question = getattr(dfp, kind)("x", BOUNDS)
    table = wide.dp.group_by("g", keys=range(copies)).agg(a=question, epsilon=50)
    single = wide.filter(pl.col("g") == 0)
    single_table = single.dp.group_by("g", keys=[0]).agg(a=question, epsilon=50)
    assert len(single_table) == 1
    expected = getattr(single.dp, kind)("x", BOUNDS, epsilon=50).std_error
    assert table["a"].std() == pytest.approx(expected, rel=0.12)


ASKED = {
    "mean": (dfp.mean("x", (-5, 3)), -5, 3),
    "shifted": (papers.ShiftedMean("x", (-5, 3)), -5, 3),
    "independent": (papers.IndependentMean("x", (-5, 3)), -5, 3),
    "var": (dfp.var("x", (-5, 3)), 0, 16),
    "std": (dfp.std("x", (-5, 3)), 0, 4),
}


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 2, 1e4])
@pytest.mark.parametrize("kind", ASKED)
def test_an_interval_holds_its_estimate_and_stays_in_bounds(kind, epsilon):
    """Low <= value <= high, within what the bounds allow, whatever the noise is: 300 groups."""
    question, low, high = ASKED[kind]
    frame = pl.DataFrame({"g": [*range(200)] * 2, "x": [-7.0, 2.0] * 200})
    table = frame.dp.group_by("g", keys=range(300)).agg(x=question, epsilon=epsilon)
    ends = table.select("low", "x", "high").to_numpy()
    assert np.isfinite(ends).all()
    assert (np.diff(ends, axis=1) >= -1e-9).all()
    assert low <= ends.min() <= ends.max() <= high


def test_what_other_code_computes_is_a_plain_number():
    """A number that others make of the type of an estimate has no facts, and claims none."""
    frame = pd.DataFrame({"x": range(1000)})
    means = [frame.dp.mean("x", (0, 1000), epsilon=1) for _ in range(3)]
    others = statistics.mean(means), statistics.fmean(means), dfp.Estimate(sum(means) / 3)
    for average in others:
        assert type(average) is float
        assert average == pytest.approx(sum(means) / 3)
    assert statistics.mean(means[:1]) == means[0]


def test_both_bounds_know_their_cost():
    """Bounds are answers: they show what they cost, and can be passed on."""
    frame = pd.DataFrame({"x": range(1000)})
    bounds = frame.dp.bounds("x", epsilon=1)
    assert [end.epsilon for end in bounds] == [1, 1]
    assert repr(dfp.show(bounds)).count("epsilon=1 for both") == 2
    lower, upper = bounds
    assert frame.dp.mean("x", bounds, epsilon=1).bounds == dfp.Bounds(lower, upper)
