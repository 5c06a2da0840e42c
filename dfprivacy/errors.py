"""Every error that dfprivacy raises, under one base.

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
    |-- AlreadyReportedError      (ValueError)    an owner has reported in this campaign before
    |-- MissingColumnError        (KeyError)      the frame has no such column
    |-- UnsupportedDtypeError     (TypeError)     the declared dtype can't be aggregated or grouped
    |-- UnsupportedFrameError     (TypeError)     not a frame, relation or file that we can read
    |-- TooManyRowsError          (OverflowError) 2**33 rows or more: beyond the public size limit
    |-- StatisticsFileError       (ValueError)    a file of exact statistics can't be used
    |-- LedgerError               (RuntimeError)  a ledger can't be used; nothing was released
    |   |-- LedgerFileError       (OSError)       its file is missing, locked, corrupt or full
    |   |-- LedgerBudgetError     (ValueError)    its file was made with another budget
    |   |-- InvalidLedgerError    (ValueError)    ledger, dataset and note do not go together
    |   `-- MissingLedgerError    (ValueError)    a ledger is required, and none was named
    |-- BudgetExceededError       (ValueError)    the release costs more than the ledger has left
    |-- PictureError              (RuntimeError)  a chart or page can't be drawn or written
    |-- OutputError               (OSError)       a release could not be written where it should go
    |-- EngineError               (RuntimeError)  the engine failed; its message is withheld
    `-- EntropyError              (OSError)       no random bytes, or noise outside of a release

A message says what happened, then "Hint:" and a fix that runs. No message depends on a row:
it speaks of arguments, declared dtypes and column names only.
"""

from __future__ import annotations


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
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[DPError], message: str, hint: str | None) -> DPError:
    return kind(message, hint=hint)


class InvalidLossError(DPError, ValueError):
    """Epsilon, rho or delta is not a positive, finite real number in range."""


class MissingDeltaError(InvalidLossError):
    """Secret group keys were asked for without a delta."""


class InvalidBoundsError(DPError, ValueError):
    """Bounds are not two finite numbers with lower < upper."""


class MissingBoundsError(InvalidBoundsError):
    """A question that needs bounds was asked without."""


class InvalidKeysError(DPError, ValueError):
    """Public keys are empty, or do not fit the group columns."""


class InvalidUnitError(DPError, ValueError):
    """Unit, max_rows and max_groups do not go together, or a limit is no whole number in range."""


class InvalidEngineError(DPError, ValueError):
    """Memory, threads or temporary directory of the embedded engine can't be used."""


class InvalidQuestionError(DPError, ValueError):
    """An unknown method, an interval level outside (0, 1), or questions that do not go together."""


class UnknownMethodError(InvalidQuestionError, AttributeError):
    """There is no question of that name."""


class UnknownArgumentError(InvalidQuestionError, TypeError):
    """A call was given an argument that it does not take."""


class InvalidDescriptionError(DPError, ValueError):
    """A file that describes releases has faults; the message names each with its line."""


class RefusedStatementError(DPError, ValueError):
    """An SQL statement can't be read, or holds what no bounded answer is known for."""


class InvalidProtocolError(DPError, ValueError):
    """A protocol of the local or the shuffle model that can't be, or does not fit what it meets."""


class AlreadyReportedError(DPError, ValueError):
    """An owner's journal shows a report in this campaign: another one would cost a second time."""


class MissingColumnError(DPError, KeyError):
    """The frame has no column of that name."""


class UnsupportedDtypeError(DPError, TypeError):
    """The declared dtype of a column can't be aggregated or grouped by."""


class UnsupportedFrameError(DPError, TypeError):
    """The object is not a frame, relation or file that can be read."""


class TooManyRowsError(DPError, OverflowError):
    """A group reaches the public limit of 2**33 rows, beyond which sums could wrap."""


class StatisticsFileError(DPError, ValueError):
    """A file of exact statistics can't be made or read, or files do not go together."""


class LedgerError(DPError, RuntimeError):
    """A ledger can't be used. Nothing was released."""


class LedgerFileError(LedgerError, OSError):
    """The file of a ledger is missing, locked, read-only, corrupt, of another version, or full."""


class LedgerBudgetError(LedgerError, ValueError):
    """The file of a ledger was made with another budget."""


class InvalidLedgerError(LedgerError, ValueError):
    """Ledger, dataset and note of a release do not go together."""


class MissingLedgerError(LedgerError, ValueError):
    """A release names no ledger, where `require_ledger` was called. Nothing was released."""


class BudgetExceededError(DPError, ValueError):
    """A release costs more than the ledger has left. Nothing was released, nothing charged."""


class PictureError(DPError, RuntimeError):
    """A chart or a page can't be drawn or written; or what draws it is not installed."""


class OutputError(DPError, OSError):
    """A release can't be written where its description says. What was charged stays paid."""


class EngineError(DPError, RuntimeError):
    """The engine failed. Its own message could quote a row and is withheld."""


class EntropyError(DPError, OSError):
    """The operating system's random source failed. Nothing was released."""
