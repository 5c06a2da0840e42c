"""Laws of secret keys: hidden groups, and how many there are, change nothing that is shown."""

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.noise.recording import record_draws
from tests.no_noise import NoNoise

ROWS = 9_000
QUESTIONS = {
    "mean": dfp.mean("x", (0, 9)),
    "sum": dfp.sum("y", (0, 9)),
    "var": dfp.var("x", (0, 9)),
    "found": dfp.mean("x"),
    "wide": dfp.var("y"),
    "median": dfp.median("x"),
    "ends": dfp.quantile("x", 0.9),
    "center": dfp.center("x", 2),
    "slope": dfp.slope("y", "x"),
    "ratio": dfp.ratio("y", "x"),
    "cov": dfp.cov("x", "y", (0, 9), (0, 9)),
    "share": dfp.share("g", 1),
    "values": dfp.nunique("x"),
}


def frame(hidden: int) -> pl.DataFrame:
    """Return three groups of many units each, and so many groups of one."""
    random = np.random.default_rng(0)
    group = np.append(np.arange(ROWS) % 3, 100 + np.arange(hidden))
    x, y = (np.append(random.normal(5, 8, ROWS), np.full(hidden, 5.0)) for _ in range(2))
    return pl.DataFrame({"u": np.arange(ROWS + hidden), "g": group, "x": x, "y": y})


PAIRS = [
    (name, first)
    for name in QUESTIONS
    for first in ("count", "units", "found", "slope", "median")
    if first in {"count", "units"} or name not in {"found", "wide"}
]
"""Questions, and others beside them that select the groups. Found bounds select before those."""


@pytest.mark.parametrize(("name", "first"), PAIRS)
def test_hidden_groups_change_nothing_that_is_shown(name, first):
    """Beside the question that selects groups, answers and notes are those without hidden groups.

    Nothing has noise. The question that selects may read the pooled rows of hidden groups too.
    """
    questions = {"count": dfp.count(), "units": dfp.nunique("u"), **QUESTIONS}
    statistics = {"first": questions[first], "other": QUESTIONS[name]}
    shown = []
    for hidden in (0, 1, 40):
        private = dfp.frame(frame(hidden))(unit="u", max_rows=1, max_groups=1, delta=1e-6)
        with record_draws(NoNoise()):
            released = private.group_by("g").agg(**statistics, epsilon=20, interval=0.95)
        columns = [column for column in released.columns if column.startswith("other")]
        assert released["g"].to_list() == [0, 1, 2]
        shown.append(repr(released[columns].rows()))
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize("rows", [0, 6])
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_group_that_is_shown_has_an_answer(name, rows):
    """Where every group has one row or there is none, each question has a table without rows."""
    private = dfp.frame(frame(rows)[ROWS:])(unit="u", max_rows=1, max_groups=1, delta=1e-9)
    for first in (dfp.count(), dfp.nunique("u"), dfp.mean("x"), dfp.slope("y", "x")):
        released = private.group_by("g").agg(first=first, other=QUESTIONS[name], epsilon=1)
        assert released.height == 0


class ExactInputs:
    """A recorder of the totals of the exact numbers that noise is added to."""

    def __init__(self):
        self.totals = []

    def draw(self, mechanism, inputs, sample):
        """Draw as ever."""
        if mechanism == "add_to":
            self.totals.append(int(inputs["exact"].sum()))
        return sample()


def test_the_search_for_limits_adds_noise_to_all_that_it_reads():
    """It reads units by rows, units by groups (2^12 for a unit) and the number of groups.

    A replay of draws would not miss a number that is read without noise, if it decides nothing.
    """
    recorder = ExactInputs()
    private = dfp.frame(frame(0))(unit="u", delta=1e-6).group_by("g")
    with record_draws(recorder):
        private.count(epsilon=20)
    assert sorted(recorder.totals[:3]) == [3, ROWS, ROWS * 2**12]
