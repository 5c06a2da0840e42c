"""Define every error that dfprivacy raises, and the boundary that lets no other out.

    DPError
    |-- InvalidLossError          (ValueError)    epsilon, rho or delta is not a usable number
    |   `-- MissingDeltaError                     secret group keys need a delta
    |-- InvalidBoundsError        (ValueError)    bounds are not two finite numbers, low < high
    |   `-- MissingBoundsError                    a question needs bounds and has none
    |-- InvalidKeysError          (ValueError)    public keys do not fit the group columns
    |-- InvalidUnitError          (ValueError)    unit, max_rows and max_groups don't go together
    |-- InvalidEngineError        (ValueError)    memory, threads or temporary can't be used
    |-- InvalidQuestionError      (ValueError)    unknown method, level or combination
    |   |-- UnknownMethodError    (AttributeError) no question of that name
    |   `-- UnknownArgumentError  (TypeError)     no argument of that name
    |-- InvalidDescriptionError   (ValueError)    the file that describes releases has faults
    |-- RefusedStatementError     (ValueError)    an SQL statement can't be read, or not answered
    |-- InvalidProtocolError      (ValueError)    no protocol of the local or the shuffle model
    |-- MissingColumnError        (KeyError)      the frame has no such column
    |-- UnsupportedDtypeError     (TypeError)     the declared dtype can't be aggregated or grouped
    |-- UnsupportedFrameError     (TypeError)     not a frame, relation or file that we can read
    |-- TooManyRowsError          (OverflowError) 2**33 rows or more: beyond the public size limit
    |-- StatisticsFileError       (ValueError)    a file of exact statistics can't be used
    |-- LedgerError               (RuntimeError)  a ledger can't be used; nothing was released
    |   |-- LedgerFileError       (OSError)       its file is missing, locked, corrupt or full
    |   |-- LedgerBudgetError     (ValueError)    its file was made with another budget
    |   |-- InvalidLedgerError    (ValueError)    ledger, dataset and note do not go together
    |   |-- UnknownAccountError   (ValueError)    dataset, period or analyst has no such account
    |   `-- MissingLedgerError    (ValueError)    a ledger is required, and none was named
    |-- BudgetExceededError       (ValueError)    the release costs more than the ledger has left
    |-- PictureError              (RuntimeError)  a chart or page can't be drawn or written
    |-- OutputError               (OSError)       a release could not be written where it should go
    |-- EngineError               (RuntimeError)  the engine failed; its message is withheld
    |   |-- ReleasedQueryError                    a query over released answers failed
    |   `-- EngineSpaceError                      no room in memory or for temporary files
    |       `-- EngineMemoryError                 its memory does not suffice, the disk has room
    |-- EntropyError              (OSError)       no random bytes, or noise outside of a release
    `-- NotSupportedError         (ValueError)    a part of PEP 249 that may be left out

Each is one of the errors of PEP 249, too, whose names are in `dfprivacy.dbapi`: an InterfaceError
or a DatabaseError. Of the latter a DataError, IntegrityError, InternalError, OperationalError
(machines, files and budgets) or ProgrammingError (the call).

A message names the failure, then "Hint:" and a fix that runs. No message depends on a row:
it speaks of arguments, declared dtypes and column names only, and where a query over released
answers fails, of these.

Every public call is a `boundary`: it returns, or raises one of these, a plain KeyboardInterrupt, or
a MemoryError of a fixed text. Other errors that an engine, a library or an object of the caller
raises could quote a row, and becomes an EngineError of a fixed text, without its cause or
traceback.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from threading import _DummyThread, current_thread
from types import FunctionType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

Door = TypeVar("Door", bound=Callable[..., Any])

PRINT_SECRETS: Final = "DFPRIVACY_ERRORS_PRINT_SECRETS_OF_ROWS"
"""The environment variable that, set to 1, lets errors out as they are, to find a defect."""


class DPError(Exception):
    """Base of every dfprivacy error."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message}\n\nHint: {hint}")

    def __str__(self) -> str:
        """Return the message and its hint (KeyError would quote it)."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from message and hint, so that an error crosses processes whole."""
        return (partial(type(self), hint=self.hint), (self.message,))


class InterfaceError(DPError):
    """A connection is used wrongly."""


class DatabaseError(DPError):
    """A statement, its data or its engine fails."""


class DataError(DatabaseError):
    """The data do not fit the request."""


class IntegrityError(DatabaseError):
    """A relation of tables is broken. Never raised."""


class InternalError(DatabaseError):
    """An engine has come out of step. Never raised."""


class OperationalError(DatabaseError):
    """A machine, a file, an engine or a budget fails."""


class ProgrammingError(DatabaseError):
    """A request is wrong."""


class InvalidLossError(ProgrammingError, ValueError):
    """Epsilon, rho or delta is not a positive, finite real number in range."""


class MissingDeltaError(InvalidLossError):
    """Secret group keys were asked for without a delta."""


class InvalidBoundsError(ProgrammingError, ValueError):
    """Bounds are not two finite numbers with lower < upper."""


class MissingBoundsError(InvalidBoundsError):
    """A question that needs bounds was asked without."""


class InvalidKeysError(ProgrammingError, ValueError):
    """Public keys are empty, or do not fit the group columns."""


class InvalidUnitError(ProgrammingError, ValueError):
    """Unit, max_rows and max_groups do not go together, or a limit is no whole number in range."""


class InvalidEngineError(ProgrammingError, ValueError):
    """Memory, threads or temporary directory of the embedded engine can't be used."""


class InvalidQuestionError(ProgrammingError, ValueError):
    """An unknown method, an interval level outside (0, 1), or questions that do not go together."""


class UnknownMethodError(InvalidQuestionError, AttributeError):
    """There is no question of that name."""


class UnknownArgumentError(InvalidQuestionError, TypeError):
    """A call was given an argument that it does not take."""


class InvalidDescriptionError(ProgrammingError, ValueError):
    """A file that describes releases has faults. The message names each with its line."""


class RefusedStatementError(ProgrammingError, ValueError):
    """An SQL statement can't be read, or has no bounded answer."""


class InvalidProtocolError(ProgrammingError, ValueError):
    """A protocol of the local or the shuffle model that is invalid, or does not fit the data."""


class MissingColumnError(ProgrammingError, KeyError):
    """The frame has no column of that name."""


class UnsupportedDtypeError(ProgrammingError, TypeError):
    """The declared dtype of a column can't be aggregated or grouped by."""


class UnsupportedFrameError(ProgrammingError, TypeError):
    """The object is not a frame, relation or file that can be read."""


class TooManyRowsError(DataError, OverflowError):
    """A group reaches the public limit of 2**33 rows, beyond which sums could wrap."""


class StatisticsFileError(DataError, ValueError):
    """A file of exact statistics can't be made or read, or files do not go together."""


class LedgerError(OperationalError, RuntimeError):
    """A ledger can't be used. Nothing was released."""


class LedgerFileError(LedgerError, OSError):
    """The file of a ledger is missing, locked, read-only, corrupt, of another version, or full."""


class LedgerBudgetError(LedgerError, ValueError):
    """The file of a ledger was made with another budget."""


class InvalidLedgerError(LedgerError, ValueError):
    """Ledger, dataset and note of a release do not go together."""


class UnknownAccountError(LedgerError, ValueError):
    """A ledger has no such account: of a dataset, a period of its data, or an analyst's part."""


class MissingLedgerError(LedgerError, ValueError):
    """A release names no ledger, where `require_ledger` was called. Nothing was released."""


class BudgetExceededError(OperationalError, ValueError):
    """A release costs more than the ledger has left. Nothing was released, nothing charged."""


class PictureError(OperationalError, RuntimeError):
    """A chart or a page can't be drawn or written. Or an extra is not installed."""


class OutputError(OperationalError, OSError):
    """A release can't be written where it should go. The charge stays paid.

    `released` are the rows of a CREATE TABLE whose table could not be made, an Arrow table. None
    where a command prints them, or a run of the same job hands them over again.
    """

    def __init__(self, message: str, *, hint: str | None = None, released: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.released = released


class EngineError(OperationalError, RuntimeError):
    """The engine failed. Its own message could quote a row and is withheld."""


class ReleasedQueryError(EngineError):
    """A query over released answers failed, and the charge stays.

    The message may have what DuckDB says. `released` are the answers that the query reads, one
    Arrow table a release. It is empty where a command prints them. `answers` are those of all
    releases, as they were drawn; empty if one of them was not.
    """

    answers: Sequence[Any] = ()

    def __init__(
        self, message: str, *, hint: str | None = None, released: Sequence[Any] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.released = tuple(released)


class EngineSpaceError(EngineError):
    """The engine has no room left in memory or for its temporary files. Nothing was charged."""


class EngineMemoryError(EngineSpaceError):
    """The engine has too little memory, and the disk has room. Nothing was charged."""


class EntropyError(OperationalError, OSError):
    """The operating system's random source failed. Nothing was released."""


class NotSupportedError(DatabaseError, ValueError):
    """A connection does not support this part of PEP 249."""


class PublicDataWarning(UserWarning):
    """A release promises little, or rests on something that may not be public."""


WARNED: set[str] = set()


def warn_once(topic: str, message: str) -> None:
    """Warn the caller of a public function once in a process. `message` must not depend on rows.

    Call it before a release is charged: the caller's filter can make an error of the warning.
    """
    if topic in WARNED:
        return
    WARNED.add(topic)
    token = _INSIDE.set(False)  # warnings from inside a public call are not heard
    try:
        warnings.warn(message, PublicDataWarning, stacklevel=_levels_outside())
    finally:
        _INSIDE.reset(token)


def log_note(note: str) -> None:
    """Log a note of released answers as a warning of the logger "dfprivacy", unless it is held."""
    notes = _HELD.get()
    if notes is None:
        logging.getLogger("dfprivacy").warning(note)
    else:
        notes.append(note)


def log_once(note: str) -> None:
    """Log a note that is the same for all rows, once in a process."""
    if note not in WARNED:
        WARNED.add(note)
        log_note(note)


@contextmanager
def hold_notes() -> Iterator[list[str]]:
    """Hold the notes of a block, whose answers nobody may know before its end."""
    notes: list[str] = []
    token = _HELD.set(notes)
    try:
        yield notes
    finally:
        _HELD.reset(token)


_HELD: ContextVar[list[str] | None] = ContextVar("_HELD", default=None)


def log_nothing() -> None:
    """Let this process log no notes."""
    logging.getLogger("dfprivacy").addHandler(logging.NullHandler())


def write_plain_warnings() -> None:
    """Let this process write each warning as one line, without its place in the code."""
    warnings.formatwarning = lambda message, *_, **__: f"Warning: {message}\n"


def _levels_outside() -> int:
    """Return the `stacklevel` of the code that called the outermost function of this package."""
    frame, level, outermost = sys._getframe(1), 1, 1  # noqa: SLF001 as `warnings` counts
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in {"dfprivacy", "sql_udfs"}:
            outermost = level
        frame, level = frame.f_back, level + 1
    return outermost + 1


def engine_failed() -> EngineError:
    """Return the one error for any failure of an engine."""
    return EngineError(
        "the engine could not run the query; its message could quote a row and is withheld",
        hint="try the same columns in a plain query of your engine to see what is wrong",
    )


def publish_error(error: BaseException) -> BaseException:
    """Return the public form of an error: without a cause, with a fixed or checked text.

    Its traceback goes too: the frames within, which hold measured values, would live with it.
    """
    if os.environ.get(PRINT_SECRETS) == "1":
        return error
    if isinstance(error, DPError | PublicDataWarning):
        error.__cause__ = error.__context__ = error.__traceback__ = None
        return error
    if isinstance(error, KeyboardInterrupt) or (
        type(error) is RuntimeError and str(error) == "Query interrupted"
    ):
        return KeyboardInterrupt()
    if isinstance(error, MemoryError):
        return MemoryError("dfprivacy ran out of memory")
    if type(error).__name__ == "ResourceInUseException":
        return EngineError(
            "the connection has a result of its own that is not fetched to its end",
            hint="fetch all of it, con.execute(...).fetchall(), or ask on another connection: "
            "con.cursor()",
        )
    return engine_failed()


_INSIDE: ContextVar[bool] = ContextVar("dfprivacy_inside", default=False)
"""True if this thread, or the one that it works for, is inside of a public call."""

_UNDER_WAY: set[object] = set()
"""The public calls that are under way in any thread."""


def boundary(door: Door) -> Door:
    """Return a public function, or a class with its public methods, that lets no secret out.

    Properties are as they are: none reads rows or runs an engine on them.
    Only the outermost call is guarded: calls inside of it see errors as they are. No
    warning of numpy, pandas or an engine is heard meanwhile, nor made an error: it tells of a row.
    That goes for the threads of engines, too, in which they run a caller's frame.
    """
    if not isinstance(door, type):
        guarded: Door = _guard_function(door)
        return guarded
    for kind in door.__mro__:
        if kind.__module__.partition(".")[0] in {"dfprivacy", "sql_udfs"}:
            for name, member in list(vars(kind).items()):
                if name in _CALLED or not name.startswith("_"):
                    _guard_member(kind, name, member)
    return door


def close(names: dict[str, Any]) -> None:
    """Make a boundary of everything that a module exports and has loaded, given its namespace."""
    for name in names.keys() & names["__all__"]:
        names[name] = close_object(names[name])


def close_object(door: Any) -> Any:
    """Return an exported object as a boundary, unless it is an error or not callable."""
    if callable(door) and not (isinstance(door, type) and issubclass(door, BaseException)):
        return boundary(door)
    return door


_CALLED = {"__init__", "__call__", "__enter__", "__exit__"}
"""Special methods that do work. The others answer to protocols with errors of theirs."""


def _guard_member(kind: type, name: str, member: Any) -> None:
    if isinstance(member, classmethod | staticmethod):
        setattr(kind, name, type(member)(_guard_function(member.__func__)))
    elif isinstance(member, FunctionType):
        setattr(kind, name, _guard_function(member))


@contextmanager
def silent() -> Iterator[None]:
    """Let no warning be heard in a block, or in the function that this decorates.

    Errors pass as they are: a command uses this, and publishes its errors at its end.
    """
    if _INSIDE.get():
        yield
        return
    call = object()
    try:
        _INSIDE.set(True)
        _UNDER_WAY.add(call)
        filters: Any = warnings.filters  # of the whole process: no thread waits for another
        if not filters or filters[0] is not _SILENT:
            filters.insert(0, _SILENT)  # before all others, and matching nothing outside
            for index in range(len(filters) - 1, 0, -1):  # none is left behind
                if filters[index] is _SILENT:
                    del filters[index]
        with np.errstate(all="ignore"):
            yield
    finally:
        _UNDER_WAY.discard(call)
        _INSIDE.set(False)


def _guard_function(function: Any) -> Any:
    if hasattr(function, "is_boundary"):
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _INSIDE.get():
            return function(*args, **kwargs)
        failure: BaseException
        try:
            with silent():
                return function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 raised below, where it has no context
            failure = error
        try:
            raise _wrong_call(function, failure, args, kwargs) or publish_error(failure)
        finally:
            del failure  # what looks at the frames of an error must not find it

    call.is_boundary = True  # type: ignore[attr-defined]
    return call


def _wrong_call(
    function: Any, failure: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> UnknownArgumentError | None:
    """Return the error for arguments that a call does not take. None for any other failure.

    It depends on the types of arguments alone. A value of another type than the class that a
    parameter is declared to be fails where it is used, with an error of Python's.
    """
    if type(failure) not in {TypeError, AttributeError}:
        return None
    signature = inspect.signature(function)
    called = _name_function(function, args)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError:
        hints = getattr(function, "argument_hints", {})
        return _wrong_arguments(signature, called, args, kwargs, hints)
    with suppress(Exception):  # what only type checkers see
        for name, hint in get_type_hints(function).items():
            alternatives = get_args(hint) if isinstance(hint, UnionType) else (hint,)
            kinds = [get_origin(alternative) or alternative for alternative in alternatives]
            is_variadic = name in arguments and signature.parameters[name].kind.name.startswith(
                "VAR"
            )
            if (
                name not in arguments
                or is_variadic
                or not all(isinstance(kind, type) for kind in kinds)
            ):
                continue
            if {int, float, object, Any}.isdisjoint(kinds) and not isinstance(
                arguments[name], tuple(kinds)
            ):
                expected = " or ".join(f"{kind.__module__}.{kind.__name__}" for kind in kinds)
                return UnknownArgumentError(
                    f"{called} takes no {type(arguments[name]).__name__} as {name}",
                    hint=f"pass a {expected.replace('builtins.', '')}",
                )
    return None


MOVED_ARGUMENTS = {
    "method": "other forms of papers are statistics of dfprivacy.papers, once that is imported: "
    "shifted_mean, independent_mean, subset_mean, dick_mean, dick_center, inverse_quantile; "
    "the mean by inverse sensitivity is center with p=2"
}
"""Arguments that statistics had, with a hint at their replacement."""


def _wrong_arguments(
    signature: inspect.Signature,
    called: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    hints: dict[str, str],
) -> UnknownArgumentError:
    """Return the error for a call with unknown, missing, repeated or too many arguments."""
    parameters = [value for name, value in signature.parameters.items() if name != "self"]
    names = [parameter.name for parameter in parameters]
    by_position = inspect.Parameter.POSITIONAL_OR_KEYWORD
    ordered = [parameter.name for parameter in parameters if parameter.kind is by_position]
    args = args[len(signature.parameters) - len(parameters) :]
    passed = {*ordered[: len(args)], *kwargs}
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    missing = [name for name in required if name not in passed]
    unknown = next((name for name in kwargs if name not in names), None)
    shared_terms = {"epsilon", "rho", "delta", "interval", "population"}
    if unknown in shared_terms and called.startswith("dfp."):
        hint = f"questions share it: df.dp.agg({called}(...), {unknown}=...)"
        return UnknownArgumentError(f"{called} takes no argument {unknown!r}", hint=hint)
    if called.startswith("dfp."):
        hints = {**MOVED_ARGUMENTS, **hints}
    if unknown is not None:
        hint = hints.get(unknown, f"it takes {', '.join(names) or 'none'}")
        return UnknownArgumentError(
            f"{called} takes no argument {unknown!r}", hint=hint.format(kind=called, name=unknown)
        )
    if len(args) > len(ordered):
        pair = "; bounds are one pair, e.g. bounds=(0, 100)" if "bounds" in ordered else ""
        return UnknownArgumentError(
            f"{called} takes no more than {', '.join(ordered) or 'none'} without their names",
            hint=f"write the others as name=value{pair}",
        )
    if missing:
        return UnknownArgumentError(
            f"{called} needs {' and '.join(missing)}", hint=f"it takes {', '.join(names)}"
        )
    return UnknownArgumentError(
        f"{called} was given an argument twice, by its place and by its name",
        hint=f"without names, arguments are {', '.join(ordered)}",
    )


def _name_function(function: Any, args: tuple[Any, ...]) -> str:
    """Return the caller's name of a function: a question is dfp.mean, not its class.

    Its `kind` is looked up on the class: the answer of a caller's own object is not
    to be found out here.
    """
    kind = inspect.getattr_static(type(args[0]), "kind", None) if args else None
    if function.__name__ == "__init__" and isinstance(kind, str):
        return f"dfp.{kind}"
    if function.__name__ == "__call__":
        return "df.dp"
    return str(function.__qualname__).removesuffix(".__init__").rpartition(".")[2]


class _ByThread(type):
    """Kinds of warnings that depend on the thread that gives them."""

    def __subclasscheck__(cls, other: type) -> bool:
        return _INSIDE.get() or (bool(_UNDER_WAY) and isinstance(current_thread(), _DummyThread))


class _Inside(Warning, metaclass=_ByThread):
    """Every warning that is given inside of a public call.

    So are, while one is under way, warnings of threads that an engine has started.
    """


_SILENT: Any = ("ignore", None, _Inside, None, 0)
