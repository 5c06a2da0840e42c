"""What is released without bounds keeps the promise of epsilon: measured at the public surface.

Groups with public keys are independent releases of the same rows: each bin has its own noise, and
so has each answer. Comparisons have a false-alarm rate of 2e-9 at most (Clopper-Pearson); one half
of the draws chooses the events and the other half judges them, at most 64 * 6 for each of ten
views. Only events as unequal as epsilon allows can raise an alarm: below 1e-6 a test.

Columns of mostly zeros: the other values are found, or nothing is claimed. An interval far from
the truth comes from a core that noise alone has made: below 1e-6 a group
(tests/laws/test_bounds_search.py), so that twelve or more of 400 groups have one with probability
below 1e-12.
"""

import math
from fractions import Fraction
from unittest import mock

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
import sql_udfs
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.measurement.bin_table import FINE, BinTable, bin_table
from dfprivacy.measurement.binning import Octaves
from dfprivacy.release.answers import OuterCounts
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators import bounds_search, group_bounds
from dfprivacy.statistics.estimators.bounds_search import (
    UNITS,
    Found,
    Look,
    find_bounds,
    ruler_about_zero,
)
from dfprivacy.statistics.estimators.group_bounds import find_group_bounds
from tests.products import take_turns

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
PAIRS = {
    "nobody and one": ([], [5.0]),
    "nobody and infinity": ([], [math.inf]),
    "two and three": ([5.0] * 2, [5.0] * 3),
    "one more of many": ([5.0] * 15, [5.0] * 16),
    "an outlier": ([5.0] * 16, [*[5.0] * 16, -1e300]),
    "a neighboring octave": ([*[5.0] * 20, *[9.0] * 7], [*[5.0] * 20, *[9.0] * 8]),
    "a missing value": ([5.0] * 16, [*[5.0] * 16, math.nan]),
    "just below a core of bounds": ([5.0] * (BOUNDS_CORE - 2), [5.0] * (BOUNDS_CORE - 1)),
    "just below a core of a mean": ([5.0] * (MEAN_CORE - 2), [5.0] * (MEAN_CORE - 1)),
    "zeros": ([0.0] * 15, [0.0] * 16),
}
MISSING = -1e250


def views(table, copies):
    """Return what an observer may look at: columns, and what undoes a ratio where there is one.

    Of a note, whether there is one.
    """
    columns = {
        name: column.is_not_null().to_numpy().astype(float)
        if column.dtype == pl.String
        else np.nan_to_num(column.to_numpy().astype(float), nan=MISSING)
        for name, column in table.to_dict(as_series=True).items()
        if name != "g"
    }
    if len(table) > copies:
        counts = columns["count"].reshape(copies, -1)
        return {f"bin {i}": counts[:, i] for i in range(counts.shape[1])} | {
            "total": counts.sum(axis=1),
            "contrast": counts[:, 0] - counts[:, 1],
        }
    for name in {"x", "v", "lower"} & columns.keys():
        known, count = columns[name] != MISSING, columns.get("n", columns.get("count", 1.0))
        columns[f"{name} known"] = np.where(known, count + 1e3, MISSING)
        columns[f"{name} own"] = np.where(columns[name] > 8, count + 1e3, MISSING)
        columns[f"{name} above"] = np.where(known, (columns[name] - 4) * count, MISSING)
        columns[f"{name} below"] = np.where(known, (8 - columns[name]) * count, MISSING)
    return columns


SHARING = {"mean", "sum", "variance", "several"}
"""Questions that look at all groups together first."""


def found_together(*_, **__):
    """Return bounds of all groups together near zero, from -4 to 4096, whatever these hold."""
    ruler, zero = ruler_about_zero(Octaves(), 0, Octaves().last), np.zeros(1, int)
    heights, middle = np.zeros((1, len(ruler.starts) - 1)), ruler.middle
    heights[:, [middle - 128, middle + 120, middle + 129, middle + 130, middle + 138]] = 99.0
    look, reach = Look(ruler, heights, np.ones(1)), np.array([[-4.0], [4096.0]])
    first, last = zero + middle - 128, zero + middle + 138
    return [Found(look, first, last, zero + UNITS // 2, reach, zero)], zero[:0]


def levels_together(counts, distances, *_):
    """Return levels of groups that are like all."""
    return (len(counts), *np.zeros((2, distances.pooled + 1)))


def release(ask, rows, copies, **loss):
    """Release a question about copies of the same rows, one a group, as if each were alone.

    What is looked at together is the same for all, so that groups are independent given that: what
    it costs is audited by itself below. The note on far rows of some groups reads noisy counts that
    all copies have paid for, and is left out.
    """
    groups = np.repeat(np.arange(copies), len(rows))
    values = np.tile(np.array(rows, float), copies)
    frame = pl.DataFrame({"g": pl.Series(groups, dtype=pl.Int64), "x": values})
    grouped = frame.dp.group_by("g", keys=range(copies))
    if ask not in SHARING:
        return views(ASKS[ask](grouped, **loss), copies)
    forged = {"search": found_together, "_read_levels": levels_together}
    no_note = mock.patch.object(OuterCounts, "are_rows", return_value=False)
    with no_note, mock.patch.multiple(group_bounds, **forged):
        return views(ASKS[ask](grouped, **loss), copies)


def worst(violation, ask, pair, copies, claimed, delta=0.0, **loss):
    """Return by how much some event certainly breaks the claim; negative where none does."""
    left, right = (release(ask, rows, copies, **loss) for rows in PAIRS[pair])
    assert left.keys() == right.keys()
    return max(violation(left[name], right[name], claimed, delta) for name in left)


def test_one_row_changes_no_probability_by_more_than_rho_allows(violation):
    """The same at rho = 1, which is (1 + 2 sqrt(ln 100), 1/100)-DP."""
    claimed = 1 + 2 * math.sqrt(math.log(100))
    assert worst(violation, "bounds", "one more of many", 30_000, claimed, 0.01, rho=1) <= 0


CORES = [
    ("bounds", "just below a core of bounds", 3),
    ("mean", "just below a core of a mean", 3),
]


@pytest.mark.parametrize(
    ("ask", "pair", "epsilon"), [*take_turns(ASKS, PAIRS, [0.3, 1, 3]), *CORES]
)
def test_one_row_changes_no_probability_by_more_than_epsilon(ask, pair, epsilon, violation):
    """One row changes no probability by more than epsilon, for each question of each pair.

    No tail and no point of what is released is more than exp(epsilon) times as likely on a
    neighbor, on 50,000 releases a side; false-alarm rate below 1e-6.
    """
    assert worst(violation, ask, pair, 50_000, epsilon, epsilon=epsilon) <= 0


@pytest.mark.parametrize(
    ("ask", "pair", "claimed"),
    [
        ("bounds", "just below a core of bounds", 2),
        ("mean", "just below a core of a mean", 1.2),
        ("histogram", "two and three", 2.2),
    ],
)
def test_the_audit_sees_a_smaller_claim_fail(ask, pair, claimed, violation):
    """Releases at epsilon = 3 fail the audit of a clearly smaller claim.

    A group's own counts (0.6 at most) alone would not break a claim of 1.2. Missed below 1e-9.
    """
    copies = 40_000 if ask == "histogram" else 150_000
    assert worst(violation, ask, pair, copies, claimed, epsilon=3) > 0


FAR = {
    "one more": ([700.0] * 60 + [703.0] * 70, [700.0] * 60 + [703.0] * 71),
    "an outlier": ([700.0] * 60 + [703.0] * 70, [700.0] * 60 + [703.0] * 70 + [-1e30]),
    "enough or not": ([5.0] * 100, [5.0] * 101),
    "a far octave": ([700.0] * 92 + [9.0] * 7, [700.0] * 92 + [9.0] * 8),
    "the middle": ([700.0] * 60 + [999.0] * 60, [700.0] * 60 + [999.0] * 61),
    "near": ([-3.0] * 280 + [9.0] * 330, [-3.0] * 280 + [9.0] * 331),
    "near or not": ([-3.0] * 280 + [9.0] * 275, [-3.0] * 280 + [9.0] * 276),
}


@pytest.mark.parametrize("epsilon", [1, 3])
@pytest.mark.parametrize("pair", FAR)
def test_bounds_about_a_centre_cost_what_is_not_left(pair, epsilon, violation):
    """One row changes no probability of bounds and share by more than was spent on them at most.

    Nor of what rows outside may add up to. Tables of 15,000 groups that hold the same rows, each
    as one of a whole frame.
    """
    assert audited(pair, 15_000, epsilon, violation) <= 0


def test_the_audit_of_a_center_sees_a_smaller_claim_fail(violation):
    """A row with which all rows are as tall as a core needs breaks a claim of 0.02 at epsilon 3.

    It moves the noisy height of the first look by 0.09 scales, that of all three by 1.2.
    """
    FAR["a core or not"] = ([5.0] * 17, [5.0] * 18)
    assert audited("a core or not", 15_000, 3, violation, 0.02) > 0


def audited(pair, copies, epsilon, violation, claimed=None):
    """Measure by how much some event of found bounds certainly breaks a claim.

    Unless claimed otherwise, that is the most that a group says it has spent.
    """
    sides = []
    for rows in FAR[pair]:
        with permit("a test"):
            found = find_bounds(copies_of(rows, copies), Epsilon(Fraction(epsilon)))
        ends = {"lower": found.lower, "upper": found.upper}
        ends |= {"below": found.bias[0], "above": found.bias[2]}
        ends = {name: np.nan_to_num(own, nan=MISSING) for name, own in ends.items()}
        sides.append({**ends, "left": found.left.astype(float)})
    left, right = sides
    if claimed is None:
        claimed = epsilon * (1 - min(left["left"].min(), right["left"].min()) / UNITS)
    return max(violation(left[name], right[name], claimed, 0.0) for name in left)


def copies_of(rows, copies):
    """Return the table of so many groups that hold these rows."""
    labels, counts = np.unique(FINE.labels(np.array(rows)), return_counts=True)
    group, bins = np.repeat(np.arange(copies), len(labels)), np.tile(FINE.numbers(labels), copies)
    order = np.lexsort((bins, group))
    rows_ = np.tile(counts, copies)[order]
    return BinTable(pa.table({}), copies, FINE, group[order], bins[order], rows_)


def test_a_whole_frame_has_the_law_of_a_group(violation):
    """Releases of a whole frame are distributed like those of a group: no event tells them apart.

    300 releases a side against a claim of epsilon = 0; false-alarm rate below 1e-6.
    """
    rows = [5.0] * 24
    frame = pl.DataFrame({"x": rows})
    whole = [frame.dp.bounds("x", epsilon=1) for _ in range(300)]
    ends = np.array([[float(end) for end in pair] for pair in whole])
    grouped = release("bounds", rows, 300, epsilon=1)
    for index, name in enumerate(("lower", "upper")):
        own = np.nan_to_num(ends[:, index], nan=MISSING)
        assert violation(own, grouped[name], 0.0, 0.0) <= 0
        assert len(np.unique(own)) > 1


# Groups that look at all together first


def fine_table(rows, binning=FINE):
    """Return the table of some groups."""
    group = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    labels = binning.labels(np.concatenate([np.asarray(own, float) for own in rows]))
    ones = np.ones(len(labels), np.int64)
    return bin_table(pa.table({}), len(rows), binning, group, labels, rows=ones)


AWAY = [[700.0] * 80, [710.0] * 60, [703.0] * 40 + [900.0] * 10]
NEAR = [[5.0] * 40, [300.0] * 12, [-2.0] * 30]
TOGETHER = {
    "one more": (NEAR, [[5.0] * 41, *NEAR[1:]]),
    "a group": (NEAR, [NEAR[0], [300.0] * 11, NEAR[2]]),
    "an outlier": (NEAR, [[*NEAR[0], 1e30], *NEAR[1:]]),
    "enough": ([[5.0] * 34, [5.0] * 33, []], [[5.0] * 34, [5.0] * 34, []]),
    "nobody": ([[], [], []], [[5.0], [], []]),
    "far": (AWAY, [[700.0] * 81, *AWAY[1:]]),
    "far, elsewhere": (AWAY, [*AWAY[:2], [703.0] * 40 + [900.0] * 11]),
    "far, an outlier": (AWAY, [[*AWAY[0], -1e30], *AWAY[1:]]),
    "far or not": ([[5.0] * 66, [5.0] * 67, []], [[5.0] * 67, [5.0] * 67, []]),
}


def found_by_groups(rows, epsilon, count):
    """Return what is found in so many releases of a table, and the largest share that was spent."""
    table, seen, loss = fine_table(rows, Octaves()), [], Epsilon(Fraction(epsilon))

    def recount(binning, pooled):
        return fine_table([np.concatenate(rows)] if pooled else rows, binning)

    with permit("a test"):
        for _ in range(count):
            (found,) = find_group_bounds([table], loss, loss, [recount])
            ends = (np.nan_to_num(own, nan=-1e9) for own in (found.lower, found.upper))
            seen.append(np.concatenate([*ends, found.left]))
    told = np.stack(seen).T
    assert told.shape == (3 * table.groups, count)
    return told, 1 - told[2 * table.groups :].min() / UNITS


def audited_together(pair, epsilon, count, violation, claimed=None):
    """Return by how much some event of found bounds breaks a claim, or that of what was spent."""
    (one, first), (other, second) = (
        found_by_groups(rows, epsilon, count) for rows in TOGETHER[pair]
    )
    claim = epsilon * max(first, second) if claimed is None else claimed
    return max(violation(a, b, claim, 0.0) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("pair", [*TOGETHER])
def test_bounds_by_group_cost_what_is_not_left(pair, violation):
    """A row changes no probability of any group's bounds by more than was spent at most.

    2,500 releases a side of three groups each; epsilon = 3.
    """
    assert audited_together(pair, 3, 2_500, violation) <= 0


def test_the_audit_of_groups_sees_a_smaller_claim_fail(violation):
    """Ten rows more than a core of all groups together break a claim of 0.1 at epsilon 5."""
    sides = [[5.0] * 50, [], []], [[5.0] * 60, [], []]
    with mock.patch.dict(TOGETHER, ten=sides):
        assert audited_together("ten", 5, 4_000, violation, 0.1) > 0


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
        made = [getattr(frame, kind)("x", **loss) for _ in range(400)]
        return [own.low for own in made], [own.high for own in made]
    con = duckdb.connect()
    con.register("t", pa.table({"g": np.repeat(np.arange(400), ROWS), "x": np.tile(rows, 400)}))
    sql_udfs.register(con, **loss)
    call = f"dp_{kind.replace('std', 'stddev')}_interval(x)"
    made = con.sql(f"SELECT a.low, a.high FROM (SELECT {call} AS a FROM t GROUP BY g)")
    return made.fetchnumpy().values()


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
        beyond = []
        for _ in range(9):
            made = bulk(rows, 400, lambda g, k=kind, **t: getattr(g, k)("x", **t), **loss)
            low, high = made["low"].to_numpy(), made["high"].to_numpy()
            noisy = np.median(np.maximum(high - made["x"], made["x"] - low)) > truth(rows)
            beyond.append(misleading(low, high, truth(rows)) / (53 if noisy else 12))
        assert np.median(beyond) < 1


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
    for tall, found in (({}, False), ({512.0: 20.0, 1024.0: 20.0}, True)):
        monkeypatch.setattr(bounds_search, "look_at", forged(tall))
        folder = tmp_path / str(found)
        folder.mkdir()
        for low, high in doors(mixture(0.9), folder):
            if found:
                assert -1000 < low < high < 2000
            else:
                assert (low, high) == (-math.inf, math.inf)
