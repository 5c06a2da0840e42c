"""Give DuckDB private aggregates: `SELECT city, dp_mean(income, 0, 200000) FROM t GROUP BY city`.

`register(connection)` gives a DuckDB connection these functions:

    dp_count()                       rows; dp_count(*) is the same                   BIGINT
    dp_count(x [, epsilon])          values of x that are neither NULL nor NaN       BIGINT
    dp_nunique(x [, epsilon])        different values of x                           BIGINT
    dp_share(p [, epsilon])          share of the values of a boolean that are true DOUBLE
    dp_sum(x [, epsilon])            sum of x, within bounds that it finds           DOUBLE
    dp_sum(x, lo, hi [, epsilon])    sum of x, each value clipped to [lo, hi]        DOUBLE
    dp_mean(...)                     mean, either way; dp_avg is the same            DOUBLE
    dp_var(...)                      population variance                             DOUBLE
    dp_stddev(...)                   its root; dp_std is the same                    DOUBLE
    dp_cov(x, y, x_lo, x_hi, y_lo, y_hi [, epsilon])  population covariance           DOUBLE
    dp_corr(...)                     correlation, likewise; dp_covar_pop is dp_cov   DOUBLE
    dp_ratio(...)                    the sum of x over the sum of y, likewise         DOUBLE
    dp_slope(y, x, y_lo, y_hi, x_lo, x_hi [, epsilon])  least squares; dp_regr_slope  DOUBLE
    dp_intercept(...), dp_r_squared(...)  likewise; dp_regr_intercept, dp_regr_r2    DOUBLE
    dp_median(x [, lo, hi] [, epsilon])  median                                      DOUBLE
    dp_quantile(x, q [, lo, hi] [, epsilon])  what q of the rows do not exceed      DOUBLE
    dp_quantiles(x, qs [, lo, hi] [, epsilon])  several, for a list of numbers      DOUBLE[]
    dp_min(x [, epsilon])            a value that few rows lie below                 DOUBLE
    dp_max(x [, epsilon])            a value that few rows lie above                 DOUBLE
    dp_center(x, p [, lo, hi] [, epsilon])  the c with the least sum of |x - c|^p    DOUBLE
    dp_bounds(x [, epsilon])         powers of two around nearly all values          STRUCT
    dp_keep(delta [, epsilon])       for HAVING: is the group large enough to show?  BOOLEAN
    dp_epsilon()                     what a call spends that names no epsilon        DOUBLE

and `dp_count_interval`, `dp_sum_interval`, ... with the same arguments, which return
STRUCT(value, low, high) from one draw; quantiles and bounds have none. `lo`, `hi`, `q`, `qs`,
`epsilon` and `delta` are constants.

Privacy: neighbors differ by one row, added or removed. Every call of a function draws its own
noise and spends its own epsilon, and the costs of a query add up; dp_keep spends an epsilon too,
and its delta. What the functions protect, and what they do not, is in docs/how-to/sql.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import duckdb

from dfprivacy.accounting.charge import float_below
from dfprivacy.accounting.loss import positive_number
from dfprivacy.engine.connections import disable_cast_pushdown
from dfprivacy.engine.terms import (
    GridText,
    duckdb_above,
    duckdb_double,
    duckdb_number,
    duckdb_on_grid,
)
from dfprivacy.errors import EngineError, UnknownArgumentError
from dfprivacy.errors import close as _close
from dfprivacy.measurement.linear import (
    WHOLE,
    Above,
    Distinct,
    Equal,
    OnGrid,
    Product,
    Source,
    Term,
)
from dfprivacy.release.terms import interval_level
from dfprivacy.statements.calls import MOST_POSITIONAL_EPSILON
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.forms import Form, functions, list_forms
from sql_udfs.python_functions import (
    CHECK,
    CONSTANT,
    finalizer,
    finalizers,
    is_ranked,
    is_summed,
    part_for,
)

__all__ = ["register"]

_OF_STATEMENTS = (
    "ledger",
    "dataset",
    "note",
    "version",
    "unit",
    "max_rows",
    "max_groups",
    "delta",
    "keys",
)


def register(
    connection: duckdb.DuckDBPyConnection,
    *,
    epsilon: float = 1.0,
    interval: float = 0.95,
    max_epsilon: float | None = None,
    **others: object,
) -> None:
    """Give a DuckDB connection the dp_* functions, or give it new defaults.

    The functions see neither the statement around them nor a ledger: `dfp.sql(..., con=con)` checks
    a statement, charges a ledger and protects units. Here each call pays by itself.

    DuckDB's optimizer `type_pushdown` is switched off for the database: it moves TRY_CAST into the
    CSV reader, which fails on a cell that is no number and quotes its line.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The functions are temporary and belong to this connection; a `cursor()` of it needs its
        own call. Call it outside a transaction: a rollback would take the functions with it.
    epsilon : float
        What a call spends that names no epsilon of its own; kept as a float, rounded down.
    interval : float
        The level of the intervals that dp_*_interval returns.
    max_epsilon : float
        The largest epsilon that a call may name, 20 (or `epsilon` if that is larger) if left out. A
        function can't tell an epsilon from a bound: dp_mean(x, 240) would spend 240.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    InvalidQuestionError
        When the level does not lie between 0 and 1.
    UnknownArgumentError
        For `ledger`, `unit` and any other argument.
    EngineError
        When the configuration of the connection is locked.

    Notes
    -----
    Each dp_* call is epsilon-differentially private for adding or removing one row, on its own;
    several calls add up. The noise is the exact discrete Laplace noise of the frame API, added to
    the same integers; quantiles are selected as there. Functions without bounds keep the values
    of all groups in memory while they run, 8 bytes each; others with bounds keep sums only. Of
    large tables `dfp.sql(..., con=con)` answers without bounds in a fraction of the time, since it
    needs no lists.

    Examples
    --------
    >>> import duckdb, sql_udfs
    >>> connection = duckdb.connect()
    >>> sql_udfs.register(connection, epsilon=0.5)
    >>> query = "SELECT dp_mean(range, 0, 1000) FROM range(1000)"
    >>> 300 < connection.execute(query).fetchone()[0] < 700
    True
    >>> query = "SELECT dp_mean(range), dp_median(range) FROM range(10000)"
    >>> all(4000 < answer < 6000 for answer in connection.execute(query).fetchone())
    True
    """
    default = float_below(positive_number("epsilon", epsilon))
    limit = max(default, float(MOST_POSITIONAL_EPSILON))
    if max_epsilon is not None:
        limit = float_below(positive_number("max_epsilon", max_epsilon))
    level = interval_level(interval)
    if others:
        raise _unknown(next(iter(others)))
    try:
        disable_cast_pushdown(lambda sql: connection.execute(sql).fetchall())
    except duckdb.InvalidInputException:
        raise EngineError(
            "the configuration of this connection is locked, and DuckDB moves casts into its CSV "
            "reader, which quotes a line when it fails",
            hint="register the functions before SET lock_configuration = true",
        ) from None
    for function in (CHECK, CONSTANT, *finalizers()):
        function.create(connection)
    texts = {"epsilon": default, "level": level, "max_epsilon": limit}
    numbers = {name: duckdb_double(number) for name, number in texts.items()}
    defaults = Defaults(**numbers, adder=_find_adder(connection))
    create_macros(connection, defaults)
    connection.execute(f"CREATE OR REPLACE TEMP MACRO dp_epsilon() AS {defaults.epsilon}")


def _find_adder(connection: duckdb.DuckDBPyConnection) -> str:
    """Name what adds up integers: in 64 bits, where DuckDB lets others than itself do so.

    Integers of fewer than 2**33 rows fit.
    """
    try:
        connection.execute("SELECT sum_no_overflow(0)")
    except duckdb.Error:
        return "sum"
    return "sum_no_overflow"


def _unknown(name: str) -> UnknownArgumentError:
    """Return the error for an argument that only `dfp.sql` takes, or nobody."""
    if name in _OF_STATEMENTS:
        return UnknownArgumentError(
            f"register takes no {name}: a function in SQL can't see the statement that calls it",
            hint="dfp.sql('SELECT dp_count(*) FROM flights', con=con, ledger=ledger, "
            "dataset='flights') checks the whole statement and charges it; unit= and max_rows= "
            "protect users there",
        )
    return UnknownArgumentError(
        f"register takes no {name!r}",
        hint="sql_udfs.register(con, epsilon=1.0, interval=0.95, max_epsilon=20)",
    )


@dataclass(frozen=True)
class Defaults:
    """SQL of what macros hold: the epsilon of a call that names none, a level, and a limit.

    The `adder` is the aggregate that adds up integers.
    """

    epsilon: str
    level: str
    max_epsilon: str
    adder: str


_ROW = "dfprivacy_on_grid(x, call, numbers, path, checked_path)"
"""The macro of a row's integer on a grid. Its numbers are found by the paths."""
_CHECKED = "dfprivacy_checked(value, call, about, types, numbers)"
"""The macro that returns a value once the check of a call has passed."""


def create_macros(connection: duckdb.DuckDBPyConnection, defaults: Defaults) -> None:
    """Create or replace every macro, with the connection's defaults in them.

    DuckDB binds a macro with all that it calls when it is created. What takes long is a stand-in
    for that moment, and so is the check, which insists on constants: parameters are none.
    """

    def create(name: str, overloads: str) -> None:
        overloads = _OF_DUCKDB.sub(r"system.main.\1(", overloads)
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {name} {overloads}")

    create(_ROW, "AS 0")
    create(_CHECKED, "AS value")
    try:
        for name, forms in _macros(defaults, tuple(functions().items())).items():
            create(name, ", ".join(f"({parameters}) AS {body}" for parameters, body in forms))
    finally:  # no stand-in stays, whatever has failed
        paths = {"origin": "path", "inverse_step": "checked_path", "first": "path", "last": "path"}
        numbers = (_number("call, numbers", f"{path} || '.grid.{n}'") for n, path in paths.items())
        grid = duckdb_on_grid(_real("x"), GridText(*numbers))
        create(_ROW, f"AS TRY_CAST({grid} AS INTEGER)")
        create(CHECK.name, "(call, about, types, numbers) AS 'checked'")
        # DuckDB reads the name of a struct's field while it binds: the check runs then, whatever
        # the rows, and refuses what is no constant. The optimizer leaves the value alone.
        check = f"{CHECK.name}(call, about, types, numbers)"
        try:
            create(_CHECKED, f"AS struct_extract({{'checked': value}}, {check})")
        finally:
            connection.execute(f"DROP MACRO IF EXISTS temp.main.{CHECK.name}")


_OF_DUCKDB = re.compile(
    r"(?<![\w.])(abs|atan|bool_or|count|floor|isfinite|list|sign|sum|sum_no_overflow|typeof)\("
)
"""Functions that macros call, which go by their schema: a macro of the caller may hide them."""


@lru_cache(maxsize=4)  # a large text, which the next connection may want again
def _macros(
    defaults: Defaults, statistics: tuple[tuple[str, type[Statistic]], ...]
) -> dict[str, list[tuple[str, str]]]:
    """Return every macro of the statistics that are registered: parameters and body by overload."""
    values = f"[[{_real('delta')}], [{_real('epsilon')}], [{defaults.max_epsilon}]]"
    types = "CAST([] AS VARCHAR[]), [typeof(delta), typeof(epsilon), 'DOUBLE']"
    delta = _add_check(_real("delta"), f"'dp_keep', {types}, {values}")
    body = _by_group(f"dfprivacy_keep(count(*), {delta}, {_real('epsilon')})")
    macros = {"dp_keep": [(f"delta, epsilon := {defaults.epsilon}", body)]}
    for name, statistic in statistics:
        for suffix in ("", "_interval") if statistic.has_interval else ("",):
            macros[f"{name}{suffix}"] = [
                _write_overload(name, form, suffix, defaults) for form in list_forms(statistic)
            ]
    return macros


def _write_overload(name: str, form: Form, suffix: str, defaults: Defaults) -> tuple[str, str]:
    """Return the parameters of a form and its body. Epsilon comes last, and has a default."""
    constants = [_constant(form, constant) for constant in form.constants]
    if form.about_rows:
        parameters, epsilon, loss = "", defaults.epsilon, defaults.epsilon
    else:
        default = f"epsilon := {defaults.epsilon}"
        parameters = ", ".join([*form.columns, *form.constants, default])
        epsilon, loss = "epsilon", _real("epsilon")
    check = _write_check(f"{name}{suffix}", form, epsilon, defaults.max_epsilon)
    part = part_for(form, suffix)
    if is_summed(form):
        measured = _sums(name, form, part.vectors.linears[0].source, check, defaults.adder)
        if not part.columns:
            loss = _add_check(_real(epsilon), check)
    else:
        measured = [f"list({_add_check(_real('x'), check)})"]
        if is_ranked(form):
            measured.append(f"bool_or({_WHOLE})")
    arguments = [*measured, *constants, loss, *([defaults.level] if suffix else [])]
    return parameters, _by_group(f"{finalizer(form, suffix)}({', '.join(arguments)})")


def _by_group(answer: str) -> str:
    """Return an answer with an aggregate beside it: DuckDB refuses OVER for macros of two.

    Of one that it runs over a window, each row would have a noise of its own.
    """
    return f"CASE WHEN count(*) IS NOT NULL THEN {answer} END"


_WHOLE = "typeof(x) = 'BOOLEAN' OR typeof(x) LIKE '%INT' OR typeof(x) LIKE '%INTEGER'"
"""True for numbers that are declared integers: then their quantiles are integers too."""


def _real(argument: str) -> str:
    return f"TRY_CAST({argument} AS DOUBLE)"


def _constant(form: Form, name: str) -> str:
    return f"TRY_CAST({name} AS DOUBLE[])" if form.is_list(name) else _real(name)


def _add_check(value: str, check: str) -> str:
    """Return `value`, once the check, if any, has passed."""
    return f"dfprivacy_checked({value}, {check})" if check else value


def _write_check(name: str, form: Form, epsilon: str, limit: str) -> str:
    """Write the arguments of a check: the types as written, and the values as lists of numbers.

    The last of them is the `limit` of epsilon.
    """
    arguments = [*form.constants, epsilon]
    about = ", ".join(f"typeof({column})" for column in form.columns)
    types = ", ".join([*(f"typeof({argument})" for argument in arguments), "'DOUBLE'"])
    values = ", ".join([*_list_values(form, arguments), f"[{limit}]"])
    return f"'{name}', CAST([{about}] AS VARCHAR[]), [{types}], [{values}]"


def _list_values(form: Form, arguments: Sequence[str]) -> list[str]:
    """Write each constant as a list of numbers, which some are already."""
    values = [(_constant(form, argument), form.is_list(argument)) for argument in arguments]
    return [value if is_list else f"[{value}]" for value, is_list in values]


def _sums(name: str, form: Form, source: Source, check: str, adder: str) -> list[str]:
    """Return the sums that a linear statistic needs: the rows first."""
    terms = source.terms
    if not source.columns:
        return ["count(*)"]
    if not terms or isinstance(terms[0], Distinct):
        value = _real("x")
        there = (
            f"x IS NOT NULL AND (typeof(x) NOT IN ('FLOAT', 'DOUBLE') OR {duckdb_number(value)})"
        )
        rows = f"count(CASE WHEN {_add_check(there, check)} THEN 1 END)"
        return [rows, *(f"count(DISTINCT CASE WHEN {there} THEN x END)" for _ in source.categories)]
    arguments = f"'{name}', [{', '.join(_list_values(form, form.constants))}]"

    def write_row(index: int, check: str = "") -> _Term:
        """Write a row's integer where the columns that its term does not read hold a value, too."""
        row = _term(terms[index], f"{index}", arguments, check)
        others = [_real(column) for column in form.columns if column not in terms[index].columns]
        condition = " AND ".join(map(duckdb_number, others))
        return row._replace(row=f"CASE WHEN {condition} THEN {row.row} END") if others else row

    sums = [write_row(index).total(adder) for index in range(len(terms))]
    checked = write_row(0, check).row  # the same to DuckDB, and checked once
    return [f"count({checked})", *(f"TRY_CAST({total} AS BIGINT)" for total in sums)]


class _Term(NamedTuple):
    """The integer that a row adds, or twice the integer less the `ends` of its grid.

    With a `weight` it is a condition, and adds the weight where it holds.
    """

    row: str
    ends: str | None = None
    weight: int | None = None

    @property
    def integer(self) -> str:
        """The integer itself, as BIGINT."""
        if self.weight is not None:
            return f"(CAST({self.row} AS BIGINT) * {self.weight})"
        return (
            self.row if self.ends is None else f"(({self.row} + CAST({self.ends} AS BIGINT)) // 2)"
        )

    def total(self, adder: str) -> str:
        """Return the sum of what rows add, doubled or not."""
        return f"{adder}({self.row})" if self.weight is None else f"sum({self.row}) * {self.weight}"


def _term(term: Term, path: str, arguments: str, check: str = "") -> _Term:
    """Return a row's integer; `path` leads to its numbers once constants are known."""

    def number(attribute: str) -> str:
        return _number(arguments, f"'{path}.{attribute}'")

    if isinstance(term, Product):
        left = _term(term.left, f"{path}.left", arguments, check).integer
        right = _term(term.right, f"{path}.right", arguments).integer
        return _Term(f"(({left}) * ({right}) // CAST({number('divisor')} AS BIGINT))")
    if isinstance(term, Equal):  # the check has seen that x is a boolean
        return _Term(f"CASE WHEN {_add_check('x', check)} THEN {WHOLE} WHEN NOT x THEN 0 END")
    if isinstance(term, Above):
        return _Term(
            duckdb_above(_real(str(term.column)), _add_check(number("threshold"), check)),
            weight=term.weight,
        )
    assert isinstance(term, OnGrid)  # noqa: S101 there are no other terms
    written = f"'{path}'"
    row = f"dfprivacy_on_grid({term.column}, {arguments}, {written}, {_add_check(written, check)})"
    return _Term(row, f"({number('grid.first')} + {number('grid.last')})")


def _number(arguments: str, path: str) -> str:
    """Return SQL of a number of the terms of a call, at a path from its arguments."""
    return f"{CONSTANT.name}({arguments}, {path})"


_close(globals())
