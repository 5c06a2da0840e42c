"""Processes that are interrupted in a release, or end within one. Run by test_private_folders.

    python ends.py EVERY

Prints one JSON document: how many lines Ctrl-C was heard before, and for each end of a process
whether it was heard and what is left in the place for temporary files. One line in EVERY is tried.
"""

import atexit
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa

import dfprivacy as dfp

TABLE = pa.table({"x": [1.0] * 9})
OWN = sys.modules[dfp.Engine.__module__].__file__
PLACE = tempfile.gettempdir()


def run_to_end(work):
    """Run `work` in a child until its end; return whether it was interrupted, and what is left."""
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        code = 2
        try:
            work()
            code = 0
        except KeyboardInterrupt:
            code = 1
        finally:
            atexit._run_exitfuncs()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: False, 1: True}.get(code, code), folders()


def folders():
    return [path.name for path in Path(PLACE).iterdir()]


def count():
    dfp.frame(TABLE).count()


def interrupt_at(number):
    """Return a call that counts twice, interrupted before a line of the engine's module."""
    left = [number]

    def lines(frame, event, argument):
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return lines

    def work():
        sys.settrace(lambda frame, *_: lines if frame.f_code.co_filename == OWN else None)
        try:
            count()  # with a new database
            count()  # with one that is held
        finally:
            sys.settrace(None)

    return work


def interrupt_making():
    """Interrupt the call that makes a folder, when it is made."""
    make = Path.mkdir

    def interrupt(path, **options):
        make(path, **options)
        raise KeyboardInterrupt

    Path.mkdir = interrupt
    count()


def within(calls, act):
    """Act where so many calls, one within the other, have made their folders, and no more."""
    connect = duckdb.connect

    def connecting(*_, **__):
        if len(folders()) < calls:
            count()
        duckdb.connect = connect
        act()

    duckdb.connect = connecting
    count()


def interrupt_end():
    """End the process within three calls, and interrupt that when it has begun."""
    remove, calls = shutil.rmtree, []

    def interrupt(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(*arguments, **options)

    def end():
        shutil.rmtree = interrupt
        atexit._run_exitfuncs()
        os._exit(len(calls) > 3)

    within(3, end)


def fork():
    """End a forked process within a call; tell as an interrupt that the call's folder is there."""

    def fork():
        before = folders()
        child = os.fork()
        if child == 0:
            count()
            atexit._run_exitfuncs()
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0 and len(before) == 1 and folders() == before:
            raise KeyboardInterrupt

    within(1, fork)


def somebody_elses():
    """Ask for a folder that another process has made in that moment."""
    theirs = Path(PLACE, "dfprivacy-theirs")
    theirs.mkdir()
    tempfile.mktemp = lambda **_: str(theirs)
    try:
        count()
    except dfp.EngineError:
        raise KeyboardInterrupt from None


def main(every):
    count()  # what is imported later is imported here
    lines, heard, left = 0, True, []
    while heard is True and not left:
        lines += every
        heard, left = run_to_end(interrupt_at(lines))
    outcomes = {"lines": [lines, heard, left]}
    for work in (interrupt_making, interrupt_end, fork, somebody_elses):
        outcomes[work.__name__] = run_to_end(work)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
