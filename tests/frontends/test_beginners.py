"""A beginner's call works, or says in our words what to type instead."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

HOURS = pd.date_range("2024-01-01", periods=2000, freq="h")
FRAME = pd.DataFrame({"city": ["Rome", "Oslo"] * 1000, "age": [20, 60] * 1000, "seen": HOURS})
SHUFFLED = dfp.shuffle.mean(users=2000, bounds=(0, 100), epsilon=1, delta=1e-6)
OTHERS = [3, "text", None, b"bytes", 1j, [], {}, object(), FRAME, FRAME["age"], np.arange(3)]
WITHHELD = "its message could quote a row"


@pytest.mark.parametrize("frame", [FRAME, pl.from_pandas(FRAME), pl.from_pandas(FRAME).lazy()])
def test_a_column_is_asked_about_in_brackets(frame):
    """df.dp["x"] is the column x, whole as by group; as an attribute it is told how to be asked."""
    assert 39 < frame.dp["age"].mean((0, 100)) < 41
    assert frame.dp["age"].explain.mean((0, 100)).epsilon == 1
    for source in (frame.dp, frame.dp.group_by("city")):
        with pytest.raises(
            dfp.errors.UnknownMethodError, match="'age' is a column, not a question"
        ):
            source.age  # noqa: B018
        with pytest.raises(dfp.errors.InvalidQuestionError, match="one column at a time"):
            source[["age", "seen"]]
        with pytest.raises(dfp.MissingColumnError, match="did you mean 'age'"):
            source["agee"].mean((0, 100), delta=1e-6)


def test_numpys_arrays_and_times_are_arguments():
    """Quantiles of an array are those of its list, and times of numpy those of Python."""
    assert len(FRAME.dp.quantiles("age", np.linspace(0.1, 0.9, 3))) == 3
    for unit in ("D", "s", "ns"):
        year = np.datetime64("2024-01-01", unit), np.datetime64("2025-01-01", unit)
        median = FRAME.dp.median("seen", bounds=year, step=np.timedelta64(1, "h"), epsilon=100)
        assert abs(median - HOURS[1000]) <= pd.Timedelta(hours=3)


def test_an_answer_is_its_own_number():
    """`.value` of an answer is refused, and the hint says to use the answer itself."""
    answer = FRAME.dp.mean("age", (0, 100))
    with pytest.raises(AttributeError, match="use the answer as the number that it is"):
        answer.value  # noqa: B018
    assert answer.low < answer + 0.0 < answer.high


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (dfp.shuffle.shuffle, "as messages"),
        (SHUFFLED.analyze, "as messages"),
        (dfp.local.gaussian_mean(users=9).estimate, "as aggregate"),
        (dfp.local.gaussian_mean(users=9).next_round, "as aggregate"),
        (dfp.local.Aggregate.from_arrow, "as table"),
        (lambda other: dfp.statistics(FRAME, other, dfp.count()), "as path"),
    ],
)
def test_what_is_of_another_class_is_told_by_its_type(call, named, tmp_path, monkeypatch):
    """An argument of another class than the declared one is refused by its type, and its name."""
    monkeypatch.chdir(tmp_path)
    for other in OTHERS:
        if named == "as path" and isinstance(other, str):
            continue
        with pytest.raises(dfp.DPError) as caught:
            call(other)
        assert named in str(caught.value), other
        assert type(other).__name__ in str(caught.value)


def test_no_public_call_blames_an_engine_for_its_arguments(tmp_path, monkeypatch):
    """One argument of any type gets an answer of every public name, or an error of no engine."""
    monkeypatch.chdir(tmp_path)
    modules = (dfp, dfp.local, dfp.shuffle)
    public = [getattr(module, name) for module in modules for name in module.__all__]
    called = [
        function for function in public if callable(function) and not isinstance(function, type)
    ]
    assert len(called) > 15
    for function in called:
        for arguments in ([other] * times for other in OTHERS for times in (1, 2)):
            assert WITHHELD not in said_by(function, *arguments), (function, arguments)


def said_by(call, *arguments):
    """Return the message of the package's error that a call raises, or an empty text."""
    try:
        call(*arguments)
    except dfp.DPError as error:
        return str(error)
    return ""


def test_a_column_in_the_index_is_named_as_such():
    """The hint is reset_index for what pandas has in its index, the columns for other names."""
    indexed = FRAME.set_index("city")
    with pytest.raises(dfp.MissingColumnError, match=r"df\.reset_index\(\) makes it one"):
        indexed.dp.group_by("city").count(delta=1e-6)
    with pytest.raises(dfp.MissingColumnError, match="its columns are 'age', 'seen'"):
        indexed.dp.count("town")


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas])
def test_keys_of_times_are_refused_with_an_example_that_fits(kind, zone):
    """Text is no time: the hint has a time as the column has them, with a zone or without."""
    private = kind(FRAME.assign(seen=HOURS.tz_localize(zone))).dp
    with pytest.raises(
        dfp.errors.InvalidKeysError, match=r"e\.g\. datetime\(2024, 1, 1"
    ) as refused:
        private.group_by("seen", keys=["2024-01-01"]).count()
    assert ("tzinfo=" in refused.value.hint) == (zone is not None)


def test_a_hint_converts_each_row_by_itself():
    """A conversion of texts that a message names gives each row the same value without others."""
    df = pd.DataFrame({"x": ["02.01.2024", "2024-02-01", "2024-03-04", "7", None]})
    with pytest.raises(dfp.errors.UnsupportedDtypeError) as caught:
        df.dp.median("x")
    conversions = re.findall(r"pd\.to_\w+\(.*?'\)", caught.value.hint)
    assert len(conversions) == 2
    for conversion in conversions:
        full, rest = (eval(conversion, {"pd": pd, "df": rows}) for rows in (df, df[1:]))
        assert list(full[1:].dropna()) == list(rest.dropna()) != []
