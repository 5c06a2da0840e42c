"""The samplers stay exact where floating point does not behave as usual."""

import ast
import os
import shutil
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dfprivacy
from dfprivacy.noise.laws import DiscreteLaplace
from tests.numbered_bytes import SOURCE

PACKAGE = Path(dfprivacy.__file__).parent

COMPARE = (
    SOURCE
    + """
from fractions import Fraction
from dfprivacy.noise import gaussian, laplace, uniform
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace

def all_draws():
    values = []
    for scale in (Fraction(7, 10), Fraction(1000), Fraction(2**30), Fraction(2**45)):
        values += DiscreteLaplace(scale).sample(800, NumberedBytes()).tolist()
    for variance in (Fraction(1, 4), Fraction(10**6), Fraction(2**80)):
        values += DiscreteGaussian(variance).sample(300, NumberedBytes()).tolist()
    return values
"""
)

BOTH_PATHS = """
fast = all_draws()
laplace.certified = gaussian.certified = lambda: False
assert fast == all_draws()
"""

ROUNDING = """
import ctypes, ctypes.util
expected = all_draws()
assert uniform.certified()
libm = ctypes.CDLL(ctypes.util.find_library("m"))
for mode in (0x400, 0x800, 0xC00):
    assert libm.fesetround(mode) == 0
    try:
        certified, found = uniform.certified(), all_draws()
    finally:
        libm.fesetround(0)
    assert not certified
    assert found == expected
assert uniform.certified()
"""

FLUSHING = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).flush()
import numpy as np
assert np.array([5e-324])[0] * 1.0 == 0.0, "denormals are still there"
"""

FLUSH_C = """
#include <xmmintrin.h>
#include <pmmintrin.h>
void flush(void) { _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
                   _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON); }
"""


def run(script, *arguments, **environment):
    subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment},
    )


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64",
    reason="numbers of the rounding modes are those of Linux on x86-64",
)
def test_other_rounding_modes_change_no_draw():
    """Rounding down, up or to zero is noticed at every call and the noise stays the same."""
    run(COMPARE + ROUNDING)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("gcc") is None or os.uname().machine != "x86_64",
    reason="needs a C compiler for x86-64",
)
def test_flushed_denormals_change_no_draw(tmp_path):
    """A library built with -ffast-math that flushes denormals leaves both paths alike."""
    source, library = tmp_path / "flush.c", tmp_path / "flush.so"
    source.write_text(FLUSH_C)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    run(COMPARE + FLUSHING + BOTH_PATHS, str(library))


@pytest.mark.slow
@pytest.mark.parametrize(
    "features", ["AVX512_SKX X86_V4", "AVX512_SKX AVX512F AVX2 FMA3 X86_V4 X86_V3"]
)
def test_other_processors_change_no_draw(features):
    """Without the wide instructions numpy.log differs; fast and exact path agree all the same."""
    run(
        "import warnings; warnings.simplefilter('ignore')\n" + COMPARE + BOTH_PATHS,
        NPY_DISABLE_CPU_FEATURES=features,
    )


def test_no_other_randomness_and_no_clock():
    """Code of the mechanisms imports neither random nor time and never names numpy.random."""
    for path in (PACKAGE / "noise").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.Attribute):
                assert node.attr != "random", path.name
                continue
            else:
                continue
            assert not names & {"random", "time", "secrets", "numpy.random"}, path.name


def test_no_error_is_swallowed():
    """No handler in the mechanisms is empty."""
    for path in (PACKAGE / "noise").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                assert not all(isinstance(part, ast.Pass) for part in node.body), path.name


@pytest.mark.slow
def test_time_says_nothing_about_the_draw():
    """Rank correlation of |noise| with the time of its draw is below 0.03 (8 standard errors)."""
    noise = DiscreteLaplace(Fraction(1000))
    size = 70_000
    draws, times = np.empty(size), np.empty(size)
    for index in range(size):
        start = time.perf_counter_ns()
        draw = noise.sample(1)
        times[index] = time.perf_counter_ns() - start
        draws[index] = abs(int(draw[0]))
    assert abs(stats.spearmanr(draws, times).statistic) < 0.03
