"""What `import dfprivacy` loads, and how `python -m benchmarks.house` reads imports."""

import subprocess
import sys

import pytest

from benchmarks.house import imported, modules, room_of

pytestmark = pytest.mark.slow

FRAME = '.DataFrame({"k": ["a", "b"] * 50, "x": [0.5] * 100})'
LIBRARIES = {"pandas", "polars", "duckdb", "pyarrow", "narwhals"}
LATER = {"typer", "rich", "altair", "yaml", "pydantic", "scipy", "dp_accounting", "jinja2"}
LATER |= {"pyspark", "dask", "ibis", "ssl", "sql_udfs"}
LATER |= {f"dfprivacy.{room}" for room in ("cli", "local", "shuffle", "statements")}


def loaded(first, then):
    """Return the modules that a fresh Python loads by what comes then."""
    code = f"import sys\n{first}\nbefore = set(sys.modules)\n{then}\n"
    code += "print(*sorted(set(sys.modules) - before))"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(said.stdout.split())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_an_import_loads_no_library_of_others(library):
    """What a caller has not imported is loaded on first use, the package's own modules too."""
    new = loaded(f"import numpy, {library}", "import dfprivacy")
    assert {name for name in new if name.startswith("dfprivacy")} == {
        "dfprivacy",
        "dfprivacy.frames",
    }
    assert not new & (LIBRARIES | LATER)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_release_loads_what_it_needs(library):
    """Parsers, charts, the command line and other models are loaded when they are first used."""
    release = f'{library}{FRAME}.dp.group_by("k").mean("x", (0, 1), delta=1e-6)'
    new = loaded(f"import {library}, dfprivacy", release)
    assert "dfprivacy.statistics.mean" in new
    assert not new & LATER


@pytest.mark.parametrize("first", ["dfprivacy, pandas, polars", "pandas, polars, dfprivacy"])
def test_frames_answer_whichever_is_imported_first(first):
    """`.dp` is put on frames and series when their library is imported; its classes are known."""
    asked = ""
    for library, count in (("pandas", 101), ("polars", 102)):
        frame = f"{library}.DataFrame({{'x': [0.5] * {count}}})"
        asked += f"print({frame}.dp(epsilon=9e5).count(), {library}.Series([1]).dp)\n"
        asked += f"print('{library}', {library}.DataFrame.dp is dfprivacy.Private, sep=':')\n"
    said = loaded(f"import {first}", asked)
    assert {"101", "102", "pandas:True", "polars:True"} <= said


AGAIN = "import importlib, dfprivacy\nimportlib.reload(dfprivacy)\nimport pandas, polars"
PURGED = "import sys, dfprivacy\nfor name in [own for own in sys.modules if 'dfprivacy' in own]:\n"
PURGED += "    del sys.modules[name]\nimport dfprivacy, pandas, polars"
BESIDE = "import sys, threading\nother = threading.Thread(target=__import__, args=['{0}'])\n"
BESIDE += "other.start()\nwhile '{0}' not in sys.modules:\n    pass\n"
BESIDE += "import dfprivacy\nother.join()\n{0} = sys.modules['{0}']"


@pytest.mark.parametrize(
    ("first", "libraries"),
    [
        (AGAIN, ["pandas", "polars"]),
        (PURGED, ["pandas", "polars"]),
        (BESIDE, ["pandas"]),
        (BESIDE, ["polars"]),
    ],
)
def test_frames_answer_however_the_package_is_imported(first, libraries):
    """A second import, or one while another thread imports the library, changes nothing."""
    asked = [f"print('{own}', {own}{FRAME}.dp(epsilon=9e5).count(), sep=':')" for own in libraries]
    said = loaded(first.format(*libraries), "\n".join(asked))
    assert {f"{own}:100" for own in libraries} <= said


@pytest.mark.parametrize("door", ["polars.DataFrame({'x': [1]}).dp", "dfprivacy.Ledger"])
def test_what_a_library_raises_when_it_is_loaded_is_not_told(door):
    """Whatever it is, the error has one text and no cause; the next call loads what is missing."""
    code = f"""import sys, polars, dfprivacy
from dfprivacy.frames import UNLOADED
class Fails:
    def find_spec(self, name, path, target=None):
        if name in ("narwhals", "numpy", "dfprivacy.accounting.ledger"):
            raise raised(name)
sys.meta_path.insert(0, Fails())
for raised in (OSError, RecursionError, AttributeError, MemoryError):
    try:
        {door}
    except ImportError as error:
        assert str(error) == UNLOADED and error.__context__ is error.__cause__ is None
        print("told")
del sys.meta_path[0]
{door}
"""
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout == "told\n" * 4


def test_what_is_handed_out_is_a_boundary_before_any_name_is_used():
    """Classes guard their own methods: nobody needs to have named them by `dfprivacy`."""
    code = """import polars, dfprivacy
rows = polars.DataFrame({"x": [0.5] * 100}).dp
answers = [rows, rows.count(), rows.median("x"), rows.explain.count(), rows.group_by("x")]
for kind in map(type, answers):
    for base in kind.__mro__:
        if base.__module__.startswith("dfprivacy"):
            for name, own in vars(base).items():
                if name[0] != "_" and type(own).__name__ == "function":
                    print(base.__name__, name, getattr(own, "is_boundary", False))
"""
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    doors = [line.split() for line in said.stdout.splitlines()]
    assert {"Private", "Explanation", "Choice", "Estimate"} <= {kind for kind, *_ in doors}
    assert [door for door in doors if door[2] != "True"] == []


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
