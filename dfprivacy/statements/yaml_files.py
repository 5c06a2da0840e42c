"""Read a YAML file into plain values with their lines, and put parameters where ${name} stands.

YAML is read by the core schema of YAML 1.2, without tags, aliases and merges: YAML 1.1 reads NO as
false and 1e-6 as text, here plain words are text and 1e-6 is a number. A parameter is put into text
that has been read, never into the file: it can't add a field. In a query it becomes one SQL
literal; in a path it is one part of a name.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import yaml

from dfprivacy.engine.embedded import quote_text
from dfprivacy.errors import InvalidDescriptionError

MOST_BYTES, MOST_VALUES, DEEPEST, MOST_FAULTS = 2**18, 10_000, 32, 100
HINT = "docs/how-to/etl.md describes every field; --check looks at a file without spending anything"

Plain = str | int | float | bool | None
At = tuple[str | int, ...]
"""The way to a value: names of fields, and places in lists."""

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Plain] = {"": None, "~": None, "null": None, "true": True, "false": False}
_TAGS = {
    yaml.ScalarEvent: "tag:yaml.org,2002:str",
    yaml.SequenceStartEvent: "tag:yaml.org,2002:seq",
    yaml.MappingStartEvent: "tag:yaml.org,2002:map",
}


@dataclass(frozen=True)
class Faults:
    """The faults of one file, each with its line, gathered while it is read."""

    file: Path
    entries: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, what: str) -> None:
        """Note a fault; refuse the file at the hundredth, for the time that it takes."""
        if (line, what) not in self.entries:
            self.entries.append((line, what))
        if len(self.entries) >= MOST_FAULTS:
            raise self._error()

    def stop(self, line: int, what: str) -> NoReturn:
        """Refuse the file for a fault after which nothing more can be read."""
        self.add(line, what)
        raise self._error()

    def require_none(self) -> None:
        """Refuse the file if it has faults."""
        if self.entries:
            raise self._error()

    def _error(self) -> InvalidDescriptionError:
        lines = [f"{self.file}:{line}: {what}" for line, what in sorted(self.entries)]
        return InvalidDescriptionError("\n".join(lines), hint=HINT)


@dataclass(frozen=True)
class Content:
    """A file as plain values, with the line of each, and the file's SHA-256."""

    value: Any
    lines: Mapping[At, int]
    digest: str

    def line(self, at: At) -> int:
        """Return the line of a value, or of the nearest group that is there."""
        while at not in self.lines:
            at = at[:-1]
        return self.lines[at]

    def nearest(self, at: At) -> At:
        """Return a way without the parts that the file does not have.

        >>> Content({}, {(): 1, ("a",): 1, ("a", "b"): 2}, "").nearest(("a", "float", "b"))
        ('a', 'b')
        """
        way: At = ()
        for part in at:
            way = (*way, part) if (*way, part) in self.lines else way
        return way


def read_content(faults: Faults, parameters: Mapping[str, str]) -> Content:
    """Return the content of a file, with its `parameters`."""
    content = _content(faults)
    places = _Places(_parameters(content, parameters, faults), content, faults)
    faults.require_none()
    value = places.fill_value(content.value, (), "")
    faults.require_none()
    return replace(content, value=value)


def read_plainly(path: Path) -> Any:
    """Return the content of a file without parameters, read as a description is."""
    faults = Faults(path)
    value = _content(faults).value
    faults.require_none()
    return value


def _content(faults: Faults) -> Content:
    if faults.file.suffix.lower() not in {".yml", ".yaml"}:
        faults.stop(1, "a description is a .yml or .yaml file")
    try:
        with faults.file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as error:
        faults.stop(1, f"the file can't be read: {error.strerror}")
    if len(raw) > MOST_BYTES:
        faults.stop(1, "a description has at most 256 KiB")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        faults.stop(raw[: error.start].count(b"\n") + 1, "this is not UTF-8 text")
    reader = _Reader(text, faults)
    digest = hashlib.sha256(raw).hexdigest()
    return Content(reader.document(), reader.lines, digest)


class _Reader:
    """Builds values from the events of a YAML parser, which stops at the first one too many."""

    def __init__(self, text: str, faults: Faults) -> None:
        self.faults, self.lines, self.values = faults, dict[At, int](), 0
        self.events = yaml.parse(text, yaml.BaseLoader)

    def document(self) -> Any:
        """Return the one document; None if there is none."""
        try:
            next(self.events)  # the start of the stream
            self.lines[()] = 1
            if isinstance(next(self.events), yaml.StreamEndEvent):
                return None
            value = self._value(next(self.events), (), 1)
            next(self.events)  # the end of the document
            last = next(self.events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            self.faults.stop(mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}")
        except yaml.YAMLError:
            self.faults.stop(1, "this is not YAML: it holds a character that YAML does not allow")
        if not isinstance(last, yaml.StreamEndEvent):
            self.faults.stop(_line(last), "a second document begins here: a description is one")
        return value

    def _value(self, event: Any, at: At, line: int) -> Any:
        self.lines.setdefault(at, line)
        self.values += 1
        if self.values > MOST_VALUES:
            self.faults.stop(line, f"a description has at most {MOST_VALUES:,} values")
        if len(at) > DEEPEST:
            self.faults.stop(line, f"a description is at most {DEEPEST} levels deep")
        if isinstance(event, yaml.AliasEvent):
            self.faults.stop(line, "aliases (*name) are not read: write the fields out")
        if event.tag not in {None, _TAGS[type(event)]}:
            self.faults.add(line, "tags (!name) are not read: leave them out")
        if isinstance(event, yaml.MappingStartEvent):
            return self._fields(at)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(item := next(self.events), yaml.SequenceEndEvent):
                items.append(self._value(item, (*at, len(items)), _line(item)))
            return items
        return event.value if event.style else plain(event.value)

    def _fields(self, at: At) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not isinstance(key := next(self.events), yaml.MappingEndEvent):
            line, name = _line(key), "?"
            if isinstance(key, yaml.ScalarEvent):
                name = key.value
                if name in fields:
                    self.faults.add(line, f"{name!r} stands here a second time")
            else:
                self._value(key, (*at, name), line)
                self.faults.add(line, "a field's name is a plain text")
            fields[name] = self._value(next(self.events), (*at, name), line)
        return fields


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def plain(text: str) -> Plain:
    """Return the value of an unquoted word of YAML.

    >>> plain("1e-6"), plain("NO"), plain("12"), plain("2024-01-31"), plain("null")
    (1e-06, 'NO', 12, '2024-01-31', None)
    """
    if text.lower() in _WORDS and text in {text.lower(), text.capitalize(), text.upper()}:
        return _WORDS[text.lower()]
    if _INTEGER.match(text) and len(text) <= 300:
        return int(text)
    return float(text) if _FLOAT.match(text) else text


_SQL = frozenset({"query", "where"})
_FILES = "file folder database tables ledger outputs diff change ratio_to temporary"
_PATHS = frozenset(_FILES.split())
_PLACE = re.compile(r"\$(\$?)\{([^}]*)\}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")
_BEYOND_A_NAME = re.compile(r'\.\.|[/\\*?\[\]{}:~"]')
"""Text that is not the name of one file: a folder, a pattern, a hidden place."""


_TYPES: dict[str, tuple[str, Callable[[str], Plain]]] = {
    "date": ("2024-01-31", lambda t: t if dt.date.fromisoformat(t).isoformat() == t else None),
    "integer": ("7", lambda t: int(t) if re.fullmatch(r"-?[0-9]{1,18}", t) else None),
    "number": ("0.5", lambda t: float(t) if _NUMBER.match(t) and len(t) <= 40 else None),
    "text": ("north", lambda t: t if t.isprintable() and t.strip() and len(t) <= 200 else None),
}
"""The types of parameters: an example of each, and what reads one; None for other texts."""


@dataclass(frozen=True)
class _Parameter:
    """A value that was set: as text, and as its type has it."""

    text: str
    value: Plain

    @property
    def sql(self) -> str:
        """The value as one literal: a number, or a text in quotes."""
        if isinstance(self.value, str):
            return quote_text(self.value)
        return f" {self.text} "  # apart from a minus sign, which would begin a comment


def _parameters(
    content: Content, values: Mapping[str, str], faults: Faults
) -> dict[str, _Parameter]:
    """Return the parameters that a description declares, with the values that were given."""
    declared = content.value.get("parameters") if isinstance(content.value, dict) else None
    line = content.line(("parameters",))
    types = declared if isinstance(declared, dict) else {}
    if declared is not None and not types:
        faults.add(line, "parameters: these are not names with types, as in {day: date}")
    for name in values:
        if name not in types:
            faults.add(line, f"--set {name}: no such parameter is declared")
    parameters: dict[str, _Parameter] = {}
    for name, kind in types.items():
        position, text = content.line(("parameters", name)), values.get(name)
        if not name.isidentifier():
            faults.add(position, f"parameters: {name!r} is no name: use letters, digits and _")
            continue
        if not isinstance(kind, str) or kind not in _TYPES:
            type_names = ", ".join(_TYPES)
            faults.add(position, f"parameters: {name} needs a type, which is one of {type_names}")
            continue
        example, read = _TYPES[kind]
        if text is None:
            faults.add(position, f"parameters: {name} is not set; add --set {name}={example}")
            continue
        value: Plain = None
        with suppress(ValueError):
            value = read(text)
        if value is None:
            faults.add(position, f"--set {name}: the value is no {kind} such as {example}")
        else:
            parameters[name] = _Parameter(text, value)
    return parameters


@dataclass(frozen=True)
class _Places:
    """The places of parameters in a description."""

    parameters: Mapping[str, _Parameter]
    content: Content
    faults: Faults

    def fill_value(self, value: Any, at: At, owner: str) -> Any:
        """Return a value with ${name} replaced in every text; `owner` is the field it is in."""
        if isinstance(value, dict):
            return {
                name: item
                if (*at, name) == ("parameters",)
                else self.fill_value(item, (*at, name), owner if owner == "tables" else name)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.fill_value(item, (*at, n), owner) for n, item in enumerate(value)]
        return self._text(value, self.content.line(at), owner) if isinstance(value, str) else value

    def _text(self, text: str, line: int, owner: str) -> Plain:
        names = {name for escaped, name in _PLACE.findall(text) if not escaped}
        for name in sorted(names - set(self.parameters)):
            self.faults.add(line, f"${{{name}}}: no such parameter is declared")
        if not names <= set(self.parameters):
            return text
        if owner in _SQL:
            return self._query(text, line)
        for name in sorted(names):
            if owner in _PATHS and _BEYOND_A_NAME.search(self.parameters[name].text):
                self.faults.add(line, f"${{{name}}}: the value can't be part of a file's name")
        match = _PLACE.fullmatch(text)
        if match is not None and not match[1]:
            return self.parameters[match[2]].value
        return _PLACE.sub(lambda m: m[0][1:] if m[1] else self.parameters[m[2]].text, text)

    def _query(self, query: str, line: int) -> str:
        """Return a query in which each ${name} is one literal.

        Each stands for a word of its own: one inside quotes or a comment, where a value could end
        the quotes, is a fault.
        """
        stem = "dfprivacy_parameter"
        while stem in query:
            stem += "_"
        marked = _PLACE.sub(lambda m: m[0][1:] if m[1] else f"{stem}_{m[2]}", query)
        words = {f"{stem}_{name}": value.sql for name, value in self.parameters.items()}
        raw, starts, inside = marked.encode("utf-8", "surrogateescape"), set[int](), list[str]()
        with suppress(duckdb.Error, UnicodeError):  # words that stand by themselves for DuckDB
            tokens = duckdb.tokenize(marked)
            starts = {start for start, kind in tokens if kind == duckdb.token_type.identifier}

        def fill(match: re.Match[bytes]) -> bytes:
            word = match[0].decode("utf-8", "surrogateescape")
            if match.start() not in starts or word not in words:
                inside.append(next(name for name in self.parameters if f"{stem}_{name}" in word))
            return words.get(word, "").encode()

        bare = rb"[\w$\x80-\xff]*"
        filled = re.sub(bare + stem.encode() + bare, fill, raw)
        if inside:
            name = f"${{{inside[0]}}}"
            what = f"{name} stands inside quotes, a comment or a name"
            self.faults.add(line, f"{what}: write it bare, as in day = {name}")
            return query
        return filled.decode("utf-8", "surrogateescape")
