"""Measure the code itself: sizes, imports and call paths. Print each figure beside its target.

python -m benchmarks.structure
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dfprivacy", "sql_udfs")
PUBLIC = {
    "dfprivacy",
    "dfprivacy.local",
    "dfprivacy.papers",
    "dfprivacy.shuffle",
    "dfprivacy.statistics",
    "sql_udfs",
    "sql_udfs.dbt",
}
CORE = ("errors", "measurement", "noise", "accounting", "release")  # errors imports nothing
ENGINES = "import duckdb, narwhals, pandas, polars, pyarrow"

CALL_PATHS = {  # set-up, call, and at most so many functions in so many files
    "mean by group": ("", 'frame.dp.group_by("k").mean("x", (0, 1), delta=1e-6)', (150, 28)),
    "dfp.sql": (
        "",
        'dfp.sql("SELECT k, dp_mean(x, 0, 1) FROM t GROUP BY k", t=frame, delta=1e-6)',
        (280, 42),
    ),
    "a join in dfp.sql": (
        """users = pl.DataFrame({"id": range(1000), "k": ["a", "b"] * 500})
visits = pl.DataFrame({"id": range(1000), "x": [0.25, 0.75] * 500})
query = "SELECT k, dp_mean(x, 0, 1) FROM users JOIN visits USING (id) GROUP BY k"
schema = dfp.Schema(unit="users.id", links={"visits.id": "users.id"})
terms = dict(users=users, visits=visits, schema=schema, max_rows=1, delta=1e-6)""",
        "dfp.sql(query, **terms)",
        (300, 40),
    ),
    "dp_mean on a connection": (
        """import duckdb, sql_udfs
con = duckdb.connect(config={'threads': 1})
con.register('t', frame.to_arrow())
sql_udfs.register(con)""",
        'con.sql("SELECT k, dp_mean(x, 0, 1) FROM t GROUP BY k HAVING dp_keep(1e-6)").fetchall()',
        (80, 20),
    ),
}

_TRACED = """
import inspect, sys, threading, polars as pl, dfprivacy as dfp
frame = pl.DataFrame({{"k": ["a", "b"] * 500, "x": [0.25, 0.75] * 500}})
{setup}
{call}
functions = set()
def trace(frame, event, argument):
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    if event == "call" and is_function and code.co_filename.startswith({roots!r}):
        functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
threading.setprofile(trace)
sys.setprofile(trace)
{call}
sys.setprofile(None)
print(len(functions), len({{name for name, *_ in functions}}))
"""

_TIMED = f"""
{ENGINES}
import time
start = time.perf_counter(), time.process_time()
import dfprivacy
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""


def list_modules() -> dict[str, Path]:
    """Map the name of each module of the packages to its file."""
    paths = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def read_imports(path: Path, modules: Iterable[str], *, in_functions: bool) -> set[str]:
    """Return the modules of the packages that a file imports."""
    names: set[str] = set()
    for node in _walk_nodes(ast.parse(path.read_text(encoding="utf-8")), in_functions=in_functions):
        if isinstance(node, ast.Import):
            names |= {_find_module(alias.name, modules) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {_find_module(f"{node.module}.{alias.name}", modules) for alias in node.names}
    return names - {""}


def _walk_nodes(tree: ast.AST, *, in_functions: bool) -> Iterator[ast.AST]:
    """Yield all nodes. Those of functions and of `if TYPE_CHECKING` run later, or never."""
    for node in ast.iter_child_nodes(tree):
        runs_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        )
        if in_functions or not runs_later:
            yield node
            yield from _walk_nodes(node, in_functions=in_functions)


def _find_module(name: str, modules: Iterable[str]) -> str:
    """Return the longest module of the packages that a dotted name begins with, or ""."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def find_package(name: str) -> str:
    """Return the package of a module. A module directly in dfprivacy is its own."""
    parts = name.split(".")
    return parts[0] if parts[0] == "sql_udfs" else ".".join(parts[1:2]) or "(its __init__)"


def print_sizes(modules: dict[str, Path]) -> None:
    """Print files and lines of each package and of all."""
    files, lines = Counter[str](), Counter[str]()
    for name, path in modules.items():
        package = find_package(name)
        if path.parent == ROOT / "dfprivacy" and path.stem != "__init__":
            package = "(top level)"
        files[package] += 1
        lines[package] += len(path.read_text(encoding="utf-8").splitlines())
    for package in sorted(files, key=lambda package: -lines[package]):
        print(f"  {package:<28}{files[package]:>6} files{lines[package]:>9,} lines")
    print_row("files of the packages", files.total(), 135)
    print_row("lines of the packages", lines.total(), 47_500)
    skips = sum(path.read_text(encoding="utf-8").count("fmt: skip") for path in modules.values())
    print_row("lines that the formatter skips", skips, 0)


def print_imports(modules: dict[str, Path]) -> None:
    """Print which modules import each other, and which internals tests import."""
    graph, at_import = (
        {
            name: read_imports(path, modules, in_functions=in_functions) - {name}
            for name, path in modules.items()
        }
        for in_functions in (True, False)
    )
    importers = Counter(name for names in graph.values() for name in names)
    print_row("modules with exactly one importer", sum(n == 1 for n in importers.values()), 25)
    for title, imports in (("at import", at_import), ("in functions too", graph)):
        try:
            TopologicalSorter(imports).prepare()
            print_row(f"imports have no cycle ({title})", "yes", "yes")
        except CycleError as cycle:
            print_row(f"imports have no cycle ({title})", "no", "yes")
            print(f"  {' <- '.join(cycle.args[1])}")
    strays = Counter(
        find_package(imported)
        for name, names in graph.items()
        for imported in names
        if find_package(name) in CORE and find_package(imported) not in CORE
    )
    print_row(f"imports from outside in {', '.join(CORE)}", strays.total(), 0)
    if strays:
        print(f"  {', '.join(f'{package} {times}' for package, times in strays.most_common(8))}")
    tests = sorted((ROOT / "tests").rglob("*.py"))
    internal = [
        path
        for path in tests
        if any(
            find_package(name) not in CORE
            for name in read_imports(path, modules, in_functions=True) - PUBLIC
        )
    ]
    title = f"test files of {len(tests)} that import internals outside of the core"
    print_row(title, len(internal), 0)


def print_call_paths() -> None:
    """Print how many named functions and files the second call of a process runs through."""
    roots = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES)
    for name, (setup, call, targets) in CALL_PATHS.items():
        figures = run_python(_TRACED.format(setup=setup, call=call, roots=roots)).split()
        for title, figure, target in zip(("functions", "files"), figures, targets, strict=True):
            print_row(f"{name}: {title}", int(figure), target)


def run_python(code: str, **environment: str) -> str:
    """Return the output of code in a new Python."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DFPRIVACY_LEDGER_NOTICE": "off",
        **environment,
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=variables, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def print_import_time(runs: int = 7) -> None:
    """Print the shortest time of `import dfprivacy` beyond the import of its engines."""
    with tempfile.TemporaryDirectory() as cache:
        clean = {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        times = [map(float, run_python(_TIMED, **clean).split()) for _ in range(runs + 1)]
    wall, cpu = map(min, zip(*times[1:], strict=True))
    print_row("import dfprivacy beyond its engines, s", f"{wall:.3f}", 0.25)
    print(f"  {cpu:.3f} s of CPU")


def print_row(title: str, figure: object, target: object) -> None:
    """Print a figure beside its target."""
    print(f"{title:<78}{figure!s:>7}   target {target}")


def main() -> None:
    """Print everything."""
    modules = list_modules()
    print_sizes(modules)
    print_imports(modules)
    print_call_paths()
    print_import_time()


if __name__ == "__main__":
    main()
