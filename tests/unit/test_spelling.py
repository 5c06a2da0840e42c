"""A name that does not exist is answered with the one that was meant."""

from __future__ import annotations

import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.spelling import _ELSEWHERE, meant, unknown

FRAME = pl.DataFrame({"g": ["a"], "x": [1.0]})


@pytest.mark.parametrize(
    ("name", "other"),
    [("meen", "mean"), ("mean", "mean"), ("max", "bounds"), ("xyzzy", None), ("", None)],
)
def test_what_was_meant(name, other):
    """The nearest known name, or what another library's name is called here; None if none is near.

    A name of another library counts only where its counterpart is known.
    """
    assert meant(name, ["bounds", "count", "mean"]) == other
    assert meant("max", ["count", "mean"]) is None


@pytest.mark.parametrize("name", _ELSEWHERE)
def test_names_of_other_libraries_lead_to_questions(name):
    """Every name of another library is no question here, and its counterpart is one."""
    assert not hasattr(FRAME.dp, name)
    assert callable(getattr(FRAME.dp, _ELSEWHERE[name]))


@pytest.mark.parametrize("owner", [FRAME.dp, FRAME.dp.group_by("g")])
def test_an_unknown_question_is_refused_with_a_hint(owner):
    """A near name is proposed; otherwise the questions are listed, none of them private or a gate.

    Tools that probe for attributes see that there is none.
    """
    with pytest.raises(dfp.UnknownMethodError) as near:
        owner.meen  # noqa: B018 to look is to ask
    assert near.value.hint == "write .mean(...)"
    with pytest.raises(dfp.UnknownMethodError) as far:
        owner.xyzzy  # noqa: B018 the same
    listed = far.value.hint.removeprefix("ask one of ").split(", ")
    assert {"count", "mean", "median"} <= set(listed) <= set(dir(owner))
    assert not {"explain", "local", "shuffle"} & set(listed)
    assert not [name for name in listed if name.startswith("_")]
    assert not hasattr(owner, "xyzzy")


def test_private_names_are_no_questions():
    """A name with an underscore is refused as Python does it: copying and pickling rely on that."""
    with pytest.raises(AttributeError, match="'object' object has no attribute '__x__'") as raised:
        unknown(object(), "__x__")
    assert not isinstance(raised.value, dfp.UnknownMethodError)
    assert raised.value.name == "__x__"
