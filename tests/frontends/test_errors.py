"""Errors: one tree, catchable as builtins, with a message and a hint."""

import inspect
import pickle

import dfprivacy as dfp

KINDS = [
    value
    for value in vars(dfp.errors).values()
    if inspect.isclass(value) and issubclass(value, dfp.DPError)
]
BUILTINS = (ValueError, KeyError, TypeError, OverflowError, RuntimeError, OSError, AttributeError)


def test_every_error_is_a_dp_error_and_a_builtin():
    """Each can be caught by the base and by the builtin a caller would expect."""
    pep_249 = vars(dfp.dbapi).values()
    kinds = [kind for kind in KINDS if kind not in pep_249]
    assert len(kinds) > 20
    for kind in kinds:
        assert issubclass(kind, BUILTINS)


def test_an_error_reads_as_message_and_hint():
    """The text is the message, an empty line, and the hint; KeyError does not quote it."""
    for kind in KINDS:
        assert str(kind("what happened")) == "what happened"
        assert str(kind("what happened", hint="do this")) == "what happened\n\nHint: do this"


def test_an_error_survives_pickling():
    """Type, message and hint cross processes."""
    for kind in KINDS:
        copy = pickle.loads(pickle.dumps(kind("a", hint="b")))
        assert (type(copy), copy.message, copy.hint, str(copy)) == (kind, "a", "b", "a\n\nHint: b")
