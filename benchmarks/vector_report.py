"""Tables and pictures of benchmarks/vectors.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

mpl.use("Agg")
Row = tuple[str, dict[str, float]]


def report(name: str, rows: list[Row], notes: Iterable[str] = ()) -> str:
    columns = list(dict.fromkeys(key for _, values in rows for key in values))
    lines = [f"## {name}", "", "| |" + "|".join(columns) + "|", "|:--|" + "--:|" * len(columns)]
    for label, values in rows:
        cells = (f"{values[c]:.3g}" if c in values else "" for c in columns)
        lines.append(f"|{label}|" + "|".join(cells) + "|")
    text = "\n".join([*lines, "", *notes, ""])
    print(text, flush=True)
    return text


def draw(
    path: Path,
    panels: dict[str, list[Row]],
    x_of: Callable[[str], float],
    *,
    xlabel: str,
    log2: bool,
    leave_out: tuple[str, ...] = (),
) -> None:
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4), squeeze=False)
    for axis, (title, rows) in zip(axes[0], panels.items(), strict=True):
        xs = [x_of(label) for label, _ in rows]
        for name in rows[0][1]:
            if any(part in name for part in (*leave_out, "astray")):
                continue
            ours = name.startswith(("recentered", "plan", "ours"))
            style = {"lw": 2, "marker": "o"} if ours else {"lw": 1, "ls": "--", "marker": "."}
            axis.plot(xs, [values[name] for _, values in rows], label=name, ms=4, **style)
        axis.set_yscale("log")
        if log2:
            axis.set_xscale("log", base=2)
        axis.set_title(title)
        axis.set_xlabel(xlabel)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6)
    axes[0][0].set_ylabel("error")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def find_value(label: str) -> float:
    return float(label.rsplit("=", maxsplit=1)[-1])
