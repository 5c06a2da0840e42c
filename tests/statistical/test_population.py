"""Intervals of the population hold its own parameter: noise and sampling, whole and by group.

A check fails when the upper limit of the coverage (Clopper-Pearson, 1e-9) lies below 94 %, two
points of which the normal law of means of few rows may take; at most 100 comparisons a check, so
that false alarms stay below 1e-6.
"""

import json
import math

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command

pytestmark = pytest.mark.slow

COPIES = 3000
LAWS = {  # the draw, its mean and variance, and bounds that hold it
    "normal": (lambda r, n: r.normal(0, 1, n), 0.0, 1.0, (-6, 6)),
    "exponential": (lambda r, n: r.exponential(1, n), 1.0, 1.0, (0, 15)),
    "uniform": (lambda r, n: r.uniform(0, 1, n), 0.5, 1 / 12, (0, 1)),
    "rare": (lambda r, n: (r.random(n) < 0.05).astype(float), 0.05, 0.05 * 0.95, (0, 1)),
}


def check_coverage(answers, name, truth):
    """Return how many intervals hold the truth."""
    low, high = (answers[f"{name}_{end}"].to_numpy() for end in ("low", "high"))
    return int(((low <= truth) & (truth <= high)).sum())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("rows", "loss"), [(30, {"epsilon": 3}), (1000, {"rho": 0.5})], ids=str)
def test_intervals_hold_what_the_rows_were_drawn_from(law, rows, loss, upper_limit):
    """A sample of Poisson size, drawn anew for each release, of a mean, sum, spread and count."""
    draw, mean, variance, bounds = LAWS[law]
    generator = np.random.default_rng([18, rows])
    group = np.repeat(np.arange(COPIES), generator.poisson(rows, COPIES))
    frame = pl.DataFrame({"g": group, "x": draw(generator, len(group))})
    answers = frame.dp.group_by("g", keys=range(COPIES)).agg(
        m=dfp.mean("x", bounds), t=dfp.sum("x", bounds), v=dfp.var("x", bounds),
        s=dfp.std("x", bounds), n=dfp.count(), population=True, **loss,
    )  # fmt: skip
    truths = {"m": mean, "t": mean * rows, "v": variance, "s": math.sqrt(variance), "n": rows}
    for name, truth in truths.items():
        assert upper_limit(check_coverage(answers, name, truth), COPIES) >= 0.94, name


def test_shares_hold_the_share_of_the_population(upper_limit):
    """Rare and common ones, few rows and many."""
    generator = np.random.default_rng(5)
    for rows, share in ((100, 0.3), (1000, 0.02)):
        group = np.repeat(np.arange(COPIES), rows)
        frame = pl.DataFrame({"g": group, "x": generator.random(len(group)) < share})
        private = frame.dp.group_by("g", keys=range(COPIES))
        answers = private.agg(s=dfp.share("x"), epsilon=1, population=True)
        low, high = (answers[end].to_numpy() for end in ("low", "high"))
        hits = int(((low <= share) & (share <= high)).sum())
        assert upper_limit(hits, COPIES) >= 0.94


def test_units_are_drawn_with_all_their_rows(upper_limit):
    """Rows of a unit that are all alike: intervals of rows alone would hold 75 %."""
    rows, units = 4, 400
    copies = COPIES // 5
    generator = np.random.default_rng(6)
    value = generator.uniform(0, 1, copies * units)
    frame = pl.DataFrame(
        {
            "g": np.repeat(np.arange(copies), units * rows),
            "u": np.repeat(np.arange(copies * units), rows),
            "x": np.repeat(value, rows),
        }
    )
    private = frame.dp(unit="u", max_rows=rows, max_groups=1)
    hits = []
    for unit in (private, frame.dp):
        grouped = unit.group_by("g", keys=range(copies))
        release = grouped.mean("x", (0, 1), epsilon=10, population=True)
        hits.append(int(((release["low"] <= 0.5) & (release["high"] >= 0.5)).sum()))
    assert upper_limit(hits[0], copies) >= 0.94
    assert upper_limit(hits[1], copies) < 0.94


def test_a_difference_of_two_samples_holds_that_of_their_populations(upper_limit):
    """Numbers computed from answers take their intervals over."""
    generator, hits, copies = np.random.default_rng(7), 0, 300
    for _ in range(copies):
        means = [
            pl.DataFrame({"x": generator.normal(at, 1, 200)}).dp.mean(
                "x", (-8, 8), epsilon=2, population=True
            )
            for at in (0, 1)
        ]
        change = means[1] - means[0]
        hits += change.low <= 1 <= change.high
    assert upper_limit(hits, copies) >= 0.95


def test_every_door_takes_the_argument(tmp_path):
    """Intervals are as wide at every door that has a level, wider than those of the rows alone."""
    values = {"x": [float(i % 101) for i in range(5050)]}
    frame, bounds, huge = pl.DataFrame(values), (0, 100), {"epsilon": 1e9}
    half = 1.959964 * np.std(values["x"]) / math.sqrt(5050)
    means = {}
    means["method"] = frame.dp.mean("x", bounds, population=True, **huge)
    means["agg"] = frame.dp.agg(dfp.mean("x", bounds), population=True, **huge)["x"]
    means["terms"] = frame.dp(population=True).mean("x", bounds, **huge)
    means["no bounds"] = frame.dp.mean("x", population=True, **huge)
    widths = {name: mean.high - mean.low for name, mean in means.items()}
    query = "SELECT dp_mean_interval(x, 0, 100) AS a FROM t"
    with dfp.connect({"t": frame}, population=True, **huge) as con:
        tables = {
            "sql": dfp.sql(query, t=frame, population=True, **huge),
            "connect": con.sql(query).pl(),
        }
    for door, table in tables.items():
        row = table["a"][0]
        widths[door] = row["high"] - row["low"]
    frame.write_parquet(tmp_path / "rows.parquet")
    words = ["mean", str(tmp_path / "rows.parquet"), "x", "--bounds", "0", "100"]
    words += ["--epsilon", "1e9", "--output", str(tmp_path / "a.json")]
    assert command(*words, "--interval", "population").exit_code == 2
    result = command(*words, "--population")
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads((tmp_path / "a.json").read_text())
    widths["command"] = row["high"] - row["low"]
    for door, width in widths.items():
        assert width == pytest.approx(2 * half, rel=0.02), door
    sampled = frame.dp(population=True)
    for mean in (
        frame.dp.mean("x", bounds, **huge),
        sampled.mean("x", bounds, population=False, **huge),
        sampled.agg(dfp.mean("x", bounds), population=False, **huge)["x"],
    ):
        assert mean.high - mean.low < 0.01
    narrow = frame.dp.mean("x", bounds, interval=0.5, population=True, **huge)
    assert narrow.high - narrow.low == pytest.approx(2 * half * 0.6745 / 1.96, rel=0.02)


@pytest.mark.parametrize("level", ["population", "population 0.9"])
def test_a_level_is_no_sentence(level):
    """The refusal of the former words names both arguments, at every door."""
    frame = pl.DataFrame({"x": [1.0]})
    query = "SELECT dp_mean_interval(x, 0, 1) AS a FROM t"
    for ask in (
        lambda: frame.dp.mean("x", (0, 1), interval=level),
        lambda: frame.dp(interval=level).count(),
        lambda: dfp.sql(query, t=frame, interval=level),
        lambda: dfp.explain(query, t=frame, interval=level),
    ):
        with pytest.raises(dfp.errors.InvalidQuestionError) as refusal:
            ask()
        assert "interval=0.9, population=True" in str(refusal.value)


@pytest.mark.parametrize("population", [0.9, 1, "0.9", dfp.count()])
def test_only_true_and_false_are_answers(population):
    """A level, a word or a question by the name of the argument is refused."""
    private = pl.DataFrame({"x": [1.0]}).dp
    with pytest.raises(dfp.errors.InvalidQuestionError, match="must be True or False"):
        private.agg(dfp.mean("x", (0, 1)), population=population)


def test_questions_without_such_an_interval_are_refused(tmp_path):
    """Two columns, the papers' forms, means within ranks, histograms and files of statistics."""
    frame = pl.DataFrame({"x": [1.0], "y": [1.0]})
    private = frame.dp(population=True)
    dfp.statistics(frame, tmp_path / "a.parquet", dfp.mean("x", (0, 1)))
    for ask in (
        lambda: private.cov("x", "y", (0, 1), (0, 1)),
        lambda: private.shifted_mean("x", (0, 1)),
        lambda: private.subset_mean("x"),
        lambda: private.histogram("x", [0, 1, 2]),
        lambda: private.mean_vector(["x", "y"], 2, rho=1),
        lambda: private.shuffle.mean("x", (0, 1), epsilon=1, delta=1e-6),
    ):
        with pytest.raises(dfp.errors.InvalidQuestionError, match="of the population"):
            ask()
    with pytest.raises(dfp.errors.UnknownArgumentError):
        dfp.merge(tmp_path / "a.parquet", population=True)
