"""The laws of the shipped choices, by quadrature, and how far neighbours move them.

A watched call hands over the mechanisms that it runs, with their rates, and what they choose from:
these give the exact law of its choices. Neighbours differ by one row.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.noise.selection import ExponentialMechanism

EPSILON = Epsilon(Fraction(3, 2))
RHO = Rho(Fraction(1, 8))
LOSSES = [EPSILON, RHO]
SLACK = 1e-9
SPOTS = [-1e300, -2.0, 1.0, 1e300]
ROWS = [*SPOTS, math.inf, math.nan, 0.0]
SMALL = [d for n in range(3) for d in itertools.combinations_with_replacement(SPOTS, n)]
LARGE = [(1.0,) * 60, (-1e300,) * 40 + (1e300,) * 30, (*np.linspace(-2, 2, 50),), (0.0,) * 3]


def columns(rows):
    return np.array(rows, np.float64), np.ones(len(rows), np.int64)


def one_group(rows, bits):
    values, counts = columns(rows)
    grid, group = SignificantBits(bits), np.zeros(len(rows), np.int64)
    return bin_table(pa.table({}), 1, grid, group, grid.labels(values), rows=counts)


def panels():
    """Nodes and weights of Gauss's rule on [2**-(k+1), 2**-k], k < 120."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    widths = 2.0 ** -np.arange(1, 121)[:, None]
    return (widths * (1 + (nodes + 1) / 2)).ravel(), (widths * weights / 2).ravel()


NODES, WEIGHTS = panels()


def law(mechanism, runs):
    """First candidate of each run, and the probability of each of its candidates.

    Permute-and-flip: the integral over [0, 1] of p * product of (1 - p_j v) over the others
    (tests/noise/test_selection_laws.py proves it equal to McKenna and Sheldon's Algorithm 1).
    """
    p = np.exp(-float(mechanism.rate) * (runs.loss - runs.loss.min()))
    if isinstance(mechanism, ExponentialMechanism):
        each = p / (runs.length * p).sum()
    else:
        missed = np.log1p(-np.outer(NODES, p))
        alone = np.exp((missed @ runs.length)[:, None] - missed)
        each = p * (WEIGHTS @ alone)
    assert (runs.length * each).sum() == pytest.approx(1, abs=1e-9)
    assert (runs.first[1:] == runs.first[:-1] + runs.length[:-1]).all()
    return runs.first, each


def log_ratio(one, other):
    """Return the largest |ln P(c) / P'(c)| over all candidates."""
    edges = np.union1d(one[0], other[0])
    probabilities = [
        each[np.searchsorted(first, edges, side="right") - 1] for first, each in (one, other)
    ]
    return float(np.abs(np.log(probabilities[0]) - np.log(probabilities[1])).max())


def audit(watched, call, losses, *forced, datasets=(*SMALL, *LARGE)):
    """Every dataset with and without each further row: each choice stays within its epsilon."""
    largest = [0.0] * len(forced)
    for rows in datasets:
        own, epsilons = watched(lambda rows=rows: call(rows), *forced)
        for row in ROWS:
            more, same = watched(lambda row=row, rows=rows: call((*rows, row)), *forced)
            assert epsilons == same == losses
            for step, (one, other) in enumerate(zip(own, more, strict=True)):
                ratio = log_ratio(one, other)
                assert ratio <= float(losses[step]) * (1 + SLACK) + SLACK
                largest[step] = max(largest[step], ratio)
    return largest


def epsilons_of(loss, *parts):
    """Return the epsilon that each choice is to be run with."""
    if isinstance(loss, Epsilon):
        return [loss.value * Fraction(part) for part in parts]
    return [ExponentialMechanism.for_rho(loss.value * Fraction(p), 1).epsilon(1) for p in parts]
