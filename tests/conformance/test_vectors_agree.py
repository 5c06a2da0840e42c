"""Means of vectors: every source gives the same, whatever its batches and order."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.frame_types import to_polars

N, D = 700, 5
DRAWS = np.random.default_rng(4)
X = np.round(DRAWS.normal(2, 3, (N, D)), 3)
X[3, 1] = np.inf
COLUMNS = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Give the same vectors as columns `COLUMNS`, arrays `w`, lists `v`, with groups `g`."""
    folder = tmp_path_factory.mktemp("vectors")
    flat = pl.DataFrame(X, schema=COLUMNS).with_columns(g=pl.Series(np.arange(N) % 3))
    holey = [None if i == 9 else row[: 4 if i == 11 else D] for i, row in enumerate(X.tolist())]
    vectors = flat.with_columns(
        v=pl.Series(holey, dtype=pl.List(pl.Float64)), w=pl.Series(X, dtype=pl.Array(pl.Float64, D))
    )
    arrow = vectors.to_arrow()
    connection = duckdb.connect()
    pq.write_table(arrow, folder / "v.parquet", row_group_size=90)
    flat.write_csv(folder / "v.csv")
    columns = {name: flat[name].to_numpy() for name in [*COLUMNS, "g"]}
    objects = [None if row is None else np.array(row) for row in holey]
    frames = {
        "pandas": pd.DataFrame(columns).assign(v=objects, w=list(X)),
        "pandas, reversed": pd.DataFrame(columns).assign(v=objects, w=list(X)).iloc[::-1],
        "polars": vectors,
        "polars lazy": vectors.lazy(),
        "polars, reversed": vectors.reverse(),
        "arrow": arrow,
        "arrow, small chunks": pa.Table.from_batches(arrow.to_batches(max_chunksize=17)),
        "duckdb": connection.from_arrow(arrow),
        "parquet": folder / "v.parquet",
    }
    yield {**frames, "csv": folder / "v.csv"}
    connection.close()


@pytest.fixture
def shown(replayed):
    """Return a function that shows a mean, released with the same random bytes every time."""

    def of(frame, columns, by=(), **terms):
        private = dfp.frame(frame).group_by(*by) if by else dfp.frame(frame)
        mean = replayed(lambda: private.mean_vector(columns, rho=100, radius=20, **terms))
        if by:
            return to_polars(mean).cast({"g": pl.String}).to_dict(as_series=False)
        return list(mean.values), list(mean.low), list(mean.high), mean.count

    return of


@pytest.mark.parametrize("method", ["recentered", "clipped", "shifted", "plan"])
def test_columns_agree(sources, method, shown):
    """Columns of numbers give the same means from every source."""
    first = shown(sources["pandas"], COLUMNS, method=method)
    for name, frame in sources.items():
        assert shown(frame, COLUMNS, method=method) == first, name


@pytest.mark.parametrize("method", ["recentered", "shifted", "plan"])
def test_lists_agree(sources, method, shown):
    """Lists give the same means from every source; rows that are no whole vector are left out."""
    frames = {name: frame for name, frame in sources.items() if name != "csv"}
    first = shown(frames["pandas"], "v", method=method, dimension=D)
    assert first != shown(frames["pandas"], COLUMNS, method=method)
    for name, frame in frames.items():
        assert shown(frame, "v", method=method, dimension=D) == first, name


def test_arrays_are_columns(sources, shown):
    """A column of arrays gives the mean of its coordinates as columns."""
    first = shown(sources["pandas"], COLUMNS)
    for name in ("polars", "polars lazy", "arrow", "arrow, small chunks", "duckdb"):
        assert shown(sources[name], "w") == first, name


def test_groups_agree(sources, shown):
    """By group every source gives the same means, group by group."""
    first = shown(sources["pandas"], COLUMNS, by=["g"], delta=1e-6)
    assert len(first["g"]) == 3
    for name, frame in sources.items():
        assert shown(frame, COLUMNS, by=["g"], delta=1e-6) == first, name


def test_integers_booleans_and_decimals_are_numbers(shown):
    """Declared number types of any kind give the vectors of their values."""
    table = pa.table(
        {
            "i": pa.array([1, 2, None, 4], pa.int32()),
            "b": [True, False, True, None],
            "f": pa.array([1.5, 2.5, 3.5, 4.5], pa.float32()),
            "d": pa.array([1, 2, 3, 4], pa.decimal128(9, 2)),
        }
    )
    floats = pa.table(
        {
            "i": [1.0, 2.0, None, 4.0],
            "b": [1.0, 0.0, 1.0, None],
            "f": [1.5, 2.5, 3.5, 4.5],
            "d": [1.0, 2.0, 3.0, 4.0],
        }
    )
    names = list("ibfd")
    first = shown(floats, names)
    nullable = table.to_pandas(types_mapper=pd.ArrowDtype)
    for frame in (table, pl.from_arrow(table), duckdb.from_arrow(table), nullable):
        assert shown(frame, names) == first


@pytest.fixture
def items_of(replayed):
    """Return the mean of sets and how many tens of them there are."""

    def of(frame):
        mean = replayed(lambda: dfp.frame(frame).mean_vector("s", rho=10**6, universe=6))
        return list(mean.values), round(mean.count / 10)

    return of


def test_item_sets_agree(items_of, tmp_path):
    """Sets give the same means from every source; repeats and strange items count for nothing."""
    sets = [[0, 2, 2], [], None, [5, 1, 99], [3, None, 0], [-1], [4, 4, 4, 1]] * 30
    frame = pl.DataFrame({"s": pl.Series(sets, dtype=pl.List(pl.Int64))})
    frame.write_parquet(tmp_path / "s.parquet")
    frames = [
        frame,
        frame.lazy(),
        frame.to_arrow(),
        duckdb.from_arrow(frame.to_arrow()),
        pd.DataFrame({"s": sets}),
        tmp_path / "s.parquet",
    ]
    means = [items_of(source) for source in frames]
    assert means[1:] == means[:1] * 5
    assert means[0][1] == 18


def test_missing_sets_count_for_nothing_whatever_lies_under_them(items_of):
    """A NULL list is no set, in a list or an array, with or without items kept under it."""
    lists = pl.DataFrame({"s": pl.Series([[0, 2], [1, 5], None] * 60, dtype=pl.List(pl.Int64))})
    array = pl.Array(pl.Int64, 2)
    full = pl.DataFrame({"s": pl.Series([[0, 2], [1, 5], [4, 3]] * 60, dtype=pl.List(pl.Int64))})
    hidden = full.with_columns(s=pl.when(pl.col("s").list.first() < 4).then(pl.col("s")))
    means = [items_of(source) for source in (lists, hidden, hidden.lazy(), hidden.to_arrow())]
    fixed = [source.with_columns(s=pl.col("s").cast(array)) for source in (lists, hidden)]
    means += [
        items_of(source) for frame in fixed for source in (frame, frame.lazy(), frame.to_arrow())
    ]
    values = pa.array([0, 2, 1, 5, 4, 3] * 60)
    masks = pa.array([False, False, True] * 60)
    under = pa.FixedSizeListArray.from_arrays(values, 2, mask=masks)
    means.append(items_of(pa.table({"s": under})))
    offsets = pa.array(np.arange(0, 362, 2), pa.int32())
    under = pa.ListArray.from_arrays(offsets, values, mask=masks)
    means += [items_of(pa.table({"s": under})), items_of(pa.table({"s": under}).slice(3))]
    assert means[:-1] == means[:1] * (len(means) - 1)
    assert means[0][1] == 12


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_items_of_any_integer_type_agree(bits, items_of):
    """Items may have any declared integer type, with or without a sign."""
    sets = [[0, 2], [], [5, 1, 99], [3, None, 0], None] * 60
    means = [
        items_of(pa.table({"s": pa.array(sets, pa.list_(kind))}))
        for kind in (pa.int64(), getattr(pa, f"int{bits}")(), getattr(pa, f"uint{bits}")())
    ]
    assert means[1:] == means[:1] * 2


def test_groups_of_many_keys_are_told_apart():
    """However many keys and distinct values there are, every row is in its own group."""
    group = np.repeat(np.arange(200), 20)
    keys = {f"k{index}": group for index in range(9)}
    frame = pl.DataFrame({**keys, "x": group / 100, "y": np.ones(len(group))})
    means = frame.dp.group_by(*keys).mean_vector(
        ["x", "y"], rho=1e9, radius=20, delta=1e-6, method="clipped"
    )
    assert means["k8"].to_list() == list(range(200))
    np.testing.assert_allclose(means["x"], np.arange(200) / 100, atol=0.01)


def test_no_noise_is_the_mean():
    """With next to no noise the mean is that of the vectors, up to the grid."""
    x = np.linspace(-3, 3, 999)[:, np.newaxis] * [1.0, 0.5, 0.0]
    frame = pl.DataFrame(x, schema=["a", "b", "c"])
    for method in ("recentered", "clipped", "shifted", "plan"):
        for neighbors in ("add-remove", "replace"):
            mean = frame.dp.mean_vector(
                ["a", "b", "c"], rho=10**12, radius=4, method=method, neighbors=neighbors
            )
            np.testing.assert_allclose(mean.values, x.mean(axis=0), atol=0.2)
