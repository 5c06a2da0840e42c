"""Who is compared: where each comes from, and what it can't do or keeps differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
WORKS = ("count", "sum", "mean", "median")


@dataclass(frozen=True)
class Peer:
    """One way to an answer: a script, the packages it needs, and what must be said of it.

    Attributes
    ----------
    name : str
        What the tables call it.
    script : str
        File in `scripts`, without its ending.
    requires : tuple[str, ...]
        What is installed into its own environment; none: the environment of this command.
    works_on : str
        What the rows are read into before the clock starts.
    notes : tuple[str, ...]
        What the reader of a table must know: a footnote each.
    cannot : Mapping[str, str]
        Kinds of work that it has no call for, with the reason.
    concepts : Mapping[str, str]
        What an analyst must know to type its mean by group: a word of ours, and the word in the
        marked region that shows it.
    scored : bool
        Whether its errors are measured.
    n_is_secret : bool
        Whether adding a row may change the answer by little enough to hide it.
    """

    name: str
    script: str
    requires: tuple[str, ...]
    works_on: str
    notes: tuple[str, ...] = ()
    cannot: Mapping[str, str] = field(default_factory=dict)
    concepts: Mapping[str, str] = field(default_factory=dict)
    scored: bool = False
    n_is_secret: bool = True

    @property
    def file(self) -> Path:
        return SCRIPTS / f"{self.script}.py"

    @property
    def plain(self) -> bool:
        return self.script.startswith("plain_")

    @property
    def ours(self) -> bool:
        return self.script.startswith("ours_")


OURS_CONCEPTS = {"group_by": "group_by", "bounds": "bounds", "epsilon": "epsilon", "delta": "delta"}

PEERS = (
    Peer("plain polars", "plain_polars", (), "polars frame"),
    Peer("plain DuckDB", "plain_duckdb", (), "DuckDB table in memory"),
    Peer("plain pandas", "plain_pandas", (), "pandas frame"),
    Peer("dfprivacy, polars", "ours_polars", (), "polars frame", concepts=OURS_CONCEPTS),
    Peer(
        "dfprivacy, DuckDB",
        "ours_duckdb",
        (),
        "DuckDB table in memory",
        concepts={"frame": "frame", **OURS_CONCEPTS},
        scored=True,
    ),
    Peer(
        "dfprivacy, SQL",
        "ours_sql",
        (),
        "DuckDB table in memory",
        notes=("one `dfp.sql` statement: parsed and vetted anew at every call",),
        concepts={
            "SQL with GROUP BY": "GROUP BY",
            "dp_mean with bounds": "dp_mean",
            "connection": "con",
            "epsilon": "epsilon",
            "delta": "delta",
        },
    ),
    Peer("dfprivacy, pandas", "ours_pandas", (), "pandas frame", concepts=OURS_CONCEPTS),
    Peer(
        "OpenDP polars",
        "opendp_polars",
        ("opendp[polars]==0.16.*", "pyarrow"),
        "polars frame",
        notes=(
            "needs public limits on lengths and number of groups; given twice the true numbers",
            "its median chooses among candidates that the analyst lists: 301, evenly spaced",
        ),
        concepts={
            "feature flag": "enable_features",
            "context": "Context",
            "privacy unit": "unit_of",
            "privacy loss": "loss_of",
            "epsilon": "epsilon",
            "delta": "delta",
            "split": "split_evenly_over",
            "margin": "Margin",
            "max_length": "max_length",
            "max_groups": "max_groups",
            "bounds": "mean((",
            "group_by": "group_by",
            "dp.len beside it": "dp.len()",
            "release, then collect": "release()",
        },
        scored=True,
    ),
    Peer(
        "Google, PyDP",
        "google_pydp",
        ("python-dp==1.1.*", "pandas", "pyarrow"),
        "list of floats; pandas frame by group",
        notes=("no groups of its own: a loop over pandas' groups, half of epsilon to select keys",),
        concepts={
            "partition strategy": "create_laplace_partition_strategy",
            "split of epsilon": "epsilon / 2",
            "delta": "delta",
            "loop over groups": "groupby",
            "algorithm object": "BoundedMean",
            "bounds": "lower_bound",
            "l0 sensitivity": "l0_sensitivity",
            "linf sensitivity": "linf_sensitivity",
            "dtype": "dtype",
            "quick_result": "quick_result",
        },
        scored=True,
    ),
    Peer(
        "diffprivlib",
        "ibm_diffprivlib",
        ("diffprivlib==0.6.6", "scikit-learn<1.6", "pandas", "pyarrow"),
        "numpy array; pandas frame by group",
        notes=(
            "treats the number of rows as public, which is a weaker promise",
            "secret keys not supported: pandas shows every key as it is",
        ),
        concepts={
            "groups through pandas": "groupby",
            "tool": "tools.mean",
            "epsilon": "epsilon",
            "bounds": "bounds",
        },
        scored=True,
        n_is_secret=False,
    ),
    Peer(
        "PipelineDP, local",
        "pipelinedp_local",
        ("pipeline-dp==0.3.1", "pandas", "pyarrow"),
        "list of tuples",
        notes=("needs a user id; every row is given its own",),
        concepts={
            "accountant": "BudgetAccountant",
            "epsilon": "total_epsilon",
            "delta": "total_delta",
            "engine": "DPEngine",
            "backend": "LocalBackend",
            "noise kind": "NoiseKind",
            "metrics": "metrics",
            "max partitions": "max_partitions_contributed",
            "max contributions": "max_contributions_per_partition",
            "bounds": "min_value",
            "extractors of user, group, value": "DataExtractors",
            "aggregate": "aggregate",
            "compute_budgets before reading": "compute_budgets",
        },
        scored=True,
    ),
    Peer(
        "SmartNoise SQL",
        "smartnoise_sql",
        ("smartnoise-sql==1.0.10", "pyarrow"),
        "pandas frame (it copies it into SQLite at every call)",
        notes=("epsilon divided by what `get_privacy_cost` says at epsilon 1 (a grouped AVG: 3)",),
        cannot={"median": "no median in its grammar"},
        concepts={
            "metadata": "metadata",
            "row_privacy": "row_privacy",
            "number of rows": "rows",
            "column type": "type",
            "bounds": "lower",
            "SQL with GROUP BY": "GROUP BY",
            "Privacy": "Privacy",
            "epsilon a column of noise": "cost",
            "delta": "delta",
            "reader": "from_df",
            "execute": "execute",
        },
        scored=True,
    ),
    Peer(
        "Tumult Analytics",
        "tumult_analytics",
        ("tmlt.analytics==0.21.0",),
        "cached Spark frame, local mode",
        notes=("Spark on one machine: its start is excluded, its scheduling is not",),
        concepts={
            "feature flag": "auto_partition_selection",
            "budget class": "ApproxDPBudget",
            "epsilon": "epsilon",
            "delta": "delta",
            "session": "Session",
            "source id": "source_id",
            "Spark frame": "dataframe",
            "protected change": "AddOneRow",
            "query builder": "QueryBuilder",
            "groupby": "groupby",
            "bounds": "low",
            "evaluate": "evaluate",
        },
        scored=True,
    ),
)


def chosen(names: str | None) -> tuple[Peer, ...]:
    """Return the peers whose script or name holds one of the words, all without words."""
    if names is None:
        return PEERS
    words = [word.strip().lower() for word in names.split(",")]
    peers = tuple(
        peer
        for peer in PEERS
        if any(word in f"{peer.script} {peer.name.lower()}" for word in words)
    )
    if not peers:
        scripts = ", ".join(peer.script for peer in PEERS)
        raise SystemExit(f"no peer is called {names!r}; there are {scripts}")
    return peers
