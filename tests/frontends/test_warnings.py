"""Warnings of promises that are next to nothing, and of keys that may come from the data."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy import errors
from tests.command_line import run_python

FRAME = pd.DataFrame({"k": ["a", "b"] * 50, "x": [0.5] * 100})
QUERY = "SELECT dp_count(*) AS n FROM t"


@pytest.fixture(autouse=True)
def first_warning(monkeypatch):
    """Forget the warnings of earlier tests: each is given once in a process."""
    monkeypatch.setattr(errors, "WARNED", set())


def heard(ask):
    """Return the messages of the warnings that a call gives, and where they point."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        ask()
    assert {(record.category, record.filename) for record in records} <= {
        (errors.PublicDataWarning, __file__)
    }
    return [str(record.message) for record in records]


RELEASES = {
    "frame": FRAME.dp.count,
    "terms of the frame": lambda **terms: FRAME.dp(**terms).count(),
    "groups": lambda **terms: FRAME.dp.group_by("k").mean("x", (0, 1), **{"delta": 1e-6, **terms}),
    "polars": lambda **terms: pl.from_pandas(FRAME).dp.agg(dfp.count(), **terms),
    "SQL": lambda **terms: dfp.sql(QUERY, t=FRAME, **terms),
}


@pytest.mark.parametrize("entry", RELEASES)
def test_a_large_epsilon_is_warned_of_once(entry):
    """An epsilon above 20 is warned of at the first release, and at no later one."""
    assert heard(lambda: RELEASES[entry](epsilon=20)) == []
    (message,) = heard(lambda: RELEASES[entry](epsilon=20.5))
    assert message.startswith("epsilon=20.5 promises next to nothing")
    assert heard(lambda: RELEASES[entry](epsilon=30)) == []


def test_a_large_delta_is_warned_of():
    """A delta above 1/1000 is warned of."""
    assert heard(lambda: RELEASES["groups"](delta=1e-3)) == []
    (message,) = heard(lambda: RELEASES["groups"](delta=2e-3))
    assert message.startswith("delta=0.002 lets a row of its own group be shown in one of 500")


KEYS = [FRAME["k"], FRAME["k"].unique(), np.array(["a"]), pl.Series(["a"]), pd.Index(["b"])]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: type(keys).__name__)
def test_keys_that_may_come_from_the_data_are_warned_of(keys):
    """Keys in an array or a series are warned of by their type, whatever their length."""
    (message,) = heard(lambda: FRAME.dp.group_by("k", keys=keys))
    assert type(keys).__name__ in message
    assert "never read them off the protected data" in message
    assert heard(lambda: FRAME.dp.group_by("k", keys=["a", "b"])) == []


def test_a_warning_made_an_error_comes_before_the_charge(tmp_path):
    """A caller whose filter makes errors of warnings is charged nothing."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.PublicDataWarning):
            FRAME.dp(ledger=ledger, dataset="d").count(epsilon=50)
    assert ledger.spent("d").epsilon == 0


@pytest.mark.slow
def test_the_command_line_warns_in_a_line(tmp_path):
    """The command line writes one line to stderr, without a place in the code."""
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    words = ["count", tmp_path / "t.csv", "--epsilon", "50"]
    run = run_python("-m", "dfprivacy", *words, check=True)
    assert run.stderr.startswith("Warning: epsilon=50 promises next to nothing")
    assert run.stderr.count("\n") == 1
