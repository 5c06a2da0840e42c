"""Release while no file may grow beyond a limit, as on a full disk. Run by test_ledger_hostile.

    python full_disk.py FILE

Prints, for each limit, the error or None, the bytes drawn from the random source, and the charges.
"""

import json
import os
import resource
import signal
import sys

import pandas as pd

import dfprivacy as dfp

frame, draws, urandom = pd.DataFrame({"x": range(10)}), [], os.urandom


def spy(size):
    draws.append(size)
    return urandom(size)


def attempt(ledger):
    """Return the name of the error of a release, or None."""
    try:
        frame.dp(ledger=ledger, dataset="d", note="x" * 3000).count(epsilon=0.001)
    except dfp.DPError as error:
        return type(error).__name__
    return None


if __name__ == "__main__":
    ledger = dfp.Ledger(sys.argv[1], epsilon=1)
    attempt(ledger)
    os.urandom = spy
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    attempts = []
    for limit in [0, 1, 511, 512, 513, 1024, 4096, 8192, *range(12_000, 60_000, 4096)]:
        draws.clear()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        error = attempt(ledger)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        charges = len(dfp.Ledger(sys.argv[1]).history())
        attempts.append([error, sum(draws), charges])
    print(json.dumps(attempts))
