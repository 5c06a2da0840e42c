"""TOML with line numbers: tomllib reads the file, and each of its statements once more alone."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from dfprivacy.jobs.faults import Faults
from dfprivacy.jobs.marked import Marked

_PLACE = re.compile(r" \(at line (\d+), column \d+\)\Z")
_END = re.compile(r" \(at end of document\)\Z")
_Path = tuple[str | int, ...]


def read_toml(text: str, faults: Faults) -> Marked | None:
    """Return a TOML document with its lines; None if it can't be read at all."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place else len(text.splitlines()) or 1
        what = _END.sub("", _PLACE.sub("", str(error)))
        faults.add(line, f"this is not TOML: {what[:1].lower()}{what[1:]}")
        return None
    return _marked(document, (), 1, _lines(text))


def _marked(value: Any, path: _Path, line: int, lines: Mapping[_Path, int]) -> Marked:
    line = lines.get(path, line)
    if isinstance(value, dict):
        inner = {name: _marked(item, (*path, name), line, lines) for name, item in value.items()}
        return Marked(inner, line)
    if isinstance(value, list):
        items = (_marked(item, (*path, at), line, lines) for at, item in enumerate(value))
        return Marked(tuple(items), line)
    if isinstance(value, dt.date | dt.time):
        return Marked(value.isoformat(), line)
    return Marked(value, line)


def _lines(text: str) -> dict[_Path, int]:
    """Return the line on which each field first stands.

    A statement is as many lines as it takes for tomllib to read them alone.
    """
    lines: dict[_Path, int] = {}
    lists: dict[_Path, int] = {}
    table: _Path = ()
    chunk, start = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        chunk += line + "\n"
        try:
            statement = tomllib.loads(chunk)
        except tomllib.TOMLDecodeError:
            continue
        if chunk.lstrip().startswith("["):
            table = _header(statement, lists)
            paths = [table]
        else:
            paths = _paths(statement, table)
        for path in paths:
            for end in range(1, len(path) + 1):
                lines.setdefault(path[:end], start)
        chunk, start = "", number + 1
    return lines


def _header(statement: Any, lists: dict[_Path, int]) -> _Path:
    """Return the path of the table that a header opens; `lists` counts the tables of each list."""
    path: _Path = ()
    while statement:
        ((name, statement),) = statement.items()
        path = (*path, name)
        if isinstance(statement, list):
            lists[path] = lists.get(path, 0) + 1
            statement = None
        if path in lists:
            path = (*path, lists[path] - 1)
    return path


def _paths(statement: Mapping[str, Any], table: _Path) -> list[_Path]:
    found: list[_Path] = []
    for name, value in statement.items():
        found.append((*table, name))
        if isinstance(value, dict):
            found += _paths(value, found[-1])
    return found
