"""Releases have the errors that an explanation forecasts, for few rows and for many.

A forecast half-width must hold the answer without noise as often as it says: a check fails when
the Clopper-Pearson upper limit (1e-9) of how often it does lies below the level. At most 420 such
comparisons a test, so that false alarms stay below 1e-6.
"""

import math

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy import papers
from dfprivacy.statistics import STATISTICS
from tests.laws.test_registry import make_question

pytestmark = pytest.mark.slow

LEVEL = 0.95
LOW, HIGH = -5.0, 3.0
MIDDLE, WIDTH = (LOW + HIGH) / 2, HIGH - LOW
QUESTIONS = {
    "count": dfp.count(),
    "sum": dfp.sum("x", (LOW, HIGH)),
    "mean": dfp.mean("x", (LOW, HIGH)),
    "shifted": papers.ShiftedMean("x", (LOW, HIGH)),
    "independent": papers.IndependentMean("x", (LOW, HIGH)),
    "var": dfp.var("x", (LOW, HIGH)),
    "std": dfp.std("x", (LOW, HIGH)),
}
SHARED = 5
"""Noisy vectors of all questions together: each has a fifth of the loss."""

LOSSES = [{"epsilon": 0.2 * SHARED}, {"epsilon": 2 * SHARED}, {"rho": 0.5 * SHARED}]


def ordinary(size):
    """Mean in the middle of the bounds, the variance of values spread evenly over them."""
    off = WIDTH / math.sqrt(12)
    return [MIDDLE + (off if row % 2 else -off) for row in range(size)]


def truths(rows):
    """Return the answers without noise."""
    values = np.array(rows)
    exact = {"count": len(rows), "sum": values.sum(), "var": values.var(), "std": values.std()}
    return exact | dict.fromkeys(("mean", "shifted", "independent"), values.mean())


def errors(datasets, copies, loss):
    """Yield name, half-widths and errors of each question, on copies of each data set."""
    size = len(datasets[0])
    values = np.concatenate([np.tile(np.array(rows), copies) for rows in datasets])
    groups = len(datasets) * copies
    frame = pl.DataFrame({"g": np.repeat(np.arange(groups), size), "x": values})
    private = frame.dp.group_by("g", keys=range(groups))
    plan, released = private.explain(**QUESTIONS, **loss), private.agg(**QUESTIONS, **loss)
    exact = [truths(rows) for rows in datasets]
    for name in QUESTIONS:
        index = plan[name].rows.index(size)
        answers = released[name].to_numpy().astype(float).reshape(len(datasets), copies)
        true = np.array([truth[name] for truth in exact])[:, None]
        yield name, plan[name].typical[index], np.abs(answers - true)


@pytest.mark.parametrize(("size", "copies"), [(100, 20_000), (1000, 8_000)])
def test_half_widths_of_ordinary_data_are_what_is_needed(size, copies, upper_limit):
    """A typical half-width holds at 95 %, and is at most 1.35 times what would have held.

    Half-widths of counts and sums, which are whole steps, at most 1.1 times. The quantile of 8,000
    releases is within 7 % of its own but for a probability below 1e-9; 1.25 is the most measured.
    """
    for name, half_width, off in errors([ordinary(size)], copies, LOSSES[1]):
        hits = int((off[0] <= half_width * (1 + 1e-9) + 1e-6).sum())
        assert upper_limit(hits, copies) >= LEVEL
        needed = float(np.quantile(off, LEVEL))
        assert half_width <= (1.1 if name in {"count", "sum"} else 1.35) * needed


OTHERS = {"min", "max", "subset_mean", "dick_mean"}
"""Statistics that are aimed at other ranks, or whose half-widths are widths of bounds found."""

KINDS = [
    kind for kind, statistic in STATISTICS.items() if statistic.answers_one and kind not in OTHERS
]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_stay_within_the_forecast(kind, upper_limit):
    """A typical half-width holds the answer without noise at its level, for every statistic.

    Values are independent and spread evenly. The answer without noise is that at epsilon 10**6;
    ranks are those of such values. Statistics whose half-width is unknown have none to hold.
    """
    groups, size = 400, 1000
    random, values = np.random.default_rng(1), np.linspace(0, 4, size)
    rows = {name: np.tile(random.permutation(values), groups) for name in ("x", "y")}
    frame = pl.DataFrame(
        {"k": np.repeat(np.arange(groups), size), "g": ["a"] * groups * size} | rows
    )
    private = frame.dp.group_by("k", keys=range(groups))
    question = make_question(STATISTICS[kind], (0, 4), (0, 4))
    (forecast,) = private.explain(a=question, epsilon=1).answers
    half = forecast.typical[forecast.rows.index(size)]
    if half is None:
        assert forecast.unit == "" or forecast.answered is not None
        return
    answers, exact = (private.agg(a=question, epsilon=loss)["a"].to_numpy() for loss in (1, 10**6))
    off = np.abs(answers.astype(float) - exact.astype(float)) * (
        size / 4 if "ranks" in forecast.unit else 1
    )
    within = (off <= half * (1 + 1e-9) + 1e-4) | np.isnan(off)
    assert upper_limit(int(within.sum()), groups) >= LEVEL


UNIT = {"unit": "who", "max_rows": 2, "max_groups": 3}
TERMS = [{"epsilon": 1}, {"rho": 0.3}]


@pytest.mark.parametrize("unit", [{}, UNIT], ids=["rows", "units"])
@pytest.mark.parametrize("loss", TERMS, ids=["epsilon", "rho"])
def test_forecasts_of_groups_hold(loss, unit, upper_limit):
    """Answers of a real release by group are as near as its explanation says; 1e-9 each of 14."""
    groups, size = 1000, 100
    rows = np.tile(np.array(ordinary(size)), groups)
    group = np.repeat(np.arange(groups), size)
    frame = pl.DataFrame({"g": group, "x": rows, "y": rows, "who": np.arange(len(rows)) // 2})
    private = frame.dp(**unit).group_by("g", keys=range(groups))
    questions = {
        "n": dfp.count(),
        "mean": dfp.mean("x", (LOW, HIGH)),
        "total": dfp.sum("y", (LOW, HIGH)),
        "var": dfp.var("x", (LOW, HIGH)),
        "std": dfp.std("x", (LOW, HIGH)),
    }
    plan, released = private.explain(**questions, **loss), private.agg(**questions, **loss)
    true = {"n": size, "mean": MIDDLE, "total": size * MIDDLE,
            "var": WIDTH**2 / 12, "std": WIDTH / math.sqrt(12)}  # fmt: skip
    for name, exact in true.items():
        off = np.abs(released[name].to_numpy() - exact)
        half = plan[name].typical[plan[name].rows.index(size)] + 1e-6
        assert upper_limit(int((off <= half).sum()), groups) >= LEVEL, name


@pytest.mark.parametrize("unit", [{}, UNIT], ids=["rows", "units"])
@pytest.mark.parametrize(
    "ask",
    [dfp.count(), dfp.mean("x", (0, 1)), dfp.var("x", (0, 1)), dfp.sum("x", (-1, 1)),
     dfp.mean("x"), dfp.median("x")],
    ids=lambda question: question.text,
)  # fmt: skip
def test_groups_are_shown_as_often_as_forecast(ask, unit, upper_limit, lower_limit):
    """Groups of the sizes forecast are shown with 5, 50, 95 %, and one row less does not do.

    Where bounds are found first, fewer rows than forecast can do for 50 and 95 %, and more can be
    needed for 5 %. Clopper-Pearson limits, 1e-9 each of 72 comparisons.
    """
    copies, terms = 800, {"epsilon": 8 if unit else 2, "delta": 1e-3}
    shown = pl.DataFrame({"g": [1], "x": [1.0], "who": [1]}).dp(**unit).group_by("g")
    reach = shown.explain(ask, **terms).shown
    sizes = [
        size
        for threshold in (reach.rarely, reach.half, reach.mostly)
        for size in (threshold, threshold - 1)
    ]
    rows = np.repeat(np.repeat(sizes, copies), np.repeat(sizes, copies))
    group = np.repeat(np.arange(len(sizes) * copies), np.repeat(sizes, copies))
    frame = pl.DataFrame({"g": group, "x": (rows % 2) * 1.0, "who": np.arange(len(rows))})
    shown_groups = frame.dp(**unit).group_by("g").agg(ask, **terms)["g"].to_numpy()
    hits = np.bincount(shown_groups // copies, minlength=len(sizes))
    finds_bounds = ask == dfp.mean("x")
    for index, chance in enumerate((0.05, 0.5, 0.95)):
        if chance > 0.05 or not finds_bounds:
            assert upper_limit(int(hits[2 * index]), copies) >= chance
        if chance == 0.05 or not finds_bounds:
            assert lower_limit(int(hits[2 * index + 1]), copies) <= chance


@pytest.mark.parametrize("ask", ["mean", "var", "sum"])
def test_forecasts_without_bounds_hold(ask, upper_limit):
    """Within the bounds that a release has found it errs as forecast, in widths; 1e-9 each.

    Values are spread evenly, and the forecast is at most four times what is seen.
    """
    copies = 100
    values = np.linspace(-127, 127, 1000)
    frame = pl.DataFrame({"x": values})
    half = getattr(frame.dp.explain, ask)("x", epsilon=2)["x"].typical[2]
    hits, ratios = 0, []
    for _ in range(copies):
        released = getattr(frame.dp, ask)("x", epsilon=2)
        low, high = released.bounds.lower, released.bounds.upper
        clipped = np.clip(values, low, high)
        true = {"mean": clipped.mean(), "var": clipped.var(), "sum": clipped.sum()}[ask]
        size = {"mean": high - low, "var": (high - low) ** 2, "sum": max(abs(low), abs(high))}[ask]
        off = abs(float(released) - true)
        hits += off <= half * size + 1e-5 * abs(true)
        ratios.append(off / size)
    assert upper_limit(hits, copies) >= LEVEL
    assert half <= 4 * np.quantile(ratios, LEVEL)


def on_grid(values):
    """Round to the 17 significant bits that quantiles are chosen from; no value is a tie."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2**17) / 2**17, exponent)


SPREAD, REPEATED = 1 + np.arange(1000) / 1000, np.repeat([1.0, 2.0, 5.0, 9.0], 250)
RANKS = [(500, values, [q]) for values in (SPREAD, REPEATED) for q in (0.5, 0.9, 0.99)]
RANKS.append((100, 1 + np.arange(10_000) / 10_000, [0.1, 0.25, 0.5, 0.75, 0.9]))
"""Groups, the values of each, and levels that share a loss."""


@pytest.mark.parametrize(("groups", "values", "qs"), RANKS, ids=lambda value: str(value)[:12])
def test_forecast_ranks_hold(groups, values, qs, upper_limit):
    """A quantile is as many ranks off as forecast, for spread and for repeated values; 1e-9 each.

    How many ranks are needed is not said: bins hold several ranks.
    """
    size, index = len(values), 2 if len(qs) == 1 else 3
    frame = pl.DataFrame({"g": np.repeat(np.arange(groups), size), "x": np.tile(values, groups)})
    private = frame.dp.group_by("g", keys=range(groups))
    plan, released = (ask.quantiles("x", qs, epsilon=2) for ask in (private.explain, private))
    sorted_values = np.sort(on_grid(values))
    for q in qs:
        answers = released[f"x_{q}"].to_numpy()
        below, upto = (np.searchsorted(sorted_values, answers, side) for side in ("left", "right"))
        off = np.maximum(0, np.maximum(below - q * size, q * size - upto))
        assert upper_limit(int((off <= plan[f"x_{q}"].typical[index]).sum()), groups) >= LEVEL
