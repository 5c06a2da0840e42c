"""The tables: times, memory, errors, code; a cell that is no number says why in a footnote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.jobs import GROUPS, time_name
from benchmarks.peers.registry import PEERS, WORKS, Peer
from benchmarks.peers.scores import Score, pool_ratios
from benchmarks.peers.store import Store

BEST = "dfprivacy, DuckDB"
TARGET = 0.55


@dataclass
class Notes:
    """Footnotes, numbered as they are first used."""

    texts: list[str] = field(default_factory=list)

    def mark(self, text: str) -> str:
        """Return the mark of a footnote."""
        if text not in self.texts:
            self.texts.append(text)
        return f"<sup>{self.texts.index(text) + 1}</sup>"

    def lines(self) -> list[str]:
        """Return the lines below the tables."""
        return [f"{number}. {text}" for number, text in enumerate(self.texts, start=1)]


def markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table; the first column is text, the others are numbers."""
    line = [":--", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (head, line, *rows)]


def list_measured_rows(store: Store) -> list[int]:
    """Return the sizes that were timed."""
    times = [record["asked"] for name, record in store.measured.items() if name.startswith("time/")]
    return sorted({settings["rows"] for settings in times})


def common_size(store: Store) -> int | None:
    """Return the size at which most peers have a mean by 1,000 groups, the largest of several."""

    def list_managed(rows: int) -> tuple[int, int]:
        names = [time_name(peer.script, "mean", "1,000 groups", rows) for peer in PEERS]
        return sum(store.status(name) == "ok" for name in names), rows

    return max(list_measured_rows(store), key=list_managed, default=None)


def label(peer: Peer, notes: Notes) -> str:
    """Return a peer's name with the marks of what must be said of it."""
    return peer.name + "".join(notes.mark(f"{peer.name}: {text}.") for text in peer.notes)


def seconds(value: float) -> str:
    """Return a time with three figures that count."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def time_cell(store: Store, peer: Peer, work: str, groups: str, rows: int, notes: Notes) -> str:
    """Return a time, or why there is none."""
    if work in peer.cannot:
        return "-" + notes.mark(f"{peer.name}: {peer.cannot[work]}.")
    trouble = store.environments.get(peer.script, {}).get("trouble")
    if trouble:
        return "-" + notes.mark(f"{peer.name} could not be installed: {trouble}")
    record = store.measured.get(time_name(peer.script, work, groups, rows))
    if record is None:
        return ""
    if record["status"] == "ok":
        return seconds(record["seconds"])
    return reason(record, peer, notes)


def reason(record: dict[str, Any], peer: Peer, notes: Notes) -> str:
    """Return the text of a table for a measurement without a time."""
    limit, mib = record["asked"]["seconds"], record["asked"]["mib"]
    if record["status"] == "slow":
        if "loading" in record:
            return f"> {limit:g} s"
        return f"> {limit:g} s" + notes.mark("The rows were not read in ten times that limit.")
    if record["status"] == "memory":
        return f"> {mib / 1024:g} GiB"
    if record["status"] == "skipped":
        text = f"Not tried: {record['after']:,} rows were too much already."
        return "-" + notes.mark(text)
    return "-" + notes.mark(f"{peer.name} failed: {record.get('trouble', 'without a word')}")


def fastest_plain(store: Store, work: str, groups: str, rows: int) -> float | None:
    """Return the time of the fastest engine without privacy."""
    names = [time_name(peer.script, work, groups, rows) for peer in PEERS if peer.plain]
    records = [store.measured[name] for name in names if store.status(name) == "ok"]
    return min((record["seconds"] for record in records), default=None)


def present(store: Store) -> list[Peer]:
    """Return the peers that anything is known of."""
    return [peer for peer in PEERS if peer.script in store.environments]


def time_table(store: Store, groups: str, rows: int, notes: Notes) -> list[str]:
    """Return the times of one grouping and size, with the ratio to the fastest plain engine."""
    works = [work for work in WORKS if fastest_plain(store, work, groups, rows) is not None]
    if not works:
        return []
    head = ["", *[f"{work}, s" for work in works], *[f"{work}, ratio" for work in works]]
    lines = []
    for peer in try_charge(store, rows):
        cells = [time_cell(store, peer, work, groups, rows, notes) for work in works]
        ratios = [ratio_cell(store, peer, work, groups, rows) for work in works]
        if any(cells):
            lines.append([label(peer, notes), *cells, *ratios])
    return markdown(head, lines) if lines else []


def try_charge(store: Store, rows: int) -> list[Peer]:
    """Return the peers that were asked anything at a size, or could not be installed."""
    timed = [record["asked"] for name, record in store.measured.items() if name.startswith("time/")]
    scripts = {job["peer"] for job in timed if job["rows"] == rows}
    return [
        peer
        for peer in present(store)
        if peer.script in scripts or store.environments[peer.script].get("trouble")
    ]


def ratio_cell(store: Store, peer: Peer, work: str, groups: str, rows: int) -> str:
    """Return a time over that of the fastest plain engine."""
    plain = fastest_plain(store, work, groups, rows)
    name = time_name(peer.script, work, groups, rows)
    if plain is None or store.status(name) != "ok":
        return ""
    ratio = store.measured[name]["seconds"] / plain
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def memory_table(store: Store, notes: Notes) -> list[str]:
    """Return the peak memory of the mean at the largest size, and what the rows alone take."""
    sizes = list_measured_rows(store)
    if not sizes:
        return []
    head = ["", *[f"{groups}, {rows:,} rows" for rows in sizes[-2:] for groups in GROUPS]]
    lines = []
    for peer in present(store):
        records = [
            store.measured.get(time_name(peer.script, "mean", groups, rows), {})
            for rows in sizes[-2:]
            for groups in GROUPS
        ]
        cells = [f"{record['peak_mib']:,}" if "peak_mib" in record else "" for record in records]
        if any(cells):
            lines.append([label(peer, notes), *cells])
    return markdown(head, lines)


def list_scores(store: Store, peer: Peer, work: str = "mean") -> dict[str, Score]:
    """Return the errors of a peer by setting."""
    start = f"score/{peer.script}/{work}/"
    return {
        name.removeprefix(start): Score.of(record)
        for name, record in store.measured.items()
        if name.startswith(start) and record["status"] == "ok"
    }


def ours(store: Store, work: str = "mean") -> dict[str, Score]:
    """Return our own errors by setting."""
    return list_scores(store, next(peer for peer in PEERS if peer.name == BEST), work)


def list_ratios(store: Store, peer: Peer, work: str = "mean") -> dict[str, tuple[float, float]]:
    """Return our mean squared error over a peer's, by setting, with standard errors."""
    mine = ours(store, work)
    theirs = list_scores(store, peer, work)
    return {key: mine[key].ratio_to(score) for key, score in theirs.items() if key in mine}


def list_scored_peers(store: Store) -> list[Peer]:
    """Return the others that have errors."""
    return [peer for peer in PEERS if not peer.ours and list_ratios(store, peer)]


def without_errors(store: Store) -> list[str]:
    """Name those that gave no errors in this run."""
    silent = [peer.name for peer in present(store) if peer.scored and not list_scores(store, peer)]
    text = f"No errors in this run (not asked for, or too slow): {', '.join(silent)}."
    return [text, ""] if silent else []


def error_table(store: Store, notes: Notes) -> list[str]:
    """Return a line a setting: our mean squared error, and its ratio to each peer's."""
    peers = list_scored_peers(store)
    head = ["data, rows, epsilon", "RMSE of ours"]
    head += [label(peer, notes) for peer in peers]
    lines = []
    for key, score in ours(store).items():
        dataset, rows, epsilon = key.split("/")
        cells = [ratio_text(list_ratios(store, peer).get(key)) for peer in peers]
        lines.append([f"{dataset}, {int(rows):,}, {epsilon}", f"{score.mse**0.5:.3g}", *cells])
    return markdown(head, lines) if peers else []


def ratio_text(ratio: tuple[float, float] | None) -> str:
    """Return a ratio with its standard error."""
    if ratio is None:
        return ""
    value, error = ratio
    return f"{value:.3f} ± {error:.3f}" if value < 1000 else f"{value:.3g}"


def build_pooled_table(store: Store) -> list[str]:
    """Return a line a peer: all its settings together, and whether the target is met."""
    head = ["", "n is", "settings", "geometric mean of ours / theirs", "least", "most", "target"]
    lines = []
    for peer in list_scored_peers(store):
        ratios = list(list_ratios(store, peer).values())
        values = [ratio for ratio, _ in ratios]
        secret = "secret" if peer.n_is_secret else "public"
        met = f"at most {TARGET}: {verdict(ratios)}" if peer.n_is_secret else "none"
        spread = [f"{min(values):.3f}", f"{max(values):.3f}"]
        middle = ratio_text(pool_ratios(ratios))
        lines.append([peer.name, secret, str(len(ratios)), middle, *spread, met])
    return markdown(head, lines) if lines else []


def verdict(ratios: list[tuple[float, float]]) -> str:
    """Compare all settings together with the target: three standard errors must not matter."""
    middle, error = pool_ratios(ratios)
    if middle + 3 * error <= TARGET:
        return "met"
    return "missed" if middle - 3 * error > TARGET else "undecided"


def other_errors(store: Store, notes: Notes) -> list[str]:
    """Return the errors of count, sum and median: information, without a target."""
    works = ("count", "sum", "median")
    lines = []
    for peer in PEERS:
        scores = [next(iter(list_scores(store, peer, work).values()), None) for work in works]
        if any(scores):
            cells = [
                other_cell(peer, work, score, notes)
                for work, score in zip(works, scores, strict=True)
            ]
            lines.append([peer.name, *cells])
    return markdown(["RMSE", *works], lines) if lines else []


def other_cell(peer: Peer, work: str, score: Score | None, notes: Notes) -> str:
    """Return a root mean squared error, or why there is none."""
    if work in peer.cannot:
        return "-" + notes.mark(f"{peer.name}: {peer.cannot[work]}.")
    return "" if score is None else f"{score.mse**0.5:.3g}"
