"""Queries that Ctrl-C stops at once, whatever the engine is busy with."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Thread
from typing import Any, TypeVar

import duckdb

from dfprivacy.engine.progress import watched

T = TypeVar("T")

_OFTEN = 0.05  # seconds between two requests to stop: one that comes before the query is lost
_TIMES = 100


def is_interrupt(error: BaseException) -> bool:
    """Tell whether an error is Ctrl-C, or what DuckDB's Python client makes of it."""
    if isinstance(error, KeyboardInterrupt):
        return True
    return type(error) is RuntimeError and str(error) == "Query interrupted"


def interruptible(work: Callable[[], T], connection: duckdb.DuckDBPyConnection) -> T:
    """Return what `work` returns, done by another thread on an embedded connection.

    Python handles signals in its main thread, between two of its own instructions; a long query
    there would keep Ctrl-C waiting. So the query runs elsewhere. An interrupt stops it, waits
    some seconds until it has stopped, and goes on as KeyboardInterrupt.
    """
    done, result, failed = Event(), [], []
    run = copy_context().run

    def job() -> None:
        try:
            result.append(run(work))
        except BaseException as error:  # noqa: BLE001 raised again by the caller's thread
            failed.append(error)
        finally:
            done.set()

    thread = Thread(target=job, name="dfprivacy query", daemon=True)
    with watched(connection):
        try:
            thread.start()
            _wait(done)
        except BaseException:
            if thread.ident is not None:
                _stop(connection, done)
            raise
    return _outcome(result, failed)


def _stop(connection: duckdb.DuckDBPyConnection, done: Event) -> None:
    """Ask a query to stop until it has, but not for ever."""
    for _ in range(_TIMES):
        if done.wait(_OFTEN):
            return
        connection.interrupt()


def _wait(done: Event) -> None:
    """Wait in steps: on some systems only the time between them takes signals."""
    while not done.wait(0.5):
        pass


def _outcome(result: list[T], failed: list[Any]) -> T:
    if failed:
        raise failed.pop()
    return result.pop()
