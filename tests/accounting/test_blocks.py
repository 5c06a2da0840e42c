"""No release within `dfp.spending`, or where a ledger is required, is charged to nobody."""

import asyncio
import contextlib
import functools
import threading
from contextvars import copy_context

import pytest

import dfprivacy as dfp
from dfprivacy.accounting.spending import NoAccount
from tests.command_line import run_python


@pytest.fixture
def count(frame):
    return lambda: frame.dp.count(epsilon=0.125)


def datasets(ledger):
    return ledger.history()["dataset"].tolist()


def test_a_function_is_charged_at_each_call(ledger, count):
    """As a decorator a block charges every call, recursion and threads included."""

    @dfp.spending(ledger, dataset="flights", note="decorated")
    def release(times):
        """Release some counts."""
        count()
        return times if times == 1 else release(times - 1)

    assert (release.__name__, release.__doc__) == ("release", "Release some counts.")
    assert release(2) == 1
    thread = threading.Thread(target=release, args=(1,))
    thread.start()
    thread.join()
    count()
    assert datasets(ledger) == ["flights"] * 3
    assert set(ledger.history()["note"]) == {"decorated"}


async def coroutine():
    pytest.fail("it ran")


def generator():
    yield pytest.fail("it ran")


async def asynchronous():
    yield pytest.fail("it ran")


class Callable:
    async def __call__(self):
        pytest.fail("it ran")


class Job:
    def release(self):
        pytest.fail("it ran")


@pytest.mark.parametrize(
    "function",
    [
        coroutine, generator, asynchronous, functools.partial(coroutine), Callable(),
        functools.partial(functools.partial(generator)), contextlib.contextmanager(generator),
        Job, functools.partial(Job),
    ],
)  # fmt: skip
def test_what_works_after_the_call_is_not_decorated(ledger, function):
    """A coroutine or a generator would release after the block: it is refused, plainly."""
    with pytest.raises(dfp.errors.InvalidLedgerError, match="after the call has ended") as refused:
        dfp.spending(ledger, dataset="flights")(function)()
    assert "open the block inside" in refused.value.hint


@pytest.mark.parametrize(
    "make",
    [
        coroutine, generator, asynchronous, lambda: map(pytest.fail, ["it ran"]),
        lambda: filter(pytest.fail, ["it ran"]),
    ],
)  # fmt: skip
def test_a_function_that_returns_such_work_raises(ledger, make):
    """A plain function that makes a coroutine, a generator or an iterator hands none out."""
    work = make()
    with pytest.raises(dfp.errors.InvalidLedgerError, match="after the call has ended"):
        dfp.spending(ledger, dataset="flights")(lambda: work)()
    if make is coroutine:
        work.close()


def test_blocks_inside_coroutines_and_generators(ledger, count):
    """Releases in blocks within the work itself, as the message advises, are charged."""

    async def job(name):
        with dfp.spending(ledger, dataset=name):
            await asyncio.sleep(0)
            count()
            await asyncio.sleep(0)
            count()

    async def run_jobs():
        await asyncio.gather(job("one"), job("two"))

    def counts():
        with dfp.spending(ledger, dataset="three"):
            yield count()

    asyncio.run(run_jobs())
    list(counts())
    assert sorted(datasets(ledger)) == ["one", "one", "three", "two", "two"]


def test_work_that_outlives_its_block_is_refused(ledger, count):
    """A task or a thread that was begun inside releases nothing after the end of the block."""

    async def late(ended):
        await ended.wait()
        with dfp.spending(ledger, dataset="own"):
            count()
        count()

    async def main():
        ended = asyncio.Event()
        with dfp.spending(ledger, dataset="flights"):
            task = asyncio.create_task(late(ended))
            context = copy_context()
            await asyncio.sleep(0)
        ended.set()
        with pytest.raises(dfp.errors.InvalidLedgerError, match="has ended"):
            context.run(count)
        with pytest.raises(dfp.errors.InvalidLedgerError, match="has ended"):
            await task
        count()

    asyncio.run(main())
    assert datasets(ledger) == ["own"]


def test_terms_with_a_ledger_need_no_block(ledger, frame):
    """After the end of a block, a ledger that is named in the terms is charged."""
    with dfp.spending(ledger, dataset="flights"):
        context = copy_context()
    context.run(lambda: frame.dp(ledger=ledger, dataset="named").count(epsilon=0.125))
    assert datasets(ledger) == ["named"]


def test_a_block_is_entered_once(ledger):
    """A block that ended does not begin again."""
    block = dfp.spending(ledger, dataset="flights")
    with block:
        pass
    with pytest.raises(dfp.errors.InvalidLedgerError, match="entered once"), block:
        pytest.fail("it began")


REQUIRED = """
import os, sys, threading
import pandas as pd, polars as pl
import dfprivacy as dfp
frame = pd.DataFrame({"x": range(100), "g": ["a", "b"] * 50})
ledger = dfp.Ledger(sys.argv[1], epsilon=1, delta=1e-6)
frame.dp.count(epsilon=0.1)
dfp.require_ledger()
dfp.require_ledger()
os.urandom = lambda size: sys.exit("drawn")
asked = [
    lambda: frame.dp.count(epsilon=0.1),
    lambda: frame["x"].dp.mean((0, 100), epsilon=0.1),
    lambda: pl.DataFrame(frame).dp.group_by("g", keys=["a"]).count(epsilon=0.1),
    lambda: frame.dp.histogram("x", bins=[0, 50, 100], epsilon=0.1),
    lambda: frame.dp.median("x", epsilon=0.1),
    lambda: dfp.sql("SELECT dp_count(*) AS n FROM t", t=frame, epsilon=0.1),
]
for number, ask in enumerate(asked):
    try:
        ask()
    except dfp.MissingLedgerError as error:
        assert isinstance(error, dfp.LedgerError) and error.hint
        print(number, error.message)
"""


@pytest.mark.slow
def test_a_ledger_is_required(tmp_path):
    """From the call on, no release without an account comes out, and nothing is drawn for one."""
    done = run_python("-c", REQUIRED, tmp_path / "b.db")
    assert (done.returncode, done.stderr) == (0, "")
    message = "the release names no ledger, and this process requires one"
    assert done.stdout.splitlines() == [f"{number} {message}" for number in range(6)]


def test_with_a_ledger_nothing_else_changes(frame, ledger, monkeypatch):
    """Where a ledger is required, releases that name one, and looks that release nothing, go on."""
    monkeypatch.setattr(NoAccount, "required", False)  # so that it is put back
    dfp.require_ledger()
    frame.dp(ledger=ledger, dataset="terms").count(epsilon=0.125)
    with dfp.spending(ledger, dataset="block"):
        frame.dp.count(epsilon=0.125)
    assert "count" in str(frame.dp.explain(dfp.count(), epsilon=0.125))
    with pytest.raises(dfp.MissingLedgerError):
        frame.dp.count(epsilon=0.125)
    assert datasets(ledger) == ["terms", "block"]
