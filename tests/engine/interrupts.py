"""Releases that get SIGINT at random moments. Run by test_interrupt.

    python interrupts.py FOLDER LEDGER RUNS SEED

Prints one JSON document: for each run, the releases said, the charges, whether it ended as it
should, and what its end has left in the place for temporary files. Children are forked from here,
where no engine has run; the first release of each is left alone, for it imports modules, and Ctrl-C
inside an import is between Python and the module.
"""

import atexit
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import dfprivacy as dfp

logging.getLogger("dfprivacy").setLevel(logging.ERROR)  # no group is shown at this loss

LONG = 60  # seconds: an interrupt that is not heard until then is lost


def release(folder, ledger, writing):
    """Release until interrupted; say how the interrupt looked to the caller."""
    try:
        private = dfp.frame(folder)(ledger=ledger, dataset="d").group_by("g")
        last = time.monotonic() + LONG
        while time.monotonic() < last:
            private.mean("x", epsilon=0.001, delta=1e-12)
            os.write(writing, b"released\n")
        os.write(writing, b"not heard\n")
    except KeyboardInterrupt as interrupt:
        bare = interrupt.__context__ is None and interrupt.__cause__ is None
        os.write(writing, b"bare\n" if bare else b"loaded\n")
    except BaseException as error:
        os.write(writing, f"{type(error).__name__}\n".encode())
    atexit._run_exitfuncs()
    os._exit(0)


def interrupt(folder, ledger, moment):
    """Interrupt a child once, a moment after its first release; return the lines it printed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        release(folder, ledger, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = [pipe.readline().strip()]
        time.sleep(moment)
        os.kill(child, signal.SIGINT)
        lines += [line.strip() for line in pipe]
    os.waitpid(child, 0)
    return lines


def main(folder, path, runs, seed):
    chance, results = random.Random(seed), []
    ledger = dfp.Ledger(path, epsilon=1000, delta=1e-3)
    for _ in range(int(runs)):
        before = len(ledger.history("d"))
        lines = interrupt(folder, ledger, chance.uniform(0, 1.5))
        reopened = dfp.Ledger(path)
        results.append({
            "released": lines.count("released"),
            "charged": len(reopened.history("d")) - before,
            "ended": lines[-1],
            "left": [str(left) for left in Path(tempfile.gettempdir()).iterdir()],
            "spent": round(reopened.spent("d").epsilon * 1000),
            "files": sorted(file.name for file in Path(path).parent.iterdir()),
        })  # fmt: skip
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
