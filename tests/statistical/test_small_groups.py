"""Groups of few rows have answers within bounds that all groups find together, or their own.

Medians of errors are compared with what a public range would give; shares of groups with what is
claimed by Clopper-Pearson limits at 1e-9, fewer than a hundred times: false-alarm rate below 1e-6.
Where all groups share bounds, one draw decides for all of them: what is said of shares of groups is
said of the better half of several releases, which fails with a probability below 1e-9.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import Octaves
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators import zoom
from dfprivacy.statistics.estimators.zoom import OWN, PARTS, POOLED, group_bounds

GROUPS, RELEASES = 300, 9

DATA = {
    "normal": lambda r, n: r.normal(100, 15, (GROUPS, n)) + r.normal(0, 10, (GROUPS, 1)),
    "lognormal": lambda r, n: r.lognormal(3, 1, (GROUPS, n)),
    "years": lambda r, n: r.integers(1990, 2026, (GROUPS, n)).astype(float),
    "of all sizes": lambda r, n: (
        r.lognormal(3, 1, (GROUPS, n)) * 10 ** r.uniform(0, 3, (GROUPS, 1))
    ),
    "around zero": lambda r, n: r.normal(0, 1, (GROUPS, n)),
    "zeros": lambda r, n: np.where(r.random((GROUPS, n)) < 0.9, 0, r.exponential(1e3, (GROUPS, n))),
}
TRUTHS = {"mean": np.mean, "sum": np.sum, "std": np.std}


def frame_of(rows):
    """Return a frame of some groups, one row of an array each."""
    groups = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    return pl.DataFrame(
        {"g": groups, "x": np.concatenate([np.asarray(own, float) for own in rows])}
    )


def grouped(rows):
    """Return what is asked by group."""
    return frame_of(rows).dp.group_by("g", keys=range(len(rows)))


@pytest.mark.parametrize(
    ("name", "rows", "most"),
    [
        ("normal", 20, 3.7),
        ("normal", 200, 1.3),
        ("lognormal", 50, 4.5),
        ("lognormal", 200, 2.4),
        ("around zero", 200, 0.04),
        ("of all sizes", 100, 0.21),
    ],
)
def test_small_groups_are_answered_within_bounds_of_all(name, rows, most):
    """The median error of 300 groups is near that of a public range; of all sizes, relative."""
    generator = np.random.default_rng(1)
    errors = []
    for _ in range(RELEASES):
        values = DATA[name](generator, rows)
        truth = values.mean(axis=1)
        error = np.abs(grouped(values).mean("x", epsilon=1)["x"].to_numpy() - truth)
        errors.append(np.median(error / truth if name == "of all sizes" else error))
    assert np.median(errors) <= most


@pytest.mark.parametrize("kind", TRUTHS)
@pytest.mark.parametrize("rows", [20, 100])
@pytest.mark.parametrize("name", DATA)
def test_intervals_of_small_groups_hold_or_are_marked(name, rows, kind, upper_limit):
    """Of the groups' own means, sums and deviations 93 % are held, or the group is marked."""
    generator = np.random.default_rng(2)
    hits = []
    for _ in range(RELEASES):
        values = DATA[name](generator, rows)
        truth = TRUTHS[kind](values, axis=1)
        made = getattr(grouped(values), kind)("x", epsilon=1)
        low, high = made["low"].to_numpy(), made["high"].to_numpy()
        held = (low <= truth) & (truth <= high)
        hits.append(int((held | (made["note"] != "").to_numpy()).sum()))
    assert upper_limit(int(np.median(hits)), GROUPS) >= 0.93


def test_notes_are_of_each_group(lower_limit):
    """Of 200 groups of ordinary data 5 % are marked at most, whatever another one has."""
    generator = np.random.default_rng(8)
    rows = list(generator.integers(1990, 2026, (200, 200)).astype(float))
    rows.append(np.append(rows[0], np.full(200, 1e9)))
    notes = [grouped(rows).mean("x", epsilon=1)["note"].to_numpy()[:-1] for _ in range(RELEASES)]
    assert lower_limit(int(np.median([(own != "").sum() for own in notes])), 200) <= 0.05


def test_groups_are_answered_wherever_their_rows_lie():
    """Empty groups, groups of another size, beyond all others or far from zero have an answer."""
    generator = np.random.default_rng(3)
    rows = [generator.exponential(10, 400) for _ in range(20)]
    rows += [[], generator.exponential(0.01, 400), generator.normal(1e6, 1e4, 5_000)]
    made = grouped(rows).mean("x", epsilon=10)
    values, low, high = (made[name].to_numpy() for name in ("x", "low", "high"))
    truth = np.array([np.mean(own) if len(own) else np.nan for own in rows])
    assert np.isfinite(values).all()
    assert np.abs(values[:20] - truth[:20]).max() < 5
    assert low[20] < 10 < 1e6 < high[20]  # nobody: anywhere within the bounds of all
    assert high[21] - low[21] < 0.1  # its own size
    assert abs(values[22] / truth[22] - 1) < 0.05


@pytest.mark.parametrize("rows", [[[], []], [[5.0], []]])
def test_nothing_is_said_where_all_groups_together_tell_nothing(rows):
    """Without rows that stand out even of all groups, answers are no numbers."""
    made = grouped(rows).mean("x", epsilon=0.1)
    assert made["x"].is_nan().all()
    assert np.isinf(made["high"].to_numpy()).all()
    assert (made["note"] == "too few rows for bounds").all()


def test_a_few_rows_in_many_groups_are_enough_together():
    """Thirty groups of twelve rows, of which none stands out, have answers at epsilon 1."""
    generator = np.random.default_rng(4)
    found = [
        grouped(generator.exponential(10, (30, 12))).mean("x", epsilon=1)["high"].is_finite().all()
        for _ in range(20)
    ]
    assert sum(found) >= 18


# What it costs


def table_of(rows):
    """Return the table of some groups."""
    group = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    labels = Octaves().labels(np.concatenate([np.asarray(own, float) for own in rows]))
    ones = np.ones(len(labels), np.int64)
    return bin_table(pa.table({}), len(rows), Octaves(), group, labels, rows=ones)


NEAR = [[5.0] * 40, [300.0] * 12, [-2.0] * 30]
PAIRS = {
    "one more": (NEAR, [[5.0] * 41, *NEAR[1:]]),
    "a group": (NEAR, [NEAR[0], [300.0] * 11, NEAR[2]]),
    "an outlier": (NEAR, [[*NEAR[0], 1e30], *NEAR[1:]]),
    "enough": ([[5.0] * 34, [5.0] * 33, []], [[5.0] * 34, [5.0] * 34, []]),
    "nobody": ([[], [], []], [[5.0], [], []]),
}


def drawn(rows, epsilon, count):
    """Return what is found in so many releases of a table, and the largest share that was spent."""
    table, seen, spent = table_of(rows), [], 0.0
    loss = Epsilon(Fraction(epsilon))
    with permit("a test"):
        for _ in range(count):
            found = group_bounds(table, loss, loss)
            left = [found.left(np.array([group])) for group in range(table.groups)]
            spent = max(spent, 1 - min(left) / PARTS)
            ends = np.nan_to_num([*found.found.lower, *found.found.upper], nan=-1e9)
            seen.append([*ends, *left, *found.histogram])
    return np.array(seen).T, spent


def audited(pair, epsilon, count, violation, claimed=None):
    """Return by how much some event of found bounds breaks a claim, or that of what was spent."""
    (one, first), (other, second) = (drawn(rows, epsilon, count) for rows in PAIRS[pair])
    claim = epsilon * max(first, second) if claimed is None else claimed
    return max(violation(a, b, claim, 0.0) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_bounds_by_group_cost_what_is_not_left(pair, violation):
    """A row changes no probability of any group's bounds by more than was spent at most.

    4,000 releases a side of three groups each, all in one table; epsilon = 3.
    """
    assert audited(pair, 3, 4_000, violation) <= 0


@pytest.mark.slow
def test_the_audit_sees_a_smaller_claim_fail(violation):
    """Ten rows more than a core of all groups together break a claim of 0.1 at epsilon 5."""
    PAIRS["ten"] = ([[5.0] * 50, [], []], [[5.0] * 60, [], []])
    assert audited("ten", 5, 4_000, violation, 0.1) > 0


@pytest.mark.parametrize(
    ("loss", "unit"),
    [
        (Epsilon(Fraction(1)), {"max_rows": 2, "max_groups": 3}),
        (Rho(Fraction(1)), {"max_rows": 2, "max_groups": 3}),
        (Rho(Fraction(1)), {"max_rows": 1, "max_groups": 5}),
    ],
    ids=str,
)
def test_a_unit_pays_for_its_rows_of_all_groups(loss, unit, monkeypatch):
    """What is counted of all groups together has the noise of max_rows * max_groups rows of a unit.

    What is counted by group has that of max_rows in each of max_groups.
    """
    seen = {}
    for name in ("every_count", "exceedances"):
        plain = getattr(zoom, name)

        def watched(table, noise, *given, name=name, plain=plain):
            seen[name] = (table.groups, noise)
            return plain(table, noise, *given)

        monkeypatch.setattr(zoom, name, watched)
    generator = np.random.default_rng(5)
    frame = frame_of(generator.lognormal(3, 1, (9, 2_000)))
    frame = frame.with_columns(u=pl.int_range(pl.len()))
    asked = frame.dp(unit="u", **unit).group_by("g", keys=range(9))
    asked.mean("x", **{type(loss).__name__.lower(): float(loss.value)})
    rows, groups = unit["max_rows"], unit["max_groups"]
    together = Contribution(rows * groups, 1).row_loss(loss)
    assert seen["every_count"] == (1, together.share(Fraction(POOLED, PARTS)).noise(1, 1))
    each = Contribution(rows, groups).row_loss(loss)
    assert seen["exceedances"] == (9, each.share(Fraction(OWN, PARTS)).noise(1, 1))


@pytest.mark.parametrize("door", ["frame", "sql", "file", "secret"])
def test_every_door_answers_small_groups(door, tmp_path):
    """Forty groups of twenty rows: frames, SQL, files and secret keys have answers for all."""
    generator = np.random.default_rng(6)
    frame = frame_of(generator.normal(100, 15, (40, 20)))
    if door == "frame":
        made = frame.dp.group_by("g", keys=range(40)).mean("x", epsilon=2)
    elif door == "sql":
        made = dfp.sql("SELECT g, dp_mean(x) AS x FROM t GROUP BY g", t=frame, epsilon=2, delta=0.1)
    elif door == "file":
        path = dfp.statistics(frame, tmp_path / "x.parquet", dfp.mean("x"), by="g")
        made = dfp.merge([path], epsilon=2, delta=0.1)
    else:
        made = frame.dp.group_by("g").mean("x", epsilon=2, delta=0.1)
    assert made.shape[0] == 40
    errors = [abs(float(value) - 100) for value in made["x"]]
    assert all(map(math.isfinite, errors))
    assert np.median(errors) < 10
