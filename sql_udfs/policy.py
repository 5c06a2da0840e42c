"""The policy of a guarded connection: a statement is vetted and charged before anything is drawn.

Each dp_* call holds a subquery that calls `admit` with the text of the running statement, and with
what names mean to its connection. The first call of a statement reads that text by the rules of
`dfp.sql`, refuses what they refuse, and charges every draw that the text can make; the next ones
pass. Only then is noise drawn. The subquery runs whether or not there are rows or groups.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB

from dfprivacy.accounting.charge import Charge, float_below
from dfprivacy.accounting.loss import Epsilon, delta_of, positive_number
from dfprivacy.accounting.spending import Account, NoAccount
from dfprivacy.errors import MissingDeltaError, RefusedStatementError
from dfprivacy.statements.agreement import check_agreement
from dfprivacy.statements.calls import KEEP, is_dp, read_call
from dfprivacy.statements.catalog import connection_source
from dfprivacy.statements.expressions import call_name
from dfprivacy.statements.grammar import Parsed, parse
from dfprivacy.statements.names import folded
from dfprivacy.statements.reading import read
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.rows import Reader
from dfprivacy.statements.statement import Statement
from dfprivacy.unit import Unit
from sql_udfs.engine_rows import check_engine_rows
from sql_udfs.finalize import constant
from sql_udfs.function import Column, Function
from sql_udfs.macros import Defaults, create_macros
from sql_udfs.namespace import NAMESPACE_SQL, NAMESPACE_TYPES, Namespace, namespace_of
from sql_udfs.users import Seen, check_common_names, users_macro, with_stand_in

_SHOWN = re.compile(
    r'WITH "(?P<s>__duckdb_s0)" AS NOT MATERIALIZED \(\nSELECT \* FROM \(\n(?P<query>.*)\n\) AS '
    r'"(?P<alias>unnamed_relation_[0-9a-f]+)"\n\)\nSELECT \* FROM "(?P=s)" AS "(?P=alias)"'
    r"( LIMIT \d+)?\s*\Z",
    re.DOTALL,
)
"""What DuckDB makes of a relation that it shows: the statement itself, and so many of its rows."""

_ONCE = (
    exp.Alias, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Not, exp.And, exp.Or,
    exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Cast, exp.TryCast, exp.Dot, exp.Ordered,
)  # fmt: skip
_PLAIN = ("round", "abs", "floor", "ceil", "sqrt")
_WRITTEN_OUT = (exp.Literal, exp.Neg, exp.Paren, exp.Array)
_CLAUSES = (exp.Select, exp.Having, exp.Order)
"""What DuckDB evaluates as often as it is written, constants, and where a clause ends."""

_LONGEST_NOTE = 500


@dataclass(frozen=True)
class Running:
    """A statement that runs: its text, its number on its connection, and what names mean there."""

    query: str
    number: int
    connection: int
    namespace: Namespace


@dataclass(frozen=True)
class Guard:
    """What a guarded connection asks of every statement, and the account that pays.

    `catalog` is a connection of its own to the same database: the one that runs the statement is
    busy. `engine` parses. `rows` is how many rows of one unit `dp_users` keeps in all, 1 where a
    row is the unit.
    """

    catalog: duckdb.DuckDBPyConnection
    engine: duckdb.DuckDBPyConnection
    epsilon: float
    unit: Unit | None
    account: Account | NoAccount
    name: str = field(default_factory=lambda: uuid4().hex)
    admitted: dict[int, int] = field(default_factory=dict, compare=False)
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

    @property
    def rows(self) -> int:
        """The number of rows that one unit can have in a statement."""
        return 1 if self.unit is None else self.unit.max_rows * (self.unit.max_groups or 1)

    def admit(self, running: Running) -> None:
        """Vet and charge a running statement, the first time that it asks.

        Raises
        ------
        RefusedStatementError
            For a statement that is not known to be safe.
        BudgetExceededError, LedgerError
            When its charge is not on the disk.
        """
        with self.lock:
            if self.admitted.get(running.connection) == running.number:
                return
            charge = self.charge_of(running)
            self.account.check(charge)
            self.account.pay(charge)
            self.admitted[running.connection] = running.number

    def charge_of(self, running: Running) -> Charge:
        """Return what all draws of a statement cost, once it has been vetted."""
        shown = _SHOWN.match(running.query)
        query = shown["query"] if shown else running.query
        text, bounded = (query, {}) if self.unit is None else with_stand_in(query)
        statement, parsed = self._read(text, bounded, running.namespace)
        if statement.keys and statement.delta is None:
            raise MissingDeltaError(
                "group keys are secret, and showing them needs a delta",
                hint="add HAVING dp_keep(1e-6), or list keys that are public: dfp.sql(..., "
                "keys=[...])",
            )
        check_engine_rows(statement, self.catalog, running.namespace.collation)
        delta = delta_of(statement.delta) or Fraction(0)
        asked = " ".join(query.split())[:_LONGEST_NOTE]
        return Charge(Epsilon(sum(self._draws(parsed), start=Fraction(0))), delta, asked)

    def _read(
        self, text: str, bounded: Mapping[str, tuple[str, ...]], namespace: Namespace
    ) -> tuple[Statement, Parsed]:
        """Return a statement by the rules of `dfp.sql`, its names as the running connection's."""
        namespace.check_macros(self.catalog)
        namespace.enter(self.catalog)
        seen = Seen(connection_source(self.catalog), bounded)
        reader = Reader(seen, lambda parsed: check_agreement(parsed, self.engine))
        parsed = parse(text)
        check_common_names(parsed, bounded)
        statement = read(_with_one_delta(text), reader)
        namespace.check_relations(self.catalog, seen.names)
        return statement, parsed

    def _draws(self, parsed: Parsed) -> Iterator[Fraction]:
        """Yield what each draw in the text costs: the same call written twice draws twice."""
        for node in parsed.tree.find_all(exp.Anonymous):
            if is_dp(node):
                _require_one_draw(node)
                _require_literals(node)
                yield self._own(node)

    def _own(self, node: exp.Expression) -> Fraction:
        default = positive_number("epsilon", self.epsilon)
        if call_name(node) == KEEP:
            given = node.expressions[1:]
            return positive_number("epsilon", float(given[0].name)) if given else default
        call = read_call(node, lambda _: "x", lambda _: "x")
        return default if call.epsilon is None else call.epsilon.value


def _require_literals(node: exp.Expression) -> None:
    """Refuse arithmetic in constants: a charge has to be the number that DuckDB draws with."""
    constants = node.expressions if call_name(node) == KEEP else node.expressions[1:]
    if not all(isinstance(part, _WRITTEN_OUT) for given in constants for part in given.walk()):
        raise Refusal(
            "bounds, quantiles, epsilon or delta that are no plain number",
            "DuckDB calculates with other roundings, and by its settings (integer_division)",
            "write the number out: dp_mean(x, 0, 86400, 0.25)",
        ).error()


def _require_one_draw(node: exp.Expression) -> None:
    """Refuse a dp_ call where DuckDB might evaluate it more often than it is written."""
    around = node.parent
    while around is not None and _evaluated_once(around):
        around = around.parent
    if not isinstance(around, _CLAUSES):
        raise RefusedStatementError(
            "a dp_ call inside an expression that DuckDB may evaluate several times (CASE, IN, "
            "nullif and the like): each time would be another draw",
            hint="keep to + - * /, comparisons, round(...) and CAST around dp_ calls; or use "
            "dfp.sql, which draws first: dfp.sql('SELECT nullif(dp_count(*), 0) FROM t', con=con)",
        )


def _evaluated_once(node: object) -> bool:
    called = isinstance(node, exp.Anonymous) and folded(str(node.this)) in _PLAIN
    return called or isinstance(node, _ONCE)


GUARDS: dict[str, Guard] = {}
"""Every guard by its name, as long as the process lives: DuckDB's functions are shared."""


def _admit(guard: Column, query: Column, ids: Column, *namespace: Column) -> Any:
    """Return how many rows one unit can have, once the running statement has been admitted."""
    asked = GUARDS[guard[0].as_py()]
    number, connection = ids[0].as_py()
    told = namespace_of(*(column[0].as_py() for column in namespace))
    asked.admit(Running(query[0].as_py(), number, connection, told))
    return pa.array([asked.rows] * len(guard))


ADMIT = Function(
    "dfprivacy_admit",
    _admit,
    ("VARCHAR", "VARCHAR", "BIGINT[]", *NAMESPACE_TYPES),
    "BIGINT",
    draws=True,
)
"""It stands in a subquery of its own: that runs once a call, whatever rows and groups there are."""


def _share(epsilon: Column, rows: Column) -> Any:
    """Return the part of an epsilon that one of so many rows may spend."""
    exact = positive_number("epsilon", constant(epsilon)) / int(constant(rows))
    return pa.array([float_below(exact)] * len(epsilon))


SHARE = Function("dfprivacy_share", _share, ("DOUBLE", "BIGINT"), "DOUBLE")

_RUNNING = (
    "system.main.current_query(), [CAST(system.main.current_query_id() AS BIGINT), "
    f"CAST(system.main.current_connection_id() AS BIGINT)], {NAMESPACE_SQL}"
)


def admission(guard: Guard, epsilon: str) -> str:
    """Return the SQL of an epsilon that has to be admitted.

    The admission depends on no row: a statement over an empty table is vetted and charged as any
    other, and nothing is drawn without what it returns.
    """
    admitted = f"(SELECT system.main.{ADMIT.name}('{guard.name}', {_RUNNING}))"
    return f"system.main.{SHARE.name}({epsilon}, {admitted})"


def _with_one_delta(query: str) -> str:
    """Return a statement in which dp_keep(delta, epsilon) is dp_keep(delta), as in `dfp.sql`."""
    tokens = DuckDB().tokenize(query)
    keeps = [place for place, token in enumerate(tokens) if folded(token.text) == KEEP]
    for place in reversed(keeps):
        kinds = [token.token_type for token in tokens[place : place + 6]]
        if kinds[3:] == [TokenType.COMMA, TokenType.NUMBER, TokenType.R_PAREN]:
            query = query[: tokens[place + 3].start] + query[tokens[place + 5].start :]
    return query


def guard(connection: duckdb.DuckDBPyConnection, asked: Guard, level: float) -> None:
    """Give a connection the macros of a guard."""
    GUARDS[asked.name] = asked
    spends = partial(admission, asked)
    create_macros(asked.catalog, Defaults(asked.epsilon, level))  # views that hold dp_ calls bind
    create_macros(connection, Defaults(asked.epsilon, level, spends, asked.rows))
    if asked.unit is not None:
        connection.execute(users_macro(asked.unit, asked.rows))
