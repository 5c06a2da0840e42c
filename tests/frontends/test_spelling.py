"""A name that does not exist is answered with the one that was meant."""

import copy

import polars as pl
import pytest

import dfprivacy as dfp

FRAME = pl.DataFrame({"g": ["a"], "x": [1.0]})


@pytest.mark.parametrize(
    ("name", "other"),
    [("meen", "mean"), ("maximum", "max"), ("average", "mean"), ("stddev", "std")],
)
@pytest.mark.parametrize("owner", [FRAME.dp, FRAME.dp.group_by("g")], ids=["frame", "groups"])
def test_what_was_meant(owner, name, other):
    """The nearest known name, or what another library's name is called here, is proposed."""
    if not hasattr(owner, other):
        pytest.skip(f"groups have no {other}")
    with pytest.raises(dfp.errors.UnknownMethodError) as raised:
        getattr(owner, name)
    assert raised.value.hint == f"write .{other}(...)"


@pytest.mark.parametrize("owner", [FRAME.dp, FRAME.dp.group_by("g")], ids=["frame", "groups"])
def test_an_unknown_question_is_refused_with_a_hint(owner):
    """Where no name is near the questions are listed, none of them private or a gate.

    Tools that probe for attributes see that there is none.
    """
    with pytest.raises(dfp.errors.UnknownMethodError) as caught:
        owner.xyzzy  # noqa: B018 to look is to ask
    names = caught.value.hint.removeprefix("ask one of ").split(", ")
    assert {"count", "mean", "median"} <= set(names) <= set(dir(owner))
    assert not {"explain", "local", "shuffle"} & set(names)
    assert not [name for name in names if name.startswith("_")]
    assert not hasattr(owner, "xyzzy")


def test_private_names_are_no_questions():
    """A name with an underscore is refused as Python does it: copying and pickling rely on that."""
    with pytest.raises(AttributeError, match="has no attribute '__x__'") as raised:
        FRAME.dp.__x__  # noqa: B018 to look is to ask
    assert not isinstance(raised.value, dfp.errors.UnknownMethodError)
    assert copy.copy(FRAME.dp).count(epsilon=1e9) == 1
