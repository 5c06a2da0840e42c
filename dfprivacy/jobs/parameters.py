"""Parameters of a description: declared with a type, set at the call, put where ${name} stands.

A value is put into text that has been read, never into the file: it can't add a field. In a query
it becomes one SQL literal; in a path it is one part of a name.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import duckdb

from dfprivacy.jobs.faults import Faults, nearest
from dfprivacy.jobs.marked import Marked, Plain

PATHS = frozenset({"ledger", "file", "folder", "database", "tables", "outputs"})
QUERY = "query"
_PLACE = re.compile(r"\$(\$?)\{([^}]*)\}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")
_BARE = re.compile(rb"[\w$\x80-\xff]+")
_LONGEST = 200


def _date(text: str) -> str | None:
    try:
        return text if dt.date.fromisoformat(text).isoformat() == text else None
    except ValueError:
        return None


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.match(text) and len(text) <= 40 else None


def _text(text: str) -> str | None:
    return text if text.isprintable() and text.strip() and len(text) <= _LONGEST else None


TYPES: Mapping[str, Callable[[str], Plain]] = {
    "date": _date,
    "integer": _integer,
    "number": _number,
    "text": _text,
}
_EXAMPLES = {"date": "2024-01-31", "integer": "7", "number": "0.5", "text": "north"}


@dataclass(frozen=True)
class Parameter:
    """A value that was set: as text, as its type has it, and as SQL."""

    text: str
    value: Plain

    @property
    def sql(self) -> str:
        """The value as one literal: a number, or a text in quotes."""
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return f" {self.text} "  # apart from a minus sign, which would begin a comment

    @property
    def fits_a_path(self) -> bool:
        """Whether the value is part of one file's name: no folder, no pattern, not hidden away."""
        return ".." not in self.text and not any(c in '/\\*?[]{}:~"' for c in self.text)


def parameters_of(
    declared: Marked | None, given: Mapping[str, str], faults: Faults
) -> dict[str, Parameter]:
    """Return the parameters that a description declares, with the values that were given."""
    fields = {} if declared is None else declared.fields
    line = 1 if declared is None else declared.line
    if declared is not None and declared.value is not None and not fields:
        faults.add(line, f"parameters: this is {declared.kind}, not names with types")
    for name in given:
        if name not in fields:
            faults.add(line, f"--set {name}: no such parameter is declared")
    found: dict[str, Parameter] = {}
    for name, kind in fields.items():
        set_one = _set(name, kind, given.get(name), faults)
        if set_one is not None:
            found[name] = set_one
    return found


def _set(name: str, kind: Marked, given: str | None, faults: Faults) -> Parameter | None:
    if not name.isidentifier():
        faults.add(kind.line, f"parameters: {name!r} is no name: use letters, digits and _")
    elif not isinstance(kind.value, str) or kind.value not in TYPES:
        known = ", ".join(TYPES)
        faults.add(kind.line, f"parameters: {name} needs a type, which is one of {known}")
    elif given is None:
        example = _EXAMPLES[kind.value]
        faults.add(kind.line, f"parameters: {name} is not set; add --set {name}={example}")
    else:
        value = TYPES[kind.value](given)
        if value is not None:
            return Parameter(given, value)
        example = _EXAMPLES[kind.value]
        faults.add(kind.line, f"--set {name}: the value is no {kind.value} such as {example}")
    return None


def substituted(
    node: Marked, parameters: Mapping[str, Parameter], faults: Faults, field: str = ""
) -> Marked:
    """Return a tree with ${name} replaced in every text; `field` is the field that it is in."""
    if isinstance(node.value, str):
        return replace(node, value=_replaced(node.value, parameters, faults, node.line, field))
    if isinstance(node.value, Mapping):
        inside = {
            name: substituted(item, parameters, faults, field if field == "tables" else name)
            for name, item in node.value.items()
        }
        return replace(node, value=inside)
    if isinstance(node.value, Plain):
        return node
    return replace(node, value=tuple(substituted(i, parameters, faults, field) for i in node.items))


def _replaced(
    text: str, parameters: Mapping[str, Parameter], faults: Faults, line: int, field: str
) -> Plain:
    known = {name for escaped, name in _PLACE.findall(text) if not escaped}
    for name in sorted(known - set(parameters)):
        end = nearest(name, parameters) if parameters else "none is declared"
        faults.add(line, f"${{{name}}}: no such parameter; {end}")
    if not known <= set(parameters):
        return text
    if field == QUERY:
        return in_sql(text, parameters, faults, line)
    for name in sorted(known):
        if field in PATHS and not parameters[name].fits_a_path:
            faults.add(line, f"${{{name}}}: the value can't be part of a file's name")
    whole = _PLACE.fullmatch(text)
    if whole is not None and not whole[1]:
        return parameters[whole[2]].value
    return _PLACE.sub(lambda m: m[0][1:] if m[1] else parameters[m[2]].text, text)


def in_sql(query: str, parameters: Mapping[str, Parameter], faults: Faults, line: int) -> str:
    """Return a query in which each ${name} is one literal.

    Each stands for a word of its own: one inside quotes or a comment, where a value could end the
    quotes, is a fault.

    >>> from pathlib import Path
    >>> found = Faults(Path("release.yml"))
    >>> in_sql("... = ${who}", {"who": Parameter("O'Hare", "O'Hare")}, found, 1)
    "... = 'O''Hare'"
    >>> same = in_sql("... = '${who}'", {"who": Parameter("x", "x")}, found, 1)
    >>> found.found
    [(1, '${who} stands inside quotes, a comment or a name: write it bare, as in day = ${who}')]
    """
    stem = "dfprivacy_parameter"
    while stem in query:
        stem += "_"
    words = {f"{stem}_{name}".encode(): parameter for name, parameter in parameters.items()}
    plain = _PLACE.sub(lambda m: m[0][1:] if m[1] else f"{stem}_{m[2]}", query).encode(
        "utf-8", "surrogateescape"
    )
    bare = _bare_words(plain, words)
    for name in parameters:
        word = f"{stem}_{name}".encode()
        if plain.count(word) > sum(own == word for _, own in bare):
            faults.add(
                line,
                f"${{{name}}} stands inside quotes, a comment or a name: write it bare, as in "
                f"day = ${{{name}}}",
            )
            return query
    for start, word in reversed(bare):
        plain = plain[:start] + words[word].sql.encode() + plain[start + len(word) :]
    return plain.decode("utf-8", "surrogateescape")


def _bare_words(plain: bytes, words: Collection[bytes]) -> list[tuple[int, bytes]]:
    """Return the words of a query that stand by themselves for DuckDB, with their places."""
    try:
        tokens = duckdb.tokenize(plain.decode())
    except (duckdb.Error, UnicodeError):
        return []
    names = [start for start, kind in tokens if kind == duckdb.token_type.identifier]
    found = [(start, _BARE.match(plain, start)) for start in names]
    return [(start, word[0]) for start, word in found if word is not None and word[0] in words]
