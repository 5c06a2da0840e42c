"""Delta and Iceberg tables with files that no longer count, as their writers leave them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

EXACT = 1e7  # an epsilon at which answers are exact
VISITS = pa.table(
    {
        "city": ["Rome"] * 30 + ["Oslo"] * 20,
        "x": [float(i % 5) for i in range(50)],
        "user": list(range(50)),
    }
)
"""Fifty rows; those of the users below 10 are in Rome."""


@pytest.fixture
def delta(tmp_path):
    """Return the folder of a Delta table whose newest version lacks the users below 10."""
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "visits"
    deltalake.write_deltalake(folder, VISITS)
    deltalake.DeltaTable(folder).delete("user < 10")
    return folder


@pytest.fixture
def catalog(tmp_path):
    """Return an Iceberg catalog in a folder of this test."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}"
    )
    catalog.create_namespace("shop")
    yield catalog
    catalog.close()


@pytest.fixture
def iceberg(tmp_path, catalog):
    """Return the folder of an Iceberg table whose newest version lacks the users below 10."""
    table = catalog.create_table("shop.visits", VISITS.schema)
    table.append(VISITS)
    table.delete("user < 10")
    return tmp_path / "shop" / "visits"


@pytest.fixture(params=["delta", "iceberg"])
def folder(request):
    """Return the folder of a table of either format: 40 rows count, files hold 90."""
    folder = request.getfixturevalue(request.param)
    assert sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet")) == 90
    return folder


@pytest.fixture
def append(folder, request):
    """Return a function that appends the fifty rows to the table again."""

    def append():
        if (folder / "_delta_log").is_dir():
            pytest.importorskip("deltalake").write_deltalake(folder, VISITS, mode="append")
        else:
            request.getfixturevalue("catalog").load_table("shop.visits").append(VISITS)

    return append
