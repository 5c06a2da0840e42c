"""Processes that race for a ledger, or are killed in the middle of it. Run by test_ledger_crowd.

    python crowd.py FOLDER '{"race": [6, 30], ...}'

Prints one JSON document: what each command found. Children are forked from here, where nothing
else runs.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa

import dfprivacy as dfp
from dfprivacy.accounting.spending import name_account
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


def kill(path, runs, seed):
    """Kill children at random moments; return releases printed and units charged, run by run.

    In two runs of three the moment comes after the first release, however slow the machine is.
    """
    chance, figures = random.Random(seed), []
    ledger = dfp.Ledger(path, epsilon=1000, timeout=WAIT)
    frame = pd.DataFrame({"x": range(10)})

    def release(writing):
        private = frame.dp(ledger=ledger, dataset="d", epsilon=0.001)
        while True:
            os.write(writing, f"{float(private.count())}\n".encode())

    for _ in range(runs):
        before = len(ledger.history("d"))
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            release(writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            printed = sum(pipe.readline().endswith("\n") for _ in range(chance.choice([0, 1, 1])))
            time.sleep(chance.uniform(0, 0.1))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            printed += sum(line.endswith("\n") for line in pipe)
        spent = dfp.Ledger(path, timeout=WAIT).spent("d").epsilon
        figures.append([printed, len(ledger.history("d")) - before, round(spent * 1000)])
    return figures


def create(path, runs, seed):
    """Kill children that make a ledger; return whether a whole ledger, or none, is there."""
    chance, outcomes = random.Random(seed), []
    for run in range(runs):
        file = Path(path) / f"{run}.db"
        child = os.fork()
        if child == 0:
            dfp.Ledger(file, epsilon=1)
            os._exit(0)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        there = file.exists()
        is_complete = dfp.Ledger(file, epsilon=1).remaining("d") == dfp.Budget(epsilon=1.0)
        outcomes.append([there, is_complete])
    return outcomes


def fork(path, number):
    """Release before a fork, in every child and after it; return all answers and the charges."""
    ledger = dfp.Ledger(path, epsilon=1, timeout=WAIT)
    private = pd.DataFrame({"x": range(10)}).dp(ledger=ledger, dataset="d", epsilon=2.0**-50)
    ask = lambda: [float(private.count()) for _ in range(5)]  # noqa: E731
    answers = ask()
    for child_answers in children([ask] * number):
        answers += child_answers
    answers += ask()
    return {"answers": answers, "stored": len(ledger.history("d"))}


def memory(path, runs, seed):
    """Kill a job of 20 numbered releases again and again; return what each run said, and the rest.

    A release is looked up first; if it is not there it is paid for, made, kept, and said.
    """
    chance, answers = random.Random(seed), []
    ledger = dfp.Ledger(path, epsilon=1, remember=True, timeout=WAIT)
    ledger_account = name_account(ledger, "d", version="1")

    def job(writing):
        for number in range(20):
            mark = ledger_account.fingerprint(f"question {number}", {})
            table = ledger_account.recall(mark)
            if table is None:
                ledger_account.pay(UNIT)
                table = pa.table({"answer": [int.from_bytes(os.urandom(7))]})
                ledger_account.remember(mark, table)
            os.write(writing, f"{number} {table['answer'][0]}\n".encode())
        os._exit(0)

    done = 0
    for run in range(runs + 1):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            job(writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            if run < runs:
                time.sleep(chance.uniform(0, 0.15))
                os.kill(child, signal.SIGKILL)
            answers += [line.split() for line in pipe if line.endswith("\n")]
        done += os.WIFEXITED(os.waitpid(child, 0)[1])
    return {
        "answers": answers,
        "charged": len(ledger.history("d")),
        "kept": ledger.stored(),
        "done": done,
    }


COMMANDS = {
    "race": race, "threads": threads, "kill": kill, "create": create, "fork": fork,
    "memory": memory,
}  # fmt: skip

if __name__ == "__main__":
    folder, jobs = Path(sys.argv[1]), json.loads(sys.argv[2])
    (folder / "create").mkdir()
    places = {name: folder / ("create" if name == "create" else f"{name}.db") for name in COMMANDS}
    print(
        json.dumps(
            {name: COMMANDS[name](places[name], *arguments) for name, arguments in jobs.items()}
        )
    )
