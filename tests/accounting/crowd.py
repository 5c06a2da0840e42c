"""Processes and threads that race for a ledger. Run by test_ledger_crowd.

    python crowd.py FOLDER '{"race": [6, 30], ...}'

Prints one JSON document: what each command found. Children are forked from here, where nothing
else runs.
"""

import json
import os
import sys
import threading
from pathlib import Path

import dfprivacy as dfp
from tests.accounting.charges import charge

UNIT = charge(0.01)
WAIT = 300  # seconds for the lock, far beyond what a busy machine needs


def grant(ledger, tries):
    """Count how many of these tries are allowed."""
    count = 0
    for _ in range(tries):
        try:
            ledger.charge("d", UNIT)
            count += 1
        except dfp.BudgetExceededError:
            pass
    return count


def children(jobs):
    """Fork a child for each job; return what each of them returns."""
    ends = []
    for job in jobs:
        reading, writing = os.pipe()
        if os.fork() == 0:
            status = 1
            try:
                os.write(writing, json.dumps(job()).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        ends.append(reading)
    texts = [Path(f"/dev/fd/{end}").read_text() for end in ends]
    statuses = [os.wait()[1] for _ in jobs]
    assert statuses == [0] * len(jobs), statuses
    return [json.loads(text) for text in texts]


def race(path, processes, tries):
    """Let processes race: half with the parent's ledger, used before the fork, half with theirs."""
    mine = dfp.Ledger(path, epsilon=1, timeout=WAIT)
    mine.remaining("d")
    theirs = lambda: grant(dfp.Ledger(path, epsilon=1, timeout=WAIT), tries)  # noqa: E731
    counts = children([theirs, lambda: grant(mine, tries)] * (processes // 2))
    return {"granted": sum(counts), "stored": len(mine.history("d"))}


def threads(path, number, tries):
    """Let threads race with one ledger, while the main thread forks children that race too."""
    ledger, counts = dfp.Ledger(path, epsilon=1, timeout=WAIT), []
    racers = [
        threading.Thread(target=lambda: counts.append(grant(ledger, tries))) for _ in range(number)
    ]
    for racer in racers:
        racer.start()
    counts += children([lambda: grant(ledger, tries)] * 4)
    for racer in racers:
        racer.join()
    return {"granted": sum(counts), "stored": len(ledger.history("d"))}


COMMANDS = {"race": race, "threads": threads}

if __name__ == "__main__":
    folder, jobs = Path(sys.argv[1]), json.loads(sys.argv[2])
    results = {name: COMMANDS[name](folder / f"{name}.db", *jobs[name]) for name in jobs}
    print(json.dumps(results))
