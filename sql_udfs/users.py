"""dp_users('table'): at most so many rows of each unit, and the table that a statement means by it.

DuckDB runs a table macro over the name in it. The rules of `dfp.sql` know no table functions: they
read the statement with a name in its place that nobody else can write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB

from dfprivacy.engine.quoting import quoted
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.grammar import Parsed
from dfprivacy.statements.names import folded
from dfprivacy.statements.relations import Catalog, Relation
from dfprivacy.unit import Unit

USERS = "dp_users"
_CALLED = [TokenType.FROM, TokenType.L_PAREN, TokenType.STRING, TokenType.R_PAREN]
_HINT = (
    "SELECT dp_count(*) FROM dp_users('visits'); or dfp.sql(..., unit=...), which bounds users by "
    "itself"
)


@dataclass(frozen=True)
class Seen:
    """A catalog that knows what stands in the place of dp_users('table'), and what it was asked.

    `bounded` are names in full by their stand-ins; `names` grows while a statement is read.
    """

    catalog: Catalog
    bounded: Mapping[str, tuple[str, ...]]
    names: set[str] = field(default_factory=set)

    def find(self, parts: tuple[str, ...], near: Relation | None = None) -> Relation:
        """Return the relation of a name or of a stand-in."""
        meant = self.bounded.get(parts[0], parts)
        self.names.add(folded(meant[-1]))
        return self.catalog.find(meant, near)


def users_macro(unit: Unit, rows: int) -> str:
    """Return the statement that makes dp_users: at most so many rows of each unit.

    Which ones follows from the rows' own hashes, so that a unit's rows decide alone which of them
    stay: by hash, then by the hash of their text, where rows that DuckDB takes for equal (a month
    and thirty days) look different. The rows go by a name that no column of theirs has. Rows
    without a unit are left out.
    """
    row = quoted(f"row {uuid4().hex}")
    column = f"{row}.{quoted(str(unit.column))}"
    return (
        f"CREATE OR REPLACE TEMP MACRO {USERS}(relation) AS TABLE "  # noqa: S608 the name is quoted
        f"SELECT {row}.* FROM query_table(relation) AS {row} WHERE {column} IS NOT NULL "
        f"QUALIFY row_number() OVER (PARTITION BY {column} "
        f"ORDER BY hash({row}), hash(CAST({row} AS VARCHAR))) <= {rows}"
    )


def with_stand_in(query: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return a statement with a stand-in for dp_users('table'), and the table that it stands for.

    Raises
    ------
    RefusedStatementError
        When the statement does not read FROM dp_users('table'), once.
    """
    tokens = DuckDB().tokenize(query)
    named = [place for place, token in enumerate(tokens) if folded(token.text) == USERS]
    if len(named) != 1 or not _reads_from(tokens, named[0]):
        raise RefusedStatementError(
            "a unit is declared, and the statement does not read FROM dp_users('table'), once",
            hint=_HINT,
        )
    (place,) = named
    stand_in = f"{USERS} {uuid4().hex}"
    start, stop = tokens[place].start, tokens[place + 3].end + 1
    text = query[:start] + quoted(stand_in) + query[stop:]
    return text, {stand_in: _parts(tokens[place + 2].text)}


def _reads_from(tokens: list[Token], place: int) -> bool:
    around = [*tokens[max(place - 1, 0) : place], *tokens[place + 1 : place + 4]]
    return [token.token_type for token in around] == _CALLED


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a name, as DuckDB's query_table takes it apart."""
    parts = tuple(name.split("."))
    if '"' in name or not all(parts) or len(parts) > 3:
        raise RefusedStatementError(
            f"{USERS}({name!r}): the name of a table is plain words with dots between them",
            hint=_HINT,
        )
    return parts


def check_common_names(parsed: Parsed, bounded: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a CTE of the name in dp_users('table'): DuckDB would read that instead.

    Raises
    ------
    RefusedStatementError
        By the names alone.
    """
    names = {folded(parts[-1]) for parts in bounded.values()}
    if any(folded(common.alias) in names for common in parsed.tree.find_all(exp.CTE)):
        raise RefusedStatementError(
            f"{USERS} over a CTE: users are bounded in a table or view, before anything else",
            hint="WITH c AS (SELECT * FROM dp_users('visits') WHERE x > 1) SELECT dp_count() "
            "FROM c",
        )
