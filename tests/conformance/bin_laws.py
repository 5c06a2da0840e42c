"""The bins of values by the law in words, in fractions."""

import math
from fractions import Fraction

LARGEST = 2.0**126
BITS = 17
"""The bits of a value that a rank counts."""
KINDS = {"octaves": 2, "means of octaves": 1, "values": 0}


def round_value(value, bits):
    """Return a value rounded to so many bits by Veltkamp's splitting, double by double."""
    scaled = value * (2.0 ** (53 - bits) + 1.0)
    return scaled - (scaled - value)


def octave(value):
    """Return the number of (2**e, 2**(e + 1)], 1 for e = -127; negative values are mirrored."""
    mantissa, exponent = math.frexp(abs(value))
    number = max(exponent - (mantissa == 0.5) + 127, 0) if value else 0
    return -number if value < 0 else number


def part(value):
    """Return the number of the bin of 1/2048 octave, the larger end in it, and its smaller end."""
    size, exponent = abs(value), abs(octave(value))
    if not exponent:
        return 0, 0.0
    smallest = 2.0 ** (exponent - 128)
    step = math.ceil((Fraction(size) / Fraction(smallest) - 1) * 2048)
    number, base = (exponent - 1) * 2048 + step, smallest * (1 + (step - 1) / 2048)
    return (-number, -base) if value < 0 else (number, base)


def rank(value, bits):
    """Return the number of a value among those of so many bits; 2**-126 has number 1."""
    mantissa, exponent = math.frexp(abs(value))
    half = 2 ** (bits - 1)
    number = max((exponent - 1 + 126) * half + int(mantissa * 2 * half) - half + 1, 0)
    number = number if value else 0
    return -number if value < 0 else number


def by_definition(values, kind):
    """Return the entries of one group by the law in words, added up in fractions.

    Files have octaves cut into 2048 bins, whose sums are of what is beyond their ends.
    """
    present = [float(v) for v in values if v is not None and v == v]
    entries = {}
    for value in (min(max(v, -LARGEST), LARGEST) for v in present):
        rounded_value = round_value(value, 22)
        number, base = part(rounded_value)
        number = rank(round_value(value, BITS), BITS) if kind == "values" else number
        powers = [rounded_value - base, round_value((rounded_value - base) ** 2, 21)][: KINDS[kind]]
        entries.setdefault(number, []).append([Fraction(p if number else 0.0) for p in powers])
    return [
        (number, len(rows), *(float(sum(column)) for column in zip(*rows, strict=True)))
        for number, rows in sorted(entries.items())
    ]
