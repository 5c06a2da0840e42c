"""Laws of targets: the loss that is found reaches the half-width, and the next smaller does not."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy import papers
from dfprivacy.statistics import STATISTICS
from tests.command_line import command
from tests.laws.test_registry import make_question

FRAME = pl.LazyFrame(
    {"g": ["a"], "x": [1.0], "y": [2.0]},
    schema={"g": pl.String, "x": pl.Float64, "y": pl.Float64},
)
DP = FRAME.dp
SIZE = 5000


def half(plan):
    """Return the half-width at SIZE of the first answer."""
    answer = plan.answers[0]
    return answer.typical[answer.rows.index(SIZE)]


def less(loss):
    """Return the next smaller number of three digits."""
    digits, exponent = f"{loss:.2e}".split("e")
    number = round(float(digits) * 100) - 1
    number, exponent = (number, exponent) if number >= 100 else (999, int(exponent) - 1)
    return float(f"{number}e{int(exponent) - 2}")


@pytest.mark.parametrize(
    ("kind", "measure"),
    [*((kind, "epsilon") for kind in STATISTICS), ("count", "rho"), ("mean", "rho")],
)
def test_the_least_loss_that_reaches_a_half_width(kind, measure):
    """The half-width that a loss has is reached by it or less; by a step less it is not.

    What is explained then is what that loss explains. A question without half-widths is refused.
    """
    question, explain = make_question(STATISTICS[kind], (0, 4), (0, 4)), DP(**{measure: 1}).explain
    answer = explain(question, **{measure: 0.5}).answers[0]
    if not answer.is_known:
        with pytest.raises(
            dfp.errors.InvalidQuestionError, match="no half-width before there is data"
        ):
            explain(question, within=1)
        return
    half_width = answer.typical[3]
    plan = explain(question, within=half_width, size=10_000)
    loss = getattr(plan, measure)
    assert loss <= 0.5
    assert replace(plan, reaches="") == explain(question, **{measure: loss})
    assert plan.answers[0].typical[3] <= half_width
    before = explain(question, **{measure: less(loss)})
    fewer = before.answers[0].typical[3]
    assert fewer is None or fewer > half_width


WHOLE = {
    "rows": (dfp.count(), 500),
    "different values": (dfp.nunique("g"), 500),
    "the width of the bounds": (dfp.mean("x", (-1, 3)), 0.4),
    "its square": (dfp.var("x", (-1, 3)), 1.6),
    "the width again": (dfp.std("x", (-1, 3)), 0.4),
    "the largest sum": (dfp.sum("x", (-1, 3)), 1500),
    "a share": (dfp.share("g", "a"), 0.1),
    "widths of bounds found": (dfp.mean("x"), 0.1),
    "ranks": (dfp.median("x"), 500),
}


@pytest.mark.parametrize("name", WHOLE)
def test_percentages(name):
    """A tenth is a tenth of the rows, of the bounds' width, of the largest sum: as documented."""
    question, tenth = WHOLE[name]
    plan, expected = (DP.explain(question, within=target, size=SIZE) for target in ("10%", tenth))
    assert replace(plan, reaches="") == replace(expected, reaches="")
    assert SIZE in plan.answers[0].rows
    assert len(plan.answers[0].rows) == 6


def test_every_method_takes_a_target():
    """By group, in methods that are no statistic of one number, and for single answers."""
    by = DP(delta=1e-6).group_by("g").explain.within(10, size=SIZE)
    plans = [
        by.count(),
        by.histogram("x", [0, 1, 2]),
        DP(delta=1e-6).explain.within(10).top("g", 3),
    ]
    assert all(plan.epsilon < 1 and "within 10" in repr(plan) for plan in plans)
    vector = DP.explain.within(0.1).mean_vector(["x", "y"], rho=1, radius=5)
    assert vector.rho < 1
    both = dfp.mean("x", (0, 4)), papers.InverseQuantile("y", 0.5)
    plan = DP.explain(*both, within={"x": 0.1})
    assert half(DP.explain(*both, within={"x": 0.1}, size=SIZE)) <= 0.1
    assert "y within" not in plan.reaches


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"within": 0}, "must be a half-width"),
        ({"within": "two"}, "must be a half-width"),
        ({"within": "1.2.3%"}, "must be a half-width"),
        ({"within": -1.0}, "must be a half-width"),
        ({"within": {}}, "names no answer"),
        ({"within": {"z": 1}}, "no such answer"),
        ({"within": 1, "size": 0}, "number of rows"),
        ({"within": 1, "size": 1.5}, "number of rows"),
        ({"within": 1, "epsilon": 1}, "both given"),
        ({"within": 1, "rho": 1}, "both given"),
        ({"within": 1e-12}, "no loss up to 999"),
    ],
)
def test_targets_that_are_refused(arguments, message):
    """A target that is none, or can't be reached, is refused in words that say why."""
    with pytest.raises(dfp.DPError, match=message):
        DP.explain(dfp.mean("x", (0, 4)), **arguments)
    with pytest.raises(dfp.errors.InvalidQuestionError, match="percentage"):
        DP.explain(dfp.corr("x", "y", (0, 4), (0, 4)), within="2%")


OPEN = {
    "max_rows": {},
    "max_rows and max_groups": {"by": "g"},
    "max_groups": {"by": "g", "max_rows": 5},
}


@pytest.mark.parametrize("limits", OPEN)
def test_no_target_where_limits_are_found(limits, tmp_path):
    """Limits that a release finds decide its noise, so within is refused until they are named."""
    unit = {"unit": "y", **OPEN[limits]}
    by = unit.pop("by", None)
    private = DP(delta=1e-6, **unit)
    source = private if by is None else private.group_by(by)
    FRAME.collect().write_csv(tmp_path / "t.csv")
    words = ["count", str(tmp_path / "t.csv"), "--unit", "y", "--within", "2%", "--delta", "1e-6"]
    words += [] if by is None else ["--by", "g"]
    words += ["--max-rows", "5"] if "max_rows" in unit else []
    query = "SELECT g, dp_count(*) AS n FROM t GROUP BY g"
    query = query if by else "SELECT dp_count(*) AS n FROM t"
    message = f"grows with {limits}, which the release finds"
    for explain in (
        source.explain.within("2%").count,
        lambda: source.explain(dfp.count(), within="2%"),
        lambda: dfp.explain(query, t=FRAME.collect(), within="2%", delta=1e-6, **unit),
    ):
        with pytest.raises(dfp.errors.InvalidUnitError, match=message) as refusal:
            explain()
        assert limits.partition(" ")[0] in refusal.value.hint
        assert "docs/how-to/users.md" in refusal.value.hint
    for more in ([], ["--explain"]):
        result = command(*words, *more)
        assert (result.exit_code, message in result.stderr) == (2, True)
        assert f"--{limits.replace('_', '-').partition(' ')[0]} 3" in result.stderr


def test_targets_of_units_that_need_no_limit():
    """Units of the whole table, named limits and single answers without a limit have targets."""
    private = DP(unit="y")
    units = private.explain.within(50).nunique("y")
    assert units.epsilon == DP.explain.within(50).count().epsilon
    named = DP(unit="y", max_rows=7).explain.within(50).count()
    assert named.epsilon == pytest.approx(7 * units.epsilon, rel=0.02)
    both = private.explain(dfp.nunique("y"), n=dfp.count(), within={"y": 50})
    assert both["y"].typical[2] <= 50
    grouped = private(max_rows=2, max_groups=3, delta=1e-6).group_by("g")
    assert grouped.explain.within(50).count().epsilon > units.epsilon
    plan = private.group_by("g", keys=["a", "b"]).explain.within(50).nunique("y")
    assert plan["y"].typical[2] <= 50


def test_targets_spend_nothing(tmp_path):
    """A ledger is read and not charged; what is left is that after the loss that was found."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    plan = DP(ledger=ledger, dataset="d").explain(dfp.count(), within=50)
    assert ledger.datasets() == []
    assert plan.account.after.epsilon == pytest.approx(1 - plan.epsilon)


def test_a_statement_has_targets():
    """A statement finds the epsilon of the same questions to a frame; a loss beside it is no."""
    query = "SELECT g, dp_mean(x, 0, 100) AS m, dp_count(*) AS n FROM t GROUP BY g"
    terms = {"t": FRAME.collect(), "delta": 1e-6}
    wide = {**terms, "size": SIZE}
    plan = dfp.explain(query, within="2%", **wide)
    by, mean = DP(delta=1e-6).group_by("g"), dfp.mean("x", (0, 100), clipping=False)
    by = by.explain.within("2%", size=SIZE)
    assert plan.epsilon == by.agg(m=mean, n=dfp.count()).epsilon
    assert half(plan) <= 2
    assert "dp_mean(x, 0, 100) within 2%" in repr(plan)
    alone = dfp.explain(query, within={"dp_count()": 500}, **wide)
    assert alone.epsilon < plan.epsilon
    above = "SELECT dp_count(*) AS n FROM t WHERE x > (SELECT dp_mean(x, 0, 100) FROM t)"
    both = dfp.explain(above, within=5, t=terms["t"], schema={"unit": "t.g"}, max_rows=1, size=SIZE)
    assert [answer.typical[answer.rows.index(SIZE)] <= 5 for answer in both.answers] == [True] * 2
    with pytest.raises(dfp.errors.InvalidLossError):
        dfp.explain(query, within="2%", epsilon=1, **wide)
    con = dfp.connect(t=terms["t"], epsilon=1, delta=1e-6)
    assert con.explain(query, within="2%", size=SIZE).epsilon == plan.epsilon


@pytest.mark.parametrize("law", ["normal", "exponential", "years"])
def test_a_target_of_found_bounds_has_an_answer(law):
    """The loss that `within` names finds bounds in 95 of 100 releases, however wide the target.

    At that rate fewer than 20 of 40 have bounds with a probability below 1e-15.
    """
    random, size = np.random.default_rng(4), 2000
    draws = {"normal": (150, 80), "exponential": (20,), "years": (2000, 8)}[law]
    draw = random.exponential if law == "exponential" else random.normal
    frame = pl.DataFrame({"x": draw(*draws, size), "y": draw(*draws, size)})
    for question in (dfp.mean("x"), dfp.var("x"), dfp.corr("x", "y")):
        plan = frame.dp.explain(question, within={question.name: 0.1}, size=size)
        answers = [frame.dp.agg(a=question, epsilon=plan.epsilon)["a"] for _ in range(40)]
        assert sum(not math.isnan(answer) for answer in answers) >= 20, question


def test_a_target_that_any_loss_reaches_is_refused():
    """A half-width in units of the column is no target where it is in widths of found bounds."""
    for ask in (
        lambda: DP.explain(dfp.mean("x"), within=2),
        lambda: dfp.explain("SELECT avg(x) AS m FROM t", t=pl.DataFrame({"x": [1.0]}), within=2),
        lambda: DP.explain(dfp.mean("x", (0, 10)), within=10),
    ):
        with pytest.raises(dfp.errors.InvalidQuestionError, match="every loss brings"):
            ask()
