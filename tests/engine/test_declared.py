"""What a frame declares is known without a row, and is what a release goes by."""

import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.declared import declared, integer_columns

TABLE = pa.table({"g": ["a", None], "i": [1, 2], "x": [1.0, 2.0], "b": [True, False]})


def test_declared_integers_are_those_of_a_release(engine):
    """Of every frame, the columns are declared to hold integers that a release takes for such."""
    adopted = adopt(engine(TABLE), Columns((), dict.fromkeys("ixb", True), ()))
    expected = {name: adopted.holds_integers(name) for name in "ixb"}
    adopted.close()
    assert expected == {"i": True, "x": False, "b": True}
    assert declared(engine(TABLE)) == {"g": False, **expected}


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.PARQUET"])
def test_a_parquet_file_is_known_by_its_footer(name, write):
    """Whatever of its names a Parquet file has, its columns are known, and others are refused."""
    path = write(name, i=[1], x=[1.0]) / name
    assert integer_columns(path, ["i", "x"]) == {"i"}
    with pytest.raises(dfp.MissingColumnError, match="'y'"):
        integer_columns(path, ["y"])
