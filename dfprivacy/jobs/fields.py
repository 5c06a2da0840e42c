"""Typed looks at the fields of a description: what does not fit is a fault of its line."""

from __future__ import annotations

from collections.abc import Collection

from dfprivacy.jobs.faults import Faults, nearest
from dfprivacy.jobs.marked import Marked


class Fields:
    """A group of fields; every known one is asked for by its type, the others are faults."""

    def __init__(self, node: Marked, where: str, faults: Faults, known: Collection[str]) -> None:
        self.node, self.where, self.faults = node, where, faults
        if not isinstance(node.value, dict):
            faults.add(node.line, f"{where}: this is {node.kind}, not a group of fields")
        for name, item in node.fields.items():
            if name not in known:
                faults.add(item.line, f"{where}: unknown field {name!r}; {nearest(name, known)}")

    @property
    def line(self) -> int:
        """Where the fields are."""
        return self.node.line

    def get(self, name: str) -> Marked | None:
        """Return a field as it was read; None if it is not there or holds nothing."""
        node = self.node.fields.get(name)
        return None if node is None or node.value is None else node

    def line_of(self, name: str) -> int:
        """Return the line of a field, or of the group that lacks it."""
        node = self.node.fields.get(name)
        return self.line if node is None else node.line

    def require(self, *names: str) -> bool:
        """Tell whether the fields are there; those that are not are faults."""
        missing = [name for name in names if self.get(name) is None]
        for name in missing if isinstance(self.node.value, dict) else ():
            self.faults.add(self.line, f"{self.where}: {name!r} is missing")
        return not missing

    def required(self, name: str) -> Marked | None:
        """Return a field that has to be there; where it is not, that is a fault."""
        self.require(name)
        return self.get(name)

    def wrong(self, name: str, what: str) -> None:
        """Note a fault of a field."""
        self.faults.add(self.line_of(name), f"{self.where}: {name}: {what}")

    def text(self, name: str) -> str | None:
        """Return a text."""
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        empty = "this is empty" if isinstance(node.value, str) else f"this is {node.kind}"
        quotes = "; put it in quotes" if node.kind in {"a number", "true or false"} else ""
        self.wrong(name, f"{empty}, not a text{quotes}")
        return None

    def number(self, name: str) -> float | None:
        """Return a number."""
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return node.value
        self.wrong(name, f"this is {node.kind}, not a number")
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; one text is a list of one."""
        node = self.get(name)
        if node is None:
            return ()
        found = [item.value for item in node.items]
        texts = [item for item in found if isinstance(item, str) and item.strip()]
        if not found or len(texts) < len(found):
            self.wrong(name, "this is not a list of texts")
            return ()
        return tuple(texts)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return a list of numbers."""
        node = self.get(name)
        if node is None:
            return None
        found = [] if isinstance(node.value, str) else [item.value for item in node.items]
        numbers = [v for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
        if numbers and len(numbers) == len(found):
            return tuple(numbers)
        self.wrong(name, "this is not a list of numbers")
        return None
