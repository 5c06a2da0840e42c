"""Three charts of a run: time by rows, time by groups, errors beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

from benchmarks.peers.jobs import GROUPS, NUMBER_OF_GROUPS, time_name
from benchmarks.peers.registry import PEERS, Peer
from benchmarks.peers.scores import pool_ratios
from benchmarks.peers.store import Store
from benchmarks.peers.tables import (
    TARGET,
    common_size,
    list_measured_rows,
    list_ratios,
    list_scored_peers,
)

# Okabe and Ito's colors, which the color-blind tell apart; a marker each besides.
OURS = ("#0072B2", "#56B4E9", "#009E73", "#004D73")
OTHERS = ("#D55E00", "#E69F00", "#CC79A7", "#7F5200", "#8C2D04", "#B8A200")
MARKERS = "osD^vPX*"


def style(peer: Peer) -> dict[str, Any]:
    """Return how a peer is drawn: plain grey and dotted, ours blue and whole, others dashed."""
    kin = [other for other in PEERS if (other.plain, other.ours) == (peer.plain, peer.ours)]
    index = kin.index(peer)
    marker = MARKERS[index]
    if peer.plain:
        return {"color": ("#000000", "#777777", "#AAAAAA")[index], "ls": ":", "marker": marker}
    colors, line = (OURS, "-") if peer.ours else (OTHERS, "--")
    return {"color": colors[index], "ls": line, "marker": marker}


def draw(store: Store, folder: Path) -> list[Path]:
    """Write the charts there is anything to show in."""
    files = []
    common = common_size(store)
    if common is not None:
        files += [
            by_rows(store, list_measured_rows(store), folder),
            by_groups(store, common, folder),
        ]
    if list_scored_peers(store):
        files.append(by_error(store, folder))
    return files


def by_rows(store: Store, sizes: list[int], folder: Path) -> Path:
    """Draw the time of the mean by 1,000 groups over the number of rows."""
    figure, axes = plt.subplots(figsize=(9, 5.2), layout="constrained")
    for peer in PEERS:
        points = [(rows, _seconds(store, peer, "1,000 groups", rows)) for rows in sizes]
        _line(axes, peer, points)
    axes.set(xscale="log", xlabel="rows", ylabel="seconds")
    axes.set_title("Mean by 1,000 groups")
    return _finish(figure, axes, folder / "peers_rows.png")


def by_groups(store: Store, rows: int, folder: Path) -> Path:
    """Draw the time of the mean over the number of groups."""
    figure, axes = plt.subplots(figsize=(9, 5.2), layout="constrained")
    for peer in PEERS:
        points = [
            (NUMBER_OF_GROUPS[key], _seconds(store, peer, name, rows))
            for name, key in GROUPS.items()
        ]
        _line(axes, peer, points)
    axes.set(xscale="log", xlabel="groups (1: whole table)", ylabel="seconds")
    axes.set_title(f"Mean of {rows:,} rows")
    return _finish(figure, axes, folder / "peers_groups.png")


def by_error(store: Store, folder: Path) -> Path:
    """Draw our mean squared error over each peer's: a dot a setting, a bar for all together."""
    peers = list_scored_peers(store)
    figure, axes = plt.subplots(figsize=(9, 0.7 * len(peers) + 1.8), layout="constrained")
    for row, peer in enumerate(peers):
        ratios = list(list_ratios(store, peer).values())
        values = [max(ratio, 1e-4) for ratio, _ in ratios]
        shade = style(peer)["color"]
        axes.scatter(values, [row] * len(values), s=26, alpha=0.55, color=shade)
        axes.plot([pool_ratios(ratios)[0]] * 2, [row - 0.3, row + 0.3], color="black", lw=2.5)
    axes.axvline(1, color="#777777", lw=1)
    axes.axvline(TARGET, color="#0072B2", lw=1, ls="--")
    axes.text(TARGET, len(peers) - 0.42, f"target {TARGET} ", ha="right", color="#0072B2")
    axes.text(1, len(peers) - 0.42, " equal", color="#555555")
    names = [peer.name + ("" if peer.n_is_secret else " (n public)") for peer in peers]
    axes.set_yticks(range(len(peers)), names)
    axes.set_ylim(-0.6, len(peers) - 0.1)
    axes.set(xscale="log", xlabel="our mean squared error / theirs: left of 1 ours is smaller")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.09), max(high, 2.2))
    ticks = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
    axes.set_xticks([tick for tick in ticks if axes.get_xlim()[0] < tick < axes.get_xlim()[1]])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title("Mean of a whole table: a dot a setting, the bar their geometric mean")
    axes.grid(axis="x", alpha=0.3)
    file = folder / "peers_errors.png"
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return file


def _seconds(store: Store, peer: Peer, groups: str, rows: int) -> float | None:
    name = time_name(peer.script, "mean", groups, rows)
    return store.measured[name]["seconds"] if store.status(name) == "ok" else None


def _line(axes: Any, peer: Peer, points: list[tuple[int, float | None]]) -> None:
    measured = [(x, y) for x, y in points if y is not None]
    if measured:
        xs, ys = zip(*measured, strict=True)
        axes.plot(xs, ys, label=peer.name, lw=1.8, ms=7, **style(peer))


def _finish(figure: Any, axes: Any, file: Path) -> Path:
    axes.set_yscale("log")
    axes.grid(which="major", alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return file
