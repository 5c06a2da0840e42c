"""Hold a Python function as DuckDB knows it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

from dfprivacy.accounting.spending import NoAccount
from dfprivacy.errors import MissingLedgerError, boundary
from dfprivacy.release.pipeline import permit

Column = Any  # a pyarrow.ChunkedArray: the rows of one DuckDB vector, at most 2048


@dataclass(frozen=True)
class Function:
    """A function over Arrow columns, or `of_constants` over values; NULLs are handed to it.

    A function that `draws` noise is paid by its statement. DuckDB learns that two calls give two
    answers, and never shares or folds them.
    """

    name: str
    call: Callable[..., Any]
    parameters: tuple[str, ...]
    returns: str
    draws: bool = False
    of_constants: bool = False

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the function in the connection's database, unless another connection has."""
        kind = "native" if self.of_constants else "arrow"
        options: dict[str, Any] = {"type": kind, "null_handling": "special"}
        with suppress(duckdb.CatalogException, duckdb.NotImplementedException):
            connection.create_function(
                self.name,
                _count_rows(self.call, len(self.parameters), draws=self.draws),
                list(self.parameters),
                self.returns,
                side_effects=self.draws,
                **options,
            )


BY_STATEMENT = "the epsilon of the statement, on a connection that no account is kept of"


def check_account() -> None:
    """Refuse a call that its statement pays for, if this process requires a ledger.

    Raises
    ------
    MissingLedgerError
        When `dfp.require_ledger` was called.
    """
    if NoAccount.required:
        raise MissingLedgerError(
            "a dp_ call on a connection is charged to no ledger, and this process requires one",
            hint="dfp.sql('SELECT dp_count(*) FROM t', con=con, ledger=ledger, dataset='t')",
        )


@cache
def _count_rows(call: Callable[..., Any], arity: int, *, draws: bool) -> Callable[..., Any]:
    """Return the function with a signature that DuckDB can count the parameters of.

    The cache keeps it alive after the connection that created it is gone, because other
    connections to the same database may still call it.
    """

    def run_paid(*columns: Column) -> Any:
        if not draws:
            return call(*columns)
        check_account()
        with permit(BY_STATEMENT):
            return call(*columns)

    counted = boundary(run_paid)
    kind = inspect.Parameter.POSITIONAL_ONLY
    names = [inspect.Parameter(f"column_{index}", kind) for index in range(arity)]
    counted.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return counted
