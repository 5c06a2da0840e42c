"""The public grid of a monotone property: values round to it, and equal lengths are one run."""

from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.errors import InvalidQuestionError, TooManyRowsError
from dfprivacy.estimators.centre import CentreLength
from dfprivacy.estimators.inverse_sensitivity import MedianLength
from dfprivacy.estimators.monotone import length_runs, on_grid, select_monotone
from dfprivacy.terms import Bounds

LOSS = Epsilon(Fraction(1))


def test_values_round_to_the_grid():
    """Clipping, infinities, repeated values and ends."""
    values = np.array([-np.inf, -1.0, 0.0, 0.13, 0.12, 1.0, 9.0, np.inf])
    integers, rows = on_grid(values, np.arange(1, 9), Bounds(0, 1), 8)
    assert integers.tolist() == [0, 1, 8]
    assert rows.tolist() == [6, 9, 21]


@pytest.mark.parametrize("domain", [(-1e300, 1e300), (1e300, 1.1e300), (0, 1e-300), (-3, 2**53)])
def test_grids_of_every_size(domain):
    """Both ends and the middle of a domain are candidates, without overflow."""
    bounds = Bounds(*domain)
    middle = bounds.lower + bounds.width / 2
    integers, _ = on_grid(np.array([*domain, middle]), np.ones(3, np.int64), bounds, 2**12)
    assert integers.tolist() == [0, 2**11, 2**12]


@pytest.mark.parametrize("intervals", [0, 1, 3, 2**21, -4, 4.0, True, "8"])
def test_other_intervals_are_refused(intervals):
    """Intervals are a power of two."""
    with pytest.raises(InvalidQuestionError, match="power of two"):
        select_monotone(
            MedianLength(), np.zeros(1), np.ones(1, np.int64), (0, 1), LOSS, intervals=intervals
        )


def test_too_many_rows():
    """2**33 rows are the public limit; one less is fine."""
    for rows in ([2**33], [2**63 - 1, 2**63 - 1]):
        with pytest.raises(TooManyRowsError):
            select_monotone(CentreLength(2), np.zeros(len(rows)), np.array(rows), (0, 1), LOSS)
    assert (
        0 <= select_monotone(CentreLength(2), np.zeros(1), np.array([2**33 - 1]), (0, 1), LOSS) <= 1
    )


class Wrong:
    def __init__(self, answer):
        self.answer = answer

    def lengths(self, values, rows, candidates):
        return self.answer


@pytest.mark.parametrize(
    "answer", [np.zeros(9), np.zeros(8, np.int64), None, np.full(9, -1), np.full(9, 2**53)]
)
def test_other_lengths_are_refused(answer):
    """A property of the caller returns one int64 a candidate, from 0 to 2**53 - 1."""
    with pytest.raises(InvalidQuestionError):
        length_runs(Wrong(answer), np.arange(2), np.ones(2, np.int64), 8, 9)


def test_equal_lengths_are_one_run():
    """Neighbouring candidates of equal length form a run; together they are the grid."""
    runs = length_runs(Wrong(np.array([3, 3, 0, 1, 1, 1, 0, 0, 3])), np.arange(2), np.ones(2), 8, 1)
    assert runs.first.tolist() == [0, 2, 3, 6, 8]
    assert runs.length.tolist() == [2, 1, 3, 2, 1]
    assert runs.loss.tolist() == [3, 0, 1, 0, 3]
