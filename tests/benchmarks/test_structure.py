"""`import dfprivacy` loads few modules, and `python -m benchmarks.structure` reads imports."""

import pytest

from benchmarks.structure import find_package, list_modules, read_imports
from tests.command_line import run_python

pytestmark = pytest.mark.slow

FRAME = '.DataFrame({"k": ["a", "b"] * 50, "x": [0.5] * 100})'
LATER = {"typer", "rich", "altair", "yaml", "pydantic", "scipy", "dp_accounting", "jinja2"}
LATER |= {"pyspark", "dask", "ibis", "ssl", "sql_udfs"}
LATER |= {f"dfprivacy.{room}" for room in ("cli", "local", "papers", "shuffle")}


def list_loaded(first, then):
    """Return the modules that a fresh Python loads by what comes then."""
    code = f"import sys\n{first}\nbefore = set(sys.modules)\n{then}\n"
    code += "print(*sorted(set(sys.modules) - before))"
    completed = run_python("-c", code, check=True)
    return set(completed.stdout.split())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_importing_and_releasing_load_no_optional_library(library):
    """The command line, charts, parsers and the other trust models load on first use."""
    release = f'{library}{FRAME}.dp.group_by("k").mean("x", (0, 1), delta=1e-6)'
    assert not list_loaded("import numpy", f"import {library}, dfprivacy\n{release}") & LATER
    command = list_loaded(f"import {library}, dfprivacy", "import dfprivacy.cli")
    assert not command & {"yaml", "pydantic"}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_deleted_frame_is_freed_at_once(library):
    """Reading `.dp` makes no cycle: the frame's memory is free without a garbage collection."""
    code = f"""import gc, weakref, {library}, dfprivacy
gc.disable()
frame = {library}{FRAME}
frame.dp.count()
frame.dp.group_by("k")["x"]
reference = weakref.ref(frame)
del frame
assert reference() is None
"""
    run_python("-c", code, check=True)


def test_the_interpreter_ends_in_silence():
    """Nothing is written when Python ends, whatever was asked."""
    code = f"import polars, dfprivacy; polars{FRAME}.dp.count(); dfprivacy.sql"
    run = run_python("-c", code, check=True)
    assert (run.stdout, run.stderr.count("\n")) == ("", run.stderr.count("ledger"))


def test_public_names_of_submodules_are_functions():
    """`dfp.statistics` is the function, whichever modules were imported before and after."""
    code = """import dfprivacy.statistics, dfprivacy as dfp
import dfprivacy.statistics.mean, dfprivacy.frames.merging
assert callable(dfp.statistics) and callable(dfp.frame) and dfp.local.__name__ == "dfprivacy.local"
assert "shuffle" in dir(dfp)
try:
    dfp.nothing
except AttributeError as error:
    assert error.name == "nothing"
"""
    run_python("-c", code, check=True)


@pytest.mark.parametrize("first", ["dfprivacy, pandas, polars", "pandas, polars, dfprivacy"])
def test_frames_answer_whichever_is_imported_first(first):
    """`.dp` is put on frames and series when their library is imported; its classes are known."""
    code = ""
    for library, count in (("pandas", 101), ("polars", 102)):
        frame = f"{library}.DataFrame({{'x': [0.5] * {count}}})"
        code += f"print({frame}.dp(epsilon=9e5).count(), {library}.Series([1]).dp)\n"
        code += f"print('{library}', {library}.DataFrame.dp is dfprivacy.Private, sep=':')\n"
    output = list_loaded(f"import {first}", code)
    assert {"101", "102", "pandas:True", "polars:True"} <= output


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
    statements = [
        f"print('{library}', {library}{FRAME}.dp(epsilon=9e5).count(), sep=':')"
        for library in libraries
    ]
    output = list_loaded(first.format(*libraries), "\n".join(statements))
    assert {f"{library}:100" for library in libraries} <= output


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
    completed = run_python("-c", code, check=True)
    doors = [line.split() for line in completed.stdout.splitlines()]
    assert {"Private", "Explanation", "Estimate"} <= {kind for kind, *_ in doors}
    assert [door for door in doors if door[2] != "True"] == []


def test_imports_are_read_from_the_source(tmp_path):
    """Imports in functions run later, and an imported name stands for its module."""
    modules = list_modules()
    path = tmp_path / "example.py"
    path.write_text(
        "import os, dfprivacy.errors\nfrom dfprivacy import accounting, Ledger\n"
        "def later():\n    from dfprivacy.accounting.loss import Epsilon\n"
    )
    early = {"dfprivacy.errors", "dfprivacy.accounting", "dfprivacy"}
    assert read_imports(path, modules, in_functions=False) == early
    later = {"dfprivacy.accounting.loss"}
    assert read_imports(path, modules, in_functions=True) == early | later
    assert find_package("dfprivacy.accounting.loss") == "accounting"
