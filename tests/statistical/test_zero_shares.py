"""Columns of mostly zeros, without bounds: the other values are found, or nothing is claimed.

An interval far from the truth comes from a core that noise alone has made: below 5e-4 a group
(tests/noise/test_exceedances.py), so that twelve or more of 400 groups have one with probability
below 1e-12.
"""

from __future__ import annotations

import math

import duckdb
import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
import sql_udfs
from dfprivacy.noise.exceedances import Exceedances
from dfprivacy.statistics import octaves
from dfprivacy.statistics.estimators import octave_bounds, zoom

ROWS = 1000
SHARES = [0, 0.3, 0.6, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.99, 0.995, 0.999, 1]
LOSSES = [{"epsilon": 1}, {"rho": 0.5}, {"epsilon": 0.1}]


def mixture(share):
    """Return rows of which so many are zero, the others exponential of mean 1000."""
    others = round(ROWS * (1 - share))
    places = (np.arange(others) + 0.5) / max(others, 1)
    return np.concatenate([np.zeros(ROWS - others), -1000 * np.log1p(-places)])


def misleading(low, high, truth):
    """Return how many intervals hold no number of the size of the truth."""
    return int(((np.asarray(high) < truth / 10) | (np.asarray(low) > 10 * truth)).sum())


TRUTHS = {"mean": np.mean, "sum": np.sum, "std": lambda x: np.std(x, ddof=1)}


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("share", SHARES)
def test_an_interval_has_the_size_of_the_truth_or_no_end(share, loss, bulk, monkeypatch):
    """Of 400 groups fewer than twelve have an interval about a number of another size.

    Nothing is borrowed: each group is a release of a whole frame.
    """
    monkeypatch.setattr(octaves, "_middle", lambda found, shown: None)
    rows = mixture(share)
    for kind, truth in TRUTHS.items():
        made = bulk(rows, 400, lambda g, k=kind, **t: getattr(g, k)("x", **t), **loss)
        assert misleading(made["low"], made["high"], truth(rows)) < 12


@pytest.mark.parametrize("share", [0.8, 0.85, 0.9])
def test_rows_beside_zero_are_found_in_several_octaves(share, bulk):
    """A hundred rows over six octaves have an answer: 0.7 to 1.3 of the truth for 15 in 16."""
    rows = mixture(share)
    made = bulk(rows, 400, lambda g, **t: g.mean("x", **t), epsilon=1)
    ratio = made["x"].to_numpy() / rows.mean()
    assert ((ratio > 0.7) & (ratio < 1.3)).sum() >= 375


def doors(rows, folder):
    """Return low and high of the mean of rows as each door answers."""
    frame = pl.DataFrame({"g": ["a"] * len(rows), "x": rows})
    private, query = dfp.frame(frame), "SELECT dp_mean_interval(x) AS x FROM t"
    grouped = private.group_by("g", keys=["a"]).mean("x", epsilon=1)
    con = duckdb.connect()
    con.register("t", frame.to_arrow())
    sql_udfs.register(con, epsilon=1)
    path = dfp.statistics(frame, folder / "x.parquet", dfp.mean("x"))
    told = [con.sql(query).fetchall()[0][0], dfp.sql(query, t=frame, epsilon=1)["x"][0]]
    whole = [private.mean("x", epsilon=1), private.mean("x", rho=0.5)]
    whole += [dfp.merge([path], epsilon=1)["x"]]
    return [
        (grouped["low"][0], grouped["high"][0]),
        *((own["low"], own["high"]) for own in told),
        *((own.low, own.high) for own in whole),
    ]


def test_every_door_says_the_same_of_zeros(tmp_path, monkeypatch):
    """Whichever way a mean is asked for, zeros alone claim nothing, and a window is found.

    Forged noisy counts make both certain.
    """
    for heights, found in (({0: 300.0}, False), ({0: 300.0, 137: 9.0, 138: 8.75}, True)):
        bins, tall = np.array(list(heights)), np.array(list(heights.values()))
        noisy = Exceedances(np.zeros(len(bins), np.int64), bins, tall)
        for door in (octave_bounds, zoom):
            monkeypatch.setattr(door, "exceedances", lambda *_, noisy=noisy: noisy)
        folder = tmp_path / str(found)
        folder.mkdir()
        for low, high in doors(mixture(0.9), folder):
            assert (low, high) == (-math.inf, math.inf) if not found else -100 < low < high < 1000


def test_a_core_that_noise_can_make_lends_no_bounds(monkeypatch):
    """A group whose core is barely one has bounds of its own, but stands in for no other."""
    frame = pl.DataFrame({"g": ["a"] * 40 + ["b"] * 40, "x": [5.0] * 40 + [0.0] * 40})
    for height, lends in ((octave_bounds.CORE, False), (octave_bounds.CORE + 5, True)):
        noisy = Exceedances(np.array([0, 1]), np.array([130, 0]), np.array([height, 99.0]))
        monkeypatch.setattr(zoom, "exceedances", lambda *_, noisy=noisy: noisy)
        made = frame.dp.group_by("g", keys=["a", "b"]).mean("x", epsilon=1)
        assert np.isfinite(made["low"].to_numpy()).tolist() == [True, lends]
        assert lends or made["x"][1] == 0
