"""Quantiles from counts near their ranks are those from the counts of all values, byte for byte.

Which cells are read depends on the rows. The release does not: from the same random bytes both ways
select the same candidates, so the proofs of docs/explanation/quantiles.md hold for either.
"""

import datetime as dt
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.measurement.bin_table import Magnitudes, Steps, regridded, steps_within
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.value_words import (
    FLOAT_BITS,
    NearCounts,
    ValueWords,
    bits_of_values,
    encode_bits,
)
from dfprivacy.statistics.estimators.quantile import (
    EndsLaw,
    RankLaw,
    find_magnitudes,
    select_ends,
    select_quantiles,
)
from tests.numbered_bytes import draw_numbered

pytestmark = pytest.mark.usefixtures("permitted")

BITS = SignificantBits(17)
LEVELS = [Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)]


def words_of(group, values, groups):
    """Return the words of rows: values are rounded as engines do."""
    bits = encode_bits(BITS.labels(np.asarray(values, np.float64))).astype(np.int64)
    words = (np.asarray(group, np.int64) << FLOAT_BITS) + bits
    return ValueWords(pa.table({"k": np.arange(groups)}), groups, BITS, words)


def grids_of(values):
    """Return grids of all kinds: all bins, magnitudes, integers, bounds, even steps."""
    noise = Epsilon(Fraction(40)).noise(1, 1)
    yield Magnitudes(BITS, None)
    yield draw_numbered(find_magnitudes, values.table(), noise)
    yield draw_numbered(find_magnitudes, values.table(), noise, integers=True)
    bounds = Bounds(-3.0, 700.0)
    yield draw_numbered(find_magnitudes, values.table(), noise, bounds=bounds)
    yield steps_within(Bounds(0.0, 900.0), 1)
    yield steps_within(Bounds(-1000.0, 1000.0), 0.25)


def samples(seed, rows, groups):
    """Yield groups and values of several shapes."""
    random = np.random.default_rng(seed)
    group = random.integers(0, groups, rows)
    yield group, random.uniform(-60, 240, rows)
    yield group, random.normal(1000 * group, 1 + group)
    yield group, np.exp(random.normal(0, 9, rows)) * random.choice([-1, 1], rows)
    yield group, random.integers(0, 1000, rows).astype(float)
    yield group, np.where(random.uniform(size=rows) < 0.4, 7.0, random.normal(0, 5, rows))
    yield group, np.where(random.uniform(size=rows) < 0.999, 1e9 + random.normal(size=rows), 1e-30)
    yield group, np.zeros(rows)


def assert_same_answers(values, grid, seed, epsilon):
    """Select lists of levels, and ends of intervals, both ways, and compare."""
    full, loss = regridded(values.table(), grid), Epsilon(epsilon)
    rows = values.totals() + np.random.default_rng(seed).integers(-3, 4, values.groups)
    for levels in ([LEVELS[2]], LEVELS[1:4], LEVELS):
        law = RankLaw(loss, loss.noise(1, 1), grid.maximum - grid.first + 1, len(levels))
        near_counts = NearCounts(values, grid)
        chosen, expected = (
            draw_numbered(select_quantiles, counts, levels, rows, law)
            for counts in (near_counts, full)
        )
        np.testing.assert_array_equal(chosen, expected)
    law = EndsLaw(loss, loss.noise(1, 1), loss.noise(1, 1), 2)
    near_counts = NearCounts(values, grid)
    (ends, noisy), (expected_ends, expected_noisy) = (
        draw_numbered(select_ends, counts, LEVELS[1:3], rows, law) for counts in (near_counts, full)
    )
    for end, expected in zip(ends, expected_ends, strict=True):
        np.testing.assert_array_equal(end.low, expected.low)
        np.testing.assert_array_equal(end.high, expected.high)
    np.testing.assert_array_equal(noisy.coordinates, expected_noisy.coordinates)


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(3), Fraction(50)], ids=str)
@pytest.mark.parametrize(("rows", "groups"), [(20_000, 3), (3_000, 7), (40, 3), (0, 2), (900, 1)])
def test_answers_are_those_of_all_values(rows, groups, epsilon):
    """Every answer, end and noisy count is the same, for all grids and shapes of data."""
    for seed, (group, data) in enumerate(samples(9, rows, groups)):
        values = words_of(group, data, groups)
        for grid in grids_of(values):
            assert_same_answers(values, grid, seed, epsilon)


@pytest.mark.parametrize(("rows", "groups"), [(9_000, 3), (50, 2)])
@pytest.mark.parametrize("largest", [10, 86_399, 2**38, 2**50])
def test_whole_numbers_have_the_same_answers(largest, rows, groups):
    """Dates and times are whole numbers: answers are those of all values for every range."""
    random = np.random.default_rng(3)
    group = random.integers(0, groups, rows)
    shapes = random.uniform(size=rows), random.normal(0.3, 1e-6, rows), random.beta(0.1, 9, rows)
    for seed, shape in enumerate(shapes):
        numbers = np.rint(np.clip(shape, 0, 1) * largest).astype(np.int64)
        words = (group << bits_of_values(largest)) + numbers
        bits = SignificantBits(max(largest.bit_length(), 8))
        values = ValueWords(pa.table({"k": np.arange(groups)}), groups, bits, words, largest)
        assert_same_answers(values, Steps(Fraction(1), 0, largest), seed, Fraction(3))


@pytest.mark.parametrize("bounds", [None, Bounds(-2.5, 3.0), Bounds(0.0, 1e6)], ids=str)
def test_octaves_are_counted_as_in_the_table(bounds):
    """All groups together show the same magnitudes, with and without a table of all values."""
    noise = Epsilon(Fraction(1)).noise(1, 1)
    for group, data in samples(4, 5_000, 3):
        values = words_of(group, np.where(group == 0, np.rint(data), data), 3)
        magnitudes, expected = (
            draw_numbered(find_magnitudes, counts, noise, bounds=bounds)
            for counts in (values, values.table())
        )
        np.testing.assert_array_equal(magnitudes.starts, expected.starts)
        np.testing.assert_array_equal(magnitudes.sizes, expected.sizes)


@pytest.mark.parametrize("keys", [None, ["b", "z", "a"]], ids=["secret", "public"])
def test_memory_and_files_release_the_same(keys, replayed, tmp_path):
    """Large groups with missing values: polars, pandas, DuckDB and Parquet agree byte for byte."""
    random = np.random.default_rng(8)
    column = random.gamma(2.0, 30.0, 6_000)
    column[::7] = np.nan
    frame = pl.DataFrame({"k": random.choice(["a", "b", "c"], 6_000), "x": column})
    frame = pl.concat([frame, pl.DataFrame({"k": ["n"] * 900, "x": [None] * 900})])
    frame.write_parquet(tmp_path / "t.parquet")
    questions = {
        "m": dfp.median("x", bounds=(0, 500)),
        "s": dfp.quantiles("x", [0.1, 0.5, 0.9], bounds=(0, 500), step=5),
        "q": dfp.quantiles("x", [0.2, 0.6]),
        "i": dfp.median("x", ends=True),
    }

    def release(source):
        """Return each group's answers, whichever frame they come in."""
        groups = dfp.frame(source).group_by("k", **({} if keys is None else {"keys": keys}))
        answers = groups.agg(**questions, epsilon=8, **({"delta": 1e-6} if keys is None else {}))
        rows = pa.table(answers).to_pylist()
        return {row["k"]: [str(v).replace("None", "nan") for v in row.values()] for row in rows}

    table = duckdb.from_arrow(frame.to_arrow())
    sources = [frame, frame.to_pandas(), table, tmp_path / "t.parquet"]
    first, *others = [replayed(lambda source=source: release(source)) for source in sources]
    assert len(first) == 3
    assert others == [first] * 3


@pytest.mark.slow
def test_many_groups_of_fine_moments_are_counted_by_the_engine(replayed, tmp_path):
    """Where numbers of groups and moments don't fit 63 bits, the release is that of files."""
    number = np.arange(2**22 + 2_000)
    start = np.datetime64("2013-01-01T00:00:00", "us")
    frame = pl.DataFrame({"k": np.maximum(number - 2_000, 0), "t": start + number * 10**5})
    frame.write_parquet(tmp_path / "t.parquet")
    bounds = (start.item(), start.item() + dt.timedelta(days=12))

    def release(source):
        by_key = dfp.frame(source).group_by("k", keys=[0, 1, 2])
        return by_key.median("t", bounds, dt.timedelta(microseconds=1), epsilon=9)

    memory, files = (replayed(lambda s=s: release(s)) for s in (frame, tmp_path / "t.parquet"))
    assert pa.table(memory).to_pylist() == pa.table(files).to_pylist()
    assert memory["t"][0] is not None
