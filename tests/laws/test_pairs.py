"""Two columns: products of bases near a partition of unity, and what is read off them."""

import itertools
import math
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
import sql_udfs

EXACT = {"epsilon": 1e9}
ODD = [-math.inf, -1e300, -5.0, -0.0, 0.1, 1 / 3, 2.5, 2.6, 5e-324, 99.99, 1e9, math.inf]
BOUNDS = [(0, 1), (-5, 3), (2.5, 2.6), (1e9, 1e9 + 1), (-1e-100, 1e-99), (1e16, 1e16 + 2)]


def frame(size: int, *, slope: float = 0.5, off: float = 10.0) -> pl.DataFrame:
    """Return rows with a straight line and noise around it, some of them beyond the bounds."""
    generator = np.random.default_rng(size)
    x = generator.normal(50, 25, size)
    return pl.DataFrame({"x": x, "y": 25 + slope * x + generator.normal(0, off, size)})


def truth(rows: pl.DataFrame, bounds: tuple[float, float] = (0, 100)) -> dict[str, float]:
    """Return the answers about clipped values, by numpy."""
    x, y = (np.clip(rows[name].to_numpy(), *bounds) for name in "xy")
    (xx, xy), (_, yy) = np.cov(x, y, bias=True)
    line = {"slope": xy / xx, "intercept": y.mean() - xy / xx * x.mean()}
    return {
        "cov": xy, "corr": xy / math.sqrt(xx * yy), "r_squared": xy**2 / (xx * yy),
        "ratio": x.sum() / y.sum(), **line,
    }  # fmt: skip


KINDS = ["cov", "corr", "ratio", "slope", "intercept", "r_squared"]
LINES = KINDS[3:]


def name_columns(kind: str) -> list[str]:
    """Return the columns in the order that a statistic takes them: lines name y first."""
    return ["y", "x"] if kind in LINES else ["x", "y"]


@pytest.mark.parametrize("kind", KINDS)
def test_terms_are_near_the_products_of_polynomials(kind):
    """Coordinates add up to k, and terms are as near k a^i b^j as the sensitivity takes them for.

    It is k and, for the rounding of each term, a constant times the factors of the matrix.
    """
    for x_bounds, y_bounds in itertools.product(BOUNDS, BOUNDS):
        question = getattr(dfp, kind)(*name_columns(kind), x_bounds=x_bounds, y_bounds=y_bounds)
        linear, grids = question.linear(grouped=False), question.grids
        pairs = list(itertools.product(ODD, ODD))
        columns = dict(zip("xy", np.array(pairs).T, strict=True))
        k = linear.count.divisor
        rounded = (linear.l1 - k) / sum(abs(factor) for row in linear.matrix for factor in row[1:])
        assert linear.l2_squared == linear.l1**2
        assert set(linear.apply(columns).sum(axis=0)) == {k}
        sides = zip(columns.values(), grids, strict=True)
        first, second = ([Fraction(grid.integer(v), k) for v in values] for values, grid in sides)
        for term in linear.source.terms:
            powers = str(term).count("'x'"), str(term).count("'y'")
            integers = term.of(columns)
            for a, b, integer in zip(first, second, integers.tolist(), strict=True):
                assert abs(k * a ** powers[0] * b ** powers[1] - integer) < rounded


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_clipped_values(kind):
    """Without noise to speak of, an answer is that of numpy over clipped values."""
    rows = frame(3000)
    answer = getattr(rows.dp, kind)(*name_columns(kind), (0, 100), (0, 100), **EXACT)
    assert math.isclose(answer, truth(rows)[kind], rel_tol=1e-5)
    assert answer.low <= truth(rows)[kind] <= answer.high
    if kind not in {"slope", "intercept", "ratio"}:
        swapped = getattr(rows.dp, kind)(*name_columns(kind)[::-1], (0, 100), (0, 100), **EXACT)
        assert math.isclose(answer, swapped, rel_tol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_lack_one_value_are_left_out(kind):
    """NULL or NaN in either column leaves the row out, and the count with it."""
    rows = frame(500)
    lacking = [
        {"x": None, "y": 5.0}, {"x": 5.0, "y": None}, {"x": math.nan, "y": 1.0},
        {"x": 1.0, "y": math.nan}, {"x": None, "y": math.nan},
    ]  # fmt: skip
    more = pl.concat([rows, pl.DataFrame(lacking * 50, schema=rows.schema)])
    ask = [getattr(table.dp(bounds={"x": (0, 100), "y": (0, 100)}), kind) for table in (rows, more)]
    plain, other = (question(*name_columns(kind), **EXACT) for question in ask)
    assert math.isclose(plain, other, rel_tol=1e-9)
    by = more.with_columns(g=pl.lit(1)).dp.group_by("g", keys=[1])
    assert getattr(by, kind)(*name_columns(kind), (0, 100), (0, 100), **EXACT)[
        "count"
    ].to_list() == [500]


@pytest.mark.parametrize("kind", KINDS)
def test_functions_leave_out_rows_that_lack_a_value(kind):
    """On a connection and in a statement as well: NULL and NaN in either column."""
    rows = frame(500)
    lacking = pl.DataFrame({"x": [None, 5.0, math.nan, 1.0], "y": [5.0, None, 1.0, math.nan]})
    more = pl.concat([rows, *[lacking] * 50])
    con = duckdb.connect()
    con.register("t", more.to_arrow())
    sql_udfs.register(con, epsilon=1e9)
    call = f"dp_{kind}({', '.join(name_columns(kind))}, 0, 100, 0, 100)"
    (registered,) = con.execute(f"SELECT {call} FROM t").fetchone()
    stated = dfp.sql(f"SELECT {call} AS answer FROM t", t=more, epsilon=1e9)["answer"][0]
    for answer in (registered, stated):
        assert math.isclose(answer, truth(rows)[kind], rel_tol=1e-5)
    words = ", ".join([name_columns(kind)[0], f"CAST({name_columns(kind)[1]} AS VARCHAR)"])
    with pytest.raises(duckdb.Error, match="second argument is declared VARCHAR"):
        con.execute(f"SELECT dp_{kind}({words}, 0, 100, 0, 100) FROM t")


def test_a_slope_without_a_direction_is_nan():
    """Where noise hides that x varies, a line is NaN and its interval infinite.

    Of 300 slopes about 9 are numbers, of intercepts 12, and one has ends: none at all of both, or
    ten with ends, have a probability below 1e-8.
    """
    rows = pl.DataFrame({"x": [50.0] * 300, "y": [float(i % 100) for i in range(300)]})
    by = rows.with_columns(g=pl.lit(0)).dp.group_by("g", keys=range(300))
    unknown = []
    for kind in ("slope", "intercept"):
        lines = getattr(by, kind)("y", "x", (0, 100), (0, 100), epsilon=0.1)
        assert lines["low"].is_infinite().sum() > 290  # 300 groups, 299 of them empty
        unknown.append(lines[kind].is_nan().sum())
    assert min(unknown) > 150
    assert sum(unknown) < 600


@pytest.mark.parametrize("kind", ["cov", "corr", "r_squared"])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_answers_stay_within_what_can_be(kind, size):
    """However few the rows and strong the noise: a correlation from -1 to 1, with its interval."""
    widest = {"cov": 2500}.get(kind, 1)
    data = {"g": [0] * size, "x": [1.0] * size, "y": [5.0] * size}
    rows = pl.DataFrame(data, schema={"g": pl.Int64, "x": pl.Float64, "y": pl.Float64})
    by = rows.dp.group_by("g", keys=range(300))
    answers = getattr(by, kind)("x", "y", (0, 100), (0, 100), epsilon=0.1)
    value, low, high = (answers[name].to_numpy() for name in (kind, "low", "high"))
    assert (-widest * (1 + 1e-9) <= low).all()
    assert (high <= widest * (1 + 1e-9)).all()
    assert ((low <= value) & (value <= high)).all()


@pytest.mark.parametrize("y", [(-9, 0), (-5, 5), (0, 9)], ids=str)
def test_a_ratio_keeps_its_sign_and_opens_where_the_sum_below_may_be_0(y):
    """A ratio to a sum below 0 is negative; over no rows, its interval holds what bounds allow.

    Each interval leaves out the truth in at most one of 10^9 releases.
    """
    sign = -1 if y[1] == 0 else 1
    data = {"g": [0] * 5000, "x": [3.0] * 5000, "y": [sign * 2.0] * 5000}
    by = pl.DataFrame(data).dp(interval=1 - 1e-9).group_by("g", keys=[0, 1])
    ratios = by.ratio("x", "y", (0, 10), y, epsilon=1)
    assert ratios["low"][0] < sign * 1.5 < ratios["high"][0]
    assert abs(ratios["ratio"][0] - sign * 1.5) < 0.1
    possible = {(-9, 0): (-math.inf, 0), (-5, 5): (-math.inf, math.inf), (0, 9): (0, math.inf)}
    assert (ratios["low"][1], ratios["high"][1]) == possible[y]


@pytest.mark.parametrize(("x", "y", "lowest", "highest"), [
    ((0, 10), (1, 20), 0, 10), ((5, 10), (0, 20), 0.25, math.inf), ((-4, 8), (-4, -2), -4, 2),
])  # fmt: skip
def test_no_ratio_is_outside_of_what_the_bounds_allow(x, y, lowest, highest):
    """Neither a ratio of few rows nor its interval lies where no rows within bounds have theirs."""
    by = pl.DataFrame({"g": [0], "x": [x[1]], "y": [y[0]]}).dp.group_by("g", keys=[0])
    for _ in range(20):
        ratios = by.ratio("x", "y", x, y, epsilon=1)
        low, high, value = (ratios[name][0] for name in ("low", "high", "ratio"))
        assert lowest <= low <= high <= highest * (1 + 1e-9)
        assert math.isnan(value) or lowest <= value <= highest * (1 + 1e-9)


def test_a_constant_column_has_no_correlation():
    """Where a column does not vary, the interval of the correlation is everything."""
    rows = pl.DataFrame({"x": [50.0] * 3000, "y": [float(i % 100) for i in range(3000)]})
    correlation = rows.dp.corr("x", "y", (0, 100), (0, 100), epsilon=1)
    assert correlation.interval(1 - 1e-9) == (-1, 1)


def found_answers(rows, kind, terms):
    """Yield value, low, high and note of an answer without bounds, by entry point."""
    ask, columns = getattr(dfp, kind)(*name_columns(kind)), ", ".join(name_columns(kind))
    reader = pa.RecordBatchReader.from_batches(rows.to_arrow().schema, rows.to_arrow().to_batches())
    for frame_ in (rows, rows.lazy(), dfp.frame(reader)):
        private = frame_.dp if isinstance(frame_, pl.DataFrame | pl.LazyFrame) else frame_
        answer = private.agg(a=ask, **terms)["a"]
        yield float(answer), *answer.interval(), answer.note
    if "epsilon" in terms:
        query = f"SELECT dp_{kind}_interval({columns}) AS a FROM t"
        yield tuple(dfp.sql(query, t=rows, **terms)["a"][0].values())
        with dfp.connect({"t": rows}, **terms) as con:
            query = f"SELECT dp_{kind}({columns}) AS a FROM t"
            yield con.sql(query, intervals=True).fetchall()[0]
    keyed = rows.with_columns(g=pl.lit("a"))
    for keys in ({"keys": ["a"]}, {}):
        delta = {} if keys else {"delta": 1e-6}
        release = keyed.dp.group_by("g", **keys).agg(a=ask, **terms, **delta)
        yield release.select("a", "low", "high", "note").row(0)


@pytest.mark.parametrize("loss", [{"epsilon": 1e4}, {"rho": 1e8}], ids=["epsilon", "rho"])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_found_at_every_entry_point(kind, loss):
    """Without bounds answers are near those of the rows as they are, and so are their ends.

    Errors of noise are below a hundredth with a probability of 1 - 1e-9 at these losses.
    """
    rows = frame(5000).select("x", "y")
    expected = truth(rows, (-1e9, 1e9))[kind]
    for value, low, high, note in found_answers(rows, kind, loss):
        assert low < value < high
        assert (low, value, high) == pytest.approx((expected,) * 3, rel=0.02, abs=0.02)
        assert note is None


def test_a_missing_pair_of_bounds_is_found_beside_a_known_one():
    """The bounds of one column may be given: values beyond them are clipped."""
    rows = frame(5000)
    expected = np.corrcoef(np.clip(rows["x"], 0, 60), rows["y"])[0, 1]
    correlation = rows.dp.corr("x", "y", x_bounds=(0, 60), epsilon=1e4)
    assert correlation == pytest.approx(expected, abs=0.01)


def test_few_rows_have_no_bounds():
    """Where no bounds stand out the answer is not a number, with a note and any interval."""
    for rows in (frame(20), frame(0)):
        slope = rows.dp.slope("y", "x", epsilon=0.1)
        assert math.isnan(slope)
        assert (slope.note, slope.interval()) == ("too few rows for bounds", (-math.inf, math.inf))


def test_rows_that_are_read_once_need_bounds(tmp_path):
    """Files of statistics and functions on a connection refuse to look for bounds."""
    rows, ask = frame(10), dfp.corr("x", "y")
    with pytest.raises(dfp.MissingBoundsError, match=r"(?s)column 'x'.*x_bounds="):
        dfp.statistics(rows, tmp_path / "s.parquet", ask)
    connection = duckdb.connect()
    sql_udfs.register(connection)
    with pytest.raises(duckdb.Error):
        connection.sql("SELECT dp_corr(1.0, 2.0, 1.0)")
    with pytest.raises(dfp.RefusedStatementError):
        dfp.sql(
            "SELECT g, dp_corr(x, y) FROM t GROUP BY ROLLUP (g)",
            t=rows.with_columns(g=1),
            delta=1e-6,
        )
