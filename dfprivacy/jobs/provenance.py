"""What is written beside an output: what was asked, what it cost, and what is promised.

It holds what the description says and what the history of the ledger says about the charge:
nothing of the data, and no number of rows.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from dfprivacy.accounting.charge import Charge, short
from dfprivacy.accounting.idempotent import Paid
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.jobs.description import Description, Output, QuerySource, Release
from dfprivacy.jobs.outputs import note_of, replace_file


def write_note(
    description: Description,
    release: Release,
    output: Output,
    *,
    charge: Charge,
    paid: Paid | None,
) -> None:
    """Write the note of an output; the same release has the same note, byte by byte.

    Raises
    ------
    OutputError
        When the operating system does not let us.
    """
    note = {
        "release": release.name,
        "output": output.text,
        "asked": asked(release),
        "charged": {name: float(value) for name, value in _amounts(charge).items()},
        "dataset": release.budget.dataset,
        "version": release.budget.version,
        "time": None if paid is None else paid.time,
        "dfprivacy": None if paid is None else paid.version,
        "description": {"file": description.file.name, "sha256": description.digest},
        "parameters": dict(description.parameters),
        "promise": promise(release, charge),
    }
    text = json.dumps(note, indent=2, ensure_ascii=False, default=str) + "\n"
    replace_file(note_of(output), lambda path: path.write_text(text, encoding="utf-8"))


def asked(release: Release) -> dict[str, Any]:
    """Return what is asked, as the description has it."""
    source = release.source
    if isinstance(source, QuerySource):
        what: dict[str, Any] = {"source": source.text, "query": source.query}
    else:
        questions = {name: question.text for name, question in release.questions.items()}
        what = {"source": source.text, "questions": questions, "by": list(release.by)}
    return {
        **what,
        "keys": None if release.keys is None else [list(row) for row in release.keys.rows],
        "unit": "one row" if release.unit is None else release.unit.text,
        "interval": release.interval,
    }


def _amounts(charge: Charge) -> dict[str, Fraction]:
    measure = "epsilon" if isinstance(charge.loss, Epsilon) else "rho"
    return {measure: charge.loss.value, "delta": charge.delta}


def cost(charge: Charge) -> str:
    """Return a charge in words.

    >>> from fractions import Fraction
    >>> cost(Charge(Epsilon(Fraction(1, 2)), Fraction(1, 10**6)))
    'epsilon 0.5, delta 1e-6'
    """
    amounts = _amounts(charge).items()
    return ", ".join(f"{name} {short(value)}" for name, value in amounts if value)


def promise(release: Release, charge: Charge) -> str:
    """Return what an output promises, in one sentence."""
    unit = release.unit
    who = "one row" if unit is None else f"all rows of one {unit.column} ({unit.text})"
    kind = "differentially private" if isinstance(charge.loss, Epsilon) else "zCDP"
    return (
        f"This release is {kind} with {cost(charge)} for adding or removing {who}; other releases "
        f"about the dataset {release.budget.dataset!r} add to that, and its ledger adds them up."
    )
