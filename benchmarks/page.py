"""Write the page of a benchmark of releases: options, page and exit code."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path


def run(doc: str, name: str, measure: Callable[..., tuple[str, bool]], releases: int = 400) -> int:
    """Print and write the page that is measured; return 1 if it tells of a target that is missed.

    `measure` is given the number of releases, and whether a quick look, not written, is enough.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a minute, to see that it runs")
    parser.add_argument("--releases", type=int, default=releases)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    start = time.perf_counter()
    text, met = measure(options.releases, quick=options.quick)
    print(text, f"{time.perf_counter() - start:.0f} s", sep="\n")
    if not options.quick:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / name).write_text(text)
    return 0 if met else 1
