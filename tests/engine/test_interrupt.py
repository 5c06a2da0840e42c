import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import dfprivacy as dfp

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard():
    """Take SIGINT as a terminal's programs do: those that a shell starts with & ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def environment(folder):
    folder.mkdir()
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "COLUMNS": "80"}


@posix
def test_an_interrupt_stops_the_query(spills, tmp_path):
    """Ctrl-C ends a query that would run for hours, as KeyboardInterrupt without a context.

    It costs nothing, and leaves no file and no thread.
    """
    table = pa.table({"x": [1.0] * 1000})
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1)
    before, reader = (
        threading.active_count(),
        pa.RecordBatchReader.from_batches(table.schema, endless(table.to_batches()[0])),
    )
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        dfp.frame(reader)(ledger=ledger, dataset="d").count(epsilon=0.5)
    assert (caught.value.args, caught.value.__context__, caught.value.__cause__) == ((), None, None)
    assert ledger.datasets() == []
    assert list(spills.iterdir()) == []
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def endless(batch):
    """Yield a batch for hours."""
    last = time.monotonic() + 3600
    while time.monotonic() < last:
        yield batch


def test_an_interrupt_between_charge_and_noise_stays_charged(many_rows, tmp_path, monkeypatch):
    """An interrupt after the charge leaves the charge, whole, in the ledger's history."""
    ledger, true = dfp.Ledger(tmp_path / "b.db", epsilon=1), os.urandom

    def stop(size):
        if ledger.datasets():
            raise KeyboardInterrupt
        return true(size)

    monkeypatch.setattr(os, "urandom", stop)
    with pytest.raises(KeyboardInterrupt):
        dfp.frame(many_rows)(ledger=ledger, dataset="d").count(epsilon=0.5)
    assert dfp.Ledger(tmp_path / "b.db").history("d")["epsilon"].tolist() == [0.5]


INTERRUPTS = 12


@pytest.mark.slow
@posix
def test_interrupts_at_random_moments(many_rows, tmp_path):
    """Whenever a release is interrupted, what came out was charged, and nothing is left behind.

    At most one charge more was under way; the ledger opens whole at once, and holds the sum of its
    history; the caller sees a bare KeyboardInterrupt. A ResourceWarning says nothing: an interrupt
    may come between any `open` and its `with`, Python's own included, and the file closes later.
    """
    (tmp_path / "ledger").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning",
         "-W", "ignore::ResourceWarning", Path(__file__).with_name("interrupts.py"),
         many_rows, tmp_path / "ledger" / "b.db", str(INTERRUPTS), "1"],
        capture_output=True, text=True, env=environment(tmp_path / "temporary"), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    runs, total = json.loads(done.stdout), 0
    assert len(runs) == INTERRUPTS
    for run in runs:
        total += run["charged"]
        assert run["ended"] == "bare"
        assert run["released"] <= run["charged"] <= run["released"] + 1
        assert run["spent"] == total
        assert run["left"] == []
        assert run["files"] == ["b.db", "b.db-head"]


@pytest.mark.slow
@posix
def test_an_interrupt_on_the_command_line(many_rows, tmp_path):
    """Ctrl-C ends a command with exit code 130 and one plain line; no output file is written."""
    temporary, answer = tmp_path / "temporary", tmp_path / "answer.csv"
    command = [
        sys.executable, "-c", "from dfprivacy.cli import main; main()", "median",
        str(many_rows), "x", "--by", "g", "--delta", "1e-6", "--output", str(answer),
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=environment(temporary), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        deadline = time.monotonic() + 120
        while not list(temporary.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
    message = "Interrupted. Charges in a ledger stay.\n"
    assert (child.returncode, out, err) == (130, "", message)
    assert not answer.exists()
    assert list(temporary.iterdir()) == []
