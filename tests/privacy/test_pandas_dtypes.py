"""Value columns of a pandas frame: which dtypes have numbers, and what is missing in them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp

NUMBERS = [
    "int8", "uint64", "float16", "float32", "longdouble", ">f8", ">i4", "bool", "Int8", "Float32",
    "boolean", "Sparse[float64]", "Sparse[int64]", "Sparse[bool]", "double[pyarrow]",
    "uint8[pyarrow]", "bool[pyarrow]",
]  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS)
def test_columns_of_all_dtypes_of_numbers_have_a_mean(dtype):
    """A column of numbers or booleans is aggregated whatever dtype holds them, with rows or none.

    The mean that is released without noise to speak of is that of the column.
    """
    full = pd.Series([False, True, True, True] * 100).astype(dtype)
    assert dfp.frame(pd.DataFrame({"x": full})).mean("x", (0, 1), epsilon=1e12) == pytest.approx(
        0.75, abs=1e-6
    )
    empty = dfp.frame(pd.DataFrame({"x": full.iloc[:0]}))
    assert empty.count("x", epsilon=1e12) == 0
    assert abs(empty.sum("x", (0, 1), epsilon=1e12)) < 1e-6


@pytest.mark.parametrize("dtype", ["complex128", "Sparse[complex128]", "timedelta64[ns]", object])
def test_columns_without_numbers_are_refused(dtype):
    """A dtype that holds no real numbers is refused by its name, with rows or without."""
    for rows in ([], [0, 1]):
        frame = pd.DataFrame({"x": pd.Series(rows, dtype="int64").astype(dtype)})
        with pytest.raises(dfp.UnsupportedDtypeError):
            dfp.frame(frame).mean("x", (0, 1))


@pytest.mark.filterwarnings("error")
def test_a_long_number_warns_of_nothing():
    """A number beyond 64-bit floats is infinite by itself; no warning tells that it is there."""
    large = np.array([1, 0] * 50 + ["1e4000"], dtype=np.longdouble)
    private = dfp.frame(pd.DataFrame({"x": large}))
    assert private.mean("x", (0, 1), epsilon=1e12) == pytest.approx(51 / 101, abs=1e-6)


NAN = [float("nan")] * 5 + [1.0] * 5
MISSING = {
    "float64": pd.Series(NAN),
    "Float64": pd.Series([0.0] * 5 + [1.0] * 5, dtype="Float64").pipe(lambda x: x / x),
    "arrow": pd.Series(pd.array(pa.array(NAN), dtype=pd.ArrowDtype(pa.float64()))),
    "arrow, NULL as well": pd.Series(
        pd.array(pa.array([None, *NAN[1:]], pa.float32()), dtype=pd.ArrowDtype(pa.float32()))
    ),
    "half floats": pd.Series(NAN, dtype="float16"),
    "half floats of Arrow": pd.Series(NAN, dtype="float32").astype("halffloat[pyarrow]"),
    "sparse": pd.Series(NAN, dtype="Sparse[float64]"),
    "category": pd.Series(NAN, dtype="category"),
    "objects": pd.Series(NAN, dtype=object),
}


@pytest.mark.parametrize("kind", MISSING)
def test_nan_is_no_value_to_count(kind):
    """A count of a column leaves NaN out, alone or beside a mean."""
    private = dfp.frame(pd.DataFrame({"x": MISSING[kind]}))
    assert private.count("x", epsilon=1e12) == 5
    if kind not in {"category", "objects"}:
        both = private.agg(n=dfp.count("x"), m=dfp.mean("x", (0, 2)), epsilon=1e12)
        assert (both["n"], both["m"]) == (5, pytest.approx(1.0, abs=1e-6))


class Own(pd.api.extensions.ExtensionDtype):
    """A dtype of another library, declared to be floats; what it holds is any object."""

    name, type, kind, na_value = "own", float, "f", None

    @classmethod
    def construct_array_type(cls):
        return OwnArray


class OwnArray(pd.api.extensions.ExtensionArray):
    """An array of such objects."""

    dtype = Own()

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, item):
        values = self.values[item]
        return OwnArray(values) if isinstance(values, np.ndarray) else values

    def isna(self):
        return np.array([value is None for value in self.values], dtype=bool)

    def copy(self):
        return OwnArray(self.values.copy())


@pytest.mark.parametrize("row", [[], [2.0], ["text"], [1j], [None]])
def test_a_dtype_of_another_library_is_refused(row):
    """A row is never handed to the code of another library: its dtype is refused."""
    values = np.array([1.0] * 50 + row, dtype=object)
    frame = pd.DataFrame({"x": pd.Series(OwnArray(values))})
    for ask in (
        lambda: frame.dp.mean("x", (0, 9)),
        lambda: frame.dp.count("x"),
        lambda: frame.dp.group_by("x").count(delta=0.1),
        lambda: frame.dp(unit="x", max_rows=1).count(),
        lambda: dfp.sql("SELECT dp_count(x) FROM t", t=frame),
    ):
        with pytest.raises(dfp.UnsupportedDtypeError, match="another library"):
            ask()


VIEWS = {
    "texts": pa.array(["a", "b", None] * 9).cast(pa.string_view()),
    "bytes": pa.array([b"a", b"b", None] * 9).cast(pa.binary_view()),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([5, 27], pa.int32()), pa.array([1.5, 2])),
    "decimals": pa.array([1, 2, None] * 9).cast(pa.decimal256(50, 2)),
    "lists": pa.array([[1], [2], None] * 9, pa.list_view(pa.int64())),
    "intervals": pa.array([(1, 2, 3), None] * 9, pa.month_day_nano_interval()),
    "unions": pa.UnionArray.from_sparse(pa.array([0] * 9, pa.int8()), [pa.array(range(9))]),
}


@pytest.mark.parametrize("values", VIEWS.values(), ids=VIEWS)
def test_what_pandas_can_not_compute_with_is_refused_by_its_type(values, tmp_path):
    """Views, runs and long decimals end no query half-way: refused uncharged, answered in Arrow."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=3, delta=0.5)
    for rows in (values, values[:0]):
        frame = pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(rows))})
        private = frame.dp(ledger=ledger, dataset="d")
        for ask in (
            lambda source=private: source.nunique("x"),
            lambda source=private: source.count("x"),
            lambda source=private: source.mean("x", (0, 9)),
            lambda source=private: source.group_by("x").count(delta=0.1),
            lambda source=frame: dfp.sql("SELECT dp_count(x) FROM t", t=source),
        ):
            with pytest.raises(dfp.UnsupportedDtypeError, match="can't compute"):
                ask()
    assert ledger.spent("d").epsilon == 0
    if values in (VIEWS["texts"], VIEWS["bytes"], VIEWS["runs"]):
        assert dfp.frame(pa.Table.from_pandas(frame)).nunique("x", epsilon=50) == 0


FAR_KEYS = {
    "dates": (2**31 - 1, pa.int32(), pa.date32()),
    "dates before Christ": (-(2**30), pa.int32(), pa.date32()),
    "dates by the millisecond": (86_400_000 * 2**30, pa.int64(), pa.date64()),
    "times of day": (86_400_000_000, pa.int64(), pa.time64("us")),
    "times": (2**55, pa.int64(), pa.timestamp("us")),
    "times of a zone": (2**55, pa.int64(), pa.timestamp("us", "Europe/Rome")),
}


@pytest.mark.parametrize("kind", FAR_KEYS)
def test_a_key_that_python_has_no_place_for_is_shown(kind):
    """A large group whose key is a far date or time comes out in the dtype that it came in."""
    number, storage_type, declared = FAR_KEYS[kind]
    dtype = pd.ArrowDtype(declared)
    rows = pa.chunked_array([pa.array([number] * 50, storage_type).view(declared)])
    frame = pd.DataFrame({"k": pd.Series(pd.array(rows, dtype=dtype))})
    shown = frame.dp.group_by("k").count(epsilon=1e9, delta=1e-9)["k"]
    assert shown.dtype == dtype
    assert pa.array(shown).view(storage_type).to_pylist() == [number]


def test_vectors_of_sparse_columns_are_those_of_dense_ones():
    """A vector reads a Sparse column as any other number."""
    dense = pd.DataFrame({"x": [0.0, 0.0, 2.0] * 2000, "y": [1.0] * 6000})
    sparse = dense.astype({"x": "Sparse[float64]"})
    for frame in (dense, sparse):
        answer = frame.dp.mean_vector(["x", "y"], radius=5, rho=1e6)
        assert list(answer) == pytest.approx([2 / 3, 1], abs=1e-3)


@pytest.mark.parametrize("value", [None, float("nan")])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_row_decides_about_itself_alone_in_a_dictionary(value, chunked):
    """Rows whose place in a dictionary holds no value are missing, whatever other rows there are.

    For pandas they are missing if another row has no place.
    """
    codes = [0] * 300 + [1] * 200
    for row in ([], [None], [1]):
        array = pa.DictionaryArray.from_arrays(pa.array(codes + row), pa.array([2.5, value]))
        column = pa.chunked_array([array[:7], array[7:]]) if chunked else array
        values = pd.Series(column, dtype=pd.ArrowDtype(array.type))
        table = pa.table({"x": column})
        for frame in (pd.DataFrame({"x": values}), table):
            assert dfp.frame(frame).count("x", epsilon=1e12) == 300
