"""Intervals of quantiles hold the quantile of the rows, whatever the rows are and the ends miss.

Statistical tests fail by chance with a probability below 1e-6. Each data set is measured once and
stands for many groups, each released by itself.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators.quantile import (
    EndsLaw,
    QuantileEstimator,
    RankEnds,
    rows_between,
    select_ends,
)
from dfprivacy.statistics.split import split
from tests.command_line import command

GROUPS = 400
LEVEL = 0.95
HALF = Fraction(1, 2)


@pytest.fixture(autouse=True)
def _permitted():
    """Let choices be drawn outside of a release."""
    with permit("a test"):
        yield


def copies_of(values, bits=8, groups=GROUPS):
    """Return a table of many groups that all hold these values."""
    grid = SignificantBits(bits)
    labels, rows = np.unique(grid.labels(np.asarray(values, float)), return_counts=True)
    group = np.repeat(np.arange(groups), len(labels))
    many = np.tile(rows, groups).astype(np.int64)
    return bin_table(pa.table({}), groups, grid, group, np.tile(labels, groups), rows=many)


def released(values, qs, loss, level=LEVEL):
    """Return values, low and high of each level, by group."""
    asked = {str(q): dfp.quantile("x", q, ends=True) for q in qs}
    (part,) = split(asked, grouped=True)
    answers = part.measured(copies_of(values)).answer(loss, None).answers
    return [answers[name][0].columns(level) for name in asked]


def quantile_of(values, q):
    """Return the smallest value that a part q of the values reach."""
    return np.sort(values)[max(math.ceil(q * len(values)), 1) - 1]


def made(name, size):
    random = np.random.default_rng(len(name))
    laws = {
        "normal": lambda: random.normal(100, 15, size),
        "half zeros": lambda: np.where(np.arange(size) < size / 2, 0.0, 1e6),
        "most zeros": lambda: np.where(random.random(size) < 0.49, 0, random.exponential(9, size)),
        "two heaps": lambda: np.append(
            random.normal(-5, 1, size // 2), random.normal(1e9, 1, size)
        ),
        "constant": lambda: np.full(size, 7.3),
        "delays": lambda: np.round(random.exponential(30, size) - 20),
    }
    return laws[name]()


LAWS = ("normal", "half zeros", "most zeros", "two heaps", "constant", "delays")


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1, 4))], ids=str)
def test_an_interval_holds_the_quantile_of_the_rows(name, loss):
    """In 95 % of releases or more: data with gaps, heaps and ties too, at one level and at two."""
    for size in (300, 2000):
        values = made(name, size)
        for qs in ([0.5], [0.25, 0.9]):
            for q, (value, low, high) in zip(qs, released(values, qs, loss), strict=True):
                truth = quantile_of(values, q)
                held = int(((low <= truth) & (truth <= high)).sum())
                assert stats.binomtest(held, GROUPS, LEVEL, alternative="less").pvalue > 1e-9
                assert ((low <= value) | np.isnan(value)).all()
                assert ((value <= high) | np.isnan(value)).all()


def test_with_many_rows_both_ends_are_found():
    """Of data without gaps nearly every release has both ends, some tens of ranks apart."""
    values = made("normal", 5000)
    (_, low, high), (_, below, above) = released(values, [0.5, 0.9], Epsilon(Fraction(1)))
    for ends in ((low, high), (below, above)):
        assert np.isfinite(ends).all(axis=0).mean() > 0.9
        places = [np.searchsorted(np.sort(values), own[np.isfinite(own)]) for own in ends]
        assert np.median(places[1]) - np.median(places[0]) < 400


@pytest.mark.parametrize("q", [Fraction(1, 10), HALF, Fraction(9, 10)], ids=str)
@pytest.mark.parametrize("loss", [Epsilon(Fraction(1, 2)), Rho(Fraction(1, 50))], ids=str)
def test_an_end_on_the_wrong_side_is_not_shown(q, loss):
    """However it was selected: with half of the rest, where it is wrong by no row at all."""
    groups, rows, noise = 40_000, 1300, loss.noise(1, 1)
    reached = int(q * rows)  # q of the rows lie below the lower end, and up to the upper one
    parts = np.repeat([[reached], [0], [rows - reached]], groups, axis=1)
    vector = NoisyVector(add_to(parts, noise), noise)
    one, none, zeros = np.ones(groups, np.int64), np.zeros(groups, bool), np.zeros(groups)
    estimator = QuantileEstimator(
        q, zeros, zeros, zeros, RankEnds(one, one, one, 2 * one, (none, none))
    )
    for level in (0.8, 0.95):
        for shown in map(np.isfinite, estimator.interval(vector, level)):
            assert shown.sum() <= stats.binom.ppf(1 - 1e-9, groups, (1 - level) / 2)


def test_each_row_is_counted_in_one_part():
    """Parts add up to the rows of a group, are those of the formula, and one row moves one by 1."""
    grid = SignificantBits(8)
    random = np.random.default_rng(3)
    values = np.round(random.normal(0, 5, 40))
    group = random.integers(0, 3, 40)
    cuts = np.sort(grid.numbers(np.array([[-9.0, 0, 2], [-1, 0, 3], [0, 1, 3], [4, 9, 99]])), 0)
    cuts[0, 0] = -grid.last - 1  # below all candidates

    def parts(kept):
        ones = np.ones(kept.sum(), np.int64)
        labels = grid.labels(values[kept])
        table = bin_table(pa.table({}), 3, grid, group[kept], labels, rows=ones)
        return rows_between(table, cuts)

    every = np.ones(40, bool)
    whole, numbers = parts(every), grid.numbers(grid.labels(values))
    for g in range(3):
        upto = [(numbers[group == g] <= cut).sum() for cut in cuts[:, g]]
        assert whole[:, g].tolist() == np.diff([0, *upto, (group == g).sum()]).tolist()
    for left in range(40):
        moved = whole - parts(every & (np.arange(40) != left))
        assert np.abs(moved).sum() == moved.sum() == 1


def test_ends_are_as_far_as_the_law_says():
    """At a large epsilon the ends are the values at the ranks that `EndsLaw.apart` names."""
    loss = Epsilon(Fraction(200))
    table = copies_of(np.arange(1, 5001), bits=16, groups=3)
    law = EndsLaw(loss, Epsilon(1).noise(1, 1), loss.noise(1, 1), 2 * table.binning.last + 1, 2)
    levels = [Fraction(1, 4), HALF]
    rows = np.full(3, 5000)
    ends, vector = select_ends(table, levels, rows, law)
    for place, (q, own) in enumerate(zip(levels, ends, strict=True)):
        for side, found in ((-1, own.low), (1, own.high)):
            rank = int(q * 5000) + side * law.apart(q, place, side)
            assert np.abs(table.binning.values(found) - rank).max() <= 1
    assert vector.coordinates.shape == (5, 3)


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_frames_show_intervals_that_are_asked_for(make):
    """A number has ends, a frame by group columns of them; without `ends` it has none."""
    random = np.random.default_rng(8)
    frame = make({"g": np.arange(12_000) % 2, "x": random.normal(50, 5, 12_000)})
    answer = frame.dp.median("x", ends=True, epsilon=4)
    assert answer.low < answer < answer.high
    assert answer.low < 50.2
    assert answer.high > 49.8
    assert not hasattr(frame.dp.median("x", epsilon=4), "low")
    by_group = frame.dp.group_by("g", keys=[0, 1]).quantile("x", 0.9, ends=True, epsilon=4)
    assert list(by_group.columns) == ["g", "x", "low", "high", "count"]
    table = pd.DataFrame(
        by_group.to_dict() if make is pd.DataFrame else by_group.to_dict(as_series=False)
    )
    assert (table["low"] <= table["x"]).all()
    assert (table["x"] <= table["high"]).all()
    within = frame.dp.median("x", bounds=(0, 100), step=1, ends=True, epsilon=4)
    assert all(float(end).is_integer() for end in within.interval())


def test_open_ends_are_the_bounds():
    """Too few rows: nothing is known but what the caller has said."""
    frame = pl.DataFrame({"x": [3.0] * 9})
    anywhere = frame.dp.median("x", ends=True)
    assert math.isnan(anywhere)
    assert anywhere.interval() == (-math.inf, math.inf)
    assert frame.dp.median("x", bounds=(0, 60), step=1, ends=True).interval() == (0, 60)


def test_statements_show_intervals_on_request():
    """`intervals=True` adds both ends; a median alone pays for none, and is no draw of those."""
    frame = pl.DataFrame({"x": np.random.default_rng(2).normal(50, 1, 4000)})
    query = "SELECT dp_median(x) AS m FROM t"
    shown = dfp.sql(query, t=frame, epsilon=2, intervals=True)
    assert shown.columns == ["m", "m_low", "m_high"]
    assert shown["m_low"][0] < shown["m"][0] < shown["m_high"][0]
    assert dfp.sql(query, t=frame, epsilon=2).columns == ["m"]
    about = "the ends of its interval"
    assert about in str(frame.dp.explain.median("x", ends=True))
    assert about not in str(frame.dp.explain.median("x"))


def test_what_has_no_interval_is_refused():
    """Inverse sensitivity certifies nothing, and no interval is of the population."""
    private = pl.DataFrame({"x": [1.0]}).dp
    with pytest.raises(dfp.DPError, match="no interval"):
        private.median("x", method="inverse", ends=True)
    with pytest.raises(dfp.DPError, match="no interval of the population"):
        private.median("x", ends=True, interval="population")


def test_the_command_line_shows_ends(tmp_path, monkeypatch):
    """`--ends` adds low and high to the table."""
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"x": [7.0] * 4000}).write_csv("x.csv")
    result = command("median", "x.csv", "x", "--ends", "--epsilon", "4")
    assert result.exit_code == 0, result.output
    assert all(end in result.output for end in ("low", "high", "95% intervals"))
