"""Rules that the source keeps, read off its syntax tree."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import dfprivacy as dfp

ROOT = Path(dfp.__file__).parent
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def modules_of(tree):
    """Yield the modules that a tree imports, with the names taken from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)


LAYERS = [
    {"errors", "exact", "labels", "unit", "terms", "whole_files"},
    {"rank_questions", "questions", "vector_question"},
    {"statistics"},
    {"mechanisms", "accounting"},
    {"estimators"},
    {"plan", "answers"},
    {"engine"},
    {"parts"},
    {"viz"},
    {"release", "origin", "released_frame", "remembered", "remembered_keys", "request"},
    {"conductor"},
    {"histogram", "limits"},
    {"vector_passes", "vector_groups", "vector_estimate", "vector_release"},
    {"forecast"},
    {"local", "shuffle"},
    {"asking", "moment_methods", "rank_methods", "vector_methods", "explaining", "private"},
    {"partial"},
    {"statements"},
    {"jobs"},
    {"pictures"},
    {"frontends"},
    {"__init__"},
]
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def layer_of(module):
    """Return the first part of a module's name inside the package; the package itself is on top."""
    parts = module.split(".")
    return parts[1].removesuffix(".py") if len(parts) > 1 else "__init__"


def test_imports_point_one_way():
    """No module imports one of a layer above its own."""
    for name, tree in TREES.items():
        own = name.split("/")[0].removesuffix(".py")
        assert own in RANKS, f"{own} has no layer: give it one"
        for module, taken in modules_of(tree):
            if module == "sql_udfs" or module.startswith("sql_udfs."):
                assert own == "frontends"
            if module != "dfprivacy" and not module.startswith("dfprivacy."):
                continue
            whole = f"{module}.{taken}" if module == "dfprivacy" and taken else module
            target = layer_of(whole)
            target = target if target in RANKS else "__init__"
            assert RANKS[target] <= RANKS[own], f"{name} imports {whole}"


CORE = [n for n in TREES if n.split("/")[0] in {"statistics", "mechanisms", "estimators"}]


def test_the_core_knows_no_engine_and_no_clock():
    """Statistics, mechanisms and estimators import no dataframe library, and know no time."""
    banned = {"pandas", "polars", "duckdb", "narwhals", "time", "datetime"}
    for name in CORE:
        assert not {module.split(".")[0] for module, _ in modules_of(TREES[name])} & banned, name


BANNED = {"random", "numpy.random", "secrets"}


def examples_of(tree):
    """Yield the trees of the examples in docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for example in doctest.DocTestParser().get_examples(ast.get_docstring(node) or ""):
                yield ast.parse(example.source)


def test_no_other_source_of_randomness():
    """numpy.random, random and secrets are nowhere, nor in examples; os.urandom is in one file."""
    trees = ((n, own) for n, tree in TREES.items() for own in (tree, *examples_of(tree)))
    for name, tree in trees:
        for module, taken in modules_of(tree):
            assert module not in BANNED
            assert f"{module}.{taken}" not in BANNED | {"os.urandom"}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                written = ast.unparse(node)
                assert not written.startswith(("np.random", "numpy.random"))
                assert node.attr not in {"default_rng", "getrandom", "SystemRandom"}
                if node.attr == "urandom":
                    assert name == "mechanisms/entropy.py"


NOISE_PATH = ["mechanisms/additive.py", "measurement/sums.py"]


@pytest.mark.parametrize("name", NOISE_PATH)
def test_no_float_between_a_sum_and_its_noise(name):
    """Where exact sums and noise are added there is no float: no literal, dtype or division."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Constant):
            assert not isinstance(node.value, float)
        if isinstance(node, ast.Attribute):
            assert "float" not in node.attr
        if isinstance(node, ast.Name):
            assert node.id != "float"
        if isinstance(node, ast.BinOp):
            assert not isinstance(node.op, ast.Div)


def test_nothing_but_the_guard_swallows_errors():
    """Nothing but the guard swallows errors.

    `except` with nothing but `pass` is in the guard of the engine alone, and in code that
    handles no data (the ledger and the command line).
    """
    allowed = {"engine/run.py"}
    for name, tree in TREES.items():
        if name.startswith(("accounting/", "frontends/")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                silent = all(isinstance(statement, ast.Pass) for statement in node.body)
                assert not silent or name in allowed, name
                assert node.type is not None, name


def test_nothing_is_printed_logged_or_warned():
    """The package prints, logs and warns nowhere outside the command line; one file silences."""
    for name, tree in TREES.items():
        if name.startswith("frontends/"):
            continue
        silences = name == "engine/pandas_objects.py"
        loud = {"logging", "warnings"} - ({"warnings"} if silences else set())
        assert not {module.split(".")[0] for module, _ in modules_of(tree)} & loud, name
        for node in ast.walk(tree):
            written = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if written.startswith("warnings."):
                assert written in {"warnings.catch_warnings", "warnings.simplefilter"}, name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", name


def test_all_is_sorted_and_complete():
    """`__all__` names every public name of the package, in order, and each of them exists."""
    assert list(dfp.__all__) == sorted(dfp.__all__)
    assert len(set(dfp.__all__)) == len(dfp.__all__)
    public = {
        name
        for name, value in vars(dfp).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(dfp.__all__) - {name for name in dfp.__all__ if name.startswith("_")}


def test_every_error_is_public():
    """Every error class of the package can be caught by a public name."""
    errors = importlib.import_module("dfprivacy.errors")
    kinds = {
        n for n, v in vars(errors).items() if inspect.isclass(v) and issubclass(v, dfp.DPError)
    }
    assert kinds <= set(dfp.__all__)
    assert all(kind in errors.__doc__ for kind in kinds)
