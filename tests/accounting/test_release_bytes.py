import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests.accounting.charges import charge

SECRET = b"SECRET42"
NUMBER = int.from_bytes(SECRET, "little")


def keep_release(ledger_account, table):
    """Pay, keep a release, and return what is handed out from then on."""
    mark = ledger_account.fingerprint("q", {})
    ledger_account.pay(charge(0.1))
    ledger_account.remember(mark, table)
    return ledger_account.recall(mark)


def hidden(kind, values, storage):
    """Return an array of three values, the second NULL and something else below it."""
    return pa.Array.from_buffers(
        kind, 3, [pa.py_buffer(bytes([0b101])), *map(pa.py_buffer, storage)]
    )


TABLES = {
    "numbers under a NULL": pa.table(
        {"x": hidden(pa.int64(), 3, [np.array([1, NUMBER, 2]).tobytes()])}
    ),
    "texts under a NULL": pa.table(
        {"x": hidden(pa.string(), 3, [np.array([0, 1, 9, 10], np.int32).tobytes(), b"aSECRET42b"])}
    ),
    "levels that no row has": pa.table(
        {"x": pa.array(["a", "SECRET42", "b"]).dictionary_encode().take(pa.array([0, 2, None]))}
    ),
    "the rows around a slice": pa.table(
        {"s": ["SECRET42", "a", "SECRET42"], "i": [NUMBER, 1, NUMBER], "b": [True, None, True]}
    ).slice(1, 1),
    "what pandas says of the frame": pa.table({"x": [1]}).replace_schema_metadata(
        {b"pandas": SECRET}
    ),
    "what is said of a column": pa.table(
        [pa.array([1])], schema=pa.schema([pa.field("x", pa.int64(), metadata={b"k": SECRET})])
    ),
    "chunks": pa.concat_tables([pa.table({"x": ["SECRET42", "a"]}).slice(1)] * 2),
}


@pytest.mark.parametrize("name", TABLES)
def test_nothing_is_kept_but_what_was_released(memory, flights, name):
    """Whatever a table drags along is not in the file; what it shows is, types included."""
    table = TABLES[name]
    assert SECRET not in repr(table.to_pylist()).encode()
    kept_table = keep_release(flights, table)
    assert SECRET not in memory.path.read_bytes()
    assert kept_table.to_pylist() == table.to_pylist()
    assert kept_table.schema.types == table.schema.types


def test_the_file_of_a_real_release_holds_no_row(memory, flights):
    """Of a grouped release neither exact statistics nor groups that were not shown are kept.

    That the noise brings an exact mean back has odds below 2**-25.
    """
    keys = ["AA"] * 4000 + ["hidden carrier"]
    frame = pl.DataFrame({"carrier": keys, "delay": [7.125] * 4000 + [4711.5]})
    shown = frame.dp.group_by("carrier").mean("delay", bounds=(0, 5000), epsilon=1, delta=1e-9)
    assert shown["carrier"].to_list() == ["AA"]
    keep_release(flights, shown.to_arrow())
    content = memory.path.read_bytes()
    assert b"AA" in content
    assert b"hidden carrier" not in content
    for exact in (7.125, 4711.5, frame["delay"].mean()):
        assert np.float64(exact).tobytes() not in content
