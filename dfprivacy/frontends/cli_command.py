"""From a function that makes a question to a command that asks it of a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dfprivacy.engine.embedded import Engine
from dfprivacy.frontends.cli_errors import readable_errors
from dfprivacy.frontends.cli_explain import explain
from dfprivacy.frontends.cli_job import Job, release
from dfprivacy.frontends.cli_ledger import charged
from dfprivacy.frontends.cli_options import (
    BY,
    DATASET,
    DELTA,
    EPSILON,
    EXPLAIN,
    FILE,
    INTERVAL,
    KEYS,
    LEDGER,
    MAX_GROUPS,
    MAX_ROWS,
    MEMORY,
    OUTPUT,
    RHO,
    TEMPORARY,
    THREADS,
    UNIT,
)
from dfprivacy.frontends.cli_words import Asked
from dfprivacy.terms import INTERVAL as LEVEL
from dfprivacy.unit import unit_of

Ask = Callable[..., Asked]
Command = Callable[..., None]
Parameters = Mapping[str, inspect.Parameter]

_ENGINE = ("memory", "threads", "temporary")
_TERMS = ("epsilon", "rho", "delta", "interval")


def estimating(ask: Ask) -> Command:
    """Return the command of a question whose answers have intervals."""
    return _command(ask, {**_parameters(_loss), **_parameters(_interval), **_parameters(_place)})


def choosing(ask: Ask) -> Command:
    """Return the command of a question that selections answer: without intervals."""
    return _command(ask, {**_parameters(_loss), **_parameters(_place)})


def _command(ask: Ask, shared: Parameters) -> Command:
    """Return a command with the options of the question and those of every question."""
    own = _parameters(ask)

    def run(file: Path, **given: Any) -> None:
        with readable_errors(), _engine(given), charged(given["ledger"], given["dataset"]):
            question = ask(**{name: given[name] for name in own})
            terms = {name: given[name] for name in _TERMS if name in given}
            unit = unit_of(given["unit"], given["max_rows"], given["max_groups"])
            by, keys, output = given["by"] or (), given["keys"], given["output"]
            act = explain if given["explain"] else release
            act(Job(file, question, by, keys, output, terms, unit))

    run.__doc__ = ask.__doc__
    parameters = {**_parameters(_file), **own, **shared}
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    return run


def _engine(given: Mapping[str, Any]) -> Engine:
    return Engine(**{name: given[name] for name in _ENGINE})


def _parameters(function: Callable[..., object]) -> Parameters:
    return inspect.signature(function, eval_str=True).parameters


def _file(file: FILE) -> None:
    """Name what is asked."""


def _loss(
    *,
    by: BY = None,
    keys: KEYS = None,
    epsilon: EPSILON = None,
    rho: RHO = None,
    delta: DELTA = None,
    unit: UNIT = None,
    max_rows: MAX_ROWS = None,
    max_groups: MAX_GROUPS = None,
) -> None:
    """Say who is shown, what it may cost, and who is protected."""


def _interval(*, interval: INTERVAL = float(LEVEL)) -> None:
    """Say how wide intervals are."""


def _place(
    *,
    ledger: LEDGER = None,
    dataset: DATASET = None,
    output: OUTPUT = None,
    memory: MEMORY = None,
    threads: THREADS = None,
    temporary: TEMPORARY = None,
    explain: EXPLAIN = False,
) -> None:
    """Say what is charged, where the answer goes, what the engine may use, or only explain."""
