"""Means of vectors, measured: the settings of Huang et al. 2021 and of Aumueller et al. 2023.

    python -m benchmarks.vectors --paper huang [--trials 10] [--output DIR]
    python -m benchmarks.vectors --paper plan [--trials 5]
    python -m benchmarks.vectors --speed

Every figure of ours comes from shipped estimators. Writes vectors_huang.md, vectors_plan.md or
vectors_speed.md, and PNGs, and ends with exit code 1 if a target is missed. The authors' numbers
are the means of their published runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.vector_huang import huang
from benchmarks.vector_plan import plan_paper
from benchmarks.vector_speed import speed

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paper", choices=["huang", "plan"])
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    good = True
    if options.paper == "huang":
        good &= huang(options.trials, options.output)
    if options.paper == "plan":
        good &= plan_paper(options.trials, options.output)
    if options.speed:
        good &= speed(options.output)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
