"""An extension of the reference: examples that stand in the middle of a docstring, as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))(>>> .*?)(?=\n\n|\Z)", re.DOTALL)


class DoctestBlocks(griffe.Extension):
    """Fences examples, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one docstring."""
        if obj.docstring is not None and "Examples\n---" not in obj.docstring.value:
            fenced = _EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)
            obj.docstring.value = fenced
