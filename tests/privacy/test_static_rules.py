"""Rules that the source keeps, read off its syntax tree."""

import ast
import doctest
import functools
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


def find_modules(tree):
    """Yield the modules that a tree imports, with the names taken from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)


LAYERS = [
    {"errors"},
    {"measurement"},
    {"noise"},
    {"accounting"},
    {"release"},
    {"engine"},
    {"statistics"},
    {"papers"},
    {"local", "shuffle", "frames"},
    {"statements"},
    {"server"},
    {"cli"},
    {"__init__", "__main__"},
]
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def find_layer(module):
    """Return the first part of a module's name inside the package; the package itself is on top."""
    parts = module.split(".")
    return parts[1].removesuffix(".py") if len(parts) > 1 else "__init__"


def test_imports_point_one_way():
    """No module imports one of a layer above its own."""
    for name, tree in trees().items():
        layer = name.split("/")[0].removesuffix(".py")
        assert layer in RANKS, f"{layer} has no layer: give it one"
        for module, member in find_modules(tree):
            if module == "sql_udfs" or module.startswith("sql_udfs."):
                assert layer == "cli"
            if module != "dfprivacy" and not module.startswith("dfprivacy."):
                continue
            full_name = f"{module}.{member}" if module == "dfprivacy" and member else module
            target = find_layer(full_name)
            target = target if target in RANKS else "__init__"
            assert RANKS[target] <= RANKS[layer], f"{name} imports {full_name}"


CORE = ("measurement/", "noise/", "statistics/estimators/", "papers/")


def test_the_core_knows_no_engine_and_no_clock():
    """Measurement, noise and estimators import no dataframe library, and never ask for the time."""
    banned = {"pandas", "polars", "duckdb", "narwhals", "time"}
    for name, tree in trees().items():
        if not name.startswith(CORE):
            continue
        assert not {module.split(".")[0] for module, _ in find_modules(tree)} & banned, name
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not attributes & {"now", "today", "utcnow", "fromtimestamp"}, name


NUMPY_RANDOM = {("np", "random"), ("numpy", "random")}
BANNED = {"random", "numpy.random", "secrets"}


def find_examples(tree):
    """Yield the trees of the examples in docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for example in doctest.DocTestParser().get_examples(ast.get_docstring(node) or ""):
                yield ast.parse(example.source)


def test_no_other_source_of_randomness():
    """numpy.random, random and secrets are nowhere, nor in examples; os.urandom is in two files.

    One draws noise, and the other makes passwords, salts and nonces.
    """
    own_and_examples = (
        (name, tree)
        for name, source in trees().items()
        for tree in (source, *find_examples(source))
    )
    for name, tree in own_and_examples:
        for module, member in find_modules(tree):
            assert module not in BANNED
            assert f"{module}.{member}" not in BANNED | {"os.urandom"}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                assert (getattr(node.value, "id", ""), node.attr) not in NUMPY_RANDOM
                assert node.attr not in {"default_rng", "getrandom", "SystemRandom"}
                if node.attr == "urandom":
                    assert name in {"noise/entropy.py", "server/users.py"}


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


@functools.cache
def names_used(tree):
    """Return every name and attribute in a tree, imported ones too."""
    names = {name for _, name in find_modules(tree)}
    for node in ast.walk(tree):
        names.add(getattr(node, "id", None) or getattr(node, "attr", None))
    return names


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
        "sql_udfs/python_functions.py",
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


REVIEWED = {
    "accounting/idempotent.py IdempotentLedger.keep_release": "raised unless another kept it",
    "accounting/spending.py Account.remember": "the release is paid for, and must come out",
    "accounting/spending.py NoAccount.check": "the notice may have no stderr to go to",
    "cli/__init__.py Commands.main": "shown as the error that may be published",
    "engine/embedded.py interruptible.job": "raised again by the thread of the caller",
    "engine/objects.py plain": "an object with hostile methods is a missing key",
    "engine/pandas.py _read_own_key": "raised below as an error about the dtype",
    "engine/pandas.py find_categories": "released categories keep their plain values",
    "engine/returning.py _keys": "released keys keep their plain values",
    "engine/returning.py printable": "released values are shown as text",
    "engine/snapshots.py _open_delta": "raised below as an error that names the table",
    "engine/snapshots.py _open_iceberg": "raised below as an error that names the table",
    "engine/run.py run_guarded": "raised below as the error that may be published",
    "errors.py _guard_function.call": "raised below as the error that may be published",
    "errors.py _wrong_call": "type hints may name modules that are not there",
    "frames/__init__.py loaded": "raised below, where it has no context",
    "frames/crosstabs.py _order": "released keys that can't be compared stay in order",
    "frames/estimates.py _moment": "a released time may lie beyond what Python knows",
    "frames/tables.py _is_arrow": "a released column that Arrow refuses stays as it is",
    "frames/tables.py find_origin": "a released frame that can't be compared has no origin",
    "frames/tables.py with_origin": "a released frame that can't be compared has no origin",
    "release/pipeline.py release": "the release is paid for, and must come out",
    "server/flight.py _readable_errors": "the client reads its code, message and hint",
    "server/listener.py Client._answer": "the client reads its code, message and hint",
    "server/workers.py _run_worker": "the server reads them, and no row is in them",
    "statements/interface.py Result._repr_html_": "the notebook shows the plain repr",
    "statistics/mean_vector.py _vector": "a cell that is no vector is missing",
}
"""Why an error of any kind may end here."""


def names_in(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def is_broad(node, constants):
    """Decide if the types of errors in an expression include Exception or BaseException."""
    names = {name for used in names_in(node) for name in (used, *constants.get(used, ()))}
    return bool(names & {"Exception", "BaseException"})


def find_swallowed(tree):
    """Yield the qualified functions in which an error of any kind can end."""
    constants = {
        target.id: names_in(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def visit(node, scope):
        for child in ast.iter_child_nodes(node):
            inner = scope
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    inner = (*scope, child.name)
                case ast.ExceptHandler(type=None):
                    yield ".".join(scope)
                case ast.ExceptHandler(type=kind) if is_broad(kind, constants):
                    if not any(isinstance(part, ast.Raise) for part in ast.walk(child)):
                        yield ".".join(scope)
                case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress")):
                    if any(is_broad(argument, constants) for argument in child.args):
                        yield ".".join(scope)
            yield from visit(child, inner)

    return visit(tree, ())


def test_no_error_of_any_kind_ends_unreviewed():
    """Handlers of Exception that raise nothing, and `suppress(Exception)`, are all reviewed."""
    swallowed = {
        f"{name} {scope}" for name, tree in both_trees().items() for scope in find_swallowed(tree)
    }
    assert swallowed <= REVIEWED.keys(), "review it, and give the reason"
    assert {entry.split()[0] for entry in REVIEWED} <= trees().keys(), "remove what is gone"


@pytest.mark.parametrize(
    ("source", "scopes"),
    [
        ("def f():\n    try: g()\n    except Exception: pass", ["f"]),
        ("def f():\n    try: g()\n    except: return None", ["f"]),
        ("def f():\n    try: g()\n    except (OSError, BaseException): h()", ["f"]),
        ("class C:\n    def f(self):\n        with suppress(Exception): g()", ["C.f"]),
        ("def f():\n    with contextlib.suppress(OSError, Exception): g()", ["f"]),
        ("ANY = (OSError, Exception)\ndef f():\n    with suppress(*ANY): g()", ["f"]),
        ("def f():\n    try: g()\n    except Exception: raise", []),
        ("def f():\n    with suppress(OSError): g()", []),
    ],
)
def test_every_way_to_swallow_an_error_is_found(source, scopes):
    """The rule sees bare handlers, tuples, named tuples and both spellings of `suppress`."""
    assert list(find_swallowed(ast.parse(source))) == scopes


WARNING_FUNCTIONS = {"warnings.filters", "warnings.warn", "warnings.formatwarning"}
NOTE_LOGGERS = {"cli/commands.py", "errors.py", "frames/releasing.py", "statements/jobs.py"}
"""Files that log notes, which are functions of released answers or of arguments."""
WARNING_CALLERS = {"release/pipeline.py", "release/terms.py"}
"""Files that warn a caller: of the loss of a release and of the type of its keys."""


def test_nothing_is_printed_logged_or_warned():
    """The package prints nowhere; one file warns, for two that read no rows, and logs notes."""
    for name, tree in trees().items():
        if "warn_once" in {getattr(node, "id", "") for node in ast.walk(tree)}:
            assert name in WARNING_CALLERS
        if "log_note" in {getattr(node, "id", "") for node in ast.walk(tree)}:
            assert name in NOTE_LOGGERS
        silences = name == "errors.py"
        loud = set() if silences else {"logging", "warnings"}
        assert not {module.split(".")[0] for module, _ in find_modules(tree)} & loud, name
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "warnings":
                assert f"warnings.{node.attr}" in WARNING_FUNCTIONS, name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", name


def test_all_is_sorted_and_complete():
    """`__all__` names every public name of the package, in order, and each of them exists."""
    assert list(dfp.__all__) == sorted(dfp.__all__)
    assert len(set(dfp.__all__)) == len(dfp.__all__)
    assert {"dbapi", "errors", "local", "papers", "shuffle", *dfp.__all__} == set(dir(dfp))
    public = {name: getattr(dfp, name) for name in dfp.__all__}
    assert not any(map(inspect.ismodule, public.values()))
    assert {name for name in vars(dfp) if name[0] != "_"} >= set(public)


def test_every_error_is_described():
    """The docstring of `dfp.errors` names each error, and the ten usual ones are on top."""
    errors = {
        name
        for name, value in vars(dfp.errors).items()
        if inspect.isclass(value) and issubclass(value, dfp.DPError)
    }
    assert all(error in dfp.errors.__doc__ for error in errors)
    assert len(errors & set(dfp.__all__)) == 10


def can_be_ambiguous(call):
    """Return whether a `reshape` leaves one size open where another one may be zero."""
    sizes = call.args[0].elts if isinstance(call.args[0], ast.Tuple) else call.args
    written = [ast.unparse(size) for size in sizes]
    return "-1" in written and not all(size == "-1" or size.isdigit() for size in written)


def test_no_reshape_of_nothing_is_ambiguous():
    """A size that numpy works out is beside literal sizes alone: beside a zero it has no value."""
    for name, tree in both_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "reshape":
                assert not can_be_ambiguous(node), f"{name}:{node.lineno}"


def test_one_file_compares_neighboring_labels():
    """Runs of equal labels are found in one file, which knows what runs of no labels are."""
    for name, tree in both_trees().items():
        compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
        for node in compared:
            if isinstance(node.ops[0], ast.NotEq) and name != "measurement/runs.py":
                sides = ast.unparse(node.left), ast.unparse(node.comparators[0])
                assert not sides[0].endswith("[1:]"), f"{name}:{node.lineno}"
                assert not sides[1].endswith("[:-1]"), f"{name}:{node.lineno}"


def test_distinct_numbers_are_found_by_sorting():
    """np.unique without indices or counts hashes integers, which takes 60 times as long."""
    for name, tree in both_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.unique", "np.union1d"):
                assert node.keywords, f"{name}:{node.lineno}"
