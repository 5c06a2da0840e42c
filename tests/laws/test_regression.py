"""Several columns explain another: sensitivity, what is read off the sums, what is refused."""

import itertools
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from tests.replayed_draws import replay

EXACT = {"epsilon": 1e9}
KNOWN = {"y": (-10, 30), "a": (0, 10), "b": (-5, 5)}


def frame(size: int, seed: int = 0) -> pl.DataFrame:
    """Return rows near y = 3 + 2 a - b, some of them beyond the bounds."""
    draws = np.random.default_rng(seed)
    a, b = draws.normal(5, 3, size), draws.uniform(-5, 5, size)
    return pl.DataFrame({"a": a, "b": b, "y": 3 + 2 * a - b + draws.normal(0, 2, size)})


def truth(rows: pl.DataFrame, xs: tuple[str, ...] = ("a", "b")) -> list[float]:
    """Return the coefficients of clipped values, by numpy."""
    columns = {name: np.clip(rows[name].to_numpy(), *KNOWN[name]) for name in ("y", *xs)}
    design = np.column_stack([np.ones(rows.height), *(columns[name] for name in xs)])
    return np.linalg.lstsq(design, columns["y"], rcond=None)[0].tolist()


def coefficients(answer: object) -> list[float]:
    """Return the coefficients of a released frame."""
    return list(answer["coefficient"])


def test_the_answer_is_that_of_clipped_values():
    """Without noise to speak of, in every kind of frame, of the caller's own type."""
    rows = frame(3000)
    con = duckdb.connect()
    con.register("t", rows.to_arrow())
    tables = [
        rows.dp.regression("y", ["a", "b"], KNOWN, **EXACT),
        rows.lazy().dp(bounds=KNOWN).regression("y", ["a", "b"], **EXACT).collect(),
        rows.to_pandas().dp.regression("y", ("a", "b"), KNOWN, rho=1e12),
        dfp.frame(con.table("t")).regression("y", ["a", "b"], KNOWN, **EXACT).pl(),
    ]
    for table in tables:
        assert list(table.columns) == ["term", "coefficient", "low", "high", "note"]
        assert list(table["term"]) == ["intercept", "a", "b"]
        assert np.allclose(coefficients(table), truth(rows), rtol=1e-5)
    low, high = (tables[0][end].to_numpy() for end in ("low", "high"))
    assert (low <= truth(rows)).all()
    assert (truth(rows) <= high).all()
    assert isinstance(tables[2], pd.DataFrame)


def test_one_column_is_the_line_of_slope_and_intercept():
    """The coefficients of one column are those of the questions about two columns."""
    rows = frame(2000)
    regression = coefficients(rows.dp.regression("y", "a", KNOWN, **EXACT))
    line = [rows.dp.intercept("y", "a", KNOWN["y"], KNOWN["a"], **EXACT)]
    line.append(rows.dp.slope("y", "a", KNOWN["y"], KNOWN["a"], **EXACT))
    assert np.allclose(regression, line, rtol=1e-5)


ENDS = ("", "_low", "_high", "_note")


@pytest.mark.parametrize("keys", [None, ["p", "q"]])
def test_by_group_it_is_a_line_for_each(keys):
    """Each group has the coefficients of its own rows, and its count, at the price of one."""
    rows = pl.concat([frame(3000), frame(2000, 1).with_columns(y=-pl.col("y"))])
    rows = rows.with_columns(k=pl.Series(["p"] * 3000 + ["q"] * 2000))
    bounds = {**KNOWN, "y": (-30, 30)}
    private = rows.dp(delta=1e-9 if keys is None else None).group_by("k", keys=keys)
    table = private.regression("y", ["a", "b"], bounds, **EXACT)
    assert table.columns == [
        "k", *(name + end for name in ("intercept", "a", "b") for end in ENDS), "count",
    ]  # fmt: skip
    assert table["count"].to_list() == [3000, 2000]
    for index, key in enumerate(("p", "q")):
        alone = rows.filter(k=key).dp.regression("y", ["a", "b"], bounds, **EXACT)
        line = table.select("intercept", "a", "b").row(index)
        assert np.allclose(line, coefficients(alone), rtol=1e-5)
    plan = private.explain.regression("y", ["a", "b"], bounds, epsilon=1)
    assert plan.epsilon == 1
    assert [answer.name for answer in plan.answers] == ["intercept", "a", "b"]


def test_rows_that_lack_a_value_are_left_out():
    """NULL or NaN in any column leaves the row out, whatever else it holds."""
    rows = frame(500)
    lacking = pl.DataFrame(
        {
            "a": [None, 1.0, 2.0, math.nan],
            "b": [1.0, None, math.nan, 2.0],
            "y": [1.0, 1.0, 9.0, None],
        }
    )
    more = pl.concat([rows, *[lacking] * 50])
    tables = (table.dp.regression("y", ["a", "b"], KNOWN, **EXACT) for table in (rows, more))
    assert np.allclose(*map(coefficients, tables), rtol=1e-9)


LOSSES = [{"epsilon": 1}, {"rho": 0.1}]


@pytest.mark.battery
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [200, 20_000])
def test_noise_is_what_intervals_say(loss, size):
    """Of many releases 95 % or more hold the answer without noise, and are not far wider.

    So it is of few rows, where noise nearly hides that columns vary; most have ends there too.
    """
    rows = frame(size)
    exact = np.array(truth(rows))
    tables = [rows.dp.regression("y", ["a", "b"], KNOWN, **loss) for _ in range(150)]
    off = np.array([coefficients(table) for table in tables]) - exact
    low, high = (np.array([list(table[end]) for table in tables]) for end in ("low", "high"))
    coverage = ((low <= exact) & (exact <= high)).mean(axis=0)
    assert (coverage > 0.85).all()  # it fails by chance once in 10 million times
    if size == 200:
        assert (np.isfinite(low).mean(axis=0) > 0.5).all()
        return
    wider = (high - low).mean(axis=0) / 2 / (1.96 * np.sqrt((off**2).mean(axis=0)))
    assert (wider < 1.5).all()
    assert (np.abs(off.mean(axis=0)) < np.sqrt((off**2).mean(axis=0)) / 2).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_of_columns_that_are_one_hardly_ever_have_ends(loss):
    """Rows say nothing of the slopes, and 95 of 100 intervals say so; the line at 0 is known.

    More than 16 of 60 have ends by chance once in 100 million times.
    """
    rows, within = frame(20_000).with_columns(b=pl.col("a")), {**KNOWN, "b": KNOWN["a"]}
    tables = [rows.dp.regression("y", ["a", "b"], within, **loss) for _ in range(60)]
    low, high = (np.array([list(table[end]) for table in tables]) for end in ("low", "high"))
    assert np.isfinite(low[:, 1:]).sum(axis=0).max() <= 16
    zero = truth(rows, ("a",))[0]
    assert ((low[:, 0] <= zero) & (zero <= high[:, 0])).mean() > 0.7


def test_rho_and_epsilon_cost_what_they_name():
    """The scale of the noise is that of one vector with all of the loss but a twentieth."""
    explain = frame(10).dp(bounds=KNOWN).explain
    for loss, scale in (({"epsilon": 0.5}, 9 / 0.5), ({"rho": 0.5}, 3)):
        plan = explain.regression("y", ["a", "b"], **loss)
        assert [answer.name for answer in plan.answers] == ["intercept", "a", "b"]
        left = 0.95 if "epsilon" in loss else math.sqrt(0.95)
        assert all(
            math.isclose(answer.scale * left, scale, rel_tol=1e-4) for answer in plan.answers
        )
        assert len(plan.draws) == 1
    assert plan["a"].typical[-1] < plan["a"].typical[-2] < math.inf


EMPTY = pl.DataFrame(schema={"a": pl.Float64, "b": pl.Float64, "y": pl.Float64})


@pytest.mark.parametrize("loss", [{"epsilon": 0.1}, {"rho": 0.001}])
@pytest.mark.parametrize(
    "rows",
    [
        EMPTY,
        frame(1),
        frame(50).with_columns(a=pl.lit(None, pl.Float64)),
        frame(50).with_columns(a=pl.lit(3.0)),
        frame(50).with_columns(b=pl.col("a")),
        frame(50).with_columns(y=pl.lit(math.inf)),
    ],
    ids=["empty", "one", "missing", "constant", "collinear", "infinite"],
)
def test_one_outcome_whatever_rows_hold(rows, loss):
    """The same columns, types and terms, finite coefficients, and intervals that hide nothing."""
    table = rows.dp.regression("y", ["a", "b"], KNOWN, **loss)
    assert table.schema == frame(5).dp.regression("y", ["a", "b"], KNOWN, epsilon=1).schema
    assert table["term"].to_list() == ["intercept", "a", "b"]
    assert table["coefficient"].is_finite().all()
    assert table["low"].is_infinite().all()
    assert table["high"].is_infinite().all()


@pytest.mark.parametrize("epsilon", [1e9, 1e15])
def test_columns_that_are_one_have_no_interval_without_noise_either(epsilon):
    """Where nothing but rounding tells columns apart, an interval is infinite, and no error."""
    rows = frame(50).with_columns(b=pl.col("a"))
    within = {**KNOWN, "b": KNOWN["a"]}
    table = rows.dp.regression("y", ["a", "b"], within, epsilon=epsilon)
    assert table["low"].is_infinite().all()


@pytest.mark.parametrize(
    ("rows", "epsilon"), [(2**25, 1e12), (2**25, 1e9), (50, 1e-18)],
    ids=["many equal rows", "many equal rows, some noise", "noise alone"],
)  # fmt: skip
def test_sums_too_large_to_tell_columns_apart_are_no_error(rows, epsilon):
    """Where floats round off what tells columns apart, coefficients are finite all the same."""
    con = duckdb.connect()
    relation = dfp.frame(con.sql(f"SELECT 1.0 AS a, 1.0 AS b, 1.0 AS y FROM range({rows})"))
    for _ in range(1 if rows > 50 else 40):
        table = relation.regression("y", ["a", "b"], dict.fromkeys("aby", (0, 1)), epsilon=epsilon)
        assert np.isfinite(table.pl()["coefficient"].to_numpy()).all()


def test_a_ridge_keeps_coefficients_small():
    """Where noise hides that columns vary, coefficients are near 0 and not any number."""
    rows = frame(30)
    tables = [rows.dp.regression("y", ["a", "b"], KNOWN, epsilon=0.5) for _ in range(60)]
    slopes = np.array([coefficients(table)[1:] for table in tables])
    assert np.median(np.abs(slopes)) < 4
    assert np.quantile(np.abs(slopes), 0.9) < 100


def test_units_cost_what_their_rows_do():
    """With a unit of three rows a sum has three times the noise; limits are found as well."""
    rows = frame(9000).with_columns(u=pl.int_range(9000) // 3)
    private = rows.dp(unit="u", max_rows=3, bounds=KNOWN)
    plan = private.explain.regression("y", ["a", "b"], epsilon=1)
    assert math.isclose(plan["a"].scale * 0.95, 27, rel_tol=1e-4)
    table = private.regression("y", ["a", "b"], **EXACT)
    assert np.allclose(coefficients(table), truth(rows), rtol=1e-4)
    searched = rows.dp(unit="u", bounds=KNOWN).regression("y", ["a", "b"], **EXACT)
    assert np.allclose(coefficients(searched), truth(rows), rtol=1e-3)


ODD = [-math.inf, -1e300, -5.0, -0.0, 0.1, 2.5, 2.6, 1e9, math.inf]
PRODUCT_ENDS = [(0, 1), (-5, 3), (2.5, 2.6), (-1e-100, 1e-99)]


@pytest.mark.parametrize("column_count", [1, 2, pytest.param(3, marks=pytest.mark.battery)])
@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"rho": 1}], ids=str)
def test_a_row_costs_no_more_than_is_charged(column_count, loss):
    """Whatever it holds, and rows at the bounds by nearly as much, but for the count of clipped."""
    names = [f"x{index}" for index in range(column_count)]
    for turn in range(len(PRODUCT_ENDS)):
        ends = [
            PRODUCT_ENDS[(turn + index) % len(PRODUCT_ENDS)] for index in range(column_count + 1)
        ]
        bounds, paid = dict(zip(["y", *names], ends, strict=True)), []

        def ask(rows, bounds=bounds):
            frame = pl.DataFrame(rows, schema=[*bounds], orient="row")
            return frame.dp.regression("y", names, bounds, **loss)

        usual = [tuple(map(np.mean, ends))] * 9
        odd = itertools.product(ODD[turn::4], repeat=column_count + 1)
        for row in itertools.chain(itertools.product(*ends), odd):
            answer, again, tape = replay(ask, [*usual, row], usual)
            assert answer.equals(again, null_equal=True)
            paid.append(getattr(tape.loss, *loss))
        assert 0.9499 < max(paid) <= 1


def test_a_page_shows_it():
    """`dfp.show` has one line a term, with the interval and what it has cost."""
    text = repr(dfp.show(frame(5000).dp.regression("y", ["a", "b"], KNOWN, epsilon=1)))
    assert text.startswith("regression('y', ['a', 'b']")
    assert [line.split()[0] for line in text.splitlines()[2:5]] == ["intercept", "a", "b"]
    assert "epsilon=1" in text


def test_a_regression_of_which_no_group_is_shown_is_empty():
    """Bounds are found over all rows, and no group of one row is shown: nothing fails."""
    x, y = [1.0, 2.0, 5.0] * 1000, [2.0, 3.0, 9.0] * 1000
    rows = pl.DataFrame({"g": range(3000), "x": x, "y": y})
    groups = rows.dp(epsilon=3, delta=1e-12).group_by("g")
    assert groups.regression("y", ["x"]).is_empty()
    for question in (dfp.slope("x", "y"), dfp.cov("x", "y"), dfp.ratio("x", "y", (0, 9), (0, 9))):
        assert groups.agg(question).is_empty()
