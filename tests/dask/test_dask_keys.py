"""Public keys of Dask frames: those that a pandas frame takes."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dfp

pytest.importorskip("dask.dataframe")

LISTED = {
    "integer categories": (pd.Categorical([1]), 1.0, "1"),
    "float categories": (pd.Categorical([2.5, 1.0]), 1, True),
    "times": (pd.Categorical(pd.to_datetime(["2020-01-01"])), np.datetime64("2020-01-01"), "2020"),
    "text": (pd.array(["a"], "string[python]"), np.str_("a"), b"a"),
    "text of Arrow": (pd.array(["a"], "string[pyarrow]"), "a", "\ud800"),
    "differences": (pd.to_timedelta(["1D"]).as_unit("s"), timedelta(1), timedelta(seconds=1.5)),
}


@pytest.mark.parametrize("kind", LISTED)
def test_public_keys_are_those_of_a_pandas_frame(kind, ask):
    """A public key that a pandas frame matches or refuses is so in partitions."""
    keys, same, other = LISTED[kind]
    whole = pd.DataFrame({"k": keys})
    for frame in (whole, ask.in_partitions([whole, whole])):
        private = dfp.frame(frame).group_by("k", keys=[same])
        counts = private.count(epsilon=1e12)["count"]
        assert [*counts] == [1 if frame is whole else 2]
        with pytest.raises(dfp.InvalidKeysError):
            dfp.frame(frame).group_by("k", keys=[other]).count()
