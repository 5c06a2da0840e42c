"""Open the DuckDB connection that a call owns, within the caller's limits, and clean up after it.

It is the engine for pandas, Arrow, CSV and Parquet. What it spills goes to a folder that only this
user may enter and that goes whatever interrupts the call; Ctrl-C stops its queries at once.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary, finalize

import duckdb

from dfprivacy.engine.progress import watch_progress
from dfprivacy.errors import (
    DPError,
    EngineMemoryError,
    EngineSpaceError,
    InvalidEngineError,
    InvalidQuestionError,
    boundary,
)
from dfprivacy.measurement.exact import describe, whole_number

T = TypeVar("T")
Setting = str | bool | int | float | list[str]

_MOST_THREADS = 1024
_MEMORY = re.compile(r"[1-9][0-9]{0,5}(\.[0-9]{1,3})? ?([KMGT]i?B)")
_HINT = "e.g. dfp.Engine(memory='1GB', threads=2, temporary='/fast/disk')"


@boundary
@dataclass(frozen=True)
class Engine:
    """Limits of the embedded engine, for every call in a `with` block.

    The engine reads pandas frames, Arrow, CSV and Parquet. What exceeds `memory` (such as "500MB"
    or "1.5GiB"; 80% of the machine's without) is written to files in a new directory that only
    this user may enter, below `temporary` (the system's place for temporary files without), and is
    removed with it at the end of the call. Polars frames and the caller's own DuckDB connections
    keep the limits that they have.

    Of two nested blocks the inner one counts, and what it does not name is as without any. The
    block is a context variable: it reaches coroutines, but not a thread that is started inside.

    >>> import dfprivacy as dfp, pandas as pd
    >>> engine = dfp.Engine(memory="500MB", threads=2)
    >>> engine
    Engine(memory='500MB', threads=2, temporary=None)
    >>> with engine:
    ...     answer = pd.DataFrame({"delay": range(100)}).dp.count()

    Raises
    ------
    InvalidEngineError
        When memory is no size, threads is no whole number from 1 to 1024, or temporary is no
        directory.
    """

    memory: str | None = None
    threads: int | None = None
    temporary: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check the limits; nothing here looks at data."""
        memory, threads, temporary = self.memory, self.threads, self.temporary
        if memory is not None and not (isinstance(memory, str) and _MEMORY.fullmatch(memory)):
            raise InvalidEngineError(
                f"memory must be a size such as '500MB' or '1.5GiB', not {describe(memory)}",
                hint=_HINT,
            )
        if threads is not None:
            what = f"threads must be a whole number from 1 to {_MOST_THREADS}"
            count = whole_number(threads, 1, _MOST_THREADS, InvalidEngineError, what, hint=_HINT)
            object.__setattr__(self, "threads", count)
        if temporary is not None:
            if not isinstance(temporary, str | os.PathLike) or not Path(temporary).is_dir():
                raise InvalidEngineError(
                    "temporary must be a directory that exists",
                    hint="create it first, or leave it out",
                )
            object.__setattr__(self, "temporary", str(temporary))

    def __enter__(self) -> Self:
        """Begin a block."""
        _ENGINES.set((*_ENGINES.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        """End the block."""
        _ENGINES.set(_ENGINES.get()[:-1])


_ENGINES: ContextVar[tuple[Engine, ...]] = ContextVar("dfprivacy_engines", default=())


def engine_options() -> Engine:
    """Return the limits of the innermost block; none without one."""
    return _ENGINES.get()[-1] if _ENGINES.get() else Engine()


_MAKERS: dict[Path, int] = {}
"""The folders not yet removed, each with the process that has made it: a fork leaves it alone."""


def private_folder() -> Path:
    """Make a folder where raw rows may go.

    It is noted before it is made, so that the end of the process removes it wherever an interrupt
    comes between this call and the caller's own care.
    """
    parent = temporary_folder()
    folder = Path(tempfile.mktemp(prefix="dfprivacy-", dir=parent))  # noqa: S306 mkdir takes no other's
    _MAKERS[folder] = os.getpid()
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:  # there is none, or one of somebody else: not ours to remove
        del _MAKERS[folder]
        raise _space_error(parent) if error.errno in _NO_SPACE else error from None
    return folder


def temporary_folder() -> Path:
    """Return the directory in which private folders are made."""
    return Path(engine_options().temporary or tempfile.gettempdir()).absolute()


_NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_PROBE_MIB = 16  # a directory without room for so much has none for the files of an engine


def find_space_error(error: BaseException) -> EngineSpaceError | None:
    """Return the error for a lack of memory or of temporary space, or None for another failure.

    Privacy: only the type of the error, its number from the operating system and the free space
    count. The text of the error could quote a row and is not read.
    """
    if isinstance(error, DPError):
        return None
    # DuckDB limits its temporary files to the free space, and is out of memory beyond that.
    is_full = isinstance(error, duckdb.OutOfMemoryException) or (
        isinstance(error, OSError) and error.errno in _NO_SPACE
    )
    is_ambiguous = isinstance(error, duckdb.IOException) or (  # also of damaged files
        isinstance(error, OSError) and error.errno is None
    )
    if not is_full and not (is_ambiguous and not _has_temporary_space()):
        return None
    has_private_folder = os.getpid() in _MAKERS.values()
    if isinstance(error, duckdb.OutOfMemoryException) and _has_temporary_space():
        limit = engine_options().memory if has_private_folder else None
        return EngineMemoryError(
            f"the engine has too little memory{f', which is limited to {limit}' * bool(limit)}: "
            "not all of this work can go to temporary files",
            hint="allow more memory or fewer threads: dfp.Engine(memory='4GB', threads=2)",
        )
    return _space_error(temporary_folder() if has_private_folder else None)


def _has_temporary_space() -> bool:
    """Write some MiB to the temporary directory, and return False if they do not fit."""
    try:
        with tempfile.TemporaryFile(dir=temporary_folder(), buffering=0) as file:
            for _ in range(_PROBE_MIB):
                if file.write(bytes(2**20)) < 2**20:
                    return False
    except OSError as error:
        return error.errno not in _NO_SPACE
    return True


def _space_error(folder: Path | None) -> EngineSpaceError:
    """Return the error for a full folder, or for the unknown one of the caller's connection."""
    where = "" if folder is None else f" in {str(folder)!r}"
    return EngineSpaceError(
        f"the engine has no room left, neither in memory nor for temporary files{where}",
        hint="make room there, or name another folder or more memory: "
        "dfp.Engine(memory='4GB', temporary='/large/disk')",
    )


def remove_folders(*folders: Path) -> None:
    """Remove folders with all that is in them; an interrupt waits until that is done."""
    interrupted = False
    while own_folders := [folder for folder in folders if _MAKERS.get(folder) == os.getpid()]:
        try:
            for folder in own_folders:
                shutil.rmtree(folder, ignore_errors=True)
                _MAKERS.pop(folder, None)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


@atexit.register
def _remove_all() -> None:
    remove_folders(*_MAKERS)


_HELD: dict[int, list[duckdb.DuckDBPyConnection]] = {}
"""Databases that no call uses, by the process that has opened them: a fork leaves them alone."""
_HELD_APART: dict[int, list[duckdb.DuckDBPyConnection]] = {}
"""The same, of those whose settings are locked."""
_MOST_HELD = 2
_BRIEF = 0.25
"""Seconds of use after which a database is closed: the memory that it keeps is not worth it."""


@dataclass(eq=False)
class _Lent:
    """The resources of an embedded connection: its database, and how its folder is removed."""

    database: duckdb.DuckDBPyConnection
    remove: finalize[Any, Any]
    again: bool
    """True if the next call may have the database: it has no limits, and nothing has failed."""
    since: float = field(default_factory=monotonic)
    restricted: bool = False
    """True where some optimizers of the database are off."""
    idle: bool = False
    """True if another connection reads the rows: this one is brief, and has no folder."""


_LENT: WeakKeyDictionary[duckdb.DuckDBPyConnection, _Lent] = WeakKeyDictionary()


UTC = "UTC"
_ZONE: ContextVar[str] = ContextVar("dfprivacy_time_zone", default=UTC)


def session_zone() -> str:
    """Return the time zone of sessions that are opened in this block."""
    return _ZONE.get()


@contextmanager
def in_time_zone(name: str) -> Iterator[None]:
    """Open sessions in another time zone than UTC within a block."""
    token = _ZONE.set(name)
    try:
        yield
    finally:
        _ZONE.reset(token)


def quote_text(text: str) -> str:
    """Return a text as a constant of SQL."""
    return "'" + text.replace("'", "''") + "'"


def set_time_zone(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Set the time zone of one connection.

    Raises
    ------
    InvalidQuestionError
        When DuckDB has no time zone of that name.
    """
    with suppress(duckdb.Error):
        connection.execute(f"SET SESSION TimeZone = {quote_text(name)}")
        return
    raise InvalidQuestionError(
        f"there is no time zone {name!r}", hint="timezone='Europe/Berlin', timezone='UTC'"
    )


@contextmanager
def in_checked_zone(name: str | None) -> Iterator[None]:
    """Open sessions within a block in a zone that DuckDB knows, or in UTC where none is named."""
    with in_time_zone(UTC if name is None else name):
        if name is not None:
            with open_embedded(idle=True):  # it refuses unknown names
                pass
        yield


@contextmanager
def opening(*, idle: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory connection that installs, loads and prints nothing by itself.

    It outlives the block, unless the block fails. It keeps to the limits of `Engine`. What exceeds
    memory goes to a directory of its own, which only this user may enter; one that is `idle` reads
    no rows and has none without limits. `close_connection` removes it; so does the end of the
    connection, or of the process. No other connection has its database meanwhile, which is empty
    and must stay so, without settings for all connections: opening one takes longer than many a
    call, so that one without limits is kept for the next after a brief one.
    """
    options, connection = engine_options(), None
    limited = options.memory is not None or options.threads is not None
    spill = [private_folder()] if limited or not idle else []
    try:
        folder = "".join(map(str, spill))
        database = (None if limited else _reuse_database(folder)) or duckdb.connect(
            config={**_PLAIN, "temp_directory": folder, **list_limits(options)}
        )
        connection = database.cursor()
        remove = finalize(connection, remove_folders, *spill)
        _LENT[connection] = _Lent(database, remove, again=not limited, idle=idle)
        with suppress(duckdb.InvalidInputException):  # Jupyter without ipywidgets has no progress
            connection.execute("SET enable_progress_bar_print = false")  # it would print on stdout
            connection.execute("SET enable_progress_bar = true")  # so that it can be asked for
        set_time_zone(connection, session_zone())
        yield connection
    except BaseException:
        if connection is not None:
            _spoil(connection)
            close_connection(connection)
        remove_folders(*spill)
        raise


_PLAIN: dict[str, Setting] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def list_limits(options: Engine) -> dict[str, Setting]:
    """Return the limits of memory and threads as DuckDB's settings."""
    limits = {"memory_limit": options.memory, "threads": options.threads}
    return {name: value for name, value in limits.items() if value is not None}


def _reuse_database(folder: str) -> duckdb.DuckDBPyConnection | None:
    """Return a held database, with this folder for temporary files; None where there is none."""
    with suppress(IndexError, duckdb.Error):  # one that has written temporary files refuses
        database = _HELD.get(os.getpid(), []).pop()
        if folder:
            database.execute(f"SET temp_directory = {quote_text(folder)}")
        return database
    return None


def close_connection(connection: duckdb.DuckDBPyConnection) -> None:
    """Close an embedded connection and remove what it has written; a second time does nothing."""
    lent = _LENT.pop(connection, None)
    try:
        connection.close()
        if lent is None:
            return
        connections = _HELD.setdefault(os.getpid(), [])
        brief = lent.idle or monotonic() < lent.since + _BRIEF
        if lent.again and brief and len(connections) < _MOST_HELD:
            with suppress(duckdb.Error):
                if lent.restricted:
                    lent.database.execute(_ALL_OPTIMIZERS)
                if not lent.idle:  # nowhere, while no call uses it
                    lent.database.execute("SET temp_directory = ''")
                connections.append(lent.database)
                return
        lent.database.close()
    finally:
        if lent is not None:
            lent.remove()


_SAFE_OPTIMIZERS = frozenset(("unused_columns", "cte_inlining"))
"""Optimizers that move no expression past another.

They leave out columns that nothing reads, and put a subquery in the place where it is used.
"""
_ALL_OPTIMIZERS = "RESET disabled_optimizers"


def restrict_optimizer(connection: duckdb.DuckDBPyConnection) -> None:
    """Switch off all optimizers of an embedded database but the safe ones.

    Those to switch off are listed by DuckDB itself. An optimizer of a new version is among them.
    """
    rows = connection.execute("SELECT name FROM system.main.duckdb_optimizers()").fetchall()
    names = sorted({name for (name,) in rows} - _SAFE_OPTIMIZERS)
    if connection in _LENT:
        _LENT[connection].restricted = True
    connection.execute(f"SET disabled_optimizers = '{','.join(names)}'")


@contextmanager
def with_all_optimizers(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Switch all optimizers of a restricted database on for a block."""
    connection.execute(_ALL_OPTIMIZERS)
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # of one that is lost: its text could speak of a row
            restrict_optimizer(connection)


@atexit.register
def close_held() -> None:
    """Close the databases that no call uses: their threads would be missing after a fork."""
    for connections in (_HELD.get(os.getpid(), []), _HELD_APART.get(os.getpid(), [])):
        while connections:
            connections.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=close_held)


@contextmanager
def open_embedded(*, idle: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an embedded connection for a block, which plans alone and reads no rows if `idle`."""
    with opening(idle=idle) as connection:
        yield connection
    close_connection(connection)


def _spoil(connection: duckdb.DuckDBPyConnection) -> None:
    """Let the database of a connection end with it: something has failed there."""
    if connection in _LENT:
        _LENT[connection].again = False


_LOCKED: dict[str, Setting] = {
    **_PLAIN,
    "python_enable_replacements": False,
    "allow_persistent_secrets": False,
    "enable_external_access": False,
    "temp_directory": "",
}


@contextmanager
def connect_isolated() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection on which queries see what is registered there, and nothing else.

    No other connection has its database meanwhile, which must stay empty. It is kept for the next
    block after a brief one that has not failed, unless its time zone is another one than UTC.
    """
    idle, since = _HELD_APART.setdefault(os.getpid(), []), monotonic()
    is_utc, database = session_zone() == UTC, None
    with suppress(IndexError):
        database = idle.pop() if is_utc else None
    if database is None:
        database = duckdb.connect(config=_LOCKED)
        database.execute(f"SET GLOBAL TimeZone = {quote_text(session_zone())}")
        database.execute("SET lock_configuration = true")
    try:
        with database.cursor() as connection:
            yield connection
    except BaseException:
        database.close()
        raise
    if is_utc and monotonic() < since + _BRIEF and len(idle) < _MOST_HELD:
        idle.append(database)
    else:
        database.close()


_OFTEN = 0.05  # seconds between two requests to stop: one that comes before the query is lost
_TIMES = 100


def interruptible(work: Callable[[], T], connection: duckdb.DuckDBPyConnection | None) -> T:
    """Run `work` on an embedded connection in another thread, and return its result.

    Python handles signals in its main thread, between two of its own instructions; a long query
    there would keep Ctrl-C waiting. So the query runs elsewhere. An interrupt stops it, waits
    some seconds until it has stopped, and goes on as KeyboardInterrupt. Without a connection, which
    then is the caller's, the query runs here.
    """
    if connection is None:
        with watch_progress():
            return work()
    done: Future[T] = Future()

    def job(run: Callable[[Callable[[], T]], T]) -> None:
        try:
            done.set_result(run(work))
        except BaseException as error:  # noqa: BLE001 raised again by the caller's thread
            _spoil(connection)
            done.set_exception(error)

    with watch_progress(connection):
        run = copy_context().run
        thread = Thread(target=job, args=(run,), name="dfprivacy query", daemon=True)
        try:
            thread.start()
            while wait([done], 0.5).not_done:  # in steps: some systems take signals between them
                pass
        except BaseException:
            _spoil(connection)
            for _ in range(_TIMES if thread.ident is not None else 0):
                if wait([done], _OFTEN).done:
                    break
                connection.interrupt()
            raise
    return done.result()
