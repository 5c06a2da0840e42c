"""Keys that directories are named by, `key=value`, where DuckDB does not take them for keys.

What stands in such a name may come from one row. DuckDB reads no folder of which one name holds a
second `=`, a `?` or a line break, or is no UTF-8 once decoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes

_NOT_IN_NAMES = re.compile(r"[=?\n\\]")
_NO_KEY = "__HIVE_DEFAULT_PARTITION__"

Keys = tuple[tuple[str, str | None], ...]


def key_names(file: Path) -> tuple[str, ...]:
    """Return the names of a file's keys, from the outermost directory to the innermost."""
    return tuple(part.partition("=")[0] for part in file.parent.parts if "=" in part)


def is_plain(file: Path) -> bool:
    """Tell whether DuckDB takes the keys of a file for what they are."""
    return all(_is_plain(part) for part in file.parent.parts if "=" in part)


def keys_of(folder: Path, file: Path) -> Keys:
    """Return names and values of the keys of a file below a folder, and of the way to the folder.

    They are sorted by name and are what DuckDB takes plain ones for: of several of one name the
    outermost counts, of names that differ in case the first. Bytes that are no UTF-8 become U+FFFD.
    """
    above = [part for part in folder.parts if "=" in part and _is_plain(part)]
    below = [part for part in file.relative_to(folder).parent.parts if "=" in part]
    values: dict[str, str | None] = {}
    for part in (*above, *below):
        name, _, raw = part.partition("=")
        values.setdefault(name, _value(raw))
    apart: dict[str, str] = {}
    for name in sorted(filter(None, values)):
        apart.setdefault(name.lower(), name)
    return tuple((name, values[name]) for name in apart.values())


def columns_with_keys(columns: list[str], keys: Mapping[str, str | None]) -> list[str]:
    """Return the columns of files with those of their keys: in the place of a column, or behind."""
    own = {column.lower() for column in columns}
    return [*columns, *(name for name in keys if name.lower() not in own)]


def _is_plain(part: str) -> bool:
    _, _, raw = part.partition("=")
    return not _NOT_IN_NAMES.search(raw) and "\ufffd" not in _decoded(raw)


def _value(raw: str) -> str | None:
    return None if raw == _NO_KEY else _decoded(raw)


def _decoded(raw: str) -> str:
    return unquote_to_bytes(raw.encode(errors="surrogateescape")).decode(errors="replace")
