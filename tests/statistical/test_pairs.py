"""Intervals of statistics of two columns hold the noise-free answer as often as they say.

A check fails when the upper limit of the coverage (Clopper-Pearson, 1e-9) lies below the level; at
most 280 comparisons, so that false alarms stay below 1e-6.
"""

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.laws.test_pairs import KINDS, name_columns, truth

pytestmark = pytest.mark.slow

COPIES = 1500


def shapes(size: int):
    """Rows around a line, close to one, skewed, of two values, and independent."""
    generator = np.random.default_rng(size)
    x, noise = generator.normal(50, 15, size), generator.normal(0, 1, size)
    yield x, 25 + 0.5 * x + 10 * noise
    yield 50 + (x - 50) / 5, 50 + (x - 50) / 5 + noise
    skewed = generator.exponential(10, size)
    yield skewed, skewed + generator.exponential(10, size)
    either = 100.0 * (generator.random(size) < 0.3)
    yield either, np.where(generator.random(size) < 0.8, either, 100 - either)
    yield x, 50 + 10 * noise


def truths(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the answers without noise."""
    return truth(pl.DataFrame({"x": x, "y": y}), (-np.inf, np.inf))


def copy_rows(x: np.ndarray, y: np.ndarray) -> pl.DataFrame:
    """Return a frame of many groups that all hold these rows."""
    group = np.repeat(np.arange(COPIES), len(x))
    return pl.DataFrame({"x": np.tile(x, COPIES), "y": np.tile(y, COPIES), "g": group})


@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"epsilon": 8}, {"rho": 1}], ids=str)
@pytest.mark.parametrize("size", [20, 300, 2000])
def test_intervals_of_two_columns_cover(size, loss, upper_limit):
    """An interval at 95 % holds the answer without noise 95 times in 100 at least."""
    for pairs in shapes(size):
        x, y = (np.clip(column, 0, 100) for column in pairs)
        by = copy_rows(x, y).dp.group_by("g", keys=range(COPIES))
        for kind in KINDS:
            released = getattr(by, kind)(*name_columns(kind), (0, 100), (0, 100), **loss)
            low, high, true = released["low"], released["high"], float(truths(x, y)[kind])
            hits = int(((low <= true) & (true <= high)).sum())
            assert upper_limit(hits, COPIES) >= 0.95, (kind, hits / COPIES)


FREE = {
    "scattered": lambda generator, size: (
        generator.lognormal(3, 1, size),
        generator.lognormal(1, 0.5, size),
    ),
    "signs": lambda generator, size: (
        generator.normal(20, 50, size),
        generator.normal(5, 5, size),
    ),
    "below": lambda generator, size: (
        generator.normal(0, 50, size),
        -generator.lognormal(2, 0.7, size),
    ),
    "years": lambda generator, size: (
        generator.normal(2000, 10, size),
        generator.normal(100, 1, size),
    ),
    "heavy": lambda generator, size: (
        10 * generator.pareto(1.8, size),
        1 + generator.pareto(2.5, size),
    ),
}


@pytest.mark.parametrize("law", FREE)
@pytest.mark.parametrize("size", [300, 5000])
def test_intervals_without_bounds_hold_or_are_marked(law, size, upper_limit):
    """Where bounds are found, unmarked intervals hold the answer of the rows as they are.

    Each of 60 comparisons fails falsely with a probability of 1e-9 at most.
    """
    generator = np.random.default_rng(size)
    for kind in KINDS:
        hits = trials = 0
        for _ in range(40):
            x, y = FREE[law](generator, size)
            rows = pl.DataFrame({"x": x, "y": y})
            answer = getattr(rows.dp, kind)(*name_columns(kind), epsilon=1)
            if not answer.note:
                trials += 1
                hits += answer.low <= truths(x, y)[kind] <= answer.high
        assert not trials or upper_limit(hits, trials) >= 0.95, (kind, hits, trials)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_two_columns_are_hardly_wider_than_need_be(kind, lower_limit):
    """Of many rows an interval at 95 % holds the answer in no more than 98.5 of 100 cases."""
    x, y = (np.clip(column, 0, 100) for column in next(shapes(2000)))
    by = copy_rows(x, y).dp.group_by("g", keys=range(COPIES))
    released = getattr(by, kind)(*name_columns(kind), (0, 100), (0, 100), epsilon=4)
    low, high, true = released["low"], released["high"], float(truths(x, y)[kind])
    assert lower_limit(int(((low <= true) & (true <= high)).sum()), COPIES) <= 0.985


@pytest.mark.parametrize("size", [50, 2000])
def test_intervals_of_arithmetic_with_answers_cover(size, upper_limit):
    """In SQL, what is computed of two answers lies in its interval 95 times in 100 at least.

    Of 32 comparisons with a limit of 1e-9, a false alarm has a probability below 1e-7.
    """
    formulas = {
        "sum(x) / sum(y)": lambda x, y: x.sum() / y.sum(),
        "100.0 * count(*) FILTER (x > 50) / count(*)": lambda x, y: 100 * (x > 50).mean(),
        "round(avg(x) - avg(y), 9)": lambda x, y: x.mean() - y.mean(),
        "sum(x) / nullif(count(x), 0)": lambda x, y: x.mean(),
    }
    answers = ", ".join(f"{formula} AS f{i}" for i, formula in enumerate(formulas))
    schema = {"rows": "t", "bounds": {"t.x": (0, 100), "t.y": (0, 100)}}
    terms = {"keys": list(range(COPIES)), "schema": schema, "epsilon": 4, "intervals": True}
    for pairs in list(shapes(size))[:4]:
        x, y = (np.clip(column, 0, 100) for column in pairs)
        query = f"SELECT g, {answers} FROM t GROUP BY g"
        released = dfp.sql(query, t=copy_rows(x, y), **terms)
        for index, (formula, exact) in enumerate(formulas.items()):
            low, high = (released[f"f{index}_{end}"] for end in ("low", "high"))
            true = float(exact(x, y))
            hits = int(((low <= true) & (true <= high)).sum())
            assert upper_limit(hits, COPIES) >= 0.95, (formula, hits / COPIES)
