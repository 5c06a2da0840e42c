"""Errors: one tree, catchable as builtins, with a message and a hint."""

from __future__ import annotations

import inspect
import pickle

import pytest

import dfprivacy as dfp
from dfprivacy import errors

KINDS = [v for v in vars(errors).values() if inspect.isclass(v) and issubclass(v, dfp.DPError)]
BUILTINS = (ValueError, KeyError, TypeError, OverflowError, RuntimeError, OSError)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_dp_error_and_a_builtin(kind):
    """Each leaf can be caught by the base and by the builtin a caller would expect."""
    assert issubclass(kind, dfp.DPError)
    assert kind is dfp.DPError or issubclass(kind, BUILTINS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_reads_as_message_and_hint(kind):
    """The text is the message, an empty line, and the hint; KeyError does not quote it."""
    assert str(kind("what happened")) == "what happened"
    assert str(kind("what happened", hint="do this")) == "what happened\n\nHint: do this"


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling(kind):
    """Type, message and hint cross processes."""
    copy = pickle.loads(pickle.dumps(kind("a", hint="b")))
    assert (type(copy), copy.message, copy.hint, str(copy)) == (kind, "a", "b", "a\n\nHint: b")


@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_is_drawn(kind):
    """The docstring of the module draws every error below its parent."""
    lines = errors.__doc__.splitlines()
    assert any(kind.__name__ in line for line in lines)
