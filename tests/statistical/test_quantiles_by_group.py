"""Quantiles by group of a table like flights by destination: none is nonsense, none crosses.

Groups of 5 to 10,000 rows; whole minutes, a few large ones, negative ones and ties. A false alarm
has a probability below 1e-6: limits are Clopper-Pearson at 1e-9.
"""

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp

pytestmark = pytest.mark.slow

SIZES = [5, 20, 50, 100, 200, 300, 500, 800, 1500, 3000, 10_000]
LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
COPIES = 60


@pytest.fixture(scope="module")
def delays():
    """Return values by group, sorted, and the frame that holds them."""
    random = np.random.default_rng(1)
    groups = []
    for group in range(len(SIZES) * COPIES):
        size = SIZES[group % len(SIZES)]
        late = random.exponential(random.choice([5, 30, 90]), size) - 20
        groups.append(np.sort(np.round(late if group % 5 else np.repeat(-7, size))))
    keys = np.repeat(np.arange(len(groups)), [len(group_rows) for group_rows in groups])
    return groups, pl.DataFrame({"to": keys, "late": np.concatenate(groups)})


def rank_errors(groups, answers, q):
    """Return how far each answer is off in ranks, infinity beyond all rows; 0 without an answer."""
    off = np.zeros(len(groups))
    for index, (rows, answer) in enumerate(zip(groups, answers, strict=True)):
        if np.isnan(answer):
            continue
        below, upto = np.searchsorted(rows, answer, "left"), np.searchsorted(rows, answer, "right")
        off[index] = max(0, below - q * len(rows), q * len(rows) - upto)
        rounding = abs(answer) / 2**8
        if not rows[0] - rounding <= answer <= rows[-1] + rounding:
            off[index] = np.inf
    return off


@pytest.mark.parametrize("epsilon", [1, 6])
@pytest.mark.parametrize("is_separate", [True, False])
def test_quantiles_by_group_are_no_nonsense(delays, epsilon, is_separate, lower_limit):
    """At most 1 % are off by more than 0.05 + 17/(n epsilon) of the rows, and none crosses.

    So rare are answers beyond all rows too, in groups of one value as well. Epsilon is that of one
    level, of three that share a release, asked apart or as a list.
    """
    groups, frame = delays
    private = frame.dp.group_by("to", keys=range(len(groups)))
    if is_separate:
        questions = {name: dfp.quantile("late", q) for name, q in LEVELS.items()}
    else:
        questions = {"p": dfp.quantiles("late", list(LEVELS.values()))}
    released = private.agg(**questions, epsilon=3 * epsilon)
    columns = LEVELS if is_separate else {f"p_{q}": q for q in LEVELS.values()}
    answers = np.stack([released[name].to_numpy() for name in columns])  # in the order of the keys
    sizes = np.array([len(rows) for rows in groups])
    assert not (np.diff(answers, axis=0) < 0).any()
    for q, level_answers in zip(columns.values(), answers, strict=True):
        wrong = rank_errors(groups, level_answers, q) > 0.05 * sizes + 17 / epsilon
        assert lower_limit(int(wrong.sum()), len(groups)) <= 0.01
    assert not np.isnan(answers[:, sizes == 10_000]).any()
    is_missing = np.isnan(answers[:, sizes == 5])
    assert is_missing.mean() > 0.8  # from 7 rows on at epsilon 6, by a noisy count
