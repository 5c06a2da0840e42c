"""Groups of few rows have answers within bounds that all groups find together, or their own.

Medians of errors are compared with what a public range would give; shares of groups with what is
claimed by Clopper-Pearson limits at 1e-9, fewer than a hundred times: false-alarm rate below 1e-6.
Where all groups share bounds, one draw decides for all of them: what is said of shares of groups is
said of the better half of several releases, which fails with a probability below 1e-9.
"""

import itertools

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp

pytestmark = pytest.mark.slow

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


def build_frame(rows):
    """Return a frame of some groups, one row of an array each."""
    groups = np.repeat(np.arange(len(rows)), [len(group_rows) for group_rows in rows])
    return pl.DataFrame(
        {"g": groups, "x": np.concatenate([np.asarray(group_rows, float) for group_rows in rows])}
    )


def group_frame(rows):
    """Return the private frame of some groups, by group."""
    return build_frame(rows).dp.group_by("g", keys=range(len(rows)))


@pytest.mark.parametrize(
    ("name", "rows", "limit"),
    [
        ("normal", 20, 3.5),
        ("normal", 200, 0.6),
        ("years", 20, 1.9),
        ("years", 200, 0.31),
        ("lognormal", 50, 5.6),
        ("lognormal", 200, 2.4),
        ("around zero", 200, 0.06),
        ("of all sizes", 100, 0.5),
    ],
)
def test_small_groups_are_answered_within_bounds_of_all(name, rows, limit):
    """The median error of 300 groups is at most a fourth above its average.

    The limits are seven standard deviations of that median, or more: false alarms below 1e-9.
    Where sizes of groups differ a thousandfold, it is at most half of the mean of the group.
    """
    generator = np.random.default_rng(1)
    errors = []
    for _ in range(RELEASES):
        values = DATA[name](generator, rows)
        truth = values.mean(axis=1)
        error = np.abs(group_frame(values).mean("x", epsilon=1)["x"].to_numpy() - truth)
        errors.append(np.median(error / truth if name == "of all sizes" else error))
    assert np.median(errors) <= limit


@pytest.mark.parametrize(
    ("name", "rows", "kind", "shift"),
    [
        *((*case, 0) for case in itertools.product(DATA, (20, 100), TRUTHS)),
        *(("years", rows, "mean", 1500) for rows in (20, 100, 200)),
    ],
)
def test_intervals_of_small_groups_hold_or_are_marked(name, rows, kind, shift, upper_limit):
    """Of the groups' own means, sums and deviations 93 % are held, or the group is marked.

    So it is where a twentieth of all groups is far from the others.
    """
    generator = np.random.default_rng(2)
    hits = []
    for _ in range(RELEASES):
        values = DATA[name](generator, rows)
        values[: GROUPS // 20] -= shift
        truth = TRUTHS[kind](values, axis=1)
        release = getattr(group_frame(values), kind)("x", epsilon=1)
        low, high = release["low"].to_numpy(), release["high"].to_numpy()
        is_covered = (low <= truth) & (truth <= high)
        hits.append(int((is_covered | release["note"].is_not_null().to_numpy()).sum()))
    assert upper_limit(int(np.median(hits)), GROUPS) >= 0.93


def test_notes_are_of_each_group(lower_limit):
    """Of 200 groups of ordinary data 5 % are marked at most, whatever another one has."""
    generator = np.random.default_rng(8)
    rows = list(generator.integers(1990, 2026, (200, 200)).astype(float))
    rows.append(np.append(rows[0], np.full(200, 1e9)))
    notes = [group_frame(rows).mean("x", epsilon=1)["note"][:-1] for _ in range(RELEASES)]
    assert (
        lower_limit(int(np.median([column.is_not_null().sum() for column in notes])), 200) <= 0.05
    )


@pytest.mark.parametrize("size", [0.0, 500.0, 1500.0, 4000.0, -2000.0, -1e5, 1e9])
def test_a_group_far_from_others_has_bounds_of_its_own_or_a_note(size):
    """Of 300 groups about one center another one of 200 rows is answered where it lies.

    Beyond 64 times the bounds of all groups, which are 64 wide, it has a note instead.
    """
    generator, right = np.random.default_rng(10), 0
    rows = list(DATA["years"](generator, 200))
    rows[7] = np.full(200, size)
    for _ in range(RELEASES):
        answer = group_frame(rows).mean("x", epsilon=2).row(7, named=True)
        is_marked = answer["note"] is not None and not 0 <= size <= 4000
        right += is_marked or abs(answer["x"] - size) < 100
    assert right >= 5


def test_groups_are_answered_wherever_their_rows_lie(replayed):
    """Empty groups, groups of another size, beyond all others or far from zero have an answer.

    The interval of a group of 1e-8 times the size of the largest is below 2^-8 of the bounds of
    all. Noise is the same in every run: one release in thirty has another answer for some group.
    """
    generator = np.random.default_rng(3)
    rows = [generator.exponential(10, 400) for _ in range(20)]
    rows += [[], generator.exponential(0.01, 400), generator.normal(1e6, 1e4, 5_000)]
    release = replayed(lambda: group_frame(rows).mean("x", epsilon=10))
    values, low, high = (release[name].to_numpy() for name in ("x", "low", "high"))
    truth = np.array([np.mean(group_rows) if len(group_rows) else np.nan for group_rows in rows])
    has_rows = np.arange(22) != 20
    assert np.isfinite(values).all()
    assert np.abs(values[:22] - truth[:22])[has_rows].max() < 5
    assert low[20] < 10 < 1e6 < high[20]  # nobody: anywhere within the bounds of all
    assert high[21] - low[21] < 2**12  # bounds of its own
    assert abs(values[22] / truth[22] - 1) < 0.05


@pytest.mark.parametrize("rows", [[[], []], [[5.0], []]])
def test_nothing_is_said_where_all_groups_together_tell_nothing(rows):
    """Without rows that stand out even of all groups, answers are no numbers.

    Noise alone finds bounds in one release of 100,000 at most: in two of four with a probability
    below 1e-9.
    """
    nothing = 0
    for _ in range(4):
        release = group_frame(rows).mean("x", epsilon=0.1)
        if release["x"].is_nan().all():
            assert np.isinf(release["high"].to_numpy()).all()
            assert (release["note"] == "too few rows for bounds").all()
            nothing += 1
    assert nothing >= 3


def test_a_few_rows_in_many_groups_are_enough_together():
    """Thirty groups of 24 rows, of which none stands out, have answers at epsilon 1.

    In 18 of 20 releases: noise hides 720 rows in less than one of 5,000, and in three of 20 with a
    probability below 1e-7.
    """
    generator = np.random.default_rng(4)
    has_answers = [
        group_frame(generator.exponential(10, (30, 24)))
        .mean("x", epsilon=1)["high"]
        .is_finite()
        .all()
        for _ in range(20)
    ]
    assert sum(has_answers) >= 18


def test_a_frame_that_changes_is_answered_as_it_is_read_last(tmp_path, replayed):
    """Data far from zero are read three times: groups are those of the last, for one charge.

    Noise is the same in every run: one release in some hundreds finds these data near zero.
    """
    frame, readings = build_frame(np.full((40, 50), 700.0)), []

    def changing(rows):
        readings.append(len(rows))
        return rows.with_columns(pl.col("g") + (len(readings) > 1))

    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=5, delta=1e-3)
    source = frame.lazy().map_batches(changing, schema=frame.schema)
    private = dfp.frame(source)(ledger=ledger, dataset="changing").group_by("g")
    release = replayed(lambda: private.mean("x", epsilon=2, delta=1e-6).collect())
    assert release["g"].to_list() == list(range(1, 41))
    assert len(readings) == 3
    assert ledger.spent("changing").epsilon == 2
