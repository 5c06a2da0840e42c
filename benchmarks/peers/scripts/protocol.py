"""Read a job in JSON from standard input, and write JSON lines: every peer's script does.

Only the standard library: this file runs in every peer's own environment. A script hands
`serve` how it reads a Parquet file into what its library works on, and one function a question.

A timing job reads the file (not timed), then asks the same question up to `runs` times, as long
as another one fits into `seconds`. A scoring job asks for `releases` private answers about a
small data set, as many as fit into `seconds`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Statistic = SimpleNamespace  # work, key, lower, upper, epsilon, delta, rows, groups
Ask = Callable[[Any, Statistic], Any]
Releases = Callable[[list[float], Statistic, int], Iterable[float]]


def write_line(**line: Any) -> None:
    """Write one line of the answer."""
    sys.stdout.write("\n" + json.dumps(line) + "\n")
    sys.stdout.flush()


def peak_mib() -> float:
    """Return the largest memory of this process so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 2**10  # this process alone, not its parent
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def serve(
    read: Callable[[Statistic], Any],
    asks: Mapping[str, Ask],
    releases: Releases,
    packages: Iterable[str],
) -> None:
    """Answer the job on standard input."""
    question = Statistic(**json.load(sys.stdin))
    write_line(event="versions", versions={name: version(name) for name in packages})
    if question.kind == "score":
        return score(question, releases)
    start = time.perf_counter()
    data = read(question)
    write_line(event="ready", seconds=time.perf_counter() - start, peak_mib=peak_mib())
    return clock(lambda: asks[question.work](data, question), question)


def clock(ask: Callable[[], Any], question: Statistic) -> None:
    """Time a question, again as long as there is time for one more."""
    begin = time.perf_counter()
    for _ in range(question.runs):
        start, cpu = time.perf_counter(), time.process_time()
        answer = ask()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        groups = len(answer) if question.key else None
        write_line(event="run", seconds=seconds, cpu=cpu, groups=groups, peak_mib=peak_mib())
        if time.perf_counter() - begin + seconds > question.seconds:
            break
    write_line(event="done")
    sys.stdout.flush()
    os._exit(0)  # freeing millions of objects one by one is not what is measured


def score(question: Statistic, releases: Releases) -> None:
    """Make private answers until there are enough, or no time is left."""
    points = json.loads(Path(question.points).read_text())
    begin, count = time.perf_counter(), 0
    while count < question.releases:
        batch = [float(value) for value in releases(points, question, question.releases - count)]
        count += len(batch)
        write_line(event="released", values=batch)
        if time.perf_counter() - begin > question.seconds:
            break
    write_line(event="done")
    sys.stdout.flush()
    os._exit(0)


def one_by_one(data: Callable[[list[float]], Any], asks: Mapping[str, Ask]) -> Releases:
    """Return releases that ask the whole-table question again and again."""
    loaded: dict[int, Any] = {}

    def releases(points: list[float], question: Statistic, left: int) -> Iterator[float]:
        if id(points) not in loaded:
            loaded[id(points)] = data(points)
        for _ in range(min(left, 10)):
            yield asks[question.work](loaded[id(points)], question)

    return releases
