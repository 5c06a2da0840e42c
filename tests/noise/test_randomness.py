"""No draw is ever repeated: not by forks, threads, fresh processes, copies or fixed seeds.

Two of n draws at scale 2**50 coincide with probability below n**2 / 2**52: less than 4e-7 for
n = 40,000.
"""

import concurrent.futures
import copy
import os
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dfprivacy
from dfprivacy.errors import EntropyError
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.release.permit import permit

NOISES = [DiscreteLaplace(Fraction(2**50)), DiscreteGaussian(Fraction(2**100))]

FIXED_SEEDS = """
import os, random, sys, time
import numpy as np
from fractions import Fraction
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.release.permit import permit

def fix():
    random.seed(0)
    np.random.seed(0)
    time.time = time.perf_counter = time.monotonic = lambda: 0.0
    time.time_ns = time.monotonic_ns = lambda: 0
    os.getpid = lambda: 1

@permit("a test")
def draws():
    fix()
    values = []
    for noise in (DiscreteLaplace(Fraction(2**50)), DiscreteGaussian(Fraction(2**100))):
        values += noise.sample(40).tolist() + noise.sample(1).tolist()
    return values
"""

FORKS = (
    FIXED_SEEDS
    + """
def send(values):
    os.write(1, ("".join(f"{value}\\n" for value in values)).encode())

send(draws())
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        send(draws())
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
send(draws())
"""
)

SPAWNS = (
    """
import multiprocessing
"""
    + FIXED_SEEDS
    + """
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        for values in pool.starmap(draws, [()] * 6, chunksize=1):
            print(*values, sep="\\n")
"""
)


def run(script, tmp_path):
    """Run a script in a fresh interpreter and return the integers that it prints."""
    path = tmp_path / "draws.py"
    path.write_text(script)
    package = str(Path(dfprivacy.__file__).parents[1])
    found = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": package},
    )
    return [int(line) for line in found.stdout.split()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks_draw_afresh(tmp_path):
    """A parent and its eight forked children, all with fixed seeds and clocks, share no draw."""
    values = run(FORKS, tmp_path)
    assert len(values) == 10 * 82
    assert len(set(values)) == len(values)


@pytest.mark.slow
def test_spawned_workers_draw_afresh(tmp_path):
    """Workers of a spawned pool share no draw."""
    values = run(SPAWNS, tmp_path)
    assert len(values) == 6 * 82
    assert len(set(values)) == len(values)


@pytest.mark.slow
def test_fresh_processes_draw_afresh(tmp_path):
    """Processes that start alike (hash seed, seeds, clock, process number) share no draw."""
    values = []
    for _ in range(6):
        values += run(FIXED_SEEDS + "print(*draws(), sep='\\n')", tmp_path)
    assert len(set(values)) == len(values) == 6 * 82


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_threads_draw_apart(noise):
    """Eight threads at once share no draw, and no buffer."""
    sample = permit("a test")(noise.sample)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: sample(2000), range(16)))
    values = np.concatenate(parts)
    assert len(np.unique(values)) == len(values) == 32_000


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_copies_share_no_stream(noise):
    """A pickled or copied law is equal and draws on its own: it holds no state."""
    twins = [noise, pickle.loads(pickle.dumps(noise)), copy.copy(noise), copy.deepcopy(noise)]
    assert all(twin == noise for twin in twins)
    values = np.concatenate([twin.sample(100) for twin in twins for _ in range(2)])
    assert len(np.unique(values)) == 800
    assert len(vars(noise)) == 1


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_seeds_of_numpy_change_nothing(noise):
    """There is no seed: numpy's global one is not read."""
    parts = []
    for _ in range(2):
        np.random.seed(0)
        parts.append(noise.sample(50))
    assert len(np.unique(np.concatenate(parts))) == 100


def failing(size):
    raise OSError("no entropy")


@pytest.mark.parametrize("noise", [*NOISES, DiscreteLaplace(Fraction(2**60))], ids=repr)
def test_failing_systems_give_no_noise(noise, monkeypatch):
    """When os.urandom fails, a draw is an EntropyError, never a number."""
    monkeypatch.setattr(os, "urandom", failing)
    with pytest.raises(EntropyError):
        noise.sample(3)


@pytest.mark.parametrize("noise", [*NOISES, DiscreteLaplace(Fraction(2**60))], ids=repr)
def test_short_answers_give_no_noise(noise):
    """When the source returns too few bytes, a draw is an EntropyError."""
    with pytest.raises(EntropyError):
        noise.sample(3, lambda size: system_entropy(size)[:-1])


def test_failing_late_gives_no_noise():
    """A source that fails in the middle of an array, or in an extension, gives no array at all."""
    for good in range(1, 6):
        calls = iter(range(good))

        def source(size, calls=calls):
            if next(calls, None) is None:
                raise EntropyError("no more")
            return system_entropy(size)

        with pytest.raises(EntropyError):
            DiscreteGaussian(Fraction(10)).sample(200_000, source)


def test_every_call_asks_anew():
    """Each sample call draws all its bytes itself: nothing is left over for the next."""
    asked = []

    def source(size):
        asked.append(size)
        return system_entropy(size)

    noise = DiscreteLaplace(Fraction(2**20))
    for _ in range(3):
        asked.clear()
        noise.sample(1, source)
        assert sum(asked) >= 8
        asked.clear()
        noise.sample(50_000, source)
        assert sum(asked) >= 8 * 50_000
