"""Missing values of every declared type add nothing, in every kind of frame."""

import datetime as dt

import pytest

import dfprivacy as dfp
from benchmarks.boundary import FRONTS, LARGE
from tests.frame_types import to_polars

SECRET = {"epsilon": 1e7, "delta": 1e-6}
QUESTIONS = {
    "count": lambda frame: frame.count("k", **LARGE),
    "nunique": lambda frame: frame.nunique("k", **LARGE),
    "mean": lambda frame: frame.mean("k", (-9, 9), **LARGE),
    "sum": lambda frame: frame.sum("k", (-9, 9), **LARGE),
    "median": lambda frame: frame.quantile("k", 0.5, **LARGE),
    "quantile": lambda frame: frame.quantile("k", 0.9, **LARGE),
    "max": lambda frame: frame.max("k", **LARGE),
}
CASES = [
    (kind, front)
    for front, (kinds, _) in FRONTS.items()
    for kind, samples in kinds.items()
    if any(value is None for value in samples.odd) and samples.usual[0] is not None
    if kind != "object of lists"  # which are no keys
]
"""All types that have missing values, in all kinds of frames that have the type."""


def ask(question, frame):
    """Return an answer, or the refusal that the declared type has."""
    try:
        return question(frame)
    except (dfp.UnsupportedDtypeError, dfp.errors.InvalidQuestionError) as error:
        return type(error), str(error)


def _number(answer):
    """Return an answer as a number; dates and times as seconds."""
    if isinstance(answer, dt.timedelta):
        return answer.total_seconds()
    if isinstance(answer, dt.datetime):
        zoned = answer if answer.tzinfo else answer.replace(tzinfo=dt.UTC)
        return (zoned - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds()
    if isinstance(answer, dt.date):
        return 86_400 * (answer - dt.date(1970, 1, 1)).days
    if isinstance(answer, dt.time):
        return 3_600 * answer.hour + 60 * answer.minute + answer.second
    return float(answer)


@pytest.mark.battery
@pytest.mark.parametrize(("kind", "front"), CASES)
def test_missing_values_add_nothing(kind, front):
    """Rows without a value change no count, rank, mean, sum or number of different values."""
    kinds, make = FRONTS[front]
    (low, high), column = kinds[kind].usual, kinds[kind].column
    rows = [low] * 200 + [high] * 400
    full, sparse = (dfp.frame(make(column(values))) for values in (rows, rows + [None] * 300))
    for name, question in QUESTIONS.items():
        before, after = ask(question, full), ask(question, sparse)
        if isinstance(before, tuple):
            assert after == before
        else:
            tolerance = 1 if name in {"median", "quantile", "max"} else 0.01
            assert _number(after) == pytest.approx(_number(before), abs=tolerance, rel=0.01)
    groups = ask(lambda frame: frame.group_by("k").count(**SECRET), sparse)
    assert isinstance(groups, tuple) or sorted(to_polars(groups)["count"]) == [200, 300, 400]
