"""Explanations of protocols of the local and the shuffle model."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

TERMS = {"epsilon": 1, "delta": 1e-6}


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_a_shuffled_interval_is_as_wide_as_forecast(kind, tmp_path):
    """The half-width of a shuffled total follows from public facts: it is the one forecast."""
    frame = pd.DataFrame({"x": [2.0] * 1000})
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=3, delta=1e-3)
    private = frame.dp(ledger=ledger, dataset="d").shuffle
    plan = getattr(private.explain, kind)("x", (0, 10), **TERMS)
    released = getattr(private, kind)("x", (0, 10), **TERMS)
    assert (released.high - released.low) / 2 == pytest.approx(
        plan.answers[0].typical[plan.answers[0].rows.index(1000)]
    )
    assert plan.account.after == ledger.remaining("d")
    assert plan.asks == ledger.history()["question"][0]


def test_surveys_are_explained_without_data(monkeypatch):
    """No row is read and no random byte is drawn; what can't be told is not."""

    def fail(*_):
        raise AssertionError

    monkeypatch.setattr("os.urandom", fail)
    frame = pl.LazyFrame({"x": [1.0]})
    frame = frame.map_batches(fail, schema=frame.collect_schema())
    assert frame.dp.shuffle.explain.mean("x", (0, 1), **TERMS).answers[0].is_known
    assert not frame.dp.shuffle.explain.quantile("x", 0.5, (0, 1), **TERMS).answers[0].is_known
    explain = frame.dp.local.explain.gaussian_mean
    assert explain("x", sigma=2.0, limit=64).answers[0].is_known
    assert not explain("x", sigma_bounds=(1, 8), limit=64).answers[0].is_known
    for ask in (lambda: explain("x", rounds=3), lambda: explain("y", sigma=2.0)):
        with pytest.raises((dfp.errors.InvalidProtocolError, dfp.MissingColumnError)):
            ask()


def test_a_local_interval_is_about_as_wide_as_forecast():
    """With a mean that the coarse step finds, the interval is within a factor of 1.5 as forecast.

    The coarse step of 100,000 owners at epsilon 4 errs by less than half a sigma nearly always.
    """
    values = np.random.default_rng(4).normal(7.0, 2.0, 100_000)
    frame, terms = pd.DataFrame({"x": values}), {"epsilon": 4, "sigma": 2.0, "limit": 64}
    half = frame.dp.local.explain.gaussian_mean("x", **terms).answers[0].typical[4]
    estimate = frame.dp.local.gaussian_mean("x", **terms)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=0.5)


def test_questions_that_a_model_lacks_are_refused_with_those_it_has():
    """An unknown name is an AttributeError whose hint lists the questions of the model."""
    frame = pl.DataFrame({"x": [1.0]})
    with pytest.raises(dfp.errors.UnknownMethodError, match="ask one of sum, mean, quantile"):
        frame.dp.shuffle.median("x")
    with pytest.raises(dfp.errors.UnknownMethodError, match="ask one of gaussian_mean"):
        frame.dp.local.explain.mean("x")
    assert not hasattr(frame.dp.local, "_repr_png_")
