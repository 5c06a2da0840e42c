"""The dp_* macros: the engine's own aggregates, handed to a function that adds noise.

With bounds these are sums of grid integers; without, the values themselves, as lists.

A macro pastes its arguments as text, x several times. It works on any aggregate query that
DuckDB can plan; it can't see where the rows come from.
"""

from __future__ import annotations

import duckdb

from sql_udfs.checks import CHECKS, GRID
from sql_udfs.finalize import finalizer
from sql_udfs.settings import MOMENTS, moments_of
from sql_udfs.unbounded import list_finalizer

Forms = dict[str, str]
"""What a macro does, by its parameters."""


def create_macros(connection: duckdb.DuckDBPyConnection, epsilon: float, level: float) -> None:
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
        for name, forms in _macros(epsilon, level).items():
            overloads = ", ".join(f"({parameters}) AS {body}" for parameters, body in forms.items())
            connection.execute(f"CREATE OR REPLACE TEMP MACRO {name} {overloads}")
    finally:
        for check in CHECKS:
            connection.execute(f"DROP MACRO IF EXISTS temp.main.{check.name}")


def _macros(epsilon: float, level: float) -> dict[str, Forms]:
    default = _number(epsilon)
    macros = {
        "dp_keep": _keep_forms(default),
        "dp_bounds": _unbounded_forms("dp_bounds", default),
        "dp_median": _median_forms(default),
        "dp_quantile": _quantile_forms("dp_quantile", "q", "DOUBLE", default),
        "dp_quantiles": _quantile_forms("dp_quantiles", "qs", "DOUBLE[]", default),
    }
    for suffix, last in (("", ""), ("_interval", f", {_number(level)}")):
        macros[f"dp_count{suffix}"] = _count_forms(f"dp_count{suffix}", default, last)
        for function in MOMENTS:
            macro = f"{function}{suffix}"
            macros[macro] = {
                **_unbounded_forms(macro, default, last),
                **_bounded_forms(function, macro, default, last),
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


def _bounded_forms(function: str, macro: str, epsilon: str, last: str) -> Forms:
    def body(chosen: str) -> str:
        constants = f"{_real('lo')}, {_real('hi')}, {_real(chosen)}"
        return f"{finalizer(macro)}({_bounded_sums(function, chosen)}, {constants}{last})"

    return {"x, lo, hi": body(epsilon), "x, lo, hi, epsilon": body("epsilon")}


def _unbounded_forms(macro: str, epsilon: str, last: str = "") -> Forms:
    def body(chosen: str) -> str:
        return f"{list_finalizer(macro)}({_unbounded_list(macro, chosen)}, {_real(chosen)}{last})"

    return {"x": body(epsilon), "x, epsilon": body("epsilon")}


def _unbounded_list(macro: str, chosen: str) -> str:
    check = f"dfprivacy_check_unbounded('{macro}', typeof(x), {_typed(chosen)})"
    return f"list({_checked(_real('x'), check)})"


def _median_forms(epsilon: str) -> Forms:
    def body(chosen: str) -> str:
        values = _unbounded_list("dp_median", chosen)
        return f"{list_finalizer('dp_quantile')}({values}, {_number(0.5)}, {_real(chosen)})"

    return {"x": body(epsilon), "x, epsilon": body("epsilon")}


def _quantile_forms(macro: str, level: str, sql_type: str, epsilon: str) -> Forms:
    def body(chosen: str) -> str:
        value = f"TRY_CAST({level} AS {sql_type})"
        given = f"typeof(x), typeof({level}), {value}, {_typed(chosen)}"
        check = f"dfprivacy_check_{macro.removeprefix('dp_')}('{macro}', {given})"
        values = f"list({_checked(_real('x'), check)})"
        return f"{list_finalizer(macro)}({values}, {value}, {_real(chosen)})"

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


def _count_forms(macro: str, epsilon: str, last: str) -> Forms:
    def body(rows: str, chosen: str) -> str:
        check = f"dfprivacy_check_epsilon({_typed(chosen)})"
        return f"{finalizer(macro)}({rows}, {_checked(_real(chosen), check)}{last})"

    return {
        "": body("count(*)", epsilon),
        "x": body(_VALUES, epsilon),
        "x, epsilon": body(_VALUES, "epsilon"),
    }


def _keep_forms(epsilon: str) -> Forms:
    def body(chosen: str) -> str:
        check = f"dfprivacy_check_keep({_typed('delta', chosen)})"
        delta = _checked(_real("delta"), check)
        return f"{finalizer('dp_keep')}(count(*), {delta}, {_real(chosen)})"

    return {"delta": body(epsilon), "delta, epsilon": body("epsilon")}
