"""Measure the peak memory of a process, and the largest size of its folder of spill files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def peak_mib() -> float:
    """Return the largest memory of this process alone, not of its parent (VmHWM), in MiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in status)["VmHWM"].split()[0]) / 2**10


@contextmanager
def spilled_mib(folder: str, every: float) -> Iterator[list[float]]:
    """Look at a folder every so many seconds; the list holds how much lay there, at the end too."""
    sizes, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(every):
            files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
            sizes.append(sum(map(_size, files)) / 2**20)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield sizes
    finally:
        done.set()
        watcher.join()


def _size(file: Path) -> int:
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:
        return 0
