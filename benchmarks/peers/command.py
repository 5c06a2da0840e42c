"""Measure this package and others beside each other, in one command.

    python -m benchmarks [--quick | --full] [--peers opendp,plain] [--resume]

Every peer runs in a virtual environment of its own (made with uv where it is installed, else with
venv and pip; kept in the folder that --environments names), every measurement in a fresh process
with a limit on time and memory. Each is saved as soon as it is made: --resume goes on where a run
was ended. Writes peers.json, peers.md and charts to benchmarks/results, and docs/peers.md.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from benchmarks.peers.jobs import FULL, QUICK, USUAL, Extent
from benchmarks.peers.page import write_page
from benchmarks.peers.registry import chosen
from benchmarks.peers.report import write_report
from benchmarks.peers.session import prepare_all, say, score_all, time_all
from benchmarks.peers.store import Store

RESULTS = Path(__file__).resolve().parents[1] / "results"
DOCS = Path(__file__).resolve().parents[2] / "docs"


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Return the parsed options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="two sizes, fewer questions, minutes")
    extent.add_argument("--full", action="store_true", help="up to 20 million rows, hours")
    parser.add_argument("--peers", help="only these: words out of their names, with commas")
    parser.add_argument("--resume", action="store_true", help="keep what has been measured")
    parser.add_argument("--only", choices=("times", "scores", "report"), help="one part of it")
    parser.add_argument("--seconds", type=float, help="limit of one answer")
    parser.add_argument("--memory", type=int, help="limit of one process, in MiB")
    parser.add_argument("--rows", help="sizes of the timed tables, with commas")
    parser.add_argument("--environments", type=Path, help="where environments and tables are kept")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=DOCS)
    return parser.parse_args(arguments)


def find_extent(options: argparse.Namespace) -> Extent:
    """Return how much is measured."""
    extent = QUICK if options.quick else FULL if options.full else USUAL
    if options.seconds is not None:
        extent = replace(extent, seconds=options.seconds)
    if options.memory is not None:
        extent = replace(extent, mib=options.memory)
    if options.rows is not None:
        extent = replace(extent, rows=tuple(int(float(rows)) for rows in options.rows.split(",")))
    return extent


@contextlib.contextmanager
def folder_of(options: argparse.Namespace) -> Iterator[Path]:
    """Give the folder of environments and tables, a temporary one unless it is named."""
    if options.environments is not None:
        options.environments.mkdir(parents=True, exist_ok=True)
        yield options.environments.resolve()
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        yield Path(name)


def measure_all(options: argparse.Namespace, store: Store) -> None:
    """Time and score what is asked for."""
    peers, extent = chosen(options.peers), find_extent(options)
    with folder_of(options) as folder:
        environments = prepare_all(peers, folder, store)
        if options.only != "scores":
            time_all(peers, environments, extent, store, folder)
        if options.only != "times":
            score_all(peers, environments, extent, store, folder)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a child is ended too
    options = read_options(arguments)
    file = options.output / "peers.json"
    store = Store.opened(file, resume=options.resume or options.only == "report")
    if options.only != "report":
        measure_all(options, store)
    write_report(store, options.output)
    if find_spec("matplotlib") is None:
        say("matplotlib is not installed: no charts (pip install 'dfprivacy[bench]')")
    else:
        from benchmarks.peers.charts import draw  # noqa: PLC0415  # optional

        draw(store, options.output)
    write_page(store, options.docs, options.output)
    return 0
