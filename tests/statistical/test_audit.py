"""Black-box audits: no event tells neighbours apart by more than e**epsilon (plus delta)."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

import dfprivacy as dfp

ALPHA = 5e-8  # of each Clopper-Pearson limit; two a test, fewer than 10 tests fail by chance in 1e6


def releases(values, question, copies, **terms):
    """Return `copies` independent releases about the same values, from one grouped call."""
    frame = pl.DataFrame(
        {"copy": np.repeat(np.arange(copies), len(values)), "x": values * copies},
        schema={"copy": pl.Int64, "x": pl.Float64},
    )
    table = frame.dp.group_by("copy", keys=range(copies)).agg(answer=question, **terms)
    return table["answer"].to_numpy().astype(float)


def lower_limit(hits, total):
    return 0.0 if hits == 0 else float(beta.ppf(ALPHA, hits, total - hits + 1))


def upper_limit(hits, total):
    return 1.0 if hits == total else float(beta.ppf(1 - ALPHA, hits + 1, total - hits))


def events(samples):
    """Return half lines at 64 quantiles and points that are hit often."""
    cuts = np.unique(np.quantile(samples, np.linspace(0.001, 0.999, 64)))
    yield from ((">=", cut) for cut in cuts)
    yield from (("<=", cut) for cut in cuts)
    values, counts = np.unique(samples, return_counts=True)
    yield from (("==", value) for value in values[np.argsort(counts)[-16:]])


def hits(samples, event):
    kind, cut = event
    compare = {">=": np.greater_equal, "<=": np.less_equal, "==": np.equal}[kind]
    return int(compare(samples, cut).sum())


def violation(one, other, epsilon):
    """Return by how much the worst event, chosen on one half, breaks the bound on the other."""
    half = len(one) // 2
    bound = math.exp(epsilon)

    def excess(event, p, q):
        return hits(p, event) / len(p) - bound * hits(q, event) / len(q)

    everything = np.concatenate([one[:half], other[:half]])
    event = max(events(everything), key=lambda e: excess(e, one[:half], other[:half]))
    p, q = one[half:], other[half:]
    return lower_limit(hits(p, event), len(p)) - bound * upper_limit(hits(q, event), len(q))


PAIRS = {
    "nothing and one row": ([], [3.0]),
    "one and two": ([-5.0], [-5.0, 3.0]),
    "a thousand low and one high": ([-5.0] * 30, [-5.0] * 30 + [3.0]),
    "an outlier": ([0.5] * 5, [0.5] * 5 + [1e300]),
    "minus infinity": ([0.5] * 5, [0.5] * 5 + [-math.inf]),
    "NaN": ([0.5] * 5, [0.5] * 5 + [math.nan]),
}
QUESTIONS = {
    "count": dfp.count("x"),
    "sum": dfp.sum("x", (-5, 3)),
    "mean": dfp.mean("x", (-5, 3)),
    "shifted mean": dfp.mean("x", (-5, 3), method="shifted"),
    "independent mean": dfp.mean("x", (-5, 3), method="independent"),
    "variance": dfp.var("x", (-5, 3)),
    "mean far from zero": dfp.mean("x", (100, 101)),
    "sum far from zero": dfp.sum("x", (100, 101)),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_neighbours_look_alike(name, pair):
    """P(event | D) <= e**epsilon P(event | D'), both ways, at 95 % of what a tight law allows."""
    one, other = (releases(v, QUESTIONS[name], 20_000, epsilon=1.0) for v in PAIRS[pair])
    assert violation(one, other, 1.0) <= 0
    assert violation(other, one, 1.0) <= 0


def test_the_audit_can_fail():
    """Noise for epsilon 1 that is sold as epsilon 0.5 is found out."""
    one = releases([], dfp.count("x"), 40_000, epsilon=1.0)
    other = releases([3.0], dfp.count("x"), 40_000, epsilon=1.0)
    assert violation(other, one, 0.5) > 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", QUESTIONS)
def test_neighbours_look_alike_in_depth(name, epsilon):
    """The same with 400,000 releases a side, which sees a violation of 10 per cent."""
    for pair in ("nothing and one row", "one and two", "an outlier"):
        samples = [releases(v, QUESTIONS[name], 400_000, epsilon=epsilon) for v in PAIRS[pair]]
        assert violation(*samples, epsilon) <= 0
        assert violation(*samples[::-1], epsilon) <= 0


@pytest.mark.parametrize(
    ("question", "bounds", "largest"),
    [("sum", (100, 101), 101), ("sum", (-5, 3), 5), ("sum", (-7, -2), 7), ("count", None, 1)],
)
def test_noise_is_neither_too_small_nor_wasted(question, bounds, largest):
    """The standard deviation of a whole-table answer is sqrt(2) * sensitivity / epsilon.

    20,000 draws put it within 6.2 * 1.2 / sqrt(20,000), about 5.3 per cent (alpha 1e-9).
    """
    frame = pl.DataFrame({"x": [bounds[1] if bounds else 0.0]}, schema={"x": pl.Float64})
    estimate = getattr(frame.dp, question)(*(("x", bounds) if bounds else ("x",)), epsilon=0.1)
    exact = math.sqrt(2) * largest / 0.1
    assert estimate.std_error == pytest.approx(exact, rel=2e-2)
    draws = estimate.mechanism.sample(20_000).astype(float)
    unit = estimate.std_error / math.sqrt(estimate.mechanism.variance)
    assert draws.std() * unit == pytest.approx(exact, rel=0.053)


SINGLES = 200_000


@pytest.mark.parametrize("delta", [1e-3, 1e-4])
@pytest.mark.parametrize(
    "question", [dfp.count(), dfp.mean("x", (0, 1)), dfp.std("x", (0, 1)), dfp.sum("x", (-1, 1))]
)
@pytest.mark.parametrize("terms", [{"epsilon": 1.0}, {"rho": 0.5}], ids=str)
def test_groups_of_one_row_stay_hidden(question, delta, terms):
    """Of 200,000 groups of one row each, no more than a share of delta comes out (T17)."""
    frame = pl.DataFrame({"g": range(SINGLES), "x": [1.0] * SINGLES})
    shown = len(frame.dp.group_by("g").agg(answer=question, delta=delta, **terms))
    assert lower_limit(shown, SINGLES) <= delta


def test_threshold_is_not_higher_than_needed():
    """With a delta of 1e-2 a share near 1e-2 of single-row groups does come out.

    The law of the discrete noise can't hit delta exactly: at epsilon 1 a step of the threshold is
    a factor e, so at least delta / e comes out.
    """
    frame = pl.DataFrame({"g": range(SINGLES)})
    shown = len(frame.dp.group_by("g").count(epsilon=1.0, delta=1e-2))
    assert upper_limit(shown, SINGLES) >= 1e-2 / math.e


def test_large_groups_come_out():
    """A group twice as large as the threshold is shown with probability above 1 - 1e-9."""
    frame = pl.DataFrame({"g": ["a"] * 60 + ["b"]})
    shown = frame.dp.group_by("g").count(epsilon=1.0, delta=1e-6)["g"].to_list()
    assert "a" in shown
