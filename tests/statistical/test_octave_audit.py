"""Releases without bounds cost at most their charge, and have the size of the truth.

Draws on one table are repeated on its neighbor; what the search for bounds leaves of its loss is
checked in tests/laws/test_bounds_search.py.

Columns of mostly zeros: the other values are found, or nothing is claimed. An interval far from
the truth comes from a core that noise alone has made: below 1e-6 a group
(tests/laws/test_bounds_search.py), so that twelve or more of 400 groups have one with probability
below 1e-12.
"""

import math

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
import sql_udfs
from benchmarks.releases import plain
from dfprivacy.statistics.estimators import bounds_search
from dfprivacy.statistics.estimators.bounds_search import Look
from tests.products import take_turns
from tests.replayed_draws import replay

pytestmark = pytest.mark.slow

ASKS = {
    "bounds": lambda g, **t: g.bounds("x", **t),
    "mean": lambda g, **t: g.mean("x", **t),
    "sum": lambda g, **t: g.sum("x", **t),
    "variance": lambda g, **t: g.var("x", **t),
    "several": lambda g, **t: g.agg(x=dfp.mean("x"), v=dfp.std("x"), n=dfp.count("x"), **t),
    "histogram": lambda g, **t: g.histogram("x", bins=[0, 4, 8, 16], **t),
}
BOUNDS_CORE, MEAN_CORE = 10, 20  # rows of a core, and of a group unlike all, at epsilon = 3
AWAY = [[700.0] * 80, [710.0] * 60, [703.0] * 40 + [900.0] * 10]
NEAR = [[5.0] * 40, [300.0] * 12, [-2.0] * 30]
MORE = {
    "nobody and one": ([[]], 5.0),
    "nobody and infinity": ([[]], math.inf),
    "two and three": ([[5.0] * 2], 5.0),
    "one more of many": ([[5.0] * 15], 5.0),
    "an outlier": ([[5.0] * 16], -1e300),
    "a neighboring octave": ([[*[5.0] * 20, *[9.0] * 7]], 9.0),
    "a missing value": ([[5.0] * 16], math.nan),
    "just below a core of bounds": ([[5.0] * (BOUNDS_CORE - 2)], 5.0),
    "just below a core of a mean": ([[5.0] * (MEAN_CORE - 2)], 5.0),
    "zeros": ([[0.0] * 15], 0.0),
    "one more of several": (NEAR, 5.0),
    "a group": ([[300.0] * 11, NEAR[0], NEAR[2]], 300.0),
    "an outlier of several": (NEAR, 1e30),
    "enough": ([[5.0] * 33, [5.0] * 34, []], 5.0),
    "nobody in several": ([[], [], []], 5.0),
    "far": (AWAY, 700.0),
    "far, elsewhere": (AWAY[::-1], 900.0),
    "far, an outlier": (AWAY, -1e30),
    "far or not": ([[5.0] * 66, [5.0] * 67, []], 5.0),
}
"""The rows of some groups, and one row more of the first group."""


@pytest.mark.parametrize(
    ("ask", "pair", "loss"),
    take_turns(ASKS, MORE, [{"epsilon": 0.25}, {"epsilon": 1}, {"epsilon": 3}, {"rho": 1}]),
)
def test_one_row_costs_no_more_than_is_charged(ask, pair, loss):
    """Whole and by group, in ten releases each, and nothing else shows it."""
    smaller, value = MORE[pair]
    larger = [[*smaller[0], value], *smaller[1:]]
    ((measure, charged),) = loss.items()

    def frame_of(groups):
        rows = [(group, float(x)) for group, values in enumerate(groups) for x in values]
        return pl.DataFrame(rows, schema={"g": pl.Int64, "x": pl.Float64}, orient="row").dp

    def by_group(groups):
        return ASKS[ask](frame_of(groups).group_by("g", keys=range(len(groups))), **loss)

    for release in [by_group, lambda groups: ASKS[ask](frame_of(groups), **loss)] * 10:
        larger_release, smaller_release, tape = replay(release, larger, smaller)
        assert plain(larger_release) == plain(smaller_release)
        assert 0 <= getattr(tape.loss, measure) <= charged


# Columns of mostly zeros


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


def doors(rows, folder):
    """Return low and high of the mean of rows as each door answers."""
    frame = pl.DataFrame({"g": ["a"] * len(rows), "x": rows})
    private, query = dfp.frame(frame), "SELECT dp_mean_interval(x) AS x FROM t"
    grouped = private.group_by("g", keys=["a"]).mean("x", epsilon=1)
    con = duckdb.connect()
    con.register("t", frame.to_arrow())
    sql_udfs.register(con, epsilon=1)
    path = dfp.statistics(frame, folder / "x.parquet", dfp.mean("x"))
    sql_answers = [con.sql(query).fetchall()[0][0], dfp.sql(query, t=frame, epsilon=1)["x"][0]]
    estimates = [private.mean("x", epsilon=1), private.mean("x", rho=0.5)]
    estimates += [dfp.merge([path], epsilon=1)["x"]]
    return [
        (grouped["low"][0], grouped["high"][0]),
        *((answer["low"], answer["high"]) for answer in sql_answers),
        *((answer.low, answer.high) for answer in estimates),
    ]


def forged(tall):
    """Return a look at a ruler, where bins of these upper ends are so tall, and zero is 300."""

    def look_at(table, groups, ruler, paid, counters=None):
        heights = np.array([[tall.get(float(end), 0.0) for end in ruler.edges.reshape(-1)[1:]]])
        heights[:, ruler.middle] = 300.0 * (not ruler.is_far)
        return Look(ruler, heights, np.ones(1))

    return look_at


def test_every_door_says_the_same_of_zeros(tmp_path, monkeypatch):
    """Whichever way a mean is asked for, zeros alone claim nothing, and a window is found.

    Forged noisy counts make both certain.
    """
    for tall, is_found in (({}, False), ({512.0: 20.0, 1024.0: 20.0}, True)):
        monkeypatch.setattr(bounds_search, "look_at", forged(tall))
        folder = tmp_path / str(is_found)
        folder.mkdir()
        for low, high in doors(mixture(0.9), folder):
            if is_found:
                assert -1000 < low < high < 2000
            else:
                assert (low, high) == (-math.inf, math.inf)
