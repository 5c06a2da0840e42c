"""Noise is never drawn twice: not by a fork, a thread, a copy, a seed or a stopped clock."""

import concurrent.futures
import copy
import inspect
import multiprocessing
import pickle

import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import run_python

WIDE = ["laplace", "gaussian"]
FRAME = pd.DataFrame({"g": [0] * 9, "x": [1.0] * 9})


def draw(law):
    """Return 40 noisy numbers; two of them are equal once in 2**44 pairs: of 1,000, below 1e-7."""
    grouped = FRAME.dp.group_by("g", keys=range(40))
    if law == "laplace":
        return grouped.count(epsilon=2.0**-44)["count"].tolist()
    return grouped.sum("x", (0, 1), rho=2.0**-40)["x"].tolist()


FORKS = """
import os, warnings
warnings.simplefilter("ignore")
import pandas as pd, dfprivacy as dfp
private = pd.DataFrame({"g": [0] * 9, "x": [1.0] * 9}).dp.group_by("g", keys=range(40))
laplace = lambda: print(*private.count(epsilon=2.0**-44)["count"], flush=True)
gaussian = lambda: print(*private.sum("x", (0, 1), rho=2.0**-40)["x"], flush=True)
for draw in (laplace, gaussian):
    draw()
    for _ in range(4):
        if os.fork() == 0:
            draw()
            os._exit(0)
        os.wait()
"""


@pytest.mark.slow
def test_children_of_a_fork_draw_their_own():
    """A parent that has drawn and its four forks draw 400 different numbers of 2**44 and more."""
    done = run_python("-c", FORKS, check=True)
    values = done.stdout.split()
    assert len(values) == len(set(values)) == 2 * 5 * 40


@pytest.mark.slow
def test_workers_draw_their_own():
    """Workers of a process pool draw different numbers; spawned ones are fresh processes, below."""
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        draws = [f.result() for f in [pool.submit(draw, law) for law in WIDE for _ in "abc"]]
    values = [v for part in draws for v in part]
    assert len(values) == len(set(values))


def test_threads_draw_their_own():
    """Eight threads draw different numbers."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        values = [v for part in pool.map(draw, WIDE * 8) for v in part]
    assert len(values) == len(set(values))


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]
)
def test_copies_draw_their_own(clone):
    """Copies and pickles of public objects carry no random state."""
    for private in (FRAME.dp, pl.DataFrame(FRAME).dp, pl.DataFrame(FRAME).lazy().dp):
        first, other = (source.count(epsilon=2**-44) for source in (private, clone(private)))
        assert float(first) != float(other)


PROCESS = """
import os, random, time
import numpy as np
random.seed(0); np.random.seed(0)
time.time = lambda: 0.0
os.getpid = lambda: 1
import polars as pl, dfprivacy as dfp
frame = pl.DataFrame({"g": [0], "x": [1.0]})
counts = frame.dp.group_by("g", keys=range(80)).count("x", epsilon=2**-44)["x"]
print(*counts.to_list(), *(float(frame.dp.mean("x", (0, 1), epsilon=9)) for _ in range(2)))
"""


def different(processes):
    done = [
        run_python("-c", PROCESS, check=True, PYTHONHASHSEED="0").stdout.split()
        for _ in range(processes)
    ]
    values = [word for part in done for word in part[:80]]
    return len(values) == len(set(values)) == 80 * processes


@pytest.mark.slow
def test_fresh_processes_draw_their_own():
    """Fresh processes draw their own.

    Seeds, hash seed, clock and process id fixed, ten processes release 800 different numbers
    (a repeat by chance among numbers of 2**44: below 1e-7).
    """
    assert different(10)


def test_there_is_no_seed():
    """No public function takes a seed, a random state or a generator."""
    names = set()
    for name in dfp.__all__:
        public = getattr(dfp, name)
        members = [public, *vars(public).values()] if inspect.isclass(public) else [public]
        for member in filter(callable, members):
            try:
                names |= set(inspect.signature(member).parameters)
            except ValueError:
                continue
    assert not {
        n for n in names if any(w in n.lower() for w in ("seed", "random", "rng", "entropy"))
    }
