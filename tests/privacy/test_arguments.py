"""Every argument is either in range or refused by name, before a random byte is drawn."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.mechanisms import entropy

SECRET = 271_828_182
FRAME = pl.DataFrame({"g": ["a", "b"] * 50, "x": [float(SECRET)] * 100})


@pytest.fixture
def drawn(monkeypatch):
    """How many times the operating system was asked for random bytes."""
    calls, true = [], entropy.os.urandom

    def urandom(size):
        calls.append(size)
        return true(size)

    monkeypatch.setattr(entropy.os, "urandom", urandom)
    return calls


ASKS = {
    "count": lambda private, **terms: private.count(**terms),
    "mean": lambda private, **terms: private.mean("x", (0, 1), **terms),
    "var": lambda private, **terms: private.var("x", (0, 1), **terms),
    "sum": lambda private, **terms: private.sum("x", (0, 1), **terms),
    "agg": lambda private, **terms: private.agg(dfp.count(), **terms),
    "by group": lambda private, **terms: private.group_by("g", keys=["a"]).count(**terms),
    "secret keys": lambda private, **terms: private.group_by("g").mean(
        "x", (0, 1), **{"delta": 0.1, **terms}
    ),
}

NO_NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    0.0,
    -0.0,
    True,
    False,
    "1",
    b"1",
    1j,
    [1],
    (1,),
    {},
    object(),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Fraction(0),
    np.float64("nan"),
    np.float32("inf"),
    np.bool_(True),
    np.array(1.0),
    np.array([1.0]),
    5e-324,
    1e-300,
    1e308,
    2.0**61,
    10**400,
    pd.NA,
    pd.Series([float(SECRET)]),
    pl.Series([float(SECRET)]),
    pl.col("x"),
    FRAME,
    lambda: 1,
    print,
]


def refused(work, drawn, kinds):
    """Check that the call raises our error, draws nothing and says nothing of the data."""
    with pytest.raises(kinds) as caught:
        work()
    assert isinstance(caught.value, dfp.DPError)
    assert drawn == []
    assert str(SECRET) not in str(caught.value)
    assert "Hint:" in str(caught.value)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: f"{type(v).__name__} {str(v)[:20]}")
@pytest.mark.parametrize("name", ["epsilon", "rho"])
def test_a_loss_out_of_range_is_refused(ask, name, value, drawn):
    """What is no positive, finite, sensible number is InvalidLossError, as epsilon or as rho."""
    refused(lambda: ASKS[ask](FRAME.dp, **{name: value}), drawn, dfp.InvalidLossError)
    refused(lambda: ASKS[ask](FRAME.dp(**{name: value})), drawn, dfp.InvalidLossError)


@pytest.mark.parametrize(
    "value", [v for v in NO_NUMBERS if not isinstance(v, float) or v != 1e-300]
)
def test_a_delta_out_of_range_is_refused(value, drawn):
    """What is no number in (0, 1) is InvalidLossError as delta."""
    group = FRAME.dp.group_by("g")
    refused(lambda: group.count(delta=value), drawn, dfp.InvalidLossError)


@pytest.mark.parametrize("value", [1, 1.0, 2, Fraction(3, 2), Decimal(1), Fraction(1, 2**1001)])
def test_a_delta_of_one_is_refused(value, drawn):
    """Delta lies strictly between 0 and 1."""
    refused(lambda: FRAME.dp.group_by("g").count(delta=value), drawn, dfp.InvalidLossError)


def test_secret_keys_need_a_delta(drawn):
    """Secret keys without delta, and epsilon beside rho, are refused before anything is drawn."""
    refused(lambda: FRAME.dp.group_by("g").count(), drawn, dfp.MissingDeltaError)
    refused(lambda: FRAME.dp.group_by("g").count(rho=1), drawn, dfp.MissingDeltaError)
    refused(lambda: FRAME.dp.count(epsilon=1, rho=1), drawn, dfp.InvalidLossError)


@pytest.mark.parametrize("name", ["epsilon", "rho", "delta", "interval"])
def test_a_number_too_long_to_print_is_refused(name, drawn):
    """A number that Python does not print is refused like any other."""
    kinds = (dfp.InvalidLossError, dfp.InvalidQuestionError)
    refused(lambda: FRAME.dp.count(**{name: 10**5000}), drawn, kinds)


VALID = [
    1,
    0.1,
    np.float32(0.1),
    np.float64(2),
    np.int64(3),
    Decimal("0.1"),
    Fraction(1, 3),
    2**-60,
    2**60,
]


@pytest.mark.parametrize("value", VALID, ids=str)
@pytest.mark.parametrize("name", ["epsilon", "rho"])
@pytest.mark.parametrize("ask", ASKS)
def test_a_loss_in_range_draws_noise(ask, name, value, drawn):
    """Numbers of every type are taken at their value, and noise is drawn for them."""
    ASKS[ask](FRAME.dp, **{name: value})
    assert drawn


def test_a_release_shows_what_it_spent():
    """The estimate and its repr name epsilon or rho as they were given."""
    for value in VALID:
        assert FRAME.dp.count(epsilon=value).epsilon == pytest.approx(float(value), rel=1e-15)
        assert FRAME.dp.count(rho=value).rho == pytest.approx(float(value), rel=1e-15)
    assert "epsilon=1" in repr(FRAME.dp.count())
    assert FRAME.dp.count().epsilon == 1.0


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


@pytest.mark.parametrize("ask", ["sum", "mean", "var", "std"])
@pytest.mark.parametrize("bounds", BAD_BOUNDS, ids=lambda b: str(b)[:24].replace("\n", " "))
def test_bounds_out_of_range_are_refused(ask, bounds, drawn):
    """What is no pair of finite numbers, lower below upper, is InvalidBoundsError."""
    refused(lambda: getattr(FRAME.dp, ask)("x", bounds), drawn, dfp.InvalidBoundsError)
    refused(
        lambda: getattr(FRAME.dp(bounds={"x": bounds}), ask)("x"), drawn, dfp.InvalidBoundsError
    )


@pytest.mark.parametrize("method", ["shifted", "independent"])
def test_some_means_need_bounds(method, drawn):
    """A method that needs bounds gives no answer without."""
    refused(lambda: FRAME.dp.mean("x", method=method), drawn, dfp.MissingBoundsError)


@pytest.mark.parametrize("method", ["subset", "dick", "inverse"])
def test_some_means_find_their_own_bounds(method, drawn):
    """A method that finds bounds by itself takes none."""
    refused(lambda: FRAME.dp.mean("x", (0, 1), method=method), drawn, dfp.InvalidQuestionError)


NO_COLUMNS = [["x"], {"x": 1}, ("x", "g"), 1, 1.5, pl.col("x"), FRAME["x"], FRAME, lambda: 1, "y"]


@pytest.mark.parametrize("column", NO_COLUMNS, ids=lambda c: f"{type(c).__name__}")
@pytest.mark.parametrize("ask", ["count", "sum", "mean", "var", "group_by"])
def test_what_is_no_column_is_refused(ask, column, drawn):
    """A column is named by a label of the frame; anything else is refused without a look at it."""
    kinds = (dfp.InvalidQuestionError, dfp.MissingColumnError)
    frame = FRAME.dp
    work = {
        "count": lambda: frame.count(column),
        "group_by": lambda: frame.group_by(column).count(delta=0.1),
    }.get(ask, lambda: getattr(frame, ask)(column, (0, 1)))
    refused(work, drawn, kinds)


@pytest.mark.parametrize(
    "value", [0, 1, -0.5, 1.5, math.nan, math.inf, True, "0.9", pd.NA, [0.9], FRAME["x"], lambda: 1]
)
@pytest.mark.parametrize("ask", ASKS)
def test_a_level_outside_zero_and_one_is_refused(ask, value, drawn):
    """The level of an interval lies strictly between 0 and 1."""
    refused(lambda: ASKS[ask](FRAME.dp, interval=value), drawn, dfp.InvalidQuestionError)


@pytest.mark.parametrize(
    ("ask", "level"),
    [
        (ask, level)
        for ask in ("count", "mean", "var", "sum")
        for level in (5e-324, 1e-17, Decimal("0." + "9" * 40), Fraction(2**80 - 1, 2**80))
    ],
)
def test_a_level_next_to_zero_or_one_is_refused_or_works(ask, level, drawn):
    """Every level strictly between 0 and 1 gives an interval, or is refused before the noise."""
    try:
        estimate = ASKS[ask](FRAME.dp, interval=level)
    except dfp.InvalidQuestionError:
        assert drawn == []
    else:
        assert estimate.low <= estimate.high


@pytest.mark.parametrize(
    "questions", [[], [1], ["x"], [dfp.count], [FRAME], [None], [pl.col("x").mean()]]
)
def test_agg_takes_questions(questions, drawn):
    """What is no question is refused."""
    refused(lambda: FRAME.dp.agg(*questions), drawn, dfp.InvalidQuestionError)


def test_answers_of_the_same_name_are_refused(drawn):
    """Two answers, or an answer and a key column, never share a name."""
    twice = (dfp.mean("x", (0, 1)), dfp.mean("x", (0, 2)))
    refused(lambda: FRAME.dp.agg(*twice), drawn, dfp.InvalidQuestionError)
    group = FRAME.dp.group_by("g", keys=["a"])
    refused(lambda: group.agg(g=dfp.count()), drawn, dfp.InvalidQuestionError)
    refused(
        lambda: group.agg(low=dfp.count(), b=dfp.sum("x", (0, 1)), low_low=dfp.count()),
        drawn,
        dfp.InvalidQuestionError,
    )


@pytest.mark.parametrize("by", [(), ("g", "g"), (["g"],), (None,), (FRAME["g"],)])
def test_groups_are_named_by_different_columns(by, drawn):
    """group_by takes one or several different labels."""
    kinds = (dfp.InvalidQuestionError, dfp.MissingColumnError)
    refused(lambda: FRAME.dp.group_by(*by).count(delta=0.1), drawn, kinds)


@pytest.mark.parametrize(
    "frame", [None, 1, [1, 2], {"x": [1]}, np.zeros(3), "absent.csv", "x.xlsx"]
)
def test_what_is_no_frame_is_refused(frame, drawn):
    """An object that is no frame is UnsupportedFrameError."""
    refused(lambda: dfp.frame(frame).count(), drawn, dfp.UnsupportedFrameError)


def test_a_failing_random_source_releases_nothing(monkeypatch):
    """When the operating system gives no random bytes, or too few, nothing is released."""

    def failing(size):
        raise OSError(size)

    for source in (failing, lambda size: b"\0" * (size - 1), lambda size: b""):
        monkeypatch.setattr(entropy.os, "urandom", source)
        for ask in ASKS.values():
            with pytest.raises(dfp.EntropyError):
                ask(FRAME.dp)


def test_errors_cross_processes_whole():
    """An error pickles to itself: type, message, hint."""
    with pytest.raises(dfp.DPError) as caught:
        FRAME.dp.count(epsilon=-1)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (type(caught.value), str(caught.value))
