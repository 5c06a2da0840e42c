"""Warnings of objects and numbers of a row, while these are looked at, are heard by nobody."""

import threading
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.command_line import run_python


class Loud:
    """An object that warns whenever it is looked at."""

    def __init__(self):
        self.number = 1

    def __repr__(self):
        warnings.warn("a row is here", stacklevel=2)
        return "loud"

    def __ne__(self, _):
        warnings.warn("a row is here", stacklevel=2)
        return False

    __hash__ = None


ODD = {
    "warns": Loud(),
    "empty": np.array([]),
    "index": pd.Index([]),
    "wide": np.longdouble("1e999"),
}
ASKED = {
    "keys": lambda frame: frame.dp.group_by("k", keys=["a", "b"]).count(),
    "secret keys": lambda frame: frame.dp.group_by("k").count(delta=1e-6),
    "presence": lambda frame: frame.dp.count("k"),
    "unit": lambda frame: frame.dp(unit="k", max_rows=1).count(),
    "unit and keys": lambda frame: (
        frame.dp(unit="k", max_rows=1, max_groups=1).group_by("k").count(delta=1e-6)
    ),
}


def column(last):
    series = pd.Series([*"ab"] * 50 + [None], dtype=object)
    series.iat[-1] = last
    return pd.DataFrame({"k": series})


def heard(ask, frame, action):
    """Return the warnings of a question, and the type of what comes of it."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter(action)
        try:
            kind = type(ask(frame))
        except Warning as error:
            kind = type(error)
    return [str(warning.message) for warning in caught], kind


@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("odd", ODD)
def test_one_object_is_not_heard(odd, name, action):
    """An object that warns, or that numpy warns of, changes neither warnings nor errors."""
    ask = ASKED[name]
    assert heard(ask, column(ODD[odd]), action) == heard(ask, column(None), action)


LONG = {
    "presence": lambda frame: frame.dp.count("x"),
    "values": lambda frame: frame.dp.mean("x", (0, 3)),
    "keys": lambda frame: frame.dp.group_by("x").count(delta=1e-6),
}


@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("name", LONG)
def test_one_wide_number_is_not_heard(name, action):
    """A number that is too wide for 64 bits changes neither warnings nor errors."""
    values = np.array([1, 2] * 50, dtype=np.longdouble)
    wide_values = np.append(values, np.longdouble("1e4000"))
    first, other = (
        heard(LONG[name], pd.DataFrame({"x": numbers}), action) for numbers in (values, wide_values)
    )
    assert first == other


def _logarithm(value):
    return float(np.log(np.float64(value)))


def _of_duckdb(rows, function, **kind):
    con = duckdb.connect()
    con.create_function("of_python", function, ["DOUBLE"], "DOUBLE", **kind)
    return con.sql(f"SELECT of_python(unnest({rows}::DOUBLE[])) AS x")


COMPUTED = {
    "ufunc": lambda rows: pl.LazyFrame({"x": rows}).select(np.log(pl.col("x"))),
    "function of values": lambda rows: pl.LazyFrame({"x": rows}).select(
        pl.col("x").map_elements(_logarithm, return_dtype=pl.Float64)
    ),
    "function of columns": lambda rows: pl.LazyFrame({"x": rows}).select(
        pl.col("x").map_batches(lambda series: np.log(series.to_numpy()), return_dtype=pl.Float64)
    ),
    "DuckDB": lambda rows: _of_duckdb(rows, _logarithm),
    "Arrow in DuckDB": lambda rows: _of_duckdb(
        rows, lambda series: pa.array(np.log(series.to_numpy())), type="arrow"
    ),
}


@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("computed", COMPUTED)
def test_what_an_engine_computes_in_its_own_threads_is_not_heard(computed, action):
    """A zero of which a frame's own plan takes the logarithm changes no warnings and no errors."""
    usual, odd = ([1.0] * 50 + [last] for last in (1.0, 0.0))

    def ask(frame):
        return dfp.frame(frame).mean("x", (-1, 1))

    first, other = (heard(ask, COMPUTED[computed](rows), action) for rows in (usual, odd))
    assert first == other == ([], dfp.Estimate)


def test_only_the_thread_of_a_call_is_silenced():
    """While one thread looks at a column, what another one warns of is heard."""
    looking, heard_ = threading.Event(), threading.Event()

    class Waits(pd.DataFrame):
        def __getitem__(self, label):
            looking.set()
            heard_.wait(10)
            warnings.warn("a row is here", stacklevel=2)
            return super().__getitem__(label)

    frame = Waits({"x": [1.0]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = threading.Thread(target=lambda: dfp.frame(frame).mean("x", (0, 1)))
        thread.start()
        assert looking.wait(10)
        warnings.warn("from another thread", stacklevel=1)
        heard_.set()
        thread.join()
    assert [str(warning.message) for warning in caught] == ["from another thread"]


def test_filters_do_not_grow():
    """A caller who sets filters between calls finds one of ours, and his own as they were."""
    with warnings.catch_warnings():
        for _ in range(5):
            warnings.simplefilter("error")
            pd.DataFrame({"x": [1.0]}).dp.count()
        ours = [entry for entry in warnings.filters if entry[2].__module__.startswith("dfprivacy")]
        assert len(ours) == 1
        with pytest.raises(UserWarning, match="heard"):
            warnings.warn("heard", stacklevel=1)


@pytest.mark.battery
def test_commands_hear_no_warning_either(tmp_path):
    """Forecast and answer of a command are silent, though numpy warns of an overflow in them."""
    table = pd.DataFrame({"g": ["a"], "x": [1.0], "y": [2.0]})
    table.to_parquet(tmp_path / "rows.parquet")
    words = "cov rows.parquet x y --x-bounds 0 9 --y-bounds 0 9 --by g --delta 1e-6"
    done = run_python(
        "-W", "error::RuntimeWarning", "-m", "dfprivacy", *words.split(), cwd=tmp_path
    )
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line.partition(":")[0]) == (0, "no group is shown")
