"""Answers without bounds: one outcome for any rows, and what may not change the numbers."""

import math

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dfprivacy as dfp
from benchmarks.releases import replayed


def frame(values, groups="a"):
    """Return rows of one group, or of several named groups."""
    named = {groups: values} if isinstance(groups, str) else dict(zip(groups, values, strict=True))
    g = [name for name, group_values in named.items() for _ in group_values]
    x = [value for group_values in named.values() for value in group_values]
    integers = [None if v is None or v != v else int(max(min(v, 2**62), -(2**62))) for v in x]
    return pl.DataFrame(
        {"g": g, "x": x, "i": integers}, schema={"g": pl.String, "x": pl.Float64, "i": pl.Int64}
    )


KINDS = {
    "polars": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "arrow": lambda table: table.to_arrow(),
}


@pytest.mark.parametrize("ask", ["mean", "sum", "var", "std"])
def test_few_rows_are_unknown(ask):
    """Of one row or none nothing is said: not a number, anywhere, and no bounds."""
    for rows in ([], [5.0], [None], [1e300]):
        answer = getattr(frame(rows).dp, ask)("x", epsilon=0.1)
        if answer.bounds is None:  # noise alone finds bounds once in a thousand calls
            assert math.isnan(answer)
            assert (answer.low, answer.high) == (-math.inf, math.inf)
    bounds = [frame([5.0]).dp.mean("x", epsilon=0.1).bounds for _ in range(20)]
    assert bounds.count(None) >= 15  # five of twenty: below 1e-9


def test_numbers_across_zero_are_within_bounds_however_small():
    """Bounds of both signs are found where rows of the other sign are many, or large.

    Noise lifts a larger dyadic bin in one release of 20, and in one of 6 where the rows are near 0:
    in 40 of 60, below 1e-12.
    """
    values = pl.DataFrame({"x": [*[80.0] * 5_000, *[-20.0] * 200, *[-1e-3] * 2_000]})
    ends = [values.dp.bounds("x", epsilon=2)[0] for _ in range(60)]
    assert ends.count(-32) > 20
    values = values.filter(pl.col("x") != -20)
    ends = [values.dp.bounds("x", epsilon=2)[0] for _ in range(60)]
    assert sum(-1e-2 < lower < 0 for lower in ends) > 20


@pytest.mark.parametrize("ask", ["mean", "sum", "var", "std"])
def test_a_larger_unit_changes_the_scale_only(ask):
    """With the same random bytes, data 2**20 times as large have answers as much larger.

    Noise lifts the same empty octaves, which lie elsewhere beside the data, but far too little.
    """
    values = np.random.default_rng(3).normal(40, 30, 500)
    results = []
    for factor in (1.0, 2.0**20):
        for kind in KINDS.values():
            with replayed(ask):
                private = dfp.frame(kind(frame((values * factor).tolist())))
                answer = getattr(private, ask)("x", epsilon=1000)
                scale = factor**2 if ask == "var" else factor
                bounds = (answer.bounds.lower / factor, answer.bounds.upper / factor)
                results.append((answer / scale, answer.low / scale, answer.high / scale, *bounds))
    assert len(set(results)) == 1


def test_linear_answers_are_not_touched():
    """A question with bounds beside one without is answered by its own part, in its own bounds."""
    questions = {"m": dfp.mean("x", (0, 4)), "x": dfp.mean("x")}
    release = frame([5.0] * 400).dp.agg(**questions, epsilon=1e9)
    assert [release["m"].bounds.upper, release["x"].bounds.upper] == [4.0, 5.0]
    assert [float(release["m"]), float(release["x"])] == pytest.approx([4.0, 5.0])


@pytest.mark.parametrize("keys", [None, range(80_000)], ids=["secret", "public"])
@pytest.mark.parametrize("ask", [dfp.mean, dfp.var])
def test_groups_looked_at_in_parts_are_each_alone(ask, keys):
    """Of more than 2**16 groups, which are looked at in parts, equal ones have equal answers.

    Some are unlike all together, smaller or larger, and some hold nothing or zeros alone.
    """
    generator, half = np.random.default_rng(5), 40_000
    group = np.repeat(np.arange(half), 4)
    values = generator.normal(0, 1, len(group)) * 2.0 ** generator.integers(-9, 9, half)[group]
    values[group % 7 == 3], values[group % 7 == 5] = 0.0, np.nan
    columns = {"g": [*group, *(group + half)], "x": [*values, *values]}
    grouped = pl.DataFrame(columns, nan_to_null=True).dp.group_by("g", keys=keys)
    terms = {"epsilon": 2**59} | ({} if keys else {"delta": 1e-9})
    answers = grouped.agg(x=ask("x"), **terms).drop("g")
    assert answers.height > 2**16
    middle = answers.height // 2
    assert_frame_equal(answers[:middle], answers[middle:], rel_tol=1e-12)


def test_columns_answered_together_have_their_own_noise():
    """Four copies of a column have four answers, in every group."""
    values = np.random.default_rng(2).normal(3, 1, 3_000)
    table = pl.DataFrame({"g": np.arange(3_000) % 3, **dict.fromkeys("uvwx", values)})
    released = dfp.frame(table).group_by("g").agg(
        **{column: dfp.mean(column) for column in "uvwx"}, epsilon=4, delta=1e-6
    )  # fmt: skip
    for end in ("", "_low", "_high"):
        answers = released.select(f"{column}{end}" for column in "uvwx")
        assert all(len(set(row)) == 4 for row in answers.rows())


def test_a_histogram_finds_its_edges():
    """Found edges are equal bins between octave edges, and hold what lies between them."""
    values = np.random.default_rng(5).uniform(33, 120, 5000)
    histogram = frame(values.tolist()).dp.histogram("x", bins=12, epsilon=1e9)
    assert histogram["lower"].to_list() == np.linspace(32, 128, 13)[:-1].tolist()
    assert histogram["upper"].to_list() == np.linspace(32, 128, 13)[1:].tolist()
    assert histogram["count"].sum() == 5000


def test_a_histogram_by_group_has_the_same_bins_for_all():
    """By group every group has all bins, public groups as listed; absent ones are counted too."""
    private = frame([[1.0] * 9, [], [3.0] * 4], list("abc")).dp
    histogram = private.group_by("g", keys=["c", "b", "a"]).histogram(
        "x", bins=[0, 2, 4], epsilon=1e12
    )
    assert histogram["g"].to_list() == ["c", "c", "b", "b", "a", "a"]
    assert histogram["count"].to_list() == [0, 4, 0, 0, 9, 0]
