"""The laws of the samplers, and how counts are compared with them."""

import math

import numpy as np
from scipy import special

ALPHA = 1e-9


class LaplaceLaw:
    """Exact functions of the discrete Laplace law, in floating point."""

    def __init__(self, scale):
        self.scale = float(scale)
        self.ratio = math.exp(-1 / self.scale)
        self.one_less = -math.expm1(-1 / self.scale)

    def upper(self, m):
        """P(X >= m), elementwise, for m >= 1."""
        return np.exp(-np.asarray(m, dtype=float) / self.scale) / (1 + self.ratio)

    @property
    def zero(self):
        return self.one_less / (1 + self.ratio)

    @property
    def mean_magnitude(self):
        return 2 * self.ratio / (self.one_less * (1 + self.ratio))

    @property
    def variance(self):
        return 2 * self.ratio / self.one_less**2

    def bin_edges(self, bins):
        return [-self.scale * math.log(part / bins) for part in range(1, bins)]

    def far_values(self):
        return [math.ceil(10 * self.scale), math.ceil(20 * self.scale)]


class GaussianLaw:
    """The same of the discrete Gaussian law: summed up for small sigma, an integral for large."""

    def __init__(self, variance):
        self.sigma = math.sqrt(variance)
        self.values = None
        if self.sigma <= 2000:
            reach = math.ceil(40 * self.sigma) + 10
            weights = np.exp(-(np.arange(reach + 1.0) ** 2) / (2 * float(variance)))
            total = weights[0] + 2 * weights[1:].sum()
            self.values = weights / total
            self.uppers = np.append(np.cumsum(self.values[::-1])[::-1], 0.0)

    def upper(self, m):
        if self.values is None:  # off by less than sigma**-2 / 24
            return special.erfc((np.asarray(m, float) - 0.5) / (self.sigma * math.sqrt(2))) / 2
        return self.uppers[np.minimum(np.asarray(m), len(self.values))]

    @property
    def zero(self):
        if self.values is None:
            return 1 / (self.sigma * math.sqrt(2 * math.pi))
        return self.values[0]

    @property
    def mean_magnitude(self):
        if self.values is None:
            return self.sigma * math.sqrt(2 / math.pi)
        return 2 * (self.values * np.arange(len(self.values))).sum()

    @property
    def variance(self):
        if self.values is None:
            return self.sigma**2
        return 2 * (self.values * np.arange(len(self.values)) ** 2.0).sum()

    def bin_edges(self, bins):
        return [-self.sigma * float(special.ndtri(part / bins / 2)) for part in range(1, bins)]

    def far_values(self):
        return [math.ceil(3 * self.sigma), math.ceil(5 * self.sigma)]


def find_law(noise):
    if hasattr(noise, "scale"):
        return LaplaceLaw(noise.scale)
    return GaussianLaw(noise.sigma_squared)


def merge_parts(counts, expected, min_expected):
    """Join bins, the rarest first, until each expects at least `min_expected`."""
    pairs = sorted(zip(expected, counts, strict=True))
    merged_pairs, mass, count = [], 0.0, 0
    for e, c in pairs:
        mass, count = mass + e, count + c
        if mass >= min_expected:
            merged_pairs.append((mass, count))
            mass, count = 0.0, 0
    if mass and merged_pairs:
        e, c = merged_pairs.pop()
        merged_pairs.append((e + mass, c + count))
    return [c for _, c in merged_pairs], [e for e, _ in merged_pairs]


def cumulative(law, x):
    """P(X <= x), elementwise on integers."""
    above = law.upper(np.maximum(x + 1, 1))
    below = law.upper(np.maximum(-x, 1))
    return np.where(x >= 0, 1 - above, below)
