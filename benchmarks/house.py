"""Measure the code itself: sizes, imports, ways of a call. Print each figure beside its target.

python -m benchmarks.house
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
    "dfprivacy", "dfprivacy.local", "dfprivacy.shuffle", "dfprivacy.statistics",
    "sql_udfs", "sql_udfs.dbt",
}  # fmt: skip
CORE = ("errors", "measurement", "noise", "accounting", "release")  # errors imports nothing
ENGINES = "import duckdb, narwhals, pandas, polars, pyarrow"

WAYS = {
    "mean by group": ("", 'frame.dp.group_by("k").mean("x", (0, 1), delta=1e-6)', (90, 22)),
    "dfp.sql": (
        "",
        'dfp.sql("SELECT k, dp_mean(x, 0, 1) FROM t GROUP BY k", t=frame, delta=1e-6)',
        (180, 40),
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
names = [getattr(dfp, name) for name in dfp.__all__]  # loaded on first use
{before}
seen = set()
def profiled(frame, event, argument):
    code = frame.f_code
    own = code.co_filename.startswith({roots!r}) and not code.co_name.startswith("<")
    own = own and code.co_flags & inspect.CO_OPTIMIZED  # bodies of classes are no functions
    if event == "call" and own:
        seen.add((code.co_filename, code.co_qualname, code.co_firstlineno))
threading.setprofile(profiled)
sys.setprofile(profiled)
{call}
sys.setprofile(None)
print(len(seen), len({{name for name, *_ in seen}}))
"""

_TIMED = f"""
{ENGINES}
import time
start = time.perf_counter(), time.process_time()
import dfprivacy
print(time.perf_counter() - start[0], time.process_time() - start[1])
names = [getattr(dfprivacy, name) for name in dfprivacy.__all__]
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""


def modules() -> dict[str, Path]:
    """Return the modules of the packages by name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: Iterable[str], *, anywhere: bool) -> set[str]:
    """Return the modules of the packages that a file imports, in functions too if `anywhere`."""
    names: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8")), anywhere=anywhere):
        if isinstance(node, ast.Import):
            names |= {_module(alias.name, known) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {_module(f"{node.module}.{alias.name}", known) for alias in node.names}
    return names - {""}


def _statements(tree: ast.AST, *, anywhere: bool) -> Iterator[ast.AST]:
    """Yield nodes; those of functions and of `if TYPE_CHECKING` run later, or never."""
    for node in ast.iter_child_nodes(tree):
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        )
        if anywhere or not later:
            yield node
            yield from _statements(node, anywhere=anywhere)


def _module(name: str, known: Iterable[str]) -> str:
    """Return the longest module of the packages that a dotted name begins with, or nothing."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def room_of(name: str) -> str:
    """Return the folder of a module; modules directly in dfprivacy are a room each."""
    parts = name.split(".")
    return parts[0] if parts[0] == "sql_udfs" else ".".join(parts[1:2]) or "(its __init__)"


def sizes(found: dict[str, Path]) -> None:
    """Print files and lines of each room and of all."""
    files, lines = Counter[str](), Counter[str]()
    for name, path in found.items():
        room = room_of(name)
        if path.parent == ROOT / "dfprivacy" and path.stem != "__init__":
            room = "(top floor)"
        files[room] += 1
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    for room in sorted(files, key=lambda own: -lines[own]):
        print(f"  {room:<28}{files[room]:>6} files{lines[room]:>9,} lines")
    row("files of the package", files.total(), 160)
    row("lines of the package", lines.total(), 26_000)
    floor = {room_of(name) for name in found if name.startswith("dfprivacy.")}
    row("names on the top floor", len({room for room in floor if room[0] != "_"}), 12)


def imports(found: dict[str, Path]) -> None:
    """Print what modules import of each other, and what tests import of them."""
    graph = {}
    for name, path in found.items():
        stub = path.with_suffix(".pyi")  # of the package: what its names import on first use
        own = imported(stub, found, anywhere=True) if stub.exists() else set()
        graph[name] = (own | imported(path, found, anywhere=True)) - {name}
    importers = Counter(own for names in graph.values() for own in names)
    row("modules with exactly one importer", sum(n == 1 for n in importers.values()), 25)
    early = {name: imported(path, found, anywhere=False) - {name} for name, path in found.items()}
    for title, own in (("at import", early), ("later ones too", graph)):
        try:
            TopologicalSorter(own).prepare()
            row(f"imports have no circle ({title})", "yes", "yes")
        except CycleError as circle:
            row(f"imports have no circle ({title})", "no", "yes")
            print(f"  {' <- '.join(circle.args[1])}")
    strays = Counter(
        room_of(own)
        for name, names in graph.items()
        for own in names
        if room_of(name) in CORE and room_of(own) not in CORE and not own.startswith("sql_udfs")
    )
    row(f"imports from outside in {', '.join(CORE)}", strays.total(), 0)
    if strays:
        print(f"  of {', '.join(f'{room} {times}' for room, times in strays.most_common(8))}")
    tests = sorted((ROOT / "tests").rglob("*.py"))
    reaching = [
        path
        for path in tests
        if any(
            room_of(module) not in CORE for module in imported(path, found, anywhere=True) - PUBLIC
        )
    ]
    row(f"test files of {len(tests)} that import internals outside of the core", len(reaching), 0)


def ways() -> None:
    """Print how many functions with a name, and files, the first call runs through."""
    roots = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES)
    for name, (before, call, targets) in WAYS.items():
        said = run(_TRACED.format(before=before, call=call, roots=roots)).split()
        for what, figure, target in zip(
            ("functions", "files"), map(int, said), targets, strict=True
        ):
            row(f"{name}: {what}", figure, target)


def run(code: str, **environment: str) -> str:
    """Return what a fresh Python prints."""
    own = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=own, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def import_time(runs: int = 7) -> None:
    """Print the times of `import dfprivacy` and of all that it loads on first use, at best."""
    with tempfile.TemporaryDirectory() as cache:
        clean = {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        times = [[float(own) for own in run(_TIMED, **clean).split()] for _ in range(runs + 1)]
    wall, processor, whole, worked = map(min, zip(*times[1:], strict=True))
    row("import dfprivacy over its engines, s", f"{wall:.3f}", 0.25)
    print(f"  {processor:.3f} s of them on the processor")
    row("and every public name, loaded on first use, s", f"{whole:.3f}", 0.25)
    print(f"  {worked:.3f} s of them on the processor")


def row(title: str, figure: object, target: object) -> None:
    """Print a figure beside its target."""
    print(f"{title:<78}{figure!s:>7}   target {target}")


def main() -> None:
    """Print everything."""
    found = modules()
    sizes(found)
    imports(found)
    ways()
    import_time()


if __name__ == "__main__":
    main()
