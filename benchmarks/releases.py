"""Make releases of every statistic at every front end with replayed random bytes, and compare.

    python -m benchmarks.releases --write   # record them in benchmarks/releases.json
    python -m benchmarks.releases --check   # make them again; print what differs, exit 1 if any

The operating system's random bytes are replaced by a stream of SHAKE-256 that is keyed by the name
of the case, so that a release depends on nothing but the code. A change that is said to leave the
law of all releases alone leaves this table alone. Data goes in through public calls only, so that
the table outlives every change of modules.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

TABLE = Path(__file__).with_suffix(".json")
BLOCK = 4096
PACKAGES = ("dfprivacy", "sql_udfs")
FACTS = ("low", "high", "std_error", "epsilon", "rho", "delta", "bounds", "count", "mean", "values",
         "method", "reports", "error")  # fmt: skip


class Stream:
    """Random bytes that follow from a name, for the modules of the package; others get real ones.

    How many are taken at a time makes no difference.
    """

    def __init__(self, name: str) -> None:
        self.name, self.taken = name, 0
        self._real, self._blocks, self._left = os.urandom, 0, b""

    def restart(self) -> None:
        """Begin again: what was made before does not count."""
        self._blocks, self._left = 0, b""

    def __call__(self, size: int) -> bytes:
        if sys._getframe(1).f_globals["__name__"].split(".")[0] not in PACKAGES:  # noqa: SLF001
            return self._real(size)
        first, missing = self._blocks, size - len(self._left)
        self._blocks += max(0, -(-missing // BLOCK))
        self._left = b"".join([self._left, *map(self._block, range(first, self._blocks))])
        self.taken += size
        data, self._left = self._left[:size], self._left[size:]
        return data

    def _block(self, number: int) -> bytes:
        return hashlib.shake_256(f"{self.name}/{number}".encode()).digest(BLOCK)


@contextmanager
def replayed(name: str) -> Iterator[Stream]:
    """Replace the operating system's random bytes by a stream that follows from a name."""
    stream, real = Stream(name), os.urandom
    os.urandom = stream
    try:
        yield stream
    finally:
        os.urandom = real


def plain(value: Any) -> Any:
    """Return a released value as JSON, exactly: floats in hexadecimal."""
    if isinstance(value, duckdb.DuckDBPyRelation):
        value = value.to_arrow_table()
    elif hasattr(value, "fetchall"):
        value = value.arrow()
    if isinstance(value, pl.LazyFrame):
        value = value.collect()
    if isinstance(value, pl.DataFrame):
        kinds = map(str, value.dtypes)
        return _frame(value.columns, kinds, [value[name].to_list() for name in value.columns])
    if isinstance(value, pa.Table):
        return _frame(value.column_names, map(str, value.schema.types), value.to_pydict().values())
    if isinstance(value, pd.DataFrame):
        kinds = map(str, value.dtypes)
        return _frame(map(str, value), kinds, [value[name].tolist() for name in value])
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return [plain(item) for item in value]
    facts = {} if _is_scalar(value) else _facts(value)
    if not facts:
        return _scalar(value)
    return {"value": _scalar(value), **facts} if isinstance(value, float) else facts


def _is_scalar(value: Any) -> bool:
    scalar_types = (bool, int, float, str, dt.date, dt.timedelta, Decimal, np.generic)
    return (
        value is None
        or value is pd.NA
        or type(value) in scalar_types
        or isinstance(value, np.generic)
    )


def _facts(value: Any) -> dict[str, Any]:
    attributes = {name: getattr(value, name, None) for name in FACTS}
    if getattr(value, "has_interval", True) is False:
        attributes |= dict.fromkeys(("low", "high", "std_error"))
    facts = {
        name: fact for name, fact in attributes.items() if fact is not None and not callable(fact)
    }
    if "bounds" in facts:
        facts["bounds"] = (facts["bounds"].lower, facts["bounds"].upper)
    return {name: plain(fact) for name, fact in facts.items()}


def _frame(names: Any, kinds: Any, columns: Any) -> dict[str, Any]:
    return {
        name: [kind, *map(plain, column)]
        for name, kind, column in zip(names, kinds, columns, strict=True)
    }


def _scalar(value: Any) -> Any:
    if value is None or value is pd.NA or value is pd.NaT or isinstance(value, bool | np.bool_):
        return None if value is pd.NA or value is pd.NaT or value is None else bool(value)
    if isinstance(value, float | np.floating):
        head, _, exponent = float(value).hex().partition("p")
        return f"{head.rstrip('0').rstrip('.')}p{exponent}" if exponent else head
    if isinstance(value, int | np.integer):
        return int(value)
    return str(value)


_FLOAT = re.compile(r"-?0x[01](\.[0-9a-f]*)?p[+-]\d+")
_WIDTHS = ("typical",)


def explain_case(page: Any) -> dict[str, Any]:
    """Return the figures of an explanation: cost, draws, groups shown, half-widths to 9 digits."""
    losses = [draw.epsilon if draw.rho is None else draw.rho for draw in page.draws]
    sizes = page.table.select(["answer", "rows", "typical"]).to_pylist()
    answers: dict[str, list[Any]] = {}
    for row in sizes:
        widths = [None if row[name] is None else f"{row[name]:.9g}" for name in _WIDTHS]
        answers.setdefault(row["answer"], []).append([row["rows"], *widths])
    shown = page.shown and [page.shown.rarely, page.shown.half, page.shown.mostly]
    return {
        "cost": [plain(page.epsilon), plain(page.rho), plain(page.delta)],
        "draws": [_scalar(loss) for loss in losses], "shown": shown, "half": answers,
    }  # fmt: skip


def run_release(run: Any) -> Any:
    """Return the result of a call as JSON, or the name of the error that it raises."""
    from dfprivacy import DPError  # noqa: PLC0415 the replaced bytes come first

    try:
        return run()
    except (DPError, duckdb.Error, TypeError) as error:
        return {"error": type(error).__name__}


def record_releases(only: Any = None) -> dict[str, Any]:
    """Make the releases, or those of some names, and return what came out by name."""
    from benchmarks.release_cases import Places, cases  # noqa: PLC0415 it needs this module

    releases = {}
    with TemporaryDirectory() as folder:
        places = Places(Path(folder))
        for name, run in cases(places):
            if only is not None and name not in only:
                continue
            with replayed(name) as stream:
                releases[name] = run_release(lambda run=run, stream=stream: run(stream))
            if not stream.taken and "error" not in str(releases[name]):
                releases[name] = {"error": "no random byte came from the replayed stream"}
    return releases


def differences(
    releases: Mapping[str, Any], table: Mapping[str, Any], digits: int = 12
) -> list[str]:
    """Return one line for each case that differs from the table.

    Floats are rounded to `digits`: the last bits of a logarithm or a sum depend on the processor.
    """

    def text(of: Any) -> str:
        exact = json.dumps(of, sort_keys=True)
        return _FLOAT.sub(lambda match: f"{float.fromhex(match[0]):.{digits}g}", exact)

    lines = []
    for name in sorted({*releases, *table}):
        old, new = text(table.get(name)), text(releases.get(name))
        if old != new:
            at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
            start = max(0, at - 60)
            lines.append(f"{name}:\n  old {old[start : at + 90]}\n  new {new[start : at + 90]}")
    return lines


def read_table() -> dict[str, Any]:
    """Return the recorded releases."""
    return dict(json.loads(TABLE.read_text()))


def main() -> int:
    """Record, or compare with what is recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="record today's releases")
    parser.add_argument("--check", action="store_true", help="compare (the default)")
    parser.add_argument("--only", nargs="*", help="cases whose names begin so")
    options = parser.parse_args()
    table = read_table() if TABLE.exists() else {}
    names = None
    if options.only:
        table = {
            name: release for name, release in table.items() if name.startswith(tuple(options.only))
        }
        names = set(table)
    releases = record_releases(names)
    if options.write:
        updated_table = read_table() | releases if names is not None else releases
        lines = [f"{json.dumps(name)}:{json.dumps(release, separators=(',', ':'))}"
                 for name, release in sorted(updated_table.items())]  # fmt: skip
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{len(lines)} releases in {TABLE.stat().st_size:,} bytes")
        return 0
    lines = differences(releases, table)
    print("\n".join([*lines, f"{len(releases)} releases, {len(lines)} differ"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
