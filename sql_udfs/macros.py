"""Write the dp_* macros: the engine's own aggregates, handed to a function that adds noise.

Where a statistic adds up integers these are sums; otherwise the values themselves, as lists.

A macro pastes its arguments as text, x several times. It works on any aggregate query that
DuckDB can plan; it can't see where the rows come from.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from dfprivacy.engine.terms import GridText, duckdb_above, duckdb_number, duckdb_on_grid
from dfprivacy.measurement.linear import Above, OnGrid, Product, Term
from dfprivacy.statistics.forms import Form, forms_of, functions
from dfprivacy.statistics.linear import LinearPart
from sql_udfs.checks import CHECK, CONSTANT
from sql_udfs.finalize import finalizer

Forms = dict[str, str]
"""What a macro does, by its parameters."""


@dataclass(frozen=True)
class Defaults:
    """What a connection's macros hold: the epsilon of a call that names none, and a level."""

    epsilon: float
    level: float


def create_macros(connection: duckdb.DuckDBPyConnection, defaults: Defaults) -> None:
    """Create or replace every macro, with the connection's defaults in them.

    DuckDB binds a macro once when it is created, where parameters are no constants yet. The
    check, which insists on constants, is covered by a stand-in for that moment.
    """
    try:
        parameters = ", ".join(f"argument_{index}" for index in range(len(CHECK.parameters)))
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {CHECK.name}({parameters}) AS 'checked'")
        for name, forms in _macros(defaults).items():
            overloads = ", ".join(f"({parameters}) AS {body}" for parameters, body in forms.items())
            connection.execute(f"CREATE OR REPLACE TEMP MACRO {name} {overloads}")
    finally:
        connection.execute(f"DROP MACRO IF EXISTS temp.main.{CHECK.name}")


def _macros(defaults: Defaults) -> dict[str, Forms]:
    macros = {"dp_keep": _keep_forms(defaults)}
    for name, statistic in functions().items():
        for suffix in ("", "_interval") if statistic.has_interval else ("",):
            forms: Forms = {}
            for form in forms_of(statistic):
                forms |= _bodies(name, form, suffix, defaults)
            macros[f"{name}{suffix}"] = forms
    return macros


def _bodies(name: str, form: Form, suffix: str, defaults: Defaults) -> Forms:
    """Return what a macro does for one form, with the connection's epsilon and with its own."""
    if form.about_rows:
        return {"": _body(name, form, suffix, _number(defaults.epsilon), defaults)}
    own = ", ".join(["x", *form.constants])
    return {
        own: _body(name, form, suffix, _number(defaults.epsilon), defaults),
        f"{own}, epsilon": _body(name, form, suffix, "epsilon", defaults),
    }


def _body(name: str, form: Form, suffix: str, epsilon: str, defaults: Defaults) -> str:
    constants = [_constant(form, each) for each in form.constants]
    check = _check(f"{name}{suffix}", form, [*form.constants, epsilon])
    part = form.part
    if isinstance(part, LinearPart):
        measured = _sums(name, form, part, constants, check)
        if not part.columns:
            epsilon = _checked(_real(epsilon), check)
    else:
        measured = [f"list({_checked(_real('x'), check)})"]
    level = [_number(defaults.level)] if suffix else []
    arguments = [*measured, *constants, _real(epsilon) if epsilon == "epsilon" else epsilon, *level]
    return f"{finalizer(form, suffix)}({', '.join(arguments)})"


def _number(value: float) -> str:
    """Return a float as SQL that reads back the same bits."""
    return f"CAST('{value!r}' AS DOUBLE)"


def _real(argument: str) -> str:
    return f"TRY_CAST({argument} AS DOUBLE)"


def _constant(form: Form, name: str) -> str:
    return f"TRY_CAST({name} AS DOUBLE[])" if form.is_list(name) else _real(name)


def _checked(value: str, check: str) -> str:
    """Return `value`, once the check has passed.

    DuckDB reads the name of a struct's field while it binds: the check runs then, whatever the
    rows, and an argument that is not a constant is refused. The optimiser leaves the value alone.
    """
    return f"struct_extract({{'checked': {value}}}, {check})"


def _check(name: str, form: Form, arguments: list[str]) -> str:
    """Return the check of constants: the types as written, and the values as lists of numbers."""
    about = "''" if form.about_rows else "typeof(x)"
    types = ", ".join(f"typeof({each})" for each in arguments)
    values = ", ".join(
        _constant(form, each) if form.is_list(each) else f"[{_real(each)}]" for each in arguments
    )
    return f"{CHECK.name}('{name}', {about}, [{types}], [{values}])"


def _sums(name: str, form: Form, part: LinearPart, constants: list[str], check: str) -> list[str]:
    """Return the sums that a linear statistic needs: the rows first."""
    source = part.vectors.linears[0].source
    if not source.columns:
        return ["count(*)"]
    if not source.terms:
        value = _real("x")
        there = (
            f"x IS NOT NULL AND (typeof(x) NOT IN ('FLOAT', 'DOUBLE') OR {duckdb_number(value)})"
        )
        return [f"count(CASE WHEN {_checked(there, check)} THEN 1 END)"]
    given = f"[{', '.join(each if form.is_list(n) else f'[{each}]' for n, each in zip(form.constants, constants, strict=True))}]"  # noqa: E501 one expression
    written = [
        _term(term, f"{place}", f"'{name}', {given}", check)
        for place, term in enumerate(source.terms)
    ]
    sums = [f"TRY_CAST(sum({term}) AS BIGINT)" for term in written]
    return [f"count({written[0]})", *sums]


def _term(term: Term, place: str, given: str, check: str) -> str:
    """Return a row's integer; `place` is where its numbers are found once constants are known."""

    def number(attribute: str) -> str:
        return f"{CONSTANT.name}({given}, '{place}.{attribute}')"

    if isinstance(term, Product):
        left = _term(term.left, f"{place}.left", given, check)
        right = _term(term.right, f"{place}.right", given, check)
        return f"(({left}) * ({right}) // CAST({number('divisor')} AS BIGINT))"
    if isinstance(term, Above):
        return duckdb_above(_real("x"), _checked(number("threshold"), check))
    assert isinstance(term, OnGrid)  # noqa: S101 there are no other terms
    grid = GridText(
        number("grid.lower"), number("grid.upper"), number("grid.origin"),
        _checked(number("grid.inverse_step"), check), number("grid.first"), number("grid.last"),
    )  # fmt: skip
    return duckdb_on_grid(_real("x"), grid, cast="TRY_CAST")


def _keep_forms(defaults: Defaults) -> Forms:
    def body(chosen: str) -> str:
        values = f"[[{_real('delta')}], [{_real(chosen)}]]"
        check = f"{CHECK.name}('dp_keep', '', [typeof(delta), typeof({chosen})], {values})"
        delta = _checked(_real("delta"), check)
        return f"dfprivacy_keep(count(*), {delta}, {_real(chosen)})"

    return {"delta": body(_number(defaults.epsilon)), "delta, epsilon": body("epsilon")}
