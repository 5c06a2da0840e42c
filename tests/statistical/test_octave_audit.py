"""Releases without bounds of mostly zeros have the size of the truth, or nothing is claimed.

An interval far from the truth comes from a core that noise alone has made: below 1e-6 a group
(tests/laws/test_bounds_search.py), so that twelve or more of 400 groups have one with probability
below 1e-12.
"""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sql_udfs

pytestmark = pytest.mark.slow
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


def alone(rows, kind, loss):
    """Return low and high of 400 releases of the same rows, each by itself.

    Functions of DuckDB answer a group as a whole frame; they have no rho.
    """
    if "rho" in loss:
        frame = pl.DataFrame({"x": rows}).dp
        releases = [getattr(frame, kind)("x", **loss) for _ in range(400)]
        return [release.low for release in releases], [release.high for release in releases]
    con = duckdb.connect()
    con.register("t", pa.table({"g": np.repeat(np.arange(400), ROWS), "x": np.tile(rows, 400)}))
    sql_udfs.register(con, **loss)
    call = f"dp_{kind.replace('std', 'stddev')}_interval(x)"
    relation = con.sql(f"SELECT a.low, a.high FROM (SELECT {call} AS a FROM t GROUP BY g)")
    return relation.fetchnumpy().values()


SHARES_WITH_LOSSES = [
    (share, loss)
    for loss, shares in zip(LOSSES, (SHARES, SHARES[::3], SHARES[1::3]), strict=True)
    for share in shares
]


@pytest.mark.parametrize(("share", "loss"), SHARES_WITH_LOSSES)
def test_an_interval_has_the_size_of_the_truth_or_no_end(share, loss):
    """Of 400 releases fewer than twelve have an interval about a number of another size."""
    rows = mixture(share)
    for kind, truth in TRUTHS.items():
        assert misleading(*alone(rows, kind, loss), truth(rows)) < 12


@pytest.mark.parametrize(("share", "loss"), SHARES_WITH_LOSSES)
def test_an_interval_of_a_group_has_the_size_of_the_truth(share, loss, bulk):
    """Of 400 groups that find bounds together fewer than twelve have one about another size.

    Of nine releases the middle one: what is drawn together decides for all groups of a release.
    Where half of the intervals reach further than the truth is from zero, noise is larger than the
    truth: each that misses it, as 5 % may, is about another size, however right its bounds are.
    More than 52 of 400 do so with a probability below 1e-9.
    """
    rows = mixture(share)
    for kind, truth in TRUTHS.items():
        ratios = []
        for _ in range(9):
            release = bulk(rows, 400, lambda g, k=kind, **t: getattr(g, k)("x", **t), **loss)
            low, high = release["low"].to_numpy(), release["high"].to_numpy()
            noisy = np.median(np.maximum(high - release["x"], release["x"] - low)) > truth(rows)
            ratios.append(misleading(low, high, truth(rows)) / (53 if noisy else 12))
        assert np.median(ratios) < 1


@pytest.mark.parametrize("share", [0.8, 0.85, 0.9])
def test_rows_beside_zero_are_found_in_several_octaves(share, bulk):
    """A hundred rows over six octaves have an answer: 0.7 to 1.3 of the truth for 15 in 16."""
    rows = mixture(share)
    release = bulk(rows, 400, lambda g, **t: g.mean("x", **t), epsilon=1)
    ratio = release["x"].to_numpy() / rows.mean()
    assert ((ratio > 0.7) & (ratio < 1.3)).sum() >= 375
