"""What a released frame cost is known for as long as the frame lives, and to no other frame."""

import gc

import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.origin import _KNOWN, origin_of

FRAME = pl.DataFrame({"g": ["a", "b"] * 50, "x": range(100)})


@pytest.fixture(params=[FRAME, FRAME.lazy(), FRAME.to_pandas(), FRAME.to_arrow()], ids=type)
def released(request):
    return dfp.Private(request.param).group_by("g", keys=["a", "b"]).count(epsilon=0.5)


def test_a_released_frame_has_an_origin(released):
    """Statistic, cost, level and keys are those of the call."""
    origin = origin_of(released)
    assert (origin.question, origin.cost) == ("count() by 'g'", "epsilon=0.5")
    assert (origin.level, origin.keys) == (0.95, ("g",))


def test_the_origin_goes_with_its_frame():
    """When a frame is gone nothing of it is kept; frames of other tests may go meanwhile."""
    gc.collect()
    before = set(_KNOWN)
    frame = FRAME.dp.group_by("g", keys=["a", "b"]).count(epsilon=0.5)
    place = id(frame)
    assert place in _KNOWN
    del frame
    gc.collect()
    assert place not in _KNOWN
    assert set(_KNOWN) <= before


def test_another_frame_has_none(released):
    """A copy, a frame of the caller's and a number have no origin."""
    for other in (FRAME, pd.DataFrame(), 1.0, None):
        assert origin_of(other) is None


def test_histograms_vectors_and_remembered_frames(tmp_path):
    """Whatever comes back as a frame has an origin; a remembered one the same again."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=5, remember=True)
    private = FRAME.dp(ledger=ledger, dataset="d", version="1").group_by("g", keys=["a", "b"])
    for _ in range(2):
        assert origin_of(private.histogram("x", [0, 50, 100])).about == "x"
        assert origin_of(private.mean("x", (0, 100))).cost == "epsilon=1"
    vectors = FRAME.dp.group_by("g", keys=["a", "b"]).mean_vector(["x"], rho=0.5, radius=100)
    assert origin_of(vectors).cost == "rho=0.5"
