"""Rules that the source keeps, read off its syntax tree."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
from pathlib import Path

import pytest

import dfprivacy as dfp

ROOT = Path(dfp.__file__).parent


@functools.cache
def trees():
    """Return the syntax tree of each file of the package, by its path in there."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


@functools.cache
def both_trees():
    """Return the syntax trees of both packages."""
    return trees() | {
        f"sql_udfs/{path.name}": ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT.parent / "sql_udfs").glob("*.py"))
    }


def modules_of(tree):
    """Yield the modules that a tree imports, with the names taken from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)


LAYERS = [
    {"errors"},
    {"measurement", "noise", "accounting", "release"},
    {"engine"},
    {"statistics"},
    {"local", "shuffle", "frames"},
    {"statements"},
    {"cli"},
    {"__init__"},
]
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def layer_of(module):
    """Return the first part of a module's name inside the package; the package itself is on top."""
    parts = module.split(".")
    return parts[1].removesuffix(".py") if len(parts) > 1 else "__init__"


def test_imports_point_one_way():
    """No module imports one of a layer above its own."""
    for name, tree in trees().items():
        own = name.split("/")[0].removesuffix(".py")
        assert own in RANKS, f"{own} has no layer: give it one"
        for module, taken in modules_of(tree):
            if module == "sql_udfs" or module.startswith("sql_udfs."):
                assert own == "cli"
            if module != "dfprivacy" and not module.startswith("dfprivacy."):
                continue
            whole = f"{module}.{taken}" if module == "dfprivacy" and taken else module
            target = layer_of(whole)
            target = target if target in RANKS else "__init__"
            assert RANKS[target] <= RANKS[own], f"{name} imports {whole}"


CORE = ("measurement/", "noise/", "statistics/estimators/")


def test_the_core_knows_no_engine_and_no_clock():
    """Measurement, noise and estimators import no dataframe library, and never ask for the time."""
    banned = {"pandas", "polars", "duckdb", "narwhals", "time"}
    for name, tree in trees().items():
        if not name.startswith(CORE):
            continue
        assert not {module.split(".")[0] for module, _ in modules_of(tree)} & banned, name
        asked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not asked & {"now", "today", "utcnow", "fromtimestamp"}, name


BANNED = {"random", "numpy.random", "secrets"}


def examples_of(tree):
    """Yield the trees of the examples in docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for example in doctest.DocTestParser().get_examples(ast.get_docstring(node) or ""):
                yield ast.parse(example.source)


def test_no_other_source_of_randomness():
    """numpy.random, random and secrets are nowhere, nor in examples; os.urandom is in one file."""
    own_and_examples = (
        (name, tree) for name, own in trees().items() for tree in (own, *examples_of(own))
    )
    for name, tree in own_and_examples:
        for module, taken in modules_of(tree):
            assert module not in BANNED
            assert f"{module}.{taken}" not in BANNED | {"os.urandom"}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                written = ast.unparse(node)
                assert not written.startswith(("np.random", "numpy.random"))
                assert node.attr not in {"default_rng", "getrandom", "SystemRandom"}
                if node.attr == "urandom":
                    assert name == "noise/entropy.py"


NOISE_PATH = ["noise/additive.py", "measurement/sums.py"]


@pytest.mark.parametrize("name", NOISE_PATH)
def test_no_float_between_a_sum_and_its_noise(name):
    """Where exact sums and noise are added there is no float: no literal, dtype or division."""
    for node in ast.walk(trees()[name]):
        if isinstance(node, ast.Constant):
            assert not isinstance(node.value, float)
        if isinstance(node, ast.Attribute):
            assert "float" not in node.attr
        if isinstance(node, ast.Name):
            assert node.id != "float"
        if isinstance(node, ast.BinOp):
            assert not isinstance(node.op, ast.Div)


def calls_in(name, start):
    """Return the names called in a function, in the order of its source."""
    function = next(
        n for n in trees()[name].body if isinstance(n, ast.FunctionDef) and n.name == start
    )
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    calls.sort(key=lambda n: (n.lineno, n.col_offset))
    return [
        n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")
        for n in calls
    ]


def test_what_is_drawn_is_paid_for():
    """A release is checked, measured, proved, paid for, permitted, and only then drawn."""
    steps = ["check", "measure", "prove", "pay", "permit", "draw"]
    assert calls_in("release/pipeline.py", "paid") == steps
    names = calls_in("release/pipeline.py", "released")
    assert [name for name in names if name in {"remembered", "paid"}] == ["remembered", "paid"]
    assert "draw" not in names


def test_a_request_is_checked_whole_before_it_is_made():
    """Losses, levels, limits and accounts are looked at where nothing can be drawn."""
    names = calls_in("release/request.py", "request_for")
    checks = {"interval_of", "delta_of", "required_delta", "limits_of", "account_of"}
    assert checks <= set(names)


def names_used(tree):
    """Return every name and attribute in a tree, imported ones too."""
    found = {taken for _, taken in modules_of(tree)}
    found |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_nothing_else_permits_noise():
    """Permits are made in one file; what enters one without an account says what pays instead."""
    makers = {
        name for name, tree in both_trees().items() if {"PERMIT", "Permit"} & names_used(tree)
    }
    assert makers == {"noise/entropy.py", "release/pipeline.py"}
    entered = {name for name, tree in both_trees().items() if "permit" in names_used(tree)}
    assert entered - makers == {
        "local/protocol.py",
        "shuffle/protocol.py",
        "shuffle/sums.py",
        "sql_udfs/function.py",
    }


def test_nothing_else_pays():
    """One function asks accounts to pay."""
    payers = {
        name
        for name, tree in both_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "pay"
    }
    assert payers == {"release/pipeline.py"}


def test_nothing_but_the_guard_swallows_errors():
    """Nothing but the guard swallows errors.

    `except` with nothing but `pass` is in the guard of the engine alone, and in code that
    handles no data (the ledger and the command line).
    """
    allowed = {"engine/run.py"}
    for name, tree in trees().items():
        if name.startswith(("accounting/", "cli/")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                silent = all(isinstance(statement, ast.Pass) for statement in node.body)
                assert not silent or name in allowed, name
                assert node.type is not None, name


def test_nothing_is_printed_logged_or_warned():
    """The package prints, logs and warns nowhere outside the command line; one file silences."""
    for name, tree in trees().items():
        if name.startswith("frontends/"):
            continue
        silences = name == "errors.py"
        loud = {"logging", "warnings"} - ({"warnings"} if silences else set())
        assert not {module.split(".")[0] for module, _ in modules_of(tree)} & loud, name
        for node in ast.walk(tree):
            written = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if written.startswith("warnings."):
                assert written == "warnings.filters", name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", name


def test_all_is_sorted_and_complete():
    """`__all__` names every public name of the package, in order, and each of them exists."""
    assert list(dfp.__all__) == sorted(dfp.__all__)
    assert len(set(dfp.__all__)) == len(dfp.__all__)
    assert {"dbapi", "local", "shuffle", *dfp.__all__} == set(dir(dfp))
    public = {name: getattr(dfp, name) for name in dfp.__all__}
    assert not any(map(inspect.ismodule, public.values()))
    assert {name for name in vars(dfp) if name[0] != "_"} >= set(public)


def test_every_error_is_public():
    """Every error class of the package can be caught by a public name."""
    errors = importlib.import_module("dfprivacy.errors")
    kinds = {
        n for n, v in vars(errors).items() if inspect.isclass(v) and issubclass(v, dfp.DPError)
    }
    assert kinds <= {*dfp.__all__, *dfp.dbapi.__all__}
    assert all(kind in errors.__doc__ for kind in kinds)


def can_be_ambiguous(call):
    """Tell whether a `reshape` leaves one size open where another one may be zero."""
    sizes = call.args[0].elts if isinstance(call.args[0], ast.Tuple) else call.args
    written = [ast.unparse(size) for size in sizes]
    return "-1" in written and not all(size == "-1" or size.isdigit() for size in written)


def test_no_reshape_of_nothing_is_ambiguous():
    """A size that numpy works out is beside literal sizes alone: beside a zero it has no value."""
    for name, tree in both_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "reshape":
                assert not can_be_ambiguous(node), f"{name}:{node.lineno}"


def test_one_file_compares_neighbouring_labels():
    """Runs of equal labels are found in one file, which knows what runs of no labels are."""
    for name, tree in both_trees().items():
        compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
        for node in compared:
            if isinstance(node.ops[0], ast.NotEq) and name != "measurement/runs.py":
                sides = ast.unparse(node.left), ast.unparse(node.comparators[0])
                assert not sides[0].endswith("[1:]"), f"{name}:{node.lineno}"
                assert not sides[1].endswith("[:-1]"), f"{name}:{node.lineno}"
