"""A release holds noisy numbers and public facts; no exact sum and no row stays with it."""

import gc
import io
import pickle
import types

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

PUBLIC = "a key that a thousand people share and that fills a buffer"
HIDDEN = "the key of one person alone, which is longer than twelve bytes"
TABLE = pa.table({"g": [PUBLIC] * 1000 + [HIDDEN], "x": [1.0] * 1000 + [0.123456789]})
STOP = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type, types.FrameType)
FRAMES = (pl.DataFrame, pl.LazyFrame, pd.DataFrame, pa.Table, pa.Array, pa.ChunkedArray)
SECRET = (*FRAMES, duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation)


def reachable(root):
    """Every object that can be reached from a result without passing through code."""
    seen, queue = {}, [root]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, STOP):
            continue
        seen[id(item)] = item
        queue += gc.get_referents(item)
    return list(seen.values())


ESTIMATES = {
    "count": lambda private: private.count(),
    "mean": lambda private: private.mean("x", (0, 1)),
    "std": lambda private: private.std("x", (0, 1), rho=0.5),
    "agg": lambda private: private.agg(dfp.sum("x", (0, 1)), n=dfp.count("x")),
}


@pytest.mark.parametrize("ask", ESTIMATES)
def test_an_estimate_holds_nothing_exact(ask, way):
    """An estimate holds nothing exact.

    From an estimate no frame, no connection and no column can be reached, and every array is
    whole: none is a view of a larger one.
    """
    objects = reachable(ESTIMATES[ask](dfp.frame(way(TABLE))))
    assert not [type(item) for item in objects if isinstance(item, SECRET)]
    arrays = [item for item in objects if isinstance(item, np.ndarray)]
    assert all(array.base is None or array.base.shape == array.shape for array in arrays)


@pytest.mark.parametrize("ask", ESTIMATES)
def test_arrays_of_an_estimate_are_noisy(ask):
    """No array in an estimate equals the exact vector, at a loss where noise is never all zero."""
    private = dfp.frame(TABLE)(epsilon=2.0**-40)
    exact = {1001, 1000}
    answers = ESTIMATES[ask](private) if ask != "std" else private.std("x", (0, 1))
    for item in reachable(answers):
        if isinstance(item, np.ndarray) and item.size:
            assert not exact & {int(v) for v in item.ravel()}


def serialize(result):
    """Every way in which a result leaves the process."""
    yield pickle.dumps(result.to_arrow_table() if hasattr(result, "to_arrow_table") else result)
    yield repr(result).encode()
    if isinstance(result, pl.LazyFrame):
        yield result.serialize()
        result = result.collect()
    if isinstance(result, pl.DataFrame):
        buffer = io.BytesIO()
        result.write_ipc(buffer)
        yield buffer.getvalue()
        result = result.to_arrow()
    if hasattr(result, "to_arrow_table"):
        result = result.to_arrow_table()
    table = pa.table(result)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    yield sink.getvalue().to_pybytes()
    for column in table.columns:
        for chunk in column.chunks:
            yield from (bytes(buffer) for buffer in chunk.buffers() if buffer is not None)


@pytest.mark.parametrize("terms", [{"delta": 1e-9}, {"keys": [PUBLIC]}])
def test_a_hidden_key_is_in_no_byte_of_the_result(terms, engine):
    """A hidden key is in no byte of the result.

    Neither the pickle, nor the Arrow stream, nor a buffer of the result holds the text of a
    key that was not released.
    """
    keys = terms.get("keys")
    result = dfp.frame(engine(TABLE)).group_by("g", keys=keys).count(delta=terms.get("delta"))
    written = list(serialize(result))
    assert any(PUBLIC.encode() in data for data in written)
    assert not any(HIDDEN.encode() in data for data in written)


@pytest.mark.parametrize("dtype", [object, "category", "str"])
def test_a_hidden_key_of_a_pandas_column_is_gone(dtype):
    """Levels and objects behind hidden keys stay behind."""
    frame = TABLE.to_pandas().astype({"g": dtype})
    result = frame.dp.group_by("g").count(delta=1e-9)
    assert HIDDEN.encode() not in pickle.dumps(result)
    assert PUBLIC.encode() in pickle.dumps(result)


def test_what_is_shown_of_a_frame_is_its_kind(engine):
    """The reprs of a private frame, of its groups and of exact statistics show no row."""
    private = dfp.frame(engine(TABLE))
    for shown in (
        repr(private),
        repr(private.group_by("g")),
        repr(private.group_by("g", keys=["k"])),
    ):
        assert "person" not in shown
        assert "people" not in shown


def test_a_pickled_error_carries_no_frame():
    """A pickled error takes its message across processes, and no frame."""
    with pytest.raises(dfp.DPError) as caught:
        dfp.frame(TABLE).mean("g", (0, 1))
    assert b"people" not in pickle.dumps(caught.value)
