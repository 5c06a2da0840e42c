"""The dp_* macros: the engine's own aggregates, handed to a function that adds noise.

With bounds these are sums of grid integers; without, the values themselves, as lists.

A macro pastes its arguments as text, x several times. It works on any aggregate query that
DuckDB can plan; it can't see where the rows come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from sql_udfs.checks import CHECKS, GRID
from sql_udfs.finalize import finalizer
from sql_udfs.settings import MOMENTS, moments_of
from sql_udfs.unbounded import list_finalizer

Forms = dict[str, str]
"""What a macro does, by its parameters."""


@dataclass(frozen=True)
class Defaults:
    """What a connection's macros hold: epsilon, the level of intervals, and a guard if any.

    `rows` is how many rows one unit can have, which the threshold of dp_keep depends on.
    """

    epsilon: float
    level: float
    spends: Callable[[str], str] = str
    rows: int = 1


def create_macros(connection: duckdb.DuckDBPyConnection, defaults: Defaults) -> None:
    """Create or replace every macro, with the connection's defaults in them.

    DuckDB binds a macro once when it is created, where parameters are no constants yet. The
    checks, which insist on constants, are covered by stand-ins for that moment.
    """
    try:
        for check in CHECKS:
            parameters = ", ".join(f"argument_{index}" for index in range(len(check.parameters)))
            connection.execute(
                f"CREATE OR REPLACE TEMP MACRO {check.name}({parameters}) AS 'checked'"
            )
        for name, forms in _macros(defaults).items():
            overloads = ", ".join(f"({parameters}) AS {body}" for parameters, body in forms.items())
            connection.execute(f"CREATE OR REPLACE TEMP MACRO {name} {overloads}")
    finally:
        for check in CHECKS:
            connection.execute(f"DROP MACRO IF EXISTS temp.main.{check.name}")


def _macros(defaults: Defaults) -> dict[str, Forms]:
    macros = {
        "dp_keep": _keep_forms(defaults),
        "dp_bounds": _unbounded_forms("dp_bounds", defaults),
        "dp_median": _median_forms(defaults),
        "dp_quantile": _quantile_forms("dp_quantile", "q", "DOUBLE", defaults),
        "dp_quantiles": _quantile_forms("dp_quantiles", "qs", "DOUBLE[]", defaults),
    }
    for suffix, last in (("", ""), ("_interval", f", {_number(defaults.level)}")):
        macros[f"dp_count{suffix}"] = _count_forms(f"dp_count{suffix}", defaults, last)
        for function in MOMENTS:
            macro = f"{function}{suffix}"
            macros[macro] = {
                **_unbounded_forms(macro, defaults, last),
                **_bounded_forms(function, macro, defaults, last),
            }
    return macros


def _number(value: float) -> str:
    """Return a float as SQL that reads back the same bits."""
    return f"CAST('{value!r}' AS DOUBLE)"


def _real(argument: str) -> str:
    return f"TRY_CAST({argument} AS DOUBLE)"


def _typed(*arguments: str) -> str:
    return ", ".join(f"typeof({argument}), {_real(argument)}" for argument in arguments)


def _checked(value: str, check: str) -> str:
    """Return `value`, once the check has passed.

    DuckDB reads the name of a struct's field while it binds: the check runs then, whatever the
    rows, and an argument that is not a constant is refused. The optimiser leaves the value alone.
    """
    return f"struct_extract({{'checked': {value}}}, {check})"


def _bounded_forms(function: str, macro: str, defaults: Defaults, last: str) -> Forms:
    epsilon = _number(defaults.epsilon)

    def body(chosen: str) -> str:
        constants = f"{_real('lo')}, {_real('hi')}, {defaults.spends(_real(chosen))}"
        return f"{finalizer(macro)}({_bounded_sums(function, chosen)}, {constants}{last})"

    return {"x, lo, hi": body(epsilon), "x, lo, hi, epsilon": body("epsilon")}


def _unbounded_forms(macro: str, defaults: Defaults, last: str = "") -> Forms:
    epsilon = _number(defaults.epsilon)

    def body(chosen: str) -> str:
        values, spent = _unbounded_list(macro, chosen), defaults.spends(_real(chosen))
        return f"{list_finalizer(macro)}({values}, {spent}{last})"

    return {"x": body(epsilon), "x, epsilon": body("epsilon")}


def _unbounded_list(macro: str, chosen: str) -> str:
    check = f"dfprivacy_check_unbounded('{macro}', typeof(x), {_typed(chosen)})"
    return f"list({_checked(_real('x'), check)})"


def _median_forms(defaults: Defaults) -> Forms:
    epsilon = _number(defaults.epsilon)

    def body(chosen: str) -> str:
        values, spent = _unbounded_list("dp_median", chosen), defaults.spends(_real(chosen))
        return f"{list_finalizer('dp_quantile')}({values}, {_number(0.5)}, {spent})"

    return {"x": body(epsilon), "x, epsilon": body("epsilon")}


def _quantile_forms(macro: str, level: str, sql_type: str, defaults: Defaults) -> Forms:
    epsilon = _number(defaults.epsilon)

    def body(chosen: str) -> str:
        value = f"TRY_CAST({level} AS {sql_type})"
        given = f"typeof(x), typeof({level}), {value}, {_typed(chosen)}"
        check = f"dfprivacy_check_{macro.removeprefix('dp_')}('{macro}', {given})"
        values = f"list({_checked(_real('x'), check)})"
        return f"{list_finalizer(macro)}({values}, {value}, {defaults.spends(_real(chosen))})"

    return {f"x, {level}": body(epsilon), f"x, {level}, epsilon": body("epsilon")}


def _is_number(x: str) -> str:
    """Tell a number from NaN: see `dfprivacy.engine.grid.is_number`."""
    return f"(isfinite({x}) OR isfinite(CAST(1 AS DOUBLE) / {x}))"


def _bounded_sums(function: str, epsilon: str) -> str:
    q = _grid_integer(function, epsilon)
    sums = [f"count({q})", f"TRY_CAST(sum({q}) AS BIGINT)"]
    if moments_of(function) == 2:
        sums.append(f"TRY_CAST(sum(({q}) * ({q}) // {_part(function, 'last')}) AS BIGINT)")
    return ", ".join(sums)


def _grid_integer(function: str, epsilon: str) -> str:
    """Return a row's integer: the bits of `dfprivacy.engine.grid`, which has the reasons."""
    x, lo, hi = _real("x"), _real("lo"), _real("hi")
    check = f"dfprivacy_check_bounded('{function}', typeof(x), {_typed('lo', 'hi', epsilon)})"
    inverse = _checked(_grid(function, "inverse_step"), check)
    scaled = f"floor(({x} - {_grid(function, 'origin')}) * {inverse})"
    return (
        f"CASE WHEN isfinite({x}) AND {x} >= {lo} AND {x} <= {hi} "
        f"THEN TRY_CAST({scaled} AS BIGINT) "
        f"WHEN {x} < {lo} AND {_is_number(x)} THEN {_part(function, 'first')} "
        f"WHEN {x} > {hi} AND {_is_number(x)} THEN {_part(function, 'last')} END"
    )


def _grid(function: str, part: str) -> str:
    return f"{GRID.name}('{function}', '{part}', {_real('lo')}, {_real('hi')})"


def _part(function: str, part: str) -> str:
    return f"CAST({_grid(function, part)} AS BIGINT)"


_VALUES = (
    "count(CASE WHEN x IS NOT NULL AND (typeof(x) NOT IN ('FLOAT', 'DOUBLE') "
    f"OR {_is_number(_real('x'))}) THEN 1 END)"
)


def _count_forms(macro: str, defaults: Defaults, last: str) -> Forms:
    epsilon = _number(defaults.epsilon)

    def body(rows: str, chosen: str) -> str:
        check = f"dfprivacy_check_epsilon({_typed(chosen)})"
        spent = defaults.spends(_checked(_real(chosen), check))
        return f"{finalizer(macro)}({rows}, {spent}{last})"

    return {
        "": body("count(*)", epsilon),
        "x": body(_VALUES, epsilon),
        "x, epsilon": body(_VALUES, "epsilon"),
    }


def _keep_forms(defaults: Defaults) -> Forms:
    epsilon = _number(defaults.epsilon)

    def body(chosen: str) -> str:
        check = f"dfprivacy_check_keep({_typed('delta', chosen)})"
        delta, spent = _checked(_real("delta"), check), defaults.spends(_real(chosen))
        return f"{finalizer('dp_keep')}(count(*), {delta}, {spent}, {defaults.rows})"

    return {"delta": body(epsilon), "delta, epsilon": body("epsilon")}
