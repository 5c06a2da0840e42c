"""From text to one syntax tree; functions keep the names that the caller gave them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.refusals import refused_statement

LONGEST = 2**16
_QUERIES = {TokenType.SELECT, TokenType.WITH, TokenType.FROM}
_STATEMENTS = {*_QUERIES, TokenType.CREATE, TokenType.INSERT}
_CREATED = {"TABLE", "VIEW"}  # a view for its definition in the catalog
_BEFORE_TABLE = {"OR", "REPLACE", "TEMP", "TEMPORARY"}
_RUNS = "SELECT city, dp_mean(income, 0, 200000) FROM people GROUP BY city"


@dataclass(frozen=True)
class Parsed:
    """A statement's syntax tree, and the text of the query in it, from SELECT, WITH or ( on."""

    tree: exp.Expression
    query: str


def parse(text: object) -> Parsed:
    """Return the one statement of a text.

    A comment on every closing parenthesis makes sqlglot keep a call as it is written, under its
    own name and with its arguments in their own order, instead of a node of another dialect.

    Raises
    ------
    RefusedStatementError
        When the text is no statement, several, too long, or not in DuckDB's grammar as sqlglot
        knows it.
    """
    if not isinstance(text, str) or not text.strip():
        raise RefusedStatementError("a query is a text with one SQL statement", hint=_RUNS)
    if len(text) > LONGEST:
        raise RefusedStatementError(
            f"the statement is longer than {LONGEST} characters", hint="ask for less at a time"
        )
    trees, tokens = _trees(text)
    if not trees:
        raise RefusedStatementError("there is no statement in the text", hint=_RUNS)
    if len(trees) > 1:
        raise RefusedStatementError(
            "several statements in one text: one of them could not be charged for",
            hint=f"call dfp.sql once for each, e.g. with {_RUNS}",
        )
    return Parsed(trees[0], text[_start(tokens) :].rstrip().rstrip(";"))


def too_deep() -> RefusedStatementError:
    """Return the error for a statement that is nested deeper than can be followed."""
    return RefusedStatementError(
        "the statement is nested too deeply", hint="split long chains of conditions and operators"
    )


def _start(tokens: list[Token]) -> int:
    """Return where the query begins: at its first word, or at the parentheses around it."""
    place = next((p for p, t in enumerate(tokens) if t.token_type in _QUERIES), 0)
    while place > 0 and tokens[place - 1].token_type is TokenType.L_PAREN:
        place -= 1
    return tokens[place].start


def _trees(text: str) -> tuple[list[exp.Expression], list[Token]]:
    dialect = DuckDB()
    try:
        tokens = dialect.tokenize(text)
        _check_kind(tokens)
        for token in tokens:
            if token.token_type is TokenType.R_PAREN:
                token.comments = [exp.SQLGLOT_ANONYMOUS]
        found = dialect.parser().parse(tokens, text)
    except SqlglotError as error:
        problem = error
    except RecursionError:
        raise too_deep() from None
    else:
        return [tree for tree in found if isinstance(tree, exp.Expression)], tokens
    raise RefusedStatementError(f"the statement can't be read{_place(problem)}", hint=_RUNS)


def _check_kind(tokens: list[Token]) -> None:
    """Refuse other statements by their first words: sqlglot would log some, and read others."""
    first = tokens[0] if tokens else None
    if first is None or first.token_type in _QUERIES:
        return
    if first.token_type not in _STATEMENTS:
        raise refused_statement(first.text)
    words = [token.text for token in tokens[1:6] if token.text.upper() not in _BEFORE_TABLE]
    if first.token_type is TokenType.CREATE and (not words or words[0].upper() not in _CREATED):
        raise refused_statement(" ".join([first.text, *words[:1]]))


def _place(error: SqlglotError) -> str:
    """Return where a parser stopped, where it says so."""
    found = getattr(error, "errors", None) or [{}]
    line, column = found[0].get("line"), found[0].get("col")
    return "" if line is None else f" at line {line}, column {column}"
