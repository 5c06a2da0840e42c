"""Descriptions of frames as text, pages and tables."""

import datetime as dt

import duckdb
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp

FRAME = pl.DataFrame(
    {
        "x": [float(k % 100) for k in range(4000)],
        "<b>k</b>": [k % 10 if k % 4 else None for k in range(4000)],
        "late": [k % 5 == 0 for k in range(4000)],
        "city": ["Rome", "</td><script>taken</script>"] * 2000,
        "day": [dt.date(2020, 1, 1) + dt.timedelta(days=k % 101) for k in range(4000)],
        "none": pl.Series([None] * 4000, dtype=pl.Float64),
    }
)
TERMS = {"epsilon": 1e6, "delta": 1e-6}


@pytest.fixture(scope="module")
def described():
    """Describe the frame, nearly without noise."""
    return FRAME.dp(bounds={"x": (0, 100)}).describe(**TERMS)


def test_each_column_has_a_line_with_what_is_known(described):
    """Text has the count, what is missing, mean, quantiles and values, and the cost below."""
    lines = repr(dfp.show(described)).splitlines()
    x, k, late, city, day, none = lines[2:8]
    assert x.split()[:3] == ["x", "number", "4,000"]
    assert "4,000 [4,000, 4,000] 0% [0%, 0%] " in " ".join(x.split())
    assert "3,000 [3,000, 3,000] 25% [25%, 25%]" in " ".join(k.split())
    assert "true 20%" in late
    assert "Rome 2,000" in city
    assert "2020-02-" in day
    assert none.count("unknown") == 5
    assert "epsilon=1e+06, delta=1e-06" in lines


def test_quantiles_keep_their_digits_where_the_mean_has_none():
    """A quantile is shown as it is, however wide the interval of a mean with outliers is."""
    frame = pl.DataFrame({"x": [k / 5000 for k in range(4900)] + [1e5] * 100})
    described = frame.dp(bounds={"x": (0, 1e6)}).describe(
        quantiles=[0.25, 0.5], **TERMS | {"epsilon": 9}
    )
    *_, low, middle = repr(dfp.show(described)).splitlines()[2].split()
    assert float(low) == pytest.approx(described["25%"].item(), rel=1e-4)
    assert float(middle) == pytest.approx(described["50%"].item(), rel=1e-4)


@pytest.mark.parametrize("engine", ["pandas", "duckdb", "lazy"])
def test_every_frame_type_is_shown(engine):
    """A description in the caller's own type is recognized."""
    frame = {
        "pandas": FRAME.to_pandas(),
        "duckdb": duckdb.from_arrow(FRAME.to_arrow()),
        "lazy": FRAME.lazy(),
    }[engine]
    description = dfp.frame(frame).describe(["x", "city", "day"], **TERMS)
    text = repr(dfp.show(description))
    assert text.startswith("describe('x', 'city', 'day')")
    assert "2020-02-" in text


def test_files_of_a_description(described, tmp_path):
    """CSV has all columns of the answer; there is no chart."""
    shown = dfp.show(described)
    table = pd.read_csv(shown.save(tmp_path / "d.csv"))
    assert list(table.columns) == described.columns
    with pytest.raises(dfp.errors.PictureError):
        dfp.plot(described)
