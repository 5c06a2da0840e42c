"""Audits of monotone properties: exact laws, by quadrature.

No choice may have probabilities further apart than its share of the loss. Nothing is drawn but in
the last tests, which state their false-alarm rate.
"""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.estimators.monotone import (
    CentreLength,
    QuantileLength,
    monotone_estimate,
    select_monotone,
    trimmed_rank,
)
from dfprivacy.estimators.threshold import threshold_runs
from dfprivacy.measurement.bin_table import bin_table
from dfprivacy.measurement.binning import SignificantBits
from tests.statistical.audited_choices import (
    EPSILON,
    LARGE,
    LOSSES,
    RHO,
    SMALL,
    audit,
    columns,
    epsilons_of,
)

MEDIAN = QuantileLength(0.5)
PROPERTIES = [
    MEDIAN,
    QuantileLength(0.9),
    CentreLength(2),
    CentreLength(1.5),
    CentreLength(3),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("functional", PROPERTIES, ids=str)
@pytest.mark.parametrize("domain", [(-2, 2), (-1e300, 1e300)], ids=str)
def test_monotone_selection(watched, functional, domain, loss):
    """Choices by lengths keep epsilon, or the epsilon that rho buys."""

    def call(rows):
        select_monotone(functional, *columns(rows), domain, loss, intervals=16)

    expected = epsilons_of(loss, 1)
    if isinstance(loss, Rho):
        assert expected[0] ** 2 / 8 <= loss.value
    (largest,) = audit(watched, call, expected, 0, datasets=[*SMALL[::3], *LARGE])
    assert largest > float(expected[0]) / 2


@pytest.mark.parametrize("functional", PROPERTIES, ids=str)
def test_monotone_selection_on_the_fine_grid(watched, functional):
    """The same with 4,097 candidates."""

    def call(rows):
        select_monotone(functional, *columns(rows), (-4, 4), EPSILON)

    audit(watched, call, [EPSILON.value], 0, datasets=[(), (1.0,), *LARGE[2:]])


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("ends", [(-1, 1), (7, 7), (9, -70_000), (-8_000_000, 8_000_000)], ids=str)
def test_monotone_estimate(watched, loss, ends):
    """Two thresholds, then a choice between them, whatever they came out as: the shares add up."""

    def call(rows):
        monotone_estimate(CentreLength(2), *columns(rows), loss, intervals=16)

    shares = ["1/4", "1/4", "1/2"]
    audit(watched, call, epsilons_of(loss, *shares), *ends, 0, datasets=[*SMALL[::3], *LARGE])
    assert sum(map(Fraction, shares)) == 1


def test_rows_beyond_the_bounds_are_dropped(watched):
    """What the property sees of a row depends on the bounds and on that row alone.

    A row is there if it rounds to a bin from the lower to the upper bound, whatever rows are with
    it: each is counted alone and among others.
    """
    grid, seen = SignificantBits(16), []
    low, high = grid.numbers(np.array([1.0, 2.0])).tolist()
    inner, outer = [1.0, 1.5, 2.0, 2.0 + 2**-16], [0.99, 2.0 + 2**-14, -1.5, 1e300, -math.inf]

    class Spy(QuantileLength):
        def lengths(self, values, rows, candidates):
            seen.append(int(rows.sum()))
            return super().lengths(values, rows, candidates)

    for rows in ([], *([x] for x in inner + outer), inner, outer, inner + outer, outer * 9):
        watched(lambda rows=rows: monotone_estimate(Spy(0.5), *columns(rows), RHO), high, low, 0)
        assert seen.pop() == sum(x in inner for x in rows)


def test_the_rank_of_monotone_estimates():
    """Seven quarters of r = (8/epsilon) log(m/1e-6), epsilon that of a threshold: for both losses.

    The error of such a threshold, (2/epsilon) log(m/1e-6), is r/4, so that its rank is in the
    band [3r/2, 2r] of the paper's proof.
    """
    for quarter in (Epsilon(Fraction(1, 4)), Rho(Fraction(1, 32))):
        logarithm = math.log(2_001 * 10**6)
        epsilon = float(epsilons_of(quarter, 1)[0])
        r, error = 8 / epsilon * logarithm, 2 / epsilon * logarithm
        rank = trimmed_rank(quarter, 2_001)
        assert rank == math.ceil(7 * r / 4)
        assert 3 * r / 2 <= rank - error <= rank + error <= 2 * r + 1


# Nothing but the data's own rows


def test_other_groups_do_not_matter():
    """The candidates and losses of a group are the same whatever rows other groups have."""
    grid = SignificantBits(5)
    laws = []
    for others in ([], [3.0] * 50):
        values = np.array([1.0, 2.0, 2.0, *others])
        group = np.array([1, 1, 1, *([0, 2] * 25 if others else [])], np.int64)
        table = bin_table(
            pa.table({"g": [0, 1, 2]}),
            3,
            grid,
            group,
            grid.labels(values),
            rows=np.ones_like(group),
        )
        laws.append(captured(table))
    assert laws[0] == laws[1]


def captured(table):
    runs = threshold_runs(table, 2, "lower")
    ends = np.append(runs.group_starts, len(runs.first))
    part = slice(ends[1], ends[2])
    return runs.first[part].tolist(), runs.length[part].tolist(), runs.loss[part].tolist()


# What comes out


def test_monotone_estimates_are_near():
    """With 40,001 rows evenly around 1e6, half width 100, every centre comes within 5 of it.

    False alarms: a bound would have to err by 15,000 rows, or a length by 1,000, where one in
    1e9 errs by 50.
    """
    values, rows = 1e6 + 100 * np.linspace(-1, 1, 40_001), np.ones(40_001, np.int64)
    for functional in (MEDIAN, CentreLength(2), CentreLength(3)):
        for loss in (Epsilon(Fraction(4)), Rho(Fraction(2))):
            assert abs(monotone_estimate(functional, values, rows, loss) - 1e6) < 5


def test_empty_data_gives_any_point():
    """Without rows, points of the domain are equally likely: a chi-square test at 1e-9."""
    none = columns(())
    points = [select_monotone(MEDIAN, *none, (0, 4), EPSILON, intervals=4) for _ in range(3000)]
    counts = np.bincount(np.array(points, np.int64), minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-9
    assert -(2.0**126) <= monotone_estimate(CentreLength(2), *none, EPSILON) <= 2.0**126
