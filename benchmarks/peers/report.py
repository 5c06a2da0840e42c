"""peers.md: every table of a run, below what it was measured on."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.code_size import sizes
from benchmarks.peers.jobs import DELTA, EPSILON, GROUPS
from benchmarks.peers.store import Store
from benchmarks.peers.tables import (
    Notes,
    build_pooled_table,
    error_table,
    list_measured_rows,
    markdown,
    memory_table,
    other_errors,
    time_table,
    without_errors,
)

READING = f"""\
One row is protected: neighbors differ by one row, added or removed. Epsilon is {EPSILON:g} for
the whole answer, delta {DELTA:g} where keys are secret, bounds are the same for everyone. A time is
the best of up to three answers in a fresh process; imports, and reading the rows into what a
library works on, are not counted. The ratio is to the fastest engine without privacy."""

ERRORS = """\
Our mean squared error of the mean of a whole table, divided by that of the other: below 1 ours is
smaller. ± is one standard error; a target is met, or missed, where three of them don't matter. The
form of most others is a noisy sum over a noisy count."""


def write_report(store: Store, folder: Path) -> Path:
    """Write peers.md."""
    file = folder / "peers.md"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(report(store)) + "\n")
    return file


def report(store: Store) -> list[str]:
    """Return the lines of peers.md."""
    notes = Notes()
    body = [
        *times(store, notes), *memory(store, notes), *errors(store, notes), *code(),
    ]  # fmt: skip
    return [
        "# Beside the others", "", *heading(store), "", *body, "", "## Notes", "", *notes.lines(),
    ]  # fmt: skip


def heading(store: Store) -> list[str]:
    """Return the machine, how busy it was, and the versions."""
    machine = store.machine
    timed = [record for name, record in store.measured.items() if name.startswith("time/")]
    loads = [record["load"] for record in timed if "load" in record]
    busy = f"load average {min(loads):g} to {max(loads):g}" if loads else "nothing timed"
    about = f"{machine['cores']} cores ({machine['processor']}), {machine['memory GiB']} GiB"
    versions: dict[str, dict[str, None]] = {}
    for environment in store.environments.values():
        for name, version in environment.get("versions", {}).items():
            versions.setdefault(name, {})[version] = None
    named = ", ".join(f"{name} {' and '.join(all_)}" for name, all_ in sorted(versions.items()))
    lines = [
        f"`python -m benchmarks`: {about}, {machine['system']}, Python {machine['python']}, {busy}."
    ]
    if loads and max(loads) > 1.5 * machine["cores"]:
        lines += ["", "**The machine was busy with other work: times are too long.**"]
    return [*lines, "", f"Versions: {named}."]


def times(store: Store, notes: Notes) -> list[str]:
    """Return the tables of times."""
    lines = ["## Time", "", READING, ""]
    for rows in reversed(list_measured_rows(store)):
        for groups in GROUPS:
            table = time_table(store, groups, rows, notes)
            if table:
                lines += [f"### {rows:,} rows, {groups}", "", *table, ""]
    return lines


def memory(store: Store, notes: Notes) -> list[str]:
    """Return the table of memory."""
    text = "Peak of the whole process and its children in MiB for the mean, the rows included."
    return ["## Memory", "", text, "", *memory_table(store, notes), ""]


def errors(store: Store, notes: Notes) -> list[str]:
    """Return the tables of errors."""
    other = "Root mean squared error at 10,000 rows (lognormal, clipped to 0 to 10), epsilon 1:"
    return [
        "## Error at the same epsilon", "", ERRORS, "", *build_pooled_table(store), "",
        *without_errors(store),
        *error_table(store, notes), "", other, "", *other_errors(store, notes), "",
    ]  # fmt: skip


def code() -> list[str]:
    """Return how much there is to type for a private mean by group."""
    rows = [
        [
            name,
            str(size.statements),
            str(size.lines),
            str(len(size.concepts)),
            ", ".join(size.concepts),
        ]
        for name, size in sizes().items()
    ]
    text = (
        "Counted by `python -m benchmarks.peers.code_size` from the marked regions of the scripts."
    )
    head = ["mean by group, keys secret", "statements", "lines", "concepts", "which"]
    return ["## Code", "", text, "", *markdown(head, rows)]
