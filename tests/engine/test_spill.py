import json
from pathlib import Path

import duckdb
import pytest

from tests.command_line import run_python

CHILD = """
import json, sys
from pathlib import Path
import dfprivacy as dfp
from benchmarks.watching import peak_mib, spilled_mib
folder, temporary = sys.argv[1:]
with dfp.Engine(memory="100MB", threads=2, temporary=temporary):
    dfp.frame(folder).count()
    peaks = [peak_mib()]
    with spilled_mib(temporary, every=0.005) as spilled:
        answer = dfp.frame(folder).group_by("g").median("x", epsilon=2, delta=1e-3)
    peaks.append(peak_mib())
print(json.dumps([peaks, max(spilled), [f.name for f in Path(temporary).iterdir()]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_is_bounded_and_spill_files_go(tmp_path):
    """A table of groups and values far larger than the limit spills, and nothing is left of it.

    5 million rows make 5 million entries of 24 bytes and more in the engine, within its limit. The
    process grows by at most 160 bytes more for each entry that it gets.
    """
    folder, temporary = tmp_path / "rows", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    for piece in range(5):
        duckdb.sql(
            f"COPY (SELECT hash(i) % 200000 AS g, exp(hash(i + 1) % 1000 / 20) AS x "
            f"FROM range({piece}000000, {piece + 1}000000) r(i)) TO '{folder}/{piece}.parquet'"
        )
    done = run_python("-c", CHILD, folder, temporary)
    assert (done.returncode, done.stderr) == (0, "")
    (before, after), spilled, left = json.loads(done.stdout)
    assert spilled > 10
    assert after - before < 100 + 160 * 5e6 / 2**20
    assert left == []
