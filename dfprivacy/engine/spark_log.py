"""What PySpark logs of an error while a pass runs: its message, which could quote a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark's own loggers in Python quiet; what the JVM logs is out of reach."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 need not be installed

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
