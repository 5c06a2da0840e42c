"""Releases, one after the other: checked together, then each charged once, kept and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.idempotent import IdempotentLedger
from dfprivacy.jobs.answers import made, required_charge
from dfprivacy.jobs.description import Description, Release
from dfprivacy.jobs.outputs import require_writable, write
from dfprivacy.jobs.prices import mark_of
from dfprivacy.jobs.provenance import write_note


@dataclass(frozen=True)
class Step:
    """A release that can be made: its ledger, what it costs, and whether that was paid before."""

    release: Release
    ledger: IdempotentLedger
    charge: Charge
    settled: bool


@dataclass(frozen=True)
class Done:
    """A release that was written; `paid_before` if an earlier run was charged for it."""

    release: Release
    charge: Charge
    paid_before: bool


def planned(description: Description) -> list[Step]:
    """Return the steps of a run, once everything that can be checked without a row has been.

    Raises
    ------
    BudgetExceededError
        When the releases that are not paid for do not fit into what is left, all together.
    OutputError, LedgerError, DPError
        When a ledger, a source or an output can't be used. Nothing is charged.
    """
    steps = [_step(release) for release in description.releases]
    for step in steps:
        for output in step.release.outputs:
            require_writable(output)
    _require_room([step for step in steps if not step.settled])
    return steps


def _step(release: Release) -> Step:
    ledger = IdempotentLedger(release.budget.ledger, release.budget.dataset, mark_of(release))
    return Step(release, ledger, required_charge(release), ledger.settled())


def _require_room(steps: Sequence[Step]) -> None:
    """Refuse a run whose releases do not fit together; two that are the same are charged once."""
    once = {mark_of(step.release): step for step in steps}.values()
    for _, account in groupby(sorted(once, key=_account), _account):
        own = list(account)
        own[0].ledger.require_room([step.charge for step in own])


def _account(step: Step) -> tuple[Path, str]:
    return step.release.budget.ledger.resolve(), step.release.budget.dataset


def run_releases(description: Description) -> Iterator[Done]:
    """Make every release and write it, one at a time; what was made before is repeated.

    Each release is charged to its ledger once, however often the run is killed or repeated, and
    all its outputs hold the one table that the ledger keeps. Only an error between the charge and
    what the ledger keeps uses the charge up: it may tell something about the draw.

    Raises
    ------
    DPError
        As `planned`, before anything is charged; or when an engine, a ledger or a disk fails on
        the way. To run again finishes what was not; what the ledger has kept is not paid again.
    """
    for step in planned(description):
        kept = step.ledger.kept()
        if kept is None:
            table = step.ledger.kept_of(partial(made, step.release, step.ledger))
        else:
            table = kept
        paid = step.ledger.paid()
        for output in step.release.outputs:
            write_note(description, step.release, output, charge=step.charge, paid=paid)
            write(table, output)
        yield Done(step.release, step.charge, step.settled or kept is not None)
