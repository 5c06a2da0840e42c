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
    {"display"},
    {"rank_questions", "questions", "vector_question"},
    {"statistics"},
    {"mechanisms", "accounting"},
    {"estimators"},
    {"plan", "answers"},
    {"engine"},
    {"parts"},
    {"release", "origin", "released_frame", "remembered", "remembered_keys", "request"},
    {"conductor"},
    {"histogram", "limits"},
    {"vector_passes", "vector_groups", "vector_estimate", "vector_release"},
    {"forecast"},
    {"local", "shuffle"},
    {"spelling"},
    {"asking", "moment_methods", "rank_methods", "vector_methods", "explaining", "private"},
    {"partial"},
    {"statements"},
    {"jobs"},
    {"released_views", "pictures"},
    {"frontends"},
    {"__init__"},
]
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def layer_of(module):
    """Return the first part of a module's name inside the package; the package itself is on top."""
    parts = module.split(".")
    return parts[1].removesuffix(".py") if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("name", TREES)
def test_imports_point_one_way(name):
    """Imports point one way.

    Terms and questions < statistics < mechanisms, accounting < estimators < plan, answers < engine
    < parts < release < conductor < histogram < local, shuffle < private < frontends: no import
    points back.
    """
    own = name.split("/")[0].removesuffix(".py")
    assert own in RANKS, f"{own} has no layer: give it one"
    for module, taken in modules_of(TREES[name]):
        if module == "sql_udfs" or module.startswith("sql_udfs."):
            assert own == "frontends"
        if module != "dfprivacy" and not module.startswith("dfprivacy."):
            continue
        whole = f"{module}.{taken}" if module == "dfprivacy" and taken else module
        target = layer_of(whole)
        target = target if target in RANKS else "__init__"
        assert RANKS[target] <= RANKS[own], f"{name} imports {whole}"


@pytest.mark.parametrize(
    "name", [n for n in TREES if n.split("/")[0] in {"statistics", "mechanisms", "estimators"}]
)
def test_the_core_knows_no_engine(name):
    """Statistics, mechanisms and estimators import no dataframe library."""
    for module, _ in modules_of(TREES[name]):
        assert module.split(".")[0] not in {"pandas", "polars", "duckdb", "narwhals"}, name


BANNED = {"random", "numpy.random", "secrets"}


def examples_of(tree):
    """Yield the trees of the examples in docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for example in doctest.DocTestParser().get_examples(ast.get_docstring(node) or ""):
                yield ast.parse(example.source)


@pytest.mark.parametrize("name", TREES)
def test_no_other_source_of_randomness(name):
    """numpy.random, random and secrets are nowhere, nor in examples; os.urandom is in one file."""
    for tree in (TREES[name], *examples_of(TREES[name])):
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


@pytest.mark.parametrize(
    "name", [n for n in TREES if n.startswith(("mechanisms/", "estimators/", "statistics/"))]
)
def test_no_clock_in_what_makes_noise(name):
    """Mechanisms, statistics and estimators know no time."""
    assert not {module for module, _ in modules_of(TREES[name])} & {"time", "datetime"}


NOISE_PATH = ["mechanisms/additive.py", "statistics/statistics.py"]


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


def functions_between(name, start, end):
    """Return the names called in a function, in the order of its source."""
    function = next(
        n for n in TREES[name].body if isinstance(n, ast.FunctionDef) and n.name == start
    )
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    calls.sort(key=lambda n: (n.lineno, n.col_offset))
    names = [
        n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")
        for n in calls
    ]
    assert end in names
    return names


def assert_in_order(names, steps):
    assert all(names.count(step) == 1 for step in steps)
    assert [names.index(step) for step in steps] == sorted(names.index(step) for step in steps)


def test_what_is_measured_is_paid_for():
    """An account is asked, then the engine runs, then the account pays; then only all goes on."""
    assert_in_order(functions_between("conductor.py", "paid", "pay"), ("check", "measured", "pay"))


@pytest.mark.parametrize("release", ["release_numbers", "release_frame", "release_answers"])
def test_noise_is_drawn_once_and_after_every_check(release):
    """A release checks its arguments, plans, measures, pays, and only then draws, once."""
    names = functions_between("conductor.py", release, "_answered")
    assert_in_order(names, ("request_of", "paid", "measured_for", "_answered"))
    assert not {"answer", "add_noise", "add_to"} & set(names)


def test_a_request_is_checked_whole_before_it_is_made():
    """Losses, levels, limits, questions and accounts are looked at where nothing can be drawn."""
    names = functions_between("request.py", "request_of", "account_of")
    checks = ("interval_level", "delta_of", "required_delta", "limits_of", "_shared_out")
    assert {*checks, "account_of"} <= set(names)
    assert not {"answer", "measure", "add_noise", "add_to", "pay"} & set(names)


def test_a_histogram_pays_before_it_draws():
    """A histogram checks its arguments, measures, pays, and only then draws."""
    names = functions_between("histogram.py", "release_histogram", "add_to")
    assert_in_order(names, ("histogram_request", "paid", "read", "_within_edges", "add_to"))
    asked = functions_between("histogram.py", "histogram_request", "account_of")
    assert_in_order(asked, ("loss_of", "interval_level", "delta_of", "required_delta", "limits_of"))
    assert not {"paid", "read", "find_bounds", "add_to", "pay"} & set(asked)


def test_a_survey_of_a_frame_pays_before_it_draws():
    """Protocols of both models: the account is asked, rows are read, it pays, and then all goes on.

    Nothing else in the two rooms pays.
    """
    names = functions_between("local/on_frames.py", "_paid", "draw")
    assert_in_order(names, ("check", "measure", "pay", "draw"))
    paying = [
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "pay"
    ]
    assert [name for name in paying if name.startswith(("local/", "shuffle/"))] == [
        "local/on_frames.py"
    ]


def test_secret_statistics_meet_noise_in_one_place():
    """Only additive.py reads the exact coordinates of statistics."""
    readers = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "coordinates"
        and isinstance(node.value, ast.Name)
        and node.value.id == "statistics"
    }
    assert readers == {"mechanisms/additive.py"}


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


@pytest.mark.parametrize("name", [n for n in TREES if not n.startswith("frontends/")])
def test_nothing_is_printed_logged_or_warned(name):
    """The package prints, logs and warns nowhere outside the command line; one file silences."""
    loud = {"logging", "warnings"} - ({"warnings"} if name == "engine/pandas_objects.py" else set())
    assert not {module.split(".")[0] for module, _ in modules_of(TREES[name])} & loud
    used = {
        n.attr
        for n in ast.walk(TREES[name])
        if isinstance(n, ast.Attribute)
        and isinstance(n.value, ast.Name)
        and n.value.id == "warnings"
    }
    assert used <= {"catch_warnings", "simplefilter"}
    called = {
        n.func.id
        for n in ast.walk(TREES[name])
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert "print" not in called


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


@pytest.mark.parametrize("name", TREES)
def test_everything_public_has_a_docstring(name):
    """Modules, public classes, functions and methods say what they are."""
    tree = TREES[name]
    assert ast.get_docstring(tree) or not tree.body, name
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            nested = any(
                node in ast.walk(outer) and outer is not node
                for outer in ast.walk(tree)
                if isinstance(outer, ast.FunctionDef)
            )
            assert nested or ast.get_docstring(node), f"{name}: {node.name}"


WRITTEN = {
    path.relative_to(ROOT.parent).as_posix(): path
    for folder in ("dfprivacy", "sql_udfs", "tests", "benchmarks", "examples")
    for path in sorted((ROOT.parent / folder).rglob("*.py"))
}


@pytest.mark.parametrize("name", WRITTEN)
def test_files_are_named_for_what_they_hold(name):
    """No file is called utils or helpers."""
    assert Path(name).stem not in {"utils", "helpers", "common", "misc"}
