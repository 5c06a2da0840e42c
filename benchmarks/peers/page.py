"""docs/peers.md: the latest figures in plain words."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.peers.jobs import GROUPS, time_name
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.peers.report import ERRORS, READING
from benchmarks.peers.store import Store
from benchmarks.peers.tables import (
    Notes,
    build_pooled_table,
    common_size,
    label,
    list_measured_rows,
    list_ratios,
    list_scored_peers,
    markdown,
    seconds,
    time_cell,
    try_charge,
    without_errors,
)

INTRODUCTION = """\
# Comparison with other libraries

## What they have and this package lacks

- **Tumult Analytics**: joins of two private tables in Python, and maps that make columns from all
  rows of one person. It spreads over the machines of a Spark cluster.
- **OpenDP**: written proofs of each building block, an odometer and a privacy filter for fully
  adaptive losses, consistent marginals and synthetic rows (AIM, MST), PCA, and R and Rust.
- **Google's libraries**: the same mechanisms in C++, Java and Go, a library for accounting that
  this package uses itself, pipelines on Beam (PipelineDP), and `WITH DIFFERENTIAL_PRIVACY` in
  BigQuery, where the privacy unit belongs to a view and not to a caller.
- **diffprivlib**: private machine learning with the interface of scikit-learn.
- **SmartNoise SQL**: readers for SQL Server, Postgres, MySQL and BigQuery, and synthesizers.
- **CWI's `privacy` for DuckDB** (AGPL): the unit and the links between tables are declared in the
  database itself, and ordinary SQL is rewritten.
- **Lomas**: a server with accounts and an administrator, so that analysts never hold the data.
- **Snowflake and AWS Clean Rooms**: a managed service. Policies protect tables from the analyst,
  and budgets are renewed over time. AWS draws its noise with a verified sampler.

## What this package has beside them

| | here | elsewhere |
|:--|:--|:--|
| frames | pandas, polars, Arrow, DuckDB, Spark, Ibis | OpenDP: polars; Tumult: Spark |
| value bounds | given or estimated | Google: yes; Tumult: own call; OpenDP, diffprivlib: no |
| intervals of means | yes | Snowflake, Google in C++: yes; OpenDP, Tumult, SmartNoise: no |
| forecast of error | `explain`, without data | OpenDP: by noise term |
| budget on disk | `Ledger` | Snowflake, AWS, BigQuery, Lomas: yes; libraries: no |
| several quantiles in a call | yes | PipelineDP: yes; others: one at a time |
| SQL with joins | under a schema | CWI, Snowflake, AWS: yes |

Read: the versions that were measured, `privacy` of May 2026, and the documentation of the services
in November 2026. Corrections are welcome.

Each library has a virtual environment, each measurement a fresh process. The
[scripts](../benchmarks/peers/scripts/opendp_polars.py) follow each library's documentation.
`python -m benchmarks --quick` measures again."""

BETTER = """\
## Where another is better

- **Clusters and Beam.** Tumult Analytics and PipelineDP are made for many machines. Their times
  here are those of one machine.
- **Small tables in a plain process.** PyDP and diffprivlib answer about one list of numbers without
  a query engine.
- **Sums and medians of some data.** The transformed noise does not help sums. In the one setting
  that was scored, root mean squared errors of a sum were 9.6 for PipelineDP, 11.1 for Tumult and
  14.2 here (from few answers), of a median 0.0012 for PyDP and 0.0016 here."""


def write_page(store: Store, docs: Path, results: Path) -> Path:
    """Write docs/peers.md."""
    file = docs / "peers.md"
    docs.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(page(store, os.path.relpath(results, docs))) + "\n")
    return file


def page(store: Store, link: str) -> list[str]:
    """Return the lines of the page."""
    notes = Notes()
    return [
        INTRODUCTION, "", f"Machine, versions and all tables: [peers.md]({link}/peers.md).", "",
        *times(store, notes), *errors(store), "", BETTER, "",
        *list_better(store), "", "## Notes", "", *notes.lines(),
    ]  # fmt: skip


def times(store: Store, notes: Notes) -> list[str]:
    """Return the times of a mean by group at the size that most peers manage."""
    rows = common_size(store)
    if rows is None:
        return []
    groups = "1,000 groups"
    head = ["", "s", "CPU s"]
    lines = []
    for peer in try_charge(store, rows):
        time = time_cell(store, peer, "mean", groups, rows, notes)
        cpu = store.measured.get(time_name(peer.script, "mean", groups, rows), {}).get("cpu")
        lines.append([label(peer, notes), time, "" if cpu is None else seconds(cpu)])
    title = (
        f"A mean of {rows:,} rows by {groups}. Seconds are those of a quiet machine. CPU seconds "
        "were measured later in one run, without Java processes."
    )
    return ["## Time", "", READING, "", title, "", *markdown(head, lines), ""]


def errors(store: Store) -> list[str]:
    """Return the errors of all settings together."""
    table = [*build_pooled_table(store), "", *without_errors(store)]
    return ["## Error at the same epsilon", "", ERRORS, "", *table]


def list_better(store: Store) -> list[str]:
    """Name what was measured to be better than ours, so that no figure is passed over."""
    lines = [line for peer in list_scored_peers(store) if (line := _smaller_error(store, peer))]
    lines += [line for rows in list_measured_rows(store) if (line := _faster(store, rows))]
    return ["In this run:", "", *lines] if lines else []


def _smaller_error(store: Store, peer: Peer) -> str | None:
    """Name settings where a peer's error was smaller by more than three standard errors."""
    ratios = list_ratios(store, peer)
    won = [key for key, (ratio, error) in ratios.items() if ratio - 3 * error > 1]
    if not won:
        return None
    named = "; ".join(key.replace("/", ", ") for key in won[:6])
    more = f" and {len(won) - 6} more" if len(won) > 6 else ""
    public = "" if peer.n_is_secret else " (n public)"
    share = f"in {len(won)} of {len(ratios)} settings"
    return f"- {peer.name}{public} has the smaller error {share}: {named}{more}."


def _faster(store: Store, rows: int) -> str | None:
    """Name the peers that answered the mean faster than the fastest of ours."""
    entries = []
    for groups in GROUPS:
        names = [
            (peer, time_name(peer.script, "mean", groups, rows)) for peer in PEERS if not peer.plain
        ]
        times = [
            (peer, store.measured[name]["seconds"])
            for peer, name in names
            if store.status(name) == "ok"
        ]
        best = min((value for peer, value in times if peer.ours), default=None)
        quick = [peer.name for peer, value in times if best is not None and value < best]
        entries += [f"{name} ({groups})" for name in quick]
    return (
        f"- Faster than the fastest of ours at {rows:,} rows: {', '.join(entries)}."
        if entries
        else None
    )
