"""Tables of two group columns: exact at a huge loss, totals that agree, intervals, shapes."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dfprivacy as dfp
from tests.frame_types import FRAME_TYPES, to_polars

HUGE = {"epsilon": 1e9}
draws = np.random.default_rng(5)
ROWS = 4_000
DATA = pl.DataFrame(
    {
        "city": draws.choice(["Rome", "Oslo", "Bari"], ROWS, p=[0.6, 0.3, 0.1]),
        "month": draws.integers(1, 5, ROWS),
        "spent": draws.uniform(0, 10, ROWS).round(),
        "user": draws.integers(0, 500, ROWS),
    }
)
KEYS = {"city": ["Rome", "Oslo", "Bari"], "month": [1, 2, 3, 4]}
TABLE = DATA.to_pandas()


def read_numbers(table) -> np.ndarray:
    """Return the numbers of a table of any type, without its keys."""
    if isinstance(table, pd.DataFrame):
        return table.to_numpy(float)
    frame = to_polars(table)
    return frame.drop(frame.columns[0]).to_numpy().astype(float)


def true(aggregate: str) -> np.ndarray:
    """Return the table with its totals, by city as listed."""
    table = pd.crosstab(
        TABLE["city"], TABLE["month"], TABLE["spent"],
        aggfunc=aggregate, margins=True,
    )  # fmt: skip
    return table.loc[["Rome", "Oslo", "Bari", "All"]].to_numpy(float)


@pytest.mark.parametrize("engine", FRAME_TYPES)
@pytest.mark.parametrize("loss", [{"epsilon": 1e9}, {"rho": 1e13}])
@pytest.mark.parametrize("aggregate", ["count", "sum", "mean"])
def test_cells_and_totals_are_those_of_pandas_without_noise(engine, loss, aggregate):
    """Public and secret, with totals added up or measured, every number is where it belongs."""
    private = dfp.frame(FRAME_TYPES[engine](DATA.to_arrow()))
    arguments = () if aggregate == "count" else ("spent", aggregate, (0, 10))
    public = private.crosstab("city", "month", *arguments, keys=KEYS, margins=True, **loss)
    assert read_numbers(public) == pytest.approx(true(aggregate), rel=1e-5, abs=1e-3)
    secret = private.crosstab("city", "month", *arguments, margins=True, delta=1e-6, **loss)
    expected = true(aggregate)[[2, 1, 0, 3]]
    if aggregate != "mean":  # every cell is shown, and nothing is left for the others
        expected = np.insert(np.insert(expected, 3, 0, axis=0), 4, 0, axis=1)
    assert read_numbers(secret) == pytest.approx(expected, rel=1e-5, abs=1e-3)


def test_least_squares_are_those_of_the_normal_equations():
    """Cells and totals have the errors of generalised least squares, forecast and made.

    Nothing that adds up is better, and nothing else is as good (Gauss and Markov). The squares of
    60 releases are those of as many errors as half of the cells: false alarms below 1e-6.
    """
    rows = columns = 12
    keys = {"r": list(range(rows)), "c": list(range(columns))}
    arguments = {"keys": keys, "margins": True, "rho": 0.5}
    private = pl.DataFrame({"r": [0] * 9, "c": [0] * 9}).dp
    plan = private.explain.crosstab("r", "c", **arguments)
    size, titles = rows * columns, ("count", "r_total", "c_total", "total")
    grid = np.arange(size).reshape(rows, columns)
    design = np.zeros((size + rows + columns + 1, size))
    design[:size] = np.eye(size)
    for row in range(rows):
        design[size + row, grid[row]] = 1
    for column in range(columns):
        design[size + rows + column, grid[:, column]] = 1
    design[-1] = 1
    measured = {str(draw.questions[0]): 1 / (2 * draw.rho) for draw in plan.draws}
    assert len(measured) == 4
    variances = np.repeat([*measured.values()], [size, rows, columns, 1])
    law = design @ np.linalg.inv(design.T @ (design / variances[:, None])) @ design.T
    places = (0, size, size + rows, -1)
    expected = [math.sqrt(law[position, position]) for position in places]
    assert [plan[title].scale for title in titles] == pytest.approx(expected)
    squares = np.zeros(4)
    for _ in range(60):
        table = read_numbers(private.crosstab("r", "c", **arguments))
        table[[0, 0, -1, -1], [0, -1, 0, -1]] -= 9
        parts = table[:-1, :-1], table[:-1, -1], table[-1, :-1], table[-1, -1]
        squares += [(part**2).mean() for part in parts]
    freedom = 60 / 2 * np.array([size, rows, columns, 2])
    chi_squares = squares / 60 / np.square(expected) * freedom
    assert (chi_squares > stats.chi2.ppf(1e-8, freedom)).all()
    assert (chi_squares < stats.chi2.isf(1e-8, freedom)).all()


def check_coverage(long: pl.DataFrame, title: str, truth: np.ndarray) -> np.ndarray:
    """Check for each row whether the interval of an answer holds the truth."""
    low, high = (long[f"{title}_{end}"].to_numpy() for end in ("low", "high"))
    return (low <= truth) & (truth <= high)


@pytest.mark.battery
@pytest.mark.parametrize(
    ("loss", "size"),
    [
        ({"epsilon": 1.0}, (3, 4)),
        pytest.param({"epsilon": 0.5}, (20, 20), marks=pytest.mark.slow),
        pytest.param({"rho": 0.1}, (6, 9), marks=pytest.mark.slow),
    ],
)
def test_intervals_of_cells_and_totals_hold_the_truth(loss, size):
    """At 90 % no kind is covered less, and none above 98 %, whether totals are measured or not."""
    rows, columns = size
    keys = {"r": list(range(rows)), "c": list(range(columns))}
    coverage: dict[str, list[float]] = {
        name: [] for name in ("count", "r_total", "c_total", "total")
    }
    frame = pl.DataFrame({"r": [0, 1, 1], "c": [0, 0, 1]})
    exact = {(0, 0): 1, (1, 0): 1, (1, 1): 1}
    for _ in range(150):
        table = frame.dp.crosstab("r", "c", keys=keys, margins=True, interval=0.9, **loss)
        long = dfp.released(table).long()
        cells = long.select("r", "c").rows()
        truth = {
            "count": [exact.get(cell, 0) for cell in cells],
            "r_total": [{0: 1, 1: 2}.get(r, 0) for r, _ in cells],
            "c_total": [{0: 2, 1: 1}.get(c, 0) for _, c in cells],
            "total": [3] * len(cells),
        }
        for title, outcomes in coverage.items():
            outcomes.append(float(check_coverage(long, title, np.array(truth[title]))[0]))
    for title, outcomes in coverage.items():
        hits = int(sum(outcomes))
        assert stats.binomtest(hits, len(outcomes), 0.9, alternative="less").pvalue > 1e-6, title
        assert stats.binomtest(hits, len(outcomes), 0.98, alternative="greater").pvalue > 1e-6, (
            title
        )


def test_measured_totals_are_the_quieter():
    """The forecasts of a wide table fall with totals, and cells are at most a quarter noisier."""
    keys = {"r": list(range(40)), "c": list(range(40))}
    explain = pl.DataFrame({"r": [0], "c": [0]}).dp.explain
    for loss, gain in (({"epsilon": 1}, 1.2), ({"rho": 0.5}, 2.0)):
        plain = explain.crosstab("r", "c", keys=keys, **loss)
        totals = explain.crosstab("r", "c", keys=keys, margins=True, **loss)
        cell, alone = totals["count"].scale, plain["count"].scale
        assert alone <= cell <= 1.3 * alone
        ours = math.prod(totals[name].scale for name in ("count", "r_total", "c_total", "total"))
        theirs = alone * (alone * math.sqrt(40)) ** 2 * alone * 40
        assert ours * gain**4 < theirs * 1.05
        assert sum(draw.epsilon or draw.rho for draw in totals.draws) == pytest.approx(
            *loss.values()
        )
    small = explain.crosstab("r", "c", keys={"r": [0, 1], "c": [0, 1]}, margins=True, epsilon=1)
    assert "totals are sums of cells" in small["total"].remarks[0]


@pytest.mark.parametrize("loss", [{"epsilon": 2}, {"rho": 2}])
def test_a_unit_may_have_all_its_rows_under_one_total(loss):
    """Noise of totals covers a unit with max_groups cells of max_rows rows each in one row."""
    rows, groups = 3, 4
    private = DATA.dp(unit="user", max_rows=rows, max_groups=groups)
    plan = private.explain.crosstab("city", "month", margins=True, delta=1e-6, **loss)
    assert sum(draw.epsilon or draw.rho for draw in plan.draws) == pytest.approx(2)
    cells, totals = 1 / 2, 1 / 6
    if "epsilon" in loss:
        assert plan["count"].scale == pytest.approx(rows * groups / (2 * cells))
        assert plan["total"].scale == pytest.approx(rows * groups / (2 * totals))
    else:
        assert plan["count"].scale == pytest.approx(rows * math.sqrt(groups / (4 * cells)))
        assert plan["total"].scale == pytest.approx(rows * groups / math.sqrt(4 * totals))


HIDDEN = {"a": ["x"] * 900 + ["y"] * 900 + ["x", "z"], "b": ["p"] * 900 + ["q"] * 902}


def test_secret_cells_are_shown_by_their_counts_and_totals_hold_the_others():
    """A cell of one row is missing, and its row is in the totals; nothing is shown of its key."""
    table = pd.DataFrame(HIDDEN).dp.crosstab("a", "b", margins=True, epsilon=1e6, delta=1e-6)
    cells = table.astype(object).where(table.notna(), None)
    assert list(cells.index) == ["x", "y", "(other)", "All"]
    assert list(cells.columns) == ["p", "q", "(other)", "All"]
    assert cells.to_numpy().tolist() == [
        [900, None, 1, 901],
        [None, 900, 0, 900],
        [0, 2, -1, 1],
        [900, 902, 0, 1802],
    ]
    assert set(table.dtypes) == {np.dtype(float)}


@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"rho": 0.05}])
@pytest.mark.parametrize("secret", [False, True])
def test_cells_add_up_to_their_totals(loss, secret):
    """Each row and each column of what is shown, others included, adds up to its total."""
    if secret:
        table = pl.DataFrame(HIDDEN).dp.crosstab("a", "b", margins=True, delta=1e-6, **loss)
    else:
        table = DATA.dp.crosstab("city", "month", keys=KEYS, margins=True, **loss)
    numbers = read_numbers(table)
    np.testing.assert_allclose(np.nansum(numbers[:, :-1], axis=1), numbers[:, -1], atol=1e-6)
    np.testing.assert_allclose(np.nansum(numbers[:-1], axis=0), numbers[-1], atol=1e-6)


def test_others_are_no_less_than_nothing_where_a_reader_asks_for_that():
    """`nonnegative` holds for the others, too, and means have none."""
    private = pl.DataFrame(HIDDEN).dp(delta=1e-6)
    table = private.crosstab("a", "b", margins=True, nonnegative=True, **HUGE)
    assert read_numbers(table)[2, 2] == 0
    assert dfp.plot(table).to_dict()["title"]


def test_a_reader_may_want_whole_cells_and_none_below_zero():
    """Totals are the sums of what is shown, their total stays, and unbiased cells are kept."""
    keys = {"r": list(range(12)), "c": list(range(12))}
    frame = pl.DataFrame({"r": [0] * 500, "c": [1] * 500})
    arguments = {"keys": keys, "margins": True, "rho": 0.05}
    table = frame.dp.crosstab("r", "c", nonnegative=True, rounded="integer", **arguments)
    numbers = read_numbers(table)
    assert set(table.dtypes[1:]) == {pl.Int64}
    assert (numbers >= 0).all()
    assert numbers[:-1].sum(0).tolist() == numbers[-1].tolist()
    again = dfp.released(table)
    long = again.long()
    assert (long["count"] < 0).any()
    assert numbers[-1, -1] == round(long["total"][0])
    assert read_numbers(again.table())[-1, -1] == pytest.approx(long["total"][0])
    integers = read_numbers(again.table(rounded="integer"))
    assert (integers < 0).any()
    assert integers[:, :-1].sum(1).tolist() == integers[:, -1].tolist()


def test_keys_come_back_as_they_came():
    """Ordered categories, dates and public keys stand in their order, with their dtypes."""
    stars = pd.Categorical(["low", "high", "mid"] * 100, ["low", "mid", "high"], ordered=True)
    days = pd.to_datetime(["2024-03-01", "2024-01-01", "2024-02-01"] * 100)
    frame = pd.DataFrame({"stars": stars, "day": days, "k": [1, 2, None] * 100})
    table = frame.dp.crosstab("stars", "day", delta=1e-6, **HUGE)
    assert list(table.index) == ["low", "mid", "high"]
    assert table.index.dtype == pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    assert table.columns.tolist() == sorted(set(days))
    turned = frame.dp.crosstab("day", "stars", keys={"day": days[:3], "stars": ["high", "low"]})
    assert turned.columns.tolist() == ["high", "low"]
    assert turned.index.tolist() == list(days[:3])
    missing = pl.DataFrame(frame.assign(stars=list(stars))).dp.crosstab(
        "stars", "k", margins=True, delta=1e-6, **HUGE
    )
    assert missing.columns == ["stars", "1.0", "2.0", "NULL", "(other)", "All"]
    names = pl.DataFrame({"a": ["All", "b"] * 50, "c": ["All", "a"] * 50})
    shown = names.dp.crosstab("a", "c", margins=True, delta=1e-6, **HUGE)
    assert shown.columns == ["a", "All (2)", "a (2)", "(other)", "All"]


def test_any_question_makes_a_table_without_totals():
    """Quantiles, means without bounds and questions of one's own are asked by cell."""
    private = TABLE.dp(delta=1e-6)
    middle = private.pivot("city", "month", "spent", "median", **HUGE)
    assert middle.loc["Rome"].between(3, 7).all()
    upper = private.pivot("city", "month", dfp.quantile("spent", 0.9), keys=KEYS)
    assert upper.shape == (3, 4)
    assert private.pivot("city", "month", "spent", **HUGE).loc["Rome"].between(4, 6).all()


def test_a_ledger_remembers_a_table(tmp_path):
    """A table of the same version is the same numbers at no cost, also if read in another way."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1, remember=True)
    private = TABLE.dp(ledger=ledger, dataset="shops", version="1")
    first = private.crosstab("city", "month", keys=KEYS, margins=True, epsilon=1)
    pd.testing.assert_frame_equal(
        private.crosstab("city", "month", keys=KEYS, margins=True, epsilon=1), first
    )
    read = private.crosstab("city", "month", keys=KEYS, margins=True, epsilon=1, rounded="integer")
    assert (read.to_numpy() == first.to_numpy()).all()
    with pytest.raises(dfp.BudgetExceededError):
        private.crosstab("city", "month", keys=KEYS, epsilon=1)


def test_show_and_plot_know_a_table(tmp_path):
    """Text, HTML, CSV and a chart have the numbers, the cost and the widths of intervals."""
    table = DATA.dp.crosstab("city", "month", keys=KEYS, margins=True, epsilon=1)
    shown = dfp.show(table)
    assert "epsilon=1" in repr(shown)
    assert "the grand total" in repr(shown)
    assert f"{table['All'][-1]:,}" in repr(shown)
    assert "<table" in shown.to_html()
    lines = Path(shown.save(tmp_path / "table.csv")).read_text().splitlines()
    assert lines[0] == "city,1,2,3,4,All"
    chart = dfp.plot(table, measured_in="visits").to_dict()
    values = chart["data"]["values"] if "values" in chart["data"] else next(
        iter(chart["datasets"].values())
    )  # fmt: skip
    assert len(values) == 3 * 4
    secret = dfp.show(TABLE.dp.crosstab("city", "month", delta=1e-6))
    assert "Rome" in secret.to_html()


def test_keys_listed_in_two_spellings_are_one_cell():
    """1 and 1.0 are one month, also where totals are measured."""
    keys = {"city": ["Rome", "Oslo"], "month": [1, 1.0, 2]}
    table = DATA.dp.crosstab("city", "month", keys=keys, margins=True, rho=1)
    assert table.columns == ["city", "1", "2", "All"]
    pairs = [("Rome", 1), ("Rome", 2), ("Oslo", 1)]
    some = DATA.dp.crosstab("city", "month", keys=pairs, margins=True, **HUGE)
    assert some["All"].to_list() == [*np.nansum(read_numbers(some)[:-1, :-1], 1), some["All"][-1]]
    assert pa.table(some.to_arrow()).num_rows == 3


def test_a_total_of_too_many_rows_is_refused_before_the_charge(tmp_path, monkeypatch):
    """Totals are added up with the cells, before anything is paid or drawn."""
    monkeypatch.setattr("dfprivacy.measurement.sums.ROW_LIMIT", 3000)
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1, delta=1e-6)
    private = DATA.dp(ledger=ledger, dataset="shops", delta=1e-6)
    with pytest.raises(dfp.errors.TooManyRowsError):
        private.crosstab("city", "month", margins=True)
    assert private.crosstab("city", "month", epsilon=1).height == 3


@pytest.mark.parametrize("values", [None, dfp.sum("x", (0, 2)), dfp.median("x", (0, 2))])
def test_the_long_form_names_its_columns_alike(tmp_path, values):
    """Ends of cells have the name of the answer, with totals beside them or without.

    It is so where the ledger remembers the cells from a question by group.
    """
    frame = pl.DataFrame({"r": ["a", "b"] * 50, "c": ["u", "v"] * 50, "x": 1.0})
    keys = {"r": ["a", "b"], "c": ["u", "v"]}
    plain = dfp.released(frame.dp.crosstab("r", "c", values, keys=keys)).long()
    name = "count" if values is None else "x"
    has_interval = getattr(values, "kind", "count") != "median"
    ends = [f"{name}_low", f"{name}_high"] if has_interval else []
    assert plain.columns[: 3 + len(ends)] == ["r", "c", name, *ends]
    assert not {"low", "high", "note"} & {*plain.columns}
    if has_interval:
        totals = frame.dp.crosstab("r", "c", values, keys=keys, margins=True)
        assert dfp.released(totals).long().columns[:5] == plain.columns[:5]
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=2, remember=True)
    private = frame.dp(ledger=ledger, dataset="d", version="1", epsilon=1)
    question = dfp.count() if values is None else values
    private.group_by("r", "c", keys=keys).agg(**{name: question})
    again = dfp.released(private.crosstab("r", "c", values, keys=keys)).long()
    assert again.columns == plain.columns
    assert ledger.spent("d").epsilon == 1
