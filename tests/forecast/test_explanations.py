"""An explanation names the charge, the ledger, the error, and how it is shown."""

import dataclasses
import math
import pickle

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp

FRAME = pl.DataFrame({"g": ["a", "b"] * 2000, "x": [1.0, 3.0] * 2000, "k": [1, 2] * 2000})
BY = FRAME.dp.group_by("g", keys=["a", "b"])
ASKS = {
    "count": lambda private, **terms: private.count(**terms),
    "sum": lambda private, **terms: private.sum("x", (0, 4), **terms),
    "mean": lambda private, **terms: private.mean("x", (0, 4), **terms),
    "shifted": lambda private, **terms: private.shifted_mean("x", (0, 4), **terms),
    "var": lambda private, **terms: private.var("x", (0, 4), **terms),
    "std": lambda private, **terms: private.std("x", (0, 4), **terms),
    "mean without bounds": lambda private, **terms: private.mean("x", **terms),
    "sum without bounds": lambda private, **terms: private.sum("x", **terms),
    "subset": lambda private, **terms: private.subset_mean("x", **terms),
    "dick": lambda private, **terms: private.dick_mean("x", **terms),
    "inverse": lambda private, **terms: private.center("x", 2, **terms),
    "median": lambda private, **terms: private.median("x", **terms),
    "inverse median": lambda private, **terms: private.inverse_quantile("x", 0.5, **terms),
    "quantiles": lambda private, **terms: private.quantiles("x", [0.1, 0.5], **terms),
    "center": lambda private, **terms: private.center("x", 1.5, (0, 4), **terms),
    "found center": lambda private, **terms: private.center("x", 1.5, **terms),
    "bounds": lambda private, **terms: private.bounds("x", **terms),
    "bounds by rank": lambda private, **terms: private.bounds("x", 100, **terms),
    "histogram": lambda private, **terms: private.histogram("x", [0, 2, 4], **terms),
    "found histogram": lambda private, **terms: private.histogram("x", 4, **terms),
    "several": lambda private, **terms: private.agg(
        dfp.mean("x", (0, 4)), dfp.median("k"), rows=dfp.count(), **terms
    ),
}


@pytest.fixture
def ledger(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", rho=10, delta=1e-3, remember=True)


@pytest.mark.parametrize(
    ("name", "grouped", "loss"),
    [
        (name, index % 2 == side, {"epsilon": 1.5} if index % 4 < 2 else {"rho": 0.25})
        for index, name in enumerate(ASKS)
        for side in range(2)
    ],
    ids=str,
)
def test_what_is_explained_is_what_is_charged(name, grouped, loss, ledger):
    """The charge is named in the ledger's words, with what it leaves; its draws add up."""
    private = FRAME.dp(ledger=ledger, dataset="d")
    terms = {**loss, "delta": 1e-6} if grouped else loss
    source = private.group_by("g") if grouped else private
    plan = ASKS[name](source.explain, **terms)
    assert ledger.datasets() == []
    ASKS[name](source, **terms)
    (line,) = ledger.history().to_dict("records")
    assert (line["question"], line["delta"]) == (plan.asks, plan.delta)
    assert {"epsilon": plan.epsilon, "rho": plan.rho} == {"epsilon": None, "rho": None, **loss}
    assert plan.account.before == ledger.budget
    assert plan.account.after == ledger.remaining("d")
    measure = next(iter(loss))
    assert sum(getattr(draw, measure) for draw in plan.draws) == pytest.approx(loss[measure])
    assert (plan.shown is not None) == grouped
    assert pickle.loads(pickle.dumps(plan)) == plan


@pytest.mark.parametrize("name", ASKS)
def test_explanations_are_shown(name):
    """Pages fit 100 columns; HTML has every answer; names are escaped."""
    plan = ASKS[name](FRAME.rename({"g": "<b>"}).dp.group_by("<b>").explain, delta=1e-6)
    lines = repr(plan).splitlines()
    assert max(map(len, lines)) <= 100
    html = plan._repr_html_()
    assert "<b>'" not in html
    assert "&lt;b&gt;" in html
    for answer in plan.answers:
        assert answer.name in html
        assert any(line.startswith(answer.name) for line in lines)
    assert plan.table.num_rows == sum(len(answer.rows) for answer in plan.answers)


def test_answers_go_by_name():
    """Forecasts are found by the names of the answers."""
    plan = FRAME.dp.explain(dfp.mean("x", (0, 4)), rows=dfp.count())
    assert plan["rows"].question == "count()"
    assert plan["x"].unit == "units of 'x'"
    with pytest.raises(KeyError):
        plan["y"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.epsilon = 0


def ordinary(plan, size=10_000):
    """Return the half-width of the first answer."""
    answer = plan.answers[0]
    return answer.typical[answer.rows.index(size)]


@pytest.mark.parametrize("name", ["count", "sum", "mean", "shifted", "var", "std", "median",
                                  "mean without bounds", "histogram"])  # fmt: skip
def test_the_loss_that_halves_the_error(name):
    """Twice epsilon, or four times rho, halves the error; up to whole steps of counts."""
    for measure, low, high in (("epsilon", 0.1, 0.2), ("rho", 1e-3, 4e-3)):
        halves = [ordinary(ASKS[name](BY.explain, **{measure: value})) for value in (low, high)]
        assert halves[1] == pytest.approx(halves[0] / 2, rel=0.12)


@pytest.mark.parametrize("kind", ["mean", "var", "std", "sum"])
def test_the_bounds_and_rows_that_halve_the_error(kind):
    """Bounds of half the width halve the error, .71 of it for a variance; so do twice the rows."""
    shrink = math.sqrt(0.5) if kind == "var" else 0.5
    plans = [getattr(FRAME.dp.explain, kind)("x", (0, 8 * part)) for part in (1, shrink)]
    assert ordinary(plans[1]) == pytest.approx(ordinary(plans[0]) / 2, rel=0.01)
    ratio = ordinary(plans[0], 100_000) / ordinary(plans[0], 10_000)
    assert ratio == pytest.approx(1 if kind == "sum" else 0.1, rel=0.02)


@pytest.mark.parametrize("loss", [{"epsilon": 0.1}, {"rho": 0.01}], ids=["epsilon", "rho"])
def test_the_limits_that_halve_the_error(loss):
    """Half of max_rows halves the error; half of max_groups does, or a quarter under rho."""

    def half(rows, groups):
        private = FRAME.dp(unit="k", max_rows=rows, max_groups=groups, delta=1e-6).group_by("g")
        return ordinary(private.explain.mean("x", (0, 4), **loss))

    before, fewer = half(4, 8), 4 if "epsilon" in loss else 2
    assert half(2, 8) == pytest.approx(before / 2, rel=0.02)
    assert half(4, fewer) == pytest.approx(before / 2, rel=0.02)


def test_a_budget_that_is_too_small(ledger):
    """An explanation says that a release would be refused; the release is."""
    private = FRAME.dp(ledger=ledger, dataset="d")
    plan = private.explain.count(rho=11)
    assert plan.account.after is None
    assert "too little" in repr(plan)
    with pytest.raises(dfp.BudgetExceededError):
        private.count(rho=11)


@pytest.mark.parametrize(
    ("name", "grouped"), [(name, index % 2 == 0) for index, name in enumerate(ASKS)]
)
def test_a_release_that_is_remembered(name, grouped, ledger):
    """A release that a ledger remembers is known to cost nothing again, and any other is not."""
    private = FRAME.dp(ledger=ledger, dataset="d", version="1", delta=1e-4)
    source = private.group_by("g") if grouped else private
    before = ASKS[name](source.explain)
    ASKS[name](source)
    after = ASKS[name](source.explain)
    assert (before.remembered, after.remembered) == (False, True)
    assert "was paid before" in repr(after)
    assert "afterwards" not in repr(after)
    assert not ASKS[name](source.explain, epsilon=0.9).remembered


def test_the_rows_that_quantiles_need():
    """At epsilon 1 docs/explanation/quantiles.md names the rows from which on there are answers."""
    explain, grouped = FRAME.dp.explain, BY.explain
    plans = [
        grouped.median("x", bounds=(-60, 240), step=1), grouped.median("x"), explain.median("x"),
        grouped.median("k"), grouped.quantile("x", 0.99), explain.quantile("x", 0.99),
    ]  # fmt: skip
    assert [plan.answers[0].answered.half for plan in plans] == [25, 53, 53, 53, 67, 67]


def test_counts_by_value_that_are_remembered(ledger):
    """A release of `top` is known to be remembered for the same k alone."""
    private = FRAME.dp(ledger=ledger, dataset="d", version="1")
    private.top("k", 2, [1, 2])
    explain = private.explain
    plans = explain.top("k", 2, [1, 2]), explain.top("k", 1, [1, 2]), explain.value_counts("k", [1])
    assert [plan.remembered for plan in plans] == [True, False, False]


def test_vectors(ledger):
    """A mean of vectors is explained in lengths of clipping, and charged as explained."""
    private = FRAME.dp(ledger=ledger, dataset="d")
    plan = private.explain.mean_vector(["x", "k"], rho=0.5, radius=10)
    private.mean_vector(["x", "k"], rho=0.5, radius=10)
    assert plan.account.after == ledger.remaining("d")
    assert plan.answers[0].typical[3] < 0.01
    by = private.group_by("g").explain.mean_vector(["x", "k"], rho=0.5, radius=9, delta=1e-6)
    assert by.shown.half < 40
    has_half_width = (
        private.explain.mean_vector(["x", "k"], rho=0.5, radius=9, method="plan")
        .answers[0]
        .is_known
    )
    assert not has_half_width
    with pytest.raises(dfp.errors.InvalidLedgerError):
        private.explain.mean_vector(["x", "k"], rho=0.5, radius=9, neighbors="replace")


def test_statements_say_the_same(ledger):
    """`dfp.explain` says of a statement what `df.dp.explain` says of its questions."""
    query = "SELECT g, dp_mean(x, 0, 4) AS m, dp_count(*) AS n FROM t GROUP BY g"
    terms = {"epsilon": 1, "delta": 1e-6, "ledger": ledger, "dataset": "d"}
    explanation = dfp.explain(query, t=FRAME, **terms)
    mean = dfp.mean("x", (0, 4))
    plan = FRAME.dp(**terms).group_by("g").explain(mean, dfp.count())
    for name in ("epsilon", "delta", "shown", "account", "draws", "level", "protects"):
        assert getattr(explanation, name) == getattr(plan, name)
    for stated, expected in zip(explanation.answers, plan.answers, strict=True):
        assert dataclasses.replace(stated, name=expected.name) == expected
    assert [answer.name for answer in explanation.answers] == [
        call for call, _ in explanation.calls
    ]


@pytest.mark.parametrize("method", ["recentered", "clipped", "shifted"])
def test_forecasts_of_vectors_hold(method):
    """In lengths of clipping, vectors are off as forecast at most: 40 releases of 1,000 rows.

    What is cut is computed from the center and the threshold that a release publishes. At 95 % more
    than 15 misses of 40 have a probability below 1e-9.
    """
    angles = np.arange(1000) * 2.4
    rows = np.stack([np.cos(angles), np.sin(angles), angles % 1], axis=1) + np.array([5, 0, 0])
    frame = pl.DataFrame(rows, schema=["a", "b", "c"])
    terms = {"rho": 0.5, "radius": 10, "method": method}
    half = frame.dp.explain.mean_vector(["a", "b", "c"], **terms).answers[0].typical[2]
    misses = 0
    for _ in range(40):
        noisy = frame.dp.mean_vector(["a", "b", "c"], **terms).noisy
        away = rows / noisy.step - noisy.center
        lengths = np.linalg.norm(away, axis=1, keepdims=True)
        cut = away * np.minimum(1, noisy.threshold / np.maximum(lengths, 1e-9))
        summed = (noisy.center + cut.mean(axis=0)) * noisy.step
        misses += np.linalg.norm(noisy.value() - summed) > half * noisy.threshold * noisy.step
    assert misses <= 15


@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"rho": 0.1}])
@pytest.mark.parametrize("by", [(), ("g",)])
def test_figures_of_limits_that_are_found_name_them(by, loss):
    """Where a release finds limits, every unit and size says that it is that of limits of 1."""
    questions = [dfp.count(), dfp.sum("x", (0, 4)), dfp.mean("x", (0, 4)), dfp.median("x")]
    terms = {**loss, **({"delta": 1e-6} if by else {})}
    private = FRAME.dp(unit="k").group_by(*by) if by else FRAME.dp(unit="k")
    plan = private.explain(*questions, **terms)
    condition = "if max_rows=1" + " and max_groups=1" * bool(by)
    for answer in plan.answers:
        assert answer.unit.endswith(condition)
        assert answer.scale is None or answer.scale_unit.endswith(condition)
        assert answer.answered is None or condition in str(answer.answered)
        assert sum("the release finds max_rows" in remark for remark in answer.remarks) == 1
    assert all(unit.endswith(condition) for unit in plan.table["unit"].to_pylist())
    assert f"in rows {condition}" in " ".join(repr(plan).split())
    assert (plan.shown is not None) == bool(by)
    if by:
        assert f"{condition}, and from more" in " ".join(repr(plan).split())
        assert plan.shown.condition == condition
    named = FRAME.dp(unit="k", max_rows=3, max_groups=2)
    page = (named.group_by(*by) if by else named).explain(*questions, **terms)
    assert "if max_rows" not in repr(page)
    assert "the release finds" not in repr(page)


def test_limits_that_are_found_are_named_where_they_matter():
    """Units are counted within max_groups alone; named limits are not said to be found."""
    private = FRAME.dp(unit="k", delta=1e-6)
    units = private.explain(dfp.nunique("k"), dfp.count())
    assert (units["k"].unit, units["k"].open_limits) == ("distinct values", ())
    assert units["count"].open_limits == ("max_rows",)
    assert private.group_by("g").explain.nunique("k").answers[0].open_limits == ("max_groups",)
    by_rows = private(max_rows=2).group_by("g").explain.count()
    assert by_rows.answers[0].unit == "rows if max_groups=1"
    by_groups = private(max_groups=2).group_by("g").explain.count()
    assert by_groups.answers[0].unit == "rows if max_rows=1"
    plan = private.group_by("g", keys=["a", "b"]).explain.count()
    assert (plan.shown, plan.answers[0].unit) == (None, "rows if max_rows=1")
