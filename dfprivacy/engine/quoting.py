"""Names as DuckDB's SQL writes them, whatever is in them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a name in double quotes.

    >>> print(quoted('a "b" c'))
    "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'
