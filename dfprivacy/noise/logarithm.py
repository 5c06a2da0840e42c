"""Logarithms of uniform words in floating point, with an error that is certified.

`negative_log` encloses -ln U for whole blocks; whoever uses it keeps only the answers that are
the same all over the enclosure and sends the rest down the exact path (`uniform`). Two things are
assumed of the processor, and both are checked: that it rounds to nearest (every call), and that
`numpy.log` is off by at most 64 units in the last place (once a process, at 2,000 points with a
limit of 8; numpy promises 4).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfprivacy.noise.uniform import natural_log

BITS = 63
"""Binary digits of U that one word gives; the last bit of the word is left for a sign."""

_ULP = 2.0**-52
_LOG_ULPS = 64
_TESTED_ULPS = 8
_SLACK = 1.0 + 2.0**-20  # covers the rounding of the error terms themselves
_CONVERSION = _ULP * _SLACK  # int64 to float64 moves ln m by at most 2**-52
_RELATIVE = _LOG_ULPS * _ULP * _SLACK

_one = 1.0
_tiny = 2.0**-60


@dataclass(frozen=True)
class Workspace:
    """Buffers of one call; they never outlive it."""

    value: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]
    spare: npt.NDArray[np.float64]
    agrees: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, size: int) -> Workspace:
        """Return buffers for blocks of at most `size` words."""
        return cls(np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.bool_))

    def first(self, size: int) -> Workspace:
        """Return the same buffers, cut to `size`."""
        return Workspace(
            self.value[:size], self.error[:size], self.spare[:size], self.agrees[:size]
        )

    def settle_nothing(self) -> None:
        """Mark every element for the exact path."""
        self.agrees[:] = False


def negative_log(mantissas: npt.NDArray[np.int64], work: Workspace) -> None:
    """Enclose -ln U, U anywhere in the closed cell [m, m + 1] / 2**63, for 0 <= m < 2**63.

    Afterwards -ln U lies within work.error of work.value. For m = 0 both are infinite.
    Call it under ``numpy.errstate(all="ignore")`` and only while `certified` holds.
    """
    value, error, spare = work.value, work.error, work.spare
    np.copyto(value, mantissas)
    np.divide(_SLACK, value, out=error)  # the cell: ln((m + 1) / m) <= 1 / m
    np.multiply(value, 2.0**-BITS, out=value)
    np.log(value, out=value)
    np.negative(value, out=value)
    np.multiply(value, _RELATIVE, out=spare)
    np.add(error, spare, out=error)
    np.add(error, _CONVERSION, out=error)


def certified() -> bool:
    """Tell whether the enclosure of `negative_log` holds here and now."""
    return _rounds_to_nearest() and _log_is_accurate()


def _rounds_to_nearest() -> bool:
    return _one + _tiny == _one and _one - _tiny == _one


@functools.cache
def _log_is_accurate() -> bool:
    """Compare numpy.log with exact logarithms, on arrays like those of the samplers."""
    mantissas = _test_points()
    logarithms = np.log(np.array(mantissas, dtype=np.float64) * 2.0**-BITS)
    return all(map(_close, mantissas, logarithms.tolist()))


def _test_points() -> list[int]:
    """Return about 2,000 integers that float64 holds: every octave, its two ends, and near 2**63.

    The count is odd, so that the part of numpy.log for the end of an array is tested as well.
    """
    points = {2**power for power in range(BITS + 1)}
    points |= {2**power - 2 ** max(0, power - 53) for power in range(2, BITS + 1)}
    points |= {2**power + 2 ** max(0, power - 52) for power in range(2, BITS)}
    points |= {2**BITS - 2**power for power in range(BITS - 53, BITS)}
    for index in range(1, 1741):
        spread = (0x9E3779B97F4A7C15 * index) % 2**52 + 2**52
        power = index % (BITS - 1)
        points.add(spread << (power - 52) if power >= 52 else spread >> (52 - power))
    return sorted(points)


def _close(mantissa: int, computed: float) -> bool:
    """Tell whether `computed` is within 8 units in the last place of ln(mantissa / 2**63)."""
    numerator, denominator = computed.as_integer_ratio()
    exact, unit = natural_log(mantissa, BITS, 25).as_integer_ratio()
    difference = abs(numerator * unit - exact * denominator)
    return difference * 2**52 <= _TESTED_ULPS * abs(exact) * denominator
