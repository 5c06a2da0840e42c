"""Change the trusted core in single places, and count the changes that its fast tests notice.

python -m benchmarks.mutants [--sample 120] [--minutes 60]

A mutant is the package with one operator, comparison, constant or condition replaced. The tests of
its folder run on a copy of the repository. A mutant that all of them pass survives. Some survivors
compute the same as the original, so the score is a lower bound.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "mutants.md"
COPIED = ("dfprivacy", "sql_udfs", "tests", "benchmarks", "docs", "examples")
FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
SHARED = "tests/laws/test_measurement.py tests/laws/test_registry.py"
TESTS = {  # a noticed mutant ends early, so the nearest tests come first
    "measurement": (
        f"{SHARED} tests/laws/test_vectors.py tests/conformance/test_bin_tables.py "
        "tests/partial/test_one_pass.py tests/laws/test_pairs.py tests/laws/test_regression.py "
        "tests/laws/test_quantiles.py tests/conformance/test_engines_agree.py"
    ),
    "noise": f"tests/noise {SHARED} tests/laws/test_choices.py",
    "accounting": (
        "tests/accounting/test_charge.py tests/accounting/test_ledger.py tests/accounting "
        "tests/partial/test_release.py tests/frontends/test_cli_ledger.py"
    ),
    "release": (
        "tests/laws/test_registry.py tests/accounting/test_spending.py "
        "tests/privacy/test_permit.py tests/forecast/test_explanations.py "
        "tests/laws/test_crosstabs.py tests/laws/test_frequencies.py "
        "tests/frontends/test_estimate.py tests/laws/test_clipping.py tests/laws/test_pairs.py "
        "tests/laws/test_regression.py tests/laws/test_arithmetic.py tests/frontends/test_notes.py"
    ),
}
OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


@dataclass(frozen=True)
class Mutant:
    """A replacement of one piece of source text."""

    path: Path
    line: int
    start: int
    end: int
    old: str
    new: str

    def mutate(self) -> str:
        """Return the source of the file with the piece replaced."""
        source = self.path.read_bytes()
        return (source[: self.start] + self.new.encode() + source[self.end :]).decode()


def list_mutants(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a file, outside of annotations and docstrings."""
    source = path.read_bytes()
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    tree = ast.parse(source)
    skipped = set(find_annotations(tree))

    def replace(node: ast.expr, new: str) -> Mutant:
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return Mutant(path, node.lineno, start, end, source[start:end].decode(), new)

    for node in ast.walk(tree):
        if node in skipped:
            continue
        match node:
            case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
                sign = OPERATORS[type(operator)]
                yield replace(node, f"(({ast.unparse(left)}) {sign} ({ast.unparse(right)}))")
            case ast.Compare(left, [operator], [right]):
                sign = COMPARISONS[type(operator)]
                yield replace(node, f"(({ast.unparse(left)}) {sign} ({ast.unparse(right)}))")
            case ast.BoolOp(operator, values):
                word = " or " if isinstance(operator, ast.And) else " and "
                yield replace(node, f"({word.join(f'({ast.unparse(v)})' for v in values)})")
            case ast.UnaryOp(ast.Not() | ast.USub(), operand):
                yield replace(node, f"({ast.unparse(operand)})")
            case ast.Constant(value=bool(flag)):
                yield replace(node, str(not flag))
            case ast.Constant(value=int(number)):
                yield replace(node, str(number + 1))
            case ast.IfExp(test, body, orelse):
                body_text, other = ast.unparse(body), ast.unparse(orelse)
                yield replace(node, f"({other} if {ast.unparse(test)} else {body_text})")
            case ast.Call(ast.Name(id=name) as called) if name in TWINS:
                yield replace(called, TWINS[name])
            case ast.Call(ast.Attribute(attr=name) as called) if name in TWINS:
                yield replace(called, f"{ast.unparse(called.value)}.{TWINS[name]}")
            case ast.If(test) | ast.While(test):
                yield replace(test, f"(not ({ast.unparse(test)}))")


def find_annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node of an annotation, a message of an error or a type-checking block."""
    for node in ast.walk(tree):
        pieces: list[ast.AST | None] = []
        match node:
            case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
                pieces = [annotation]
            case ast.FunctionDef(returns=returns, decorator_list=decorators):
                pieces = [returns, *decorators]
                if node.name in {"__repr__", "__str__"}:
                    pieces = [node]
            case ast.Raise(exc=exception):
                pieces = [exception]
            case ast.Assign(value=ast.BinOp(op=ast.BitOr())):
                pieces = [node.value]  # a union of types
            case ast.JoinedStr():
                pieces = [node]  # a replaced piece of a formatted text has other offsets
        for piece in pieces:
            if piece is not None:
                yield from ast.walk(piece)


def copy_repository(folder: Path) -> None:
    """Copy what the tests need."""
    ignored = shutil.ignore_patterns("__pycache__", "*.png", "*.pyc")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)


def run_tests(folder: Path, tests: str, limit: float) -> str:
    """Return `passed`, `failed` or `late`."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return "failed" if process.wait(limit) else "passed"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return "late"


def main() -> int:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=120)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    mutants = [
        (room, mutant)
        for room in TESTS
        for path in sorted((ROOT / "dfprivacy" / room).glob("*.py"))
        for mutant in list_mutants(path)
    ]
    sizes = Counter(room for room, _ in mutants)
    outcomes: Counter[tuple[str, str]] = Counter()
    survivors = []
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_repository(folder)
        limits = {}
        for room, tests in TESTS.items():
            start = time.monotonic()
            if run_tests(folder, tests, 1800) != "passed":
                sys.exit(f"the tests of {room} fail without a mutant")
            limits[room] = 60 + 4 * (time.monotonic() - start)
        for room, mutant in random.Random(options.seed).sample(mutants, options.sample):
            if time.monotonic() > deadline:
                break
            target = folder / mutant.path.relative_to(ROOT)
            original = target.read_text()
            target.write_text(mutant.mutate())
            outcome = run_tests(folder, TESTS[room], limits[room])
            target.write_text(original)
            outcomes[room, outcome] += 1
            location = f"{mutant.path.relative_to(ROOT / 'dfprivacy')}:{mutant.line}"
            print(outcome, location, mutant.old, "->", mutant.new, flush=True)
            if outcome == "passed":
                survivors.append(
                    " ".join(f"- `{location}`: `{mutant.old}` -> `{mutant.new}`".split())
                )
    text = describe_outcomes(sizes, outcomes)
    survivor_list = "\n".join(survivors)
    RESULT.write_text(f"{text}\n## Survivors\n\n{survivor_list}\n")
    print(text)
    return 0


def describe_outcomes(sizes: Counter[str], outcomes: Counter[tuple[str, str]]) -> str:
    """Write the table of scores."""
    total, tried = sum(sizes.values()), sum(outcomes.values())
    title = (
        f"`python -m benchmarks.mutants`: {tried} of {total:,} mutants of the trusted core, drawn "
        "at random. A mutant counts as noticed if a test fails or exceeds its time."
    )
    lines = [
        title,
        "",
        "| folder | mutants | sample | noticed | score |",
        "|:--|--:|--:|--:|--:|",
    ]
    for room, size in [*sizes.items(), ("all", total)]:
        counts: Counter[str] = Counter()
        for (mutated_room, result), count in outcomes.items():
            counts[result] += count if room in {mutated_room, "all"} else 0
        noticed, ran = counts["failed"] + counts["late"], sum(counts.values())
        lines.append(f"| {room} | {size:,} | {ran} | {noticed} | {noticed / max(ran, 1):.0%} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
