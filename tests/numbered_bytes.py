"""Random bytes that are the same for every call number, here and in other processes."""

import hashlib
import os

import pytest


class NumberedBytes:
    """The same random bytes for every call number, whatever is asked."""

    def __init__(self):
        self.count = 0

    def __call__(self, size):
        self.count += 1
        return hashlib.shake_128(b"%d" % self.count).digest(size)


def draw_numbered(draw, *arguments, **options):
    """Return the result of a function that draws, from numbered bytes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "urandom", NumberedBytes())
        return draw(*arguments, **options)
