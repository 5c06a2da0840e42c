"""Parquet columns of milliseconds are read whatever times they hold."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

import dfprivacy as dfp
from tests.command_line import command

EXACT = 1e7
SECRET = {"epsilon": EXACT, "delta": 1e-6}
LATER = "t > '2020-01-01'"
NEAR = dt.datetime(2021, 5, 6, tzinfo=dt.UTC)
FAR = [2**62, -(2**62), 2**63 - 1, -(2**63)]


def _ticks(extra):
    milliseconds = int(NEAR.timestamp() * 1000)
    return [*[milliseconds] * 100, *[0] * 50, *[None] * 30, *extra]


def _table(zone, extra=()):
    ticks = pa.array(_ticks(extra), pa.int64())
    cities = pa.array(["Rome"] * len(ticks)).dictionary_encode()
    return pa.table({"t": ticks.cast(pa.timestamp("ms", zone)), "city": cities})


@pytest.fixture(params=[(zone, kind) for zone in (None, "UTC") for kind in ("file", "folder")])
def paths(request, tmp_path):
    """Return a path to ordinary times, and one to these with far times."""
    zone, kind = request.param
    files = []
    for name, extra in (("near", ()), ("far", FAR)):
        path = tmp_path / (name if kind == "folder" else f"{name}.parquet")
        if kind == "folder":
            path.mkdir()
            parquet.write_table(_table(zone, extra), path / "a.parquet")
            fine = (
                _table(zone)
                .slice(0, 0)
                .cast(pa.schema({"t": pa.timestamp("us", zone), "city": pa.string()}))
            )
            parquet.write_table(fine, path / "b.parquet")
        else:
            parquet.write_table(_table(zone, extra), path, row_group_size=7)
        files.append(path)
    return files


def test_far_milliseconds_change_answers_by_their_rows_alone(paths):
    """Aggregates, keys, units and statements count far times, and never fail for them."""
    near_frame, far_frame = (dfp.frame(path) for path in paths)
    assert near_frame.count("t", epsilon=EXACT) == 150
    assert far_frame.count("t", epsilon=EXACT) == 154
    assert near_frame.nunique("t", epsilon=EXACT) == 2
    assert far_frame.nunique("t", epsilon=EXACT) == 4  # farther ones are the farthest
    for frame, count, groups in (
        (near_frame, 150, [30, 50, 100]),
        (far_frame, 154, [2, 2, 30, 50, 100]),
    ):
        chosen = frame.quantile("t", 0.6, epsilon=EXACT)
        assert abs(chosen.replace(tzinfo=dt.UTC) - NEAR) < dt.timedelta(days=1)
        released = frame.group_by("t").count(**SECRET)
        assert sorted(released["count"].to_pylist())[-3:] == groups[-3:]
        assert frame(unit="t", max_rows=200).count("t", epsilon=EXACT) == count


def test_statements_and_conditions_read_far_milliseconds(paths, tmp_path):
    """A condition on far times leaves rows in or out, and a time that is far stays a time."""
    query = f"SELECT dp_count(*) AS n FROM t WHERE {LATER}"
    for path, rows in zip(paths, (100, 102), strict=True):
        assert dfp.sql(query, t=path, epsilon=EXACT)["n"].to_pylist() == [rows]
        target = tmp_path / "count.json"
        text = ["count", str(path), "--where", LATER, "--epsilon", "1e6"]
        assert command(*text, "--output", str(target)).exit_code == 0
        assert json.loads(target.read_text())[0]["value"] == rows


@pytest.mark.parametrize("extra", [(), FAR])
def test_what_arrow_reads_otherwise_is_refused_by_its_type(tmp_path, extra):
    """Beside milliseconds, keys of directories and lists of milliseconds are refused at once."""
    table = _table("UTC", extra)
    lists = pa.ListArray.from_arrays(range(len(table) + 1), table["t"].combine_chunks())
    folder = tmp_path / "city=Rome"
    folder.mkdir()
    parquet.write_table(table.append_column("l", lists).drop(["city"]), folder / "a.parquet")
    frame = dfp.frame(tmp_path)
    for question in (
        lambda: frame.count("l", epsilon=EXACT),
        lambda: frame.group_by("city", keys=["Rome"]).count("t", epsilon=EXACT),
    ):
        with pytest.raises(dfp.UnsupportedDtypeError, match="coerce_timestamps='us'"):
            question()
    assert frame.count("t", epsilon=EXACT) == 150 + len(extra)
    released = frame.group_by("city", keys=["Rome"]).count(epsilon=EXACT)
    assert released["count"].to_pylist() == [len(table)]  # which reads none of the times


@pytest.mark.parametrize("cells", [[b"a", b"b"], [b"a", b"\xff"]])
def test_text_that_is_no_utf_8_is_other_text(tmp_path, cells):
    """Text of a Parquet file that breaks its declaration is counted, grouped by and a unit."""
    stored = pa.array(cells * 20, pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())
    times = pa.array([0] * 40, pa.timestamp("ms"))
    parquet.write_table(pa.table({"s": texts, "t": times}), tmp_path / "s.parquet")
    frame = dfp.frame(tmp_path / "s.parquet")
    assert frame.count("s", epsilon=EXACT) == 40
    assert frame.nunique("s", epsilon=EXACT) == 2
    assert frame(unit="s", max_rows=30).count(epsilon=EXACT) == 40
    released = frame.group_by("s").count(**SECRET)
    assert sorted(released["count"].to_pylist()) == [20, 20]
    released = frame.group_by("s").count("t", **SECRET)  # which Arrow reads
    assert sorted(released["t"].to_pylist()) == [20, 20]
    query = "SELECT dp_count(*) AS n FROM t WHERE length(s) = 1"
    assert dfp.sql(query, t=tmp_path / "s.parquet", epsilon=EXACT)["n"].to_pylist() == [40]
