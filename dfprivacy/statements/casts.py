"""Types that a value may be cast to: DuckDB's own, by the names that it shows."""

from __future__ import annotations

from sqlglot import exp

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only

_D = exp.DType
_TYPES = {
    _D.BOOLEAN: "BOOLEAN",
    _D.TINYINT: "TINYINT",
    _D.SMALLINT: "SMALLINT",
    _D.INT: "INTEGER",
    _D.BIGINT: "BIGINT",
    _D.INT128: "HUGEINT",
    _D.UTINYINT: "UTINYINT",
    _D.USMALLINT: "USMALLINT",
    _D.UINT: "UINTEGER",
    _D.UBIGINT: "UBIGINT",
    _D.FLOAT: "FLOAT",
    _D.DOUBLE: "DOUBLE",
    _D.TEXT: "VARCHAR",
    _D.VARCHAR: "VARCHAR",
    _D.DATE: "DATE",
    _D.TIME: "TIME",
    _D.TIMESTAMPNTZ: "TIMESTAMP",
    _D.TIMESTAMP: "TIMESTAMP",
    _D.TIMESTAMP_NS: "TIMESTAMP_NS",
    _D.TIMESTAMPTZ: "TIMESTAMPTZ",
    _D.INTERVAL: "INTERVAL",
    _D.UUID: "UUID",
}

SPELLINGS = {
    "BOOL": "BOOLEAN", "LOGICAL": "BOOLEAN",
    "INT1": "TINYINT",
    "INT2": "SMALLINT", "INT16": "SMALLINT", "SHORT": "SMALLINT",
    "INT": "INTEGER", "INT4": "INTEGER", "INT32": "INTEGER", "SIGNED": "INTEGER",
    "INTEGRAL": "INTEGER",
    "INT8": "BIGINT", "INT64": "BIGINT", "LONG": "BIGINT",
    "INT128": "HUGEINT",
    "UINT8": "UTINYINT", "UINT16": "USMALLINT", "UINT32": "UINTEGER", "UINT64": "UBIGINT",
    "REAL": "FLOAT", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE",
    "DEC": "DECIMAL", "NUMERIC": "DECIMAL",
    "TEXT": "VARCHAR", "STRING": "VARCHAR", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR",
    "NVARCHAR": "VARCHAR",
    "DATETIME": "TIMESTAMP", "TIMESTAMP_US": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "GUID": "UUID",
}  # fmt: skip
"""Other names of types in DuckDB, and the one that is used here."""


def type_name(node: exp.Expression) -> str:
    """Return a type as DuckDB writes it.

    Raises
    ------
    RefusedStatementError
        For nested types, types that a user has made, and whatever else is not listed.
    """
    kind = node.this
    if isinstance(node, exp.DataType) and kind is _D.DECIMAL:
        return f"DECIMAL({', '.join(map(_digits, node.expressions))})"
    name = _TYPES.get(kind) if isinstance(node, exp.DataType) else None
    if name is None:
        raise _unknown()
    only(node, "this", "nested")
    return name


def _digits(parameter: exp.Expression) -> str:
    literal = parameter.this if isinstance(parameter, exp.DataTypeParam) else parameter
    if not isinstance(literal, exp.Literal) or not literal.this.isdecimal():
        raise _unknown()
    return str(int(literal.this))


def _unknown() -> RefusedStatementError:
    return Refusal(
        "CAST to this type",
        "it is not on the list of types whose values are plain",
        "CAST(x AS DOUBLE), or INTEGER, BIGINT, DECIMAL(9, 2), VARCHAR, BOOLEAN, DATE, TIMESTAMP",
    ).error()
