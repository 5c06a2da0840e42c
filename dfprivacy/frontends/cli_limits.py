"""The command that finds a unit's limits: `dfprivacy limits visits.csv --unit user --by shop`."""

from __future__ import annotations

from rich.console import Console

from dfprivacy.engine.embedded import Engine
from dfprivacy.forecast.limits import explain_limits
from dfprivacy.frontends.cli_errors import readable_errors
from dfprivacy.frontends.cli_explain import show_explanation
from dfprivacy.frontends.cli_ledger import charged
from dfprivacy.frontends.cli_options import (
    BY,
    DATASET,
    EPSILON,
    EXPLAIN,
    FILE,
    LEDGER,
    MEMORY,
    RHO,
    SHARE,
    TEMPORARY,
    THREADS,
    WHOSE,
)
from dfprivacy.frontends.cli_output import show_line
from dfprivacy.limits import suggest_limits
from dfprivacy.terms import EPSILON as DEFAULT


def limits(
    file: FILE,
    *,
    unit: WHOSE,
    by: BY = None,
    share: SHARE = 0.95,
    epsilon: EPSILON = None,
    rho: RHO = None,
    ledger: LEDGER = None,
    dataset: DATASET = None,
    memory: MEMORY = None,
    threads: THREADS = None,
    temporary: TEMPORARY = None,
    explain: EXPLAIN = False,
) -> None:
    """Find how many rows and groups nearly all units stay within, privately.

    [bold]Example[/bold]

    dfprivacy limits visits.csv --unit user --by shop --epsilon 0.2
    """
    loss = DEFAULT if epsilon is None else epsilon
    with (
        readable_errors(),
        Engine(memory=memory, threads=threads, temporary=temporary),
        charged(ledger, dataset),
    ):
        if explain:
            show_explanation(explain_limits(unit, by or (), share, epsilon=loss, rho=rho))
            return
        found = suggest_limits(file, unit=unit, by=by or (), share=share, epsilon=loss, rho=rho)
        groups = "" if found.max_groups is None else f" --max-groups {found.max_groups}"
        show_line(Console(), f"--unit {unit} --max-rows {found.max_rows}{groups}")
