"""Every argument is either in range or refused by name, before a random byte is drawn."""

import math
import os
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from tests.privacy.refused_arguments import ASKS, FRAME, SECRET, refused

BAD_BOUNDS = [
    (1, 0),
    (0, 0),
    (0.0, -0.0),
    (0, math.nan),
    (math.nan, 1),
    (0, math.inf),
    (-math.inf, 0),
    (-1.7e308, 1.7e308),
    (0, 5e-324),
    (1, 1 + 2**-1010),
    (0, 10**400),
    (0, "1"),
    (None, 1),
    (0, None),
    (True, 2),
    (0, 1j),
    (0, Decimal("NaN")),
    (0, 1, 2),
    (0,),
    (),
    "01",
    1,
    {0, 1},
    {0: 1, 1: 2},
    np.array([0, 1]),
    pd.Series([0, float(SECRET)]),
    (FRAME["x"].min(), FRAME["x"]),
    (FRAME["x"], FRAME["x"]),
    (0, pl.col("x")),
    range(2),
    lambda: (0, 1),
]


@pytest.mark.parametrize("ask", ["sum", "std"])
@pytest.mark.parametrize("bounds", BAD_BOUNDS, ids=lambda b: str(b)[:24].replace("\n", " "))
def test_bounds_out_of_range_are_refused(ask, bounds, entropy_calls):
    """Bounds that are no pair of finite numbers, lower below upper, are InvalidBoundsError."""
    refused(
        lambda: getattr(FRAME.dp, ask)("x", bounds), entropy_calls, dfp.errors.InvalidBoundsError
    )
    refused(
        lambda: getattr(FRAME.dp(bounds={"x": bounds}), ask)("x"),
        entropy_calls,
        dfp.errors.InvalidBoundsError,
    )


@pytest.mark.parametrize("kind", ["shifted_mean", "independent_mean"])
def test_some_means_need_bounds(kind, entropy_calls):
    """A mean that needs bounds gives no answer without."""
    refused(lambda: getattr(FRAME.dp, kind)("x"), entropy_calls, dfp.MissingBoundsError)


@pytest.mark.parametrize("kind", ["subset_mean", "dick_mean"])
def test_some_means_find_their_own_bounds(kind, entropy_calls):
    """A mean that finds bounds by itself takes none."""
    refused(
        lambda: getattr(FRAME.dp, kind)("x", (0, 1)), entropy_calls, dfp.errors.UnknownArgumentError
    )


FORMER = {
    "shifted_mean": lambda: FRAME.dp.mean("x", (0, 1), method="shifted"),
    "independent_mean": lambda: FRAME.dp["x"].mean((0, 1), method="independent"),
    "subset_mean": lambda: FRAME.dp.group_by("k").mean("x", method="subset"),
    "dick_mean": lambda: dfp.mean("x", method="dick"),
    "center with p=2": lambda: FRAME.dp.explain.mean("x", method="inverse"),
    "inverse_quantile": lambda: FRAME.dp.median("x", method="inverse"),
    "dick_center": lambda: dfp.center("x", 2, method="dick"),
}


@pytest.mark.parametrize("spelling", FORMER)
def test_a_former_method_names_its_statistic(spelling, entropy_calls):
    """A form of a paper that was a method is refused with the name that it has now."""
    with pytest.raises(dfp.errors.UnknownArgumentError, match=spelling):
        FORMER[spelling]()
    assert not entropy_calls


NO_COLUMNS = [["x"], {"x": 1}, ("x", "g"), 1, 1.5, pl.col("x"), FRAME["x"], FRAME, lambda: 1, "y"]


@pytest.mark.parametrize("column", NO_COLUMNS, ids=lambda c: f"{type(c).__name__}")
@pytest.mark.parametrize("ask", ["count", "sum", "mean", "var", "group_by"])
def test_what_is_no_column_is_refused(ask, column, entropy_calls):
    """A column is named by a label of the frame; anything else is refused without a look at it."""
    kinds = (dfp.errors.InvalidQuestionError, dfp.MissingColumnError)
    frame = FRAME.dp
    work = {
        "count": lambda: frame.count(column),
        "group_by": lambda: frame.group_by("g", column).count(delta=0.1),
    }.get(ask, lambda: getattr(frame, ask)(column, (0, 1)))
    refused(work, entropy_calls, kinds)


@pytest.mark.parametrize(
    "value", [0, 1, -0.5, 1.5, math.nan, math.inf, True, "0.9", pd.NA, [0.9], FRAME["x"], lambda: 1]
)
@pytest.mark.parametrize("ask", ASKS)
def test_a_level_outside_zero_and_one_is_refused(ask, value, entropy_calls):
    """The level of an interval lies strictly between 0 and 1."""
    refused(
        lambda: ASKS[ask](FRAME.dp, interval=value), entropy_calls, dfp.errors.InvalidQuestionError
    )


@pytest.mark.parametrize(
    ("ask", "level"),
    [
        (ask, level)
        for ask in ("count", "mean", "var", "sum")
        for level in (5e-324, 1e-17, Decimal("0." + "9" * 40), Fraction(2**80 - 1, 2**80))
    ],
)
def test_a_level_next_to_zero_or_one_is_refused_or_works(ask, level, entropy_calls):
    """Every level strictly between 0 and 1 gives an interval, or is refused before the noise."""
    try:
        estimate = ASKS[ask](FRAME.dp, interval=level)
    except dfp.errors.InvalidQuestionError:
        assert entropy_calls == []
    else:
        assert estimate.low <= estimate.high


@pytest.mark.parametrize(
    "questions", [[], [1], ["x"], [dfp.count], [FRAME], [None], [pl.col("x").mean()]]
)
def test_agg_takes_questions(questions, entropy_calls):
    """An argument that is no question is refused."""
    refused(lambda: FRAME.dp.agg(*questions), entropy_calls, dfp.errors.InvalidQuestionError)


def test_answers_of_the_same_name_are_refused(entropy_calls):
    """Two answers, or an answer and a key column, never share a name."""
    twice = (dfp.mean("x", (0, 1)), dfp.mean("x", (0, 2)))
    refused(lambda: FRAME.dp.agg(*twice), entropy_calls, dfp.errors.InvalidQuestionError)
    group = FRAME.dp.group_by("g", keys=["a"])
    refused(lambda: group.agg(g=dfp.count()), entropy_calls, dfp.errors.InvalidQuestionError)
    refused(
        lambda: group.agg(low=dfp.count(), b=dfp.sum("x", (0, 1)), low_low=dfp.count()),
        entropy_calls,
        dfp.errors.InvalidQuestionError,
    )


@pytest.mark.parametrize("by", [(), ("g", "g"), (["g", "g"],), (None,), (FRAME["g"],)])
def test_groups_are_named_by_different_columns(by, entropy_calls):
    """group_by takes one or several different labels."""
    kinds = (dfp.errors.InvalidQuestionError, dfp.MissingColumnError)
    refused(lambda: FRAME.dp.group_by(*by).count(delta=0.1), entropy_calls, kinds)


@pytest.mark.parametrize(
    "frame", [None, 1, [1, 2], {"x": [1]}, np.zeros(3), "absent.csv", "x.xlsx"]
)
def test_what_is_no_frame_is_refused(frame, entropy_calls):
    """An object that is no frame is UnsupportedFrameError."""
    refused(lambda: dfp.frame(frame).count(), entropy_calls, dfp.errors.UnsupportedFrameError)


def test_a_failing_random_source_releases_nothing(monkeypatch):
    """When the operating system gives no random bytes, or too few, nothing is released."""

    def failing(size):
        raise OSError(size)

    for source in (failing, lambda size: b"\0" * (size - 1), lambda size: b""):
        monkeypatch.setattr(os, "urandom", source)
        for ask in ASKS.values():
            with pytest.raises(dfp.errors.EntropyError):
                ask(FRAME.dp)
