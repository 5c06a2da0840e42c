"""One measurement: a fresh process, watched for time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

LOADING = 10  # reading may take this many times the limit of one answer
LOOK = 0.1  # seconds between two looks at the memory


@dataclass
class Outcome:
    """Outcome of a measurement: `status` is ok, slow, memory or failed."""

    status: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    peak_mib: float = 0.0
    trouble: str | None = None

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


def measure(
    python: str, script: Path, question: Mapping[str, Any], *, limit: float, mib: int, folder: Path
) -> Outcome:
    """Run a script on a question; end it when a line takes too long or memory is exceeded."""
    errors = folder / "stderr.txt"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            text=True, cwd=folder, env=environment(python), start_new_session=True,
        )  # fmt: skip
        outcome = Outcome("ok")
        _send_question(process, question)
        _follow(process, outcome, limit, mib)
    if outcome.status == "ok" and not outcome.of("done"):
        outcome.status, outcome.trouble = "failed", last_line(errors.read_text())
    return outcome


def environment(python: str) -> dict[str, str]:
    """Return the variables of a peer's process: this project on the path, Spark's own Python."""
    here = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": here, "PYSPARK_PYTHON": python, "PYTHONWARNINGS": "ignore"}


def last_line(text: str) -> str:
    """Return the last line of what a process complained of."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or ["it ended without a word"])[-1][:200]


def _send_question(process: subprocess.Popen[str], question: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(dict(question)))
        process.stdin.close()


def _follow(process: subprocess.Popen[str], outcome: Outcome, limit: float, mib: int) -> None:
    """Watch a process to its end, and leave none of it behind."""
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        _watch(process.pid, lines, outcome, limit=limit, mib=mib)
    finally:
        _end(process)
        reader.join(timeout=5)  # a grandchild elsewhere may still hold the pipe


def _watch(
    pid: int, lines: queue.Queue[str | None], outcome: Outcome, *, limit: float, mib: int
) -> None:
    """Collect lines until there are no more, one is late, or memory is exceeded."""
    deadline = time.monotonic() + limit * LOADING
    while True:
        outcome.peak_mib = max(outcome.peak_mib, find_memory(pid))
        if outcome.peak_mib > mib:
            outcome.status = "memory"
            return
        try:
            text = lines.get(timeout=LOOK)
        except queue.Empty:
            if time.monotonic() > deadline:
                outcome.status = "slow"
                return
            continue
        if text is None:
            return
        for line in _parse_lines(text):
            outcome.lines.append(line)
            outcome.peak_mib = max(outcome.peak_mib, line.get("peak_mib", 0.0))
            if line["event"] != "versions":
                deadline = time.monotonic() + limit


def _read(output: IO[str], lines: queue.Queue[str | None]) -> None:
    with output:
        for text in output:
            lines.put(text)
    lines.put(None)


def _parse_lines(text: str) -> Iterator[dict[str, Any]]:
    """Yield a line of the protocol; libraries print other things too."""
    with contextlib.suppress(json.JSONDecodeError):
        line = json.loads(text)
        if isinstance(line, dict) and "event" in line:
            yield line


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def find_memory(pid: int) -> float:
    """Return the resident memory of a process and its children, in MiB; 0 without /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0.0
    process_mib = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return process_mib + sum(find_memory(int(child)) for child in children)
