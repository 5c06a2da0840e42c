"""Parse a statement with DuckDB, which hands over its syntax tree, and read the tree.

There is no second grammar: rules vet the tree that DuckDB reads. DuckDB hands over queries alone,
so CREATE TABLE ... AS is split off here, word by word.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb

from dfprivacy.engine.files import quoted
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.nodes import Query, read_query, to_json
from dfprivacy.statements.rules import refuse, refuse_part, refused_statement

LONGEST = 2**16
_READ = "SELECT json_serialize_sql(?::VARCHAR)"
_SKIPPED = r"(?:\s|--[^\n]*|/\*.*?\*/)*"
_WORD = re.compile(
    rf'{_SKIPPED}("(?:[^"]|"")*"|(?:[^\W\d]|[^\x00-\x7f])(?:[\w$]|[^\x00-\x7f])*|.|\Z)', re.DOTALL
)
_QUERIES = {"SELECT", "WITH", "FROM", "(", "SHOW", "DESCRIBE", "DESC"}


@dataclass(frozen=True)
class Target:
    """Where released rows go: a fresh table."""

    path: tuple[str, ...]
    replaces: bool = False
    temporary: bool = False

    @property
    def name(self) -> str:
        """The name as the statement wrote it."""
        return ".".join(self.path)


class _Words:
    """The first words of a text, one by one: names, signs, and quoted names with their quotes."""

    def __init__(self, text: str) -> None:
        if "\0" in text:  # DuckDB cuts a text there when it writes a tree as SQL
            raise refuse("NUL")
        self.text, self.place = text, 0

    def next(self) -> str:
        """Take a word; an empty one at the end."""
        match = _WORD.match(self.text, self.place)
        assert match is not None  # noqa: S101 the pattern matches anywhere
        self.place = match.end()
        return match[1]

    def has(self, *words: str) -> bool:
        """Take these words, if they come next."""
        start = self.place
        if all(self.next().upper() == word for word in words):
            return True
        self.place = start
        return False

    def name(self) -> str:
        """Take a name."""
        word = self.next()
        if word.startswith('"') and len(word) > 1:
            return word[1:-1].replace('""', '"')
        if not word[:1].isidentifier() and word[:1].isascii():
            raise self.unread()
        return word

    def path(self) -> tuple[str, ...]:
        """Take a name with its qualifiers."""
        names = [self.name()]
        while self.has("."):
            names.append(self.name())
        if len(names) > 3:
            raise refuse("a name with more than three parts")
        return tuple(names)

    def names(self) -> tuple[str, ...]:
        """Take names in parentheses, if they come next."""
        names_read = [self.name()] if self.has("(") else []
        while names_read and self.has(","):
            names_read.append(self.name())
        if names_read and not self.has(")"):
            raise self.unread()
        return tuple(names_read)

    def unread(self, more: int = 0) -> RefusedStatementError:
        """Return the error for a text that can't be read on from here, or some bytes later."""
        rest = self.text[self.place :].encode("utf-8", "replace")[:more]
        before = self.text[: self.place] + rest.decode("utf-8", "ignore")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        after = self.text[len(before) :].split("\n")[0]
        context = f": {after[:40]}{'...' if after[40:] else ''}" if after.strip() else ""
        return refuse("unreadable", line=line, column=column, near=context)


def split_explain(text: object) -> tuple[object, bool]:
    """Return a text without a leading EXPLAIN, and whether there is one; places stay."""
    words = _Words(text) if isinstance(text, str) else None
    if words is None or not words.has("EXPLAIN"):
        return text, False
    return re.sub(r"\S", " ", words.text[: words.place]) + words.text[words.place :], True


def parse(
    text: object, engine: duckdb.DuckDBPyConnection, *, parameters: bool = False
) -> tuple[Target | None, Query]:
    """Return where the rows of a text's one statement go, and DuckDB's tree of its query."""
    if not isinstance(text, str) or not text.strip():
        raise refuse("no text")
    if len(text) > LONGEST:
        raise refuse("too long a text", most=LONGEST)
    words, target = _Words(text), None
    if words.has("CREATE"):
        replaces = words.has("OR", "REPLACE")
        temporary = words.has("TEMP") or words.has("TEMPORARY")
        if not words.has("TABLE"):
            raise refused_statement(f"create {words.next()}")
        if words.has("IF", "NOT", "EXISTS"):
            raise refuse("IF NOT EXISTS")
        target = Target(words.path(), replaces, temporary)
        if not words.has("AS"):
            raise refuse("CREATE")
    elif words.has("INSERT"):
        raise refuse("INSERT")
    else:
        first = words.next()
        words.place = 0
        if not first:
            raise refuse("no statement")
        if first.upper() not in _QUERIES:
            raise refused_statement(first)
    return target, _query(words, engine, *(["named_param_map"] if parameters else []))


def parse_view(definition: str, engine: duckdb.DuckDBPyConnection) -> Query | None:
    """Return the tree of the query that defines a view; None where it is not said."""
    words = _Words(definition)
    if not words.has("CREATE"):
        return None
    words.has("OR", "REPLACE")
    _ = words.has("TEMP") or words.has("TEMPORARY")
    if not words.has("VIEW"):
        return None
    words.path()
    words.names()
    return _query(words, engine) if words.has("AS") else None


def _query(words: _Words, engine: duckdb.DuckDBPyConnection, *parts: str) -> Query:
    """Return the tree of the one query in what is left of a text; `parts` are what else it has."""
    rest = words.text[words.place :]
    try:
        ((text,),) = engine.execute(_READ, [rest]).fetchall()
        tree = json.loads(text)
    except duckdb.Error:  # text without a UTF-8 form
        raise words.unread() from None
    except RecursionError:
        raise refuse("nested") from None
    if tree["error"]:
        raise _unread(tree, rest, words, engine)
    if not tree["statements"]:
        raise words.unread()
    if len(tree["statements"]) > 1:
        raise refuse("several statements")
    (statement,) = tree["statements"]
    for part in statement:
        if part not in {"node", *parts} and statement[part]:
            raise refuse_part(part)
    try:
        return read_query(statement["node"])
    except RecursionError:
        raise refuse("nested") from None


def _unread(
    tree: dict[str, Any], rest: str, words: _Words, engine: duckdb.DuckDBPyConnection
) -> RefusedStatementError:
    """Return the error for what DuckDB hands no tree over for."""
    problem = str(tree.get("error_message"))
    if "expression depth" in problem:
        return refuse("nested")
    if tree.get("error_type") == "parser":
        position = str(tree.get("position", ""))
        return words.unread(int(position)) if position.isdecimal() else refuse("the statement")
    kinds = [statement.type.name for statement in engine.extract_statements(rest)]
    if len(kinds) > 1:
        return refuse("several statements")
    if kinds == ["MULTI"]:
        return refuse("PIVOT")
    return refuse("INSERT") if kinds == ["INSERT"] else refused_statement(" ".join(kinds))


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z", re.IGNORECASE | re.ASCII)
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def shown(name: str) -> str:
    """Return a name as DuckDB shows it in an expression, quoted where it has to be.

    >>> shown("delay"), shown("Q x")
    ('delay', '"Q x"')
    """
    return name if _PLAIN.match(name) else quoted(name)


@lru_cache(4096)
def folded(name: str) -> str:
    """Return a name in the form in which two spellings of it are one.

    DuckDB takes A for a, and every letter beyond ASCII as it is.

    >>> folded("City") == folded("CITY"), folded("\N{KELVIN SIGN}") == folded("K")
    (True, False)
    """
    return name.translate(_SMALL)


def fresh(name: str, used_names: Iterable[str]) -> str:
    """Return a name that is not among those taken, in any spelling.

    >>> fresh("city", ["City", "city_2"])
    'city_3'
    """
    used = {folded(other) for other in used_names}
    if folded(name) not in used:
        return name
    number = 2
    while folded(f"{name}_{number}") in used:
        number += 1
    return f"{name}_{number}"


def text_of_query(query: Query, engine: duckdb.DuckDBPyConnection) -> str:
    """Return a query as DuckDB writes it, from its tree."""
    statement = {"node": to_json(query), "named_param_map": []}
    tree = json.dumps({"error": False, "statements": [statement]})
    try:
        ((text,),) = engine.execute("SELECT json_deserialize_sql(?::JSON)", [tree]).fetchall()
    except duckdb.Error:
        raise refuse("the statement") from None
    return str(text)
