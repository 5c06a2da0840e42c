"""Groups whose values follow different laws: no question about them fails after its charge."""

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.laws.empty_tables import QUESTIONS, TERMS, ask, run_question

SIZES = (0, 1, 5, 50, 400, 3000)
LAWS = {
    "zeros": lambda random, size, scale: np.zeros(size),
    "a constant": lambda random, size, scale: np.full(size, scale),
    "normal": lambda random, size, scale: scale * random.normal(size=size),
    "a heavy tail": lambda random, size, scale: scale * random.standard_cauchy(size),
    "far from zero": lambda random, size, scale: scale * (1 + 1e-6 * random.normal(size=size)),
    "zeros and a constant": lambda random, size, scale: scale * random.integers(0, 2, size),
    "few that are not zero": lambda random, size, scale: scale * (random.random(size) < 0.03),
    "two signs": lambda random, size, scale: scale * random.choice([-1.0, 1.0], size),
    "all sizes": lambda random, size, scale: (
        random.choice([-1, 1], size) * np.exp2(random.integers(-900, 900, size).astype(float))
    ),
    "extremes": lambda random, size, scale: random.choice(
        [1.7e308, -1.7e308, 5e-324, -0.0, np.nan, 1.0], size
    ),
}


def draw_values(random: np.random.Generator, size: int) -> np.ndarray:
    """Draw the values of one group by a law that is drawn too."""
    spread = 3 if random.random() < 0.7 else 300
    scale = 10.0 ** random.uniform(-spread, spread) * random.choice([-1, 1])
    return LAWS[random.choice(list(LAWS))](random, size, scale)


def draw_table(random: np.random.Generator) -> pl.DataFrame:
    """Draw groups of several sizes, and of a law each."""
    groups = int(random.choice([1, 2, 3, 10, 50]))
    sizes = random.choice(SIZES if groups <= 10 else SIZES[:5], groups).tolist()
    rows = sum(sizes)
    x, y = (np.concatenate([draw_values(random, size) for size in sizes]) for _ in range(2))
    integers = np.nan_to_num(np.clip(y, -9e18, 9e18)).astype(np.int64)
    return pl.DataFrame(
        {
            "g": np.array(["a", "b", "c"])[np.repeat(np.arange(groups) % 3, sizes)],
            "h": random.integers(0, 4, rows),
            "u": random.integers(0, max(rows // 3, 1), rows),
            "x": x if random.random() < 0.7 else integers,
            "y": y,
            "i": integers,
            "b": y > 0,
            "s": [[number] for number in random.integers(0, 3, rows).tolist()],
        }
    ).with_columns(
        pl.col("g").replace_strict({0: "a", 1: "b"}, default="c", return_dtype=pl.String)
    )


def ask_about(random: np.random.Generator, table: pl.DataFrame, ledger: dfp.Ledger) -> None:
    """Ask a question about a table; an error after the charge is a failure."""
    question, keys = random.choice(list(QUESTIONS)), random.choice(["none", "public", "secret"])
    terms, loss = TERMS[random.choice(list(TERMS))], {"epsilon": 10 ** random.uniform(-2, 2)}
    if random.random() < 0.4:
        loss = {"rho": 10 ** random.uniform(-3, 2)}
    run_question(
        ledger, lambda **account: ask(table.dp(**terms, **account), question, keys, **loss)
    )


@pytest.mark.parametrize("case", range(60))
def test_no_question_fails_after_its_charge(case, tmp_path):
    """Whichever laws the values of groups follow, what is charged is answered."""
    random = np.random.default_rng(case)
    ledger = dfp.Ledger(tmp_path / "ledger.db", epsilon=1e9, delta=0.5)
    for _ in range(4):
        table = draw_table(random)
        for _ in range(6):
            ask_about(random, table, ledger)


@pytest.mark.parametrize("loss", [{"epsilon": 0.25}, {"epsilon": 4.0}, {"rho": 0.05}])
@pytest.mark.parametrize("value", [1, 5, -3.5, 1e-200, -1e200])
@pytest.mark.parametrize("statistic", [dfp.mean, dfp.sum, dfp.var, dfp.std, dfp.median])
@pytest.mark.sample(6)
def test_a_group_of_zeros_has_an_answer(statistic, value, loss):
    """A group of zeros beside a group of a constant is answered by about zero.

    At epsilon 0.25, nine in ten of these releases once failed after their charge.
    """
    table = pl.DataFrame({"g": ["a", "b"] * 4000, "x": [0.0, float(value)] * 4000})
    answers = table.dp.group_by("g", keys=["a", "b"]).agg(statistic("x"), **loss)
    zeros = answers.get_columns()[1][0]
    assert abs(zeros) <= abs(value) * (100 if statistic is dfp.sum else 0.01)


@pytest.mark.parametrize("keys", [range(40), None], ids=["listed", "shown"])
def test_bounds_of_small_groups_suit_the_mean_size_of_all(keys):
    """Groups of 150 rows, listed or shown: few of their means are off by more than their half."""
    unit = np.arange(6000) // 3
    frame = pl.DataFrame({"u": unit, "g": unit % 40})
    frame = frame.with_columns(x=np.random.default_rng(3).exponential(5, 6000))
    truths = frame.group_by("g").agg(truth=pl.col("x").mean())
    private = frame.dp(unit="u", max_rows=3, max_groups=1).group_by("g", keys=keys)
    terms = {"epsilon": 0.5} if keys else {"epsilon": 0.8, "delta": 1e-6}
    means = pl.concat([private.mean("x", **terms) for _ in range(6)]).join(truths, on="g")
    is_far = (means["x"] - means["truth"]).abs() > means["truth"] / 2
    assert len(means) > 150
    assert is_far.mean() < 0.15
