"""What `import dfprivacy` loads, and how `python -m benchmarks.house` reads imports."""

import subprocess
import sys

from benchmarks.house import ENGINES, imported, modules, room_of

LATER = {
    "typer",
    "rich",
    "altair",
    "yaml",
    "dp_accounting",
    "pyspark",
    "dask",
    "ibis",
    "ssl",
    "sql_udfs",
}
LATER |= {"pyarrow.parquet", "dfprivacy.cli"}


def test_importing_loads_what_every_call_needs():
    """Parsers, charts, the command line and other engines are loaded when they are first used."""
    code = f"import sys\n{ENGINES}\nbefore = set(sys.modules)\nimport dfprivacy\n"
    code += "print(*sorted(set(sys.modules) - before))"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(said.stdout.split())
    assert "dfprivacy" in loaded
    assert not loaded & LATER


def test_imports_are_read_from_the_source(tmp_path):
    """Imports in functions run later; names that are imported stand for their module."""
    known = modules()
    own = tmp_path / "own.py"
    own.write_text(
        "import os, dfprivacy.errors\nfrom dfprivacy import accounting, Ledger\n"
        "def later():\n    from dfprivacy.accounting.loss import Epsilon\n"
    )
    early = {"dfprivacy.errors", "dfprivacy.accounting", "dfprivacy"}
    assert imported(own, known, anywhere=False) == early
    assert imported(own, known, anywhere=True) == early | {"dfprivacy.accounting.loss"}
    assert room_of("dfprivacy.accounting.loss") == "accounting"
