"""Draws of exact noise a second, on one core.

Run: python benchmarks/sampler.py [draws]
"""

from __future__ import annotations

import os
import sys
import time
from fractions import Fraction

import numpy as np

from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace, Noise
from dfprivacy.release.pipeline import permit

ROUNDS = 5

LAWS: tuple[tuple[str, Noise], ...] = (
    ("discrete Laplace, scale 1/1000", DiscreteLaplace(Fraction(1, 1000))),
    ("discrete Laplace, scale 1", DiscreteLaplace(Fraction(1))),
    ("discrete Laplace, scale 2^10", DiscreteLaplace(Fraction(2**10))),
    ("discrete Laplace, scale 2^30", DiscreteLaplace(Fraction(2**30))),
    ("discrete Laplace, scale 2^45", DiscreteLaplace(Fraction(2**45))),
    ("discrete Gaussian, sigma^2 1/4", DiscreteGaussian(Fraction(1, 4))),
    ("discrete Gaussian, sigma^2 2^40", DiscreteGaussian(Fraction(2**40))),
    ("discrete Gaussian, sigma^2 2^80", DiscreteGaussian(Fraction(2**80))),
)


def best_seconds(task):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


@permit("a benchmark")
def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    DiscreteLaplace(Fraction(1)).sample(1)  # the self-test of the logarithm, once a process
    print(f"numpy {np.__version__}, best of {ROUNDS} rounds of {draws:,} draws")
    bytes_only = best_seconds(lambda: os.urandom(8 * draws))
    print(f"{'one 64-bit word of os.urandom each':36} {draws / bytes_only / 1e6:7.1f} million/s")
    for name, noise in LAWS:
        seconds = best_seconds(lambda noise=noise: noise.sample(draws))
        print(f"{name:36} {draws / seconds / 1e6:7.1f} million/s")


if __name__ == "__main__":
    main()
