"""Whatever goes wrong inside of a public call, what comes out is ours and says nothing of a row."""

import ast
import inspect
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
import sql_udfs
from benchmarks import boundary as battery

SECRET = "the income of Alice is 12345"
EXPORTS = [dfp, dfp.dbapi, dfp.local, dfp.shuffle, sql_udfs]
FRAME = pd.DataFrame({"x": [1.0, 2.0] * 50, "k": ["a", "b"] * 50})
CONNECTION = dfp.connect(t=FRAME, epsilon=9)
HANDED_OUT = [
    type(result)
    for result in (
        FRAME.dp.group_by("k"),
        FRAME.dp.group_by("k")["x"],
        FRAME["x"].dp,
        FRAME.dp.explain,
        FRAME.dp.local,
        FRAME.dp.shuffle,
        CONNECTION.cursor(),
        CONNECTION.sql("SELECT dp_count(*) FROM t"),
    )
]
"""Classes that public calls hand out, and that no module exports."""


def list_exported():
    """Yield the functions and classes that callers reach, but for errors."""
    for module in EXPORTS:
        room = module.__name__.removeprefix("dfprivacy").removeprefix(".")
        for name in module.__all__:
            export = getattr(module, name)
            if callable(export) and not (
                isinstance(export, type) and issubclass(export, BaseException)
            ):
                yield f"{room} {name}".strip(), export
    yield from ((kind.__name__, kind) for kind in HANDED_OUT)


def doors():
    """Return every public function and method by name."""
    functions = {}
    for name, export in list_exported():
        if not isinstance(export, type):
            functions[name] = export
            continue
        for member, value in inspect.getmembers_static(export):
            called = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not inspect.isfunction(called) or member.startswith("_"):
                continue
            if called.__module__.startswith(("dfprivacy", "sql_udfs")):
                functions[f"{name}.{member}"] = called
        initializer = vars(export).get("__init__")
        if inspect.isfunction(initializer):
            functions[name] = initializer
    return functions


DOORS = doors()


def test_every_public_call_is_a_boundary():
    """A function that callers can reach lets nothing out but what `boundary` does."""
    assert [name for name, door in DOORS.items() if not getattr(door, "is_boundary", False)] == []


class Bomb:
    """An object that raises a secret whatever is done with it."""

    def __getattribute__(self, name):
        raise ValueError(SECRET)


def _raise(self, *_, **__):
    raise ValueError(SECRET)


PROTOCOLS = """repr str hash eq ne lt le gt ge bool len iter next getitem contains call enter exit
int float index add radd sub rsub mul rmul truediv rtruediv fspath array round trunc floor"""
for _name in PROTOCOLS.split():
    setattr(Bomb, f"__{_name}__", _raise)


def texts(error):
    """Return all that an error says, with its causes, and what the frames that it passed hold."""
    messages, traceback = [], error.__traceback__
    while traceback is not None:
        if "dfprivacy/errors" in traceback.tb_frame.f_code.co_filename.replace("\\", "/"):
            variables = traceback.tb_frame.f_locals.items()
            messages += [
                str(value) for name, value in variables if isinstance(value, BaseException)
            ]
        traceback = traceback.tb_next
    while error is not None:
        messages.append(f"{type(error).__name__} {error.args}")
        error = error.__cause__ or error.__context__
    return messages


def catch_error(call):
    """Return the error that a call raises, which must be ours; None where it returns."""
    caught = None
    try:
        call()
    except BaseException as error:
        caught = error
    assert isinstance(caught, dfp.DPError) or type(caught) in {type(None), *PLAIN}
    assert caught is None or caught.__cause__ is caught.__context__ is None
    return caught


PLAIN = (KeyboardInterrupt, MemoryError)
HELD = {
    "frame": lambda _: FRAME.dp,
    "Private": lambda _: FRAME.dp,
    "PrivateColumn": lambda _: FRAME.dp.group_by("k")["x"],
    "PrivateSeries": lambda _: FRAME["x"].dp,
    "PrivateGroupBy": lambda _: FRAME.dp.group_by("k"),
    "Explaining": lambda _: FRAME.dp.explain,
    "LocalMethods": lambda _: FRAME.dp.local,
    "ShuffleMethods": lambda _: FRAME.dp.shuffle,
    "Estimate": lambda _: FRAME.dp.count(),
    "Ledger": lambda folder: dfp.Ledger(folder / "b.db", epsilon=1),
    "mean": lambda _: dfp.mean("x"),
    "Connection": lambda _: dfp.connect(t=FRAME, epsilon=1),
    "Cursor": lambda _: dfp.connect(t=FRAME, epsilon=1).execute("SELECT dp_count(*) FROM t"),
    "Result": lambda _: dfp.connect(t=FRAME, epsilon=1).sql("SELECT dp_count(*) FROM t"),
}
"""Objects whose methods are called, beside arguments that raise."""


ROOMS = sorted({name.partition(".")[0] for name in DOORS} - {"require_ledger"})
"""Functions, and classes with all of their methods."""


@pytest.mark.parametrize("room", ROOMS)
def test_no_argument_makes_a_call_say_what_it_holds(room, tmp_path):
    """An object that raises its content, as any argument or as all, is not quoted."""
    kinds = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    for name, door in DOORS.items():
        if name.partition(".")[0] != room:
            continue
        factory = HELD.get(room) if "." in name else None
        parameters = inspect.signature(door).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind not in kinds]
        cases = [{name: Bomb() for name in names}]
        cases += [
            {name: Bomb() if name == bomb_name else None for name in names} for bomb_name in names
        ]
        if factory is not None:
            cases += [
                {**arguments, "self": factory(tmp_path)}
                for arguments in cases
                if "self" in arguments
            ]
        for arguments in cases:
            values = list(arguments.values())
            places = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
            first, last = values[: len(names) - len(places)], names[len(names) - len(places) :]
            error = catch_error(
                lambda d=door, f=first, w={n: arguments[n] for n in last}: d(*f, **w)
            )
            assert error is None or not any(SECRET in text for text in texts(error)), name


class Odd(BaseException):
    """An exception of nobody's."""


FAILURES = {
    "ValueError": ValueError(SECRET),
    "KeyError": KeyError(SECRET),
    "StopIteration": StopIteration(SECRET),
    "SystemExit": SystemExit(SECRET),
    "RecursionError": RecursionError(SECRET),
    "Warning": UserWarning(SECRET),
    "numpy": np._core._exceptions._ArrayMemoryError((3_000_001, 10_000), np.dtype("int64")),
    "MemoryError": MemoryError(SECRET),
    "KeyboardInterrupt": KeyboardInterrupt(SECRET),
    "Arrow": pa.ArrowInvalid(SECRET),
    "polars": pl.exceptions.ComputeError(SECRET),
    "a base exception": Odd(SECRET),
    "ours, with a context": dfp.errors.InvalidKeysError("a key"),
}
KNOWN = {
    "numpy": MemoryError,
    "MemoryError": MemoryError,
    "KeyboardInterrupt": KeyboardInterrupt,
    "ours, with a context": dfp.errors.InvalidKeysError,
}


@pytest.fixture
def inside(monkeypatch):
    """Make a release do something, once, where it works with arrays; nothing else is changed."""

    def fail_once(act):
        true, called = np.zeros, []

        def zeros(*arguments, **named):
            if not called:
                called.append(arguments)
                act()
            return true(*arguments, **named)

        monkeypatch.setattr(np, "zeros", zeros)
        return called

    return fail_once


@pytest.mark.parametrize("kind", FAILURES)
def test_what_fails_inside_is_told_in_fixed_words(kind, inside):
    """Text, context, cause and locals of any error stay inside."""

    def fail():
        try:
            repr(Bomb())
        except ValueError:
            raise FAILURES[kind]  # noqa: B904 the context is what must go

    called = inside(fail)
    error = catch_error(lambda: FRAME.dp.median("x"))
    assert called
    assert type(error) is KNOWN.get(kind, dfp.EngineError)
    assert not any(SECRET in text or "3000001" in text for text in texts(error))


def test_an_error_holds_no_frame_of_what_was_measured(monkeypatch):
    """Whoever shows the variables of an error's traceback sees the call, and nothing within."""

    def full(*_, **__):
        raise dfp.errors.LedgerFileError(SECRET)

    monkeypatch.setattr(dfp.accounting.spending.NoAccount, "pay", full)
    for ask in (lambda private: private.mean("x", (0, 9)), lambda private: private.count()):
        error = catch_error(lambda ask=ask: ask(pd.DataFrame({"x": [1.0] * 777}).dp))
        assert type(error) is dfp.errors.LedgerFileError
        traceback, seen = error.__traceback__, []
        while traceback is not None:
            seen.append(traceback.tb_frame)
            traceback = traceback.tb_next
        assert {frame.f_code.co_name for frame in seen} <= {"catch_error", "<lambda>", "call"}


def fail():
    raise ValueError(SECRET)


def test_an_error_of_the_caller_stays_the_context(inside):
    """An error that the caller handles when he calls is his own, and goes on as the context."""
    inside(fail)
    try:
        repr(Bomb())
    except ValueError as caller_error:
        with pytest.raises(dfp.EngineError) as caught:
            FRAME.dp.median("x")
        context = (caught.value.__context__, caller_error)
    assert context[0] is context[1]


def test_the_switch_that_prints_secrets_says_so(monkeypatch, inside):
    """Errors come out as they are only where a variable is set whose name warns of it."""
    monkeypatch.setenv("DFPRIVACY_ERRORS_PRINT_SECRETS_OF_ROWS", "1")
    inside(fail)
    with pytest.raises(ValueError, match=SECRET):
        FRAME.dp.median("x")


ASKED = {
    "count": lambda private: private.count(),
    "mean": lambda private: private.mean("x", (0, 9)),
    "median": lambda private: private.median("x"),
    "histogram": lambda private: private.histogram("x", [0, 1, 9]),
    "vector": lambda private: private.mean_vector(["x"], rho=1, radius=9),
    "by key": lambda private: private.group_by("k").mean("x", (0, 9), delta=0.1),
    "by public key": lambda private: private.group_by("k", keys=["a"]).median("x"),
    "by unit": lambda private: private(unit="k", max_rows=2).sum("x", (0, 9)),
}
MAKERS = ("empty", "zeros", "full", "arange", "concatenate", "stack", "repeat")


@pytest.mark.parametrize("ask", ASKED)
def test_memory_that_runs_out_is_told_in_fixed_words(ask, monkeypatch):
    """Whichever array there is no memory for, its shape is not told."""
    frame = pd.DataFrame({"x": [1.0, 2.0] * 50, "k": ["a", "b"] * 50})
    messages = set()
    for name in MAKERS:
        for at in (0, 3):
            with monkeypatch.context() as patch:
                patch.setattr(np, name, battery.failing(getattr(np, name), at))
                error = catch_error(lambda: ASKED[ask](frame.dp))
            messages |= {str(error)} if error is not None else set()
    assert messages == {"dfprivacy ran out of memory"}


def many_groups(groups):
    """Return one large group and many of one row each."""
    keys = np.concatenate([np.zeros(1000, np.int64), np.arange(groups)])
    return pl.DataFrame({"k": keys, "x": np.arange(len(keys)) % 1000 + 0.5})


@pytest.mark.battery
def test_a_histogram_in_blocks_counts_every_row_once():
    """Counts, keys and intervals are right where more cells are asked for than memory holds."""
    frame = many_groups(263).with_columns(k=262 - pl.col("k"))  # the large one is the last
    bins = {"bins": 4000, "bounds": (0, 4000)}
    secret = frame.dp.group_by("k").histogram("x", **bins, epsilon=1e9, delta=1e-9)
    large = [2] + [1] * 999 + [0] * 3000
    assert secret["k"].unique().to_list() == [262]
    assert secret["count"].to_list() == large
    public_table = frame.dp.group_by("k", keys=range(263)).histogram("x", **bins, epsilon=1e9)
    counts = public_table["count"].to_numpy().reshape(263, 4000)[::-1]
    assert counts[0].tolist() == large
    assert (counts[1:] == np.eye(263, 4000)[1:]).all()
    assert public_table["k"].to_numpy().reshape(263, 4000)[:, -1].tolist() == [*range(263)]


@pytest.mark.battery
def test_memory_for_a_histogram_does_not_tell_how_many_groups_are_secret():
    """Memory beside the groups themselves is what the public number of cells needs."""
    peaks, groups = [], (2200, 3800)
    for number in groups:
        private = many_groups(number).dp.group_by("k")
        tracemalloc.start()
        private.histogram("x", bins=1000, bounds=(0, 1000), epsilon=1, delta=1e-9)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    dense = (groups[1] - groups[0]) * 1000 * 8
    assert peaks[1] - peaks[0] < dense / 10


ROOT = Path(dfp.__file__).parent
FILES = [*sorted(ROOT.rglob("*.py")), *sorted((ROOT.parent / "sql_udfs").glob("*.py"))]
OURS = {kind.__name__ for kind in vars(dfp.errors).values() if inspect.isclass(kind)}
OURS |= {"ServerError"}  # its text is made by describe_error, or by the server
NO_ENGINES = {"OSError", "_UsageError", "ValidationError", "UnicodeDecodeError", "StopIteration"}
NO_ENGINES |= {"yaml.MarkedYAMLError", "yaml.YAMLError"}
"""Errors that speak of files that the caller has written, not of data."""


WITHOUT_ROWS = {"server/catalog.py", "statements/jobs.py run_query"}
"""Files whose databases hold no row of the data, and a function that queries released answers."""


def handlers():
    """Yield files, handlers that name what they catch, and what these do with the name."""
    for path in FILES:
        parts = path.parts
        name = "/".join(parts[parts.index("dfprivacy") + 1 :] if ROOT in path.parents else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        innermost = {node: function.name for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and node.name:
                kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                owner = f"{name} {innermost.get(node, '')}"
                yield name, owner, {ast.unparse(kind) for kind in kinds}, node


def test_no_message_is_made_of_what_an_engine_has_written():
    """An error that may be an engine's is kept, or handed on, and never read."""
    for name, owner, kinds, handler in handlers():
        last = {kind.rpartition(".")[2] for kind in kinds}
        if last <= OURS or kinds <= NO_ENGINES or {name, owner} & WITHOUT_ROWS:
            continue
        allowed_nodes = []
        for node in ast.walk(handler):
            if isinstance(node, ast.Raise):
                allowed_nodes += [node.cause]
            if isinstance(node, ast.Assign):
                allowed_nodes += [node.value]
            if isinstance(node, ast.Attribute) and node.attr == "add_note":  # writes, reads nothing
                allowed_nodes += [node.value]
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(HANDED_TO):
                allowed_nodes += node.args
        uses = [n for n in ast.walk(handler) if isinstance(n, ast.Name) and n.id == handler.name]
        assert all(any(node is other for other in allowed_nodes) for node in uses), (
            name,
            handler.lineno,
        )


HANDED_TO = ("publish_error", "set_exception", "type", "find_space_error", "describe_error")
"""Functions that read the type of an error, or publish it without its text."""


def test_warnings_of_a_call_are_not_heard(inside):
    """A warning that a row brings about is neither heard nor made an error."""
    results = []

    def catch_warnings():
        warnings.warn(SECRET, stacklevel=1)
        results.extend(np.array([1e300]) * 1e300)

    inside(catch_warnings)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        FRAME.dp.median("x")
    assert results == [float("inf")]


def differing(report):
    return "\n".join(report.different)


TOLD = [
    ("PRAGMA disable_optimizer", "unit"),
    ("PRAGMA disable_optimizer", "relation"),
    ("PRAGMA enable_profiling", battery.STATEMENTS[1]),
    ("SET enable_profiling = 'json'", "by key"),
    ("CALL enable_logging(level = 'trace', storage = 'stdout')", "unit"),
]
"""Settings of a connection under which one row has changed the outcome, or counts were printed."""


@pytest.mark.parametrize(("setting", "ask"), TOLD)
def test_no_setting_of_a_connection_tells_of_a_row(setting, ask):
    """One row more changes no outcome, computed columns or not, and no count of rows is printed."""
    report = battery.Found()
    battery.compare_tables(setting, ask, report)
    assert not report.different, differing(report)


def test_faults_say_nothing_of_a_row():
    """Failing allocations, Ctrl-C between two lines and a fork end in a release or fixed texts."""
    report = battery.Found()
    battery.faults(307, report)
    battery.forks(report)
    assert report.runs > 20
    assert not report.different, differing(report)


CELLS, FAULTS = 48, 24
"""The slow lane tries one of so many cells and faults, `benchmarks.boundary` all of them."""


@pytest.mark.slow
@pytest.mark.parametrize("front", battery.FRONTS)
def test_neighbors_have_the_same_outcome(front):
    """One row more changes neither type, text, dtypes, order nor charge, front by front."""
    report = battery.Found()
    for cell in battery.sample_cases((c for c in battery.cells() if c.front == front), CELLS):
        battery.compare(cell, report)
    assert report.runs > 100
    assert not report.different, differing(report)


@pytest.mark.slow
def test_no_other_setting_of_a_connection_tells_of_a_row():
    """Neighbours have one outcome under the settings of a connection: one of 25 cases."""
    report = battery.Found()
    battery.tables(25, report)
    assert report.runs > 100
    assert not report.different, differing(report)


@pytest.mark.slow
def test_more_faults_say_nothing_of_a_row():
    """A fault at one of 24 places, or a limit of memory, ends in a release or in fixed texts."""
    report = battery.Found()
    battery.faults(FAULTS, report)
    battery.limit_memory((50, 200, 800), report)
    assert report.runs > 250
    assert not report.different, differing(report)


FAR = [
    ("arrow", "date32"),
    ("arrow", "timestamp[us, UTC]"),
    ("pandas", "date32[pyarrow]"),
    ("pandas", "datetime64[s, UTC]"),
    ("pandas", "float16"),
    ("pandas", "longdouble"),
    ("pandas", ">i4"),
    ("polars", "timestamp[us]"),
]
"""Types of keys that Python, pandas or polars has no place for, or no labels."""
BY_KEY = "SELECT k, dp_count(*) AS n FROM t GROUP BY k"
SHOWN = {
    "crosstab": lambda wrapped: wrapped.dp.crosstab("k", "x", margins=True, **battery.KEPT),
    "change": lambda wrapped: dfp.released(wrapped.dp.group_by("k").count(**battery.KEPT)).change(),
    "top": lambda wrapped: wrapped.dp.group_by("k").top("x", 1, **battery.KEPT),
    "page": lambda wrapped: dfp.show(wrapped.dp.group_by("k").count(**battery.KEPT))._repr_html_(),
    "sql": lambda wrapped: dfp.sql(BY_KEY, t=wrapped._frame, **battery.KEPT),
    "connection": lambda wrapped: repr(dfp.connect(t=wrapped._frame, **battery.KEPT).sql(BY_KEY)),
    "cursor": lambda wrapped: (
        dfp.connect(t=wrapped._frame, **battery.KEPT).execute(BY_KEY).fetchall()
    ),
}


@pytest.mark.parametrize(("front", "name"), FAR)
def test_whatever_a_released_key_is_the_release_is_handed_over(front, name):
    """A paid release comes out, in every form, if a key is far away or of an odd type."""
    kinds, frame = battery.FRONTS[front]
    kind = kinds[name]
    handed = frame(kind.column([kind.odd[0]] * 20 + [kind.usual[0]] * 20))
    for ask in SHOWN.values():
        assert ask(Held(handed)) is not None


class Held:
    """A frame and its questions."""

    def __init__(self, frame):
        self._frame, self.dp = frame, dfp.frame(frame)


def test_a_release_that_waits_for_another_refuses_types_before_the_charge(monkeypatch):
    """Keys that can't be grouped by are refused by their declared type, and nothing is paid."""
    paid = []
    monkeypatch.setattr(
        dfp.accounting.spending.NoAccount, "pay", lambda _, charge: paid.append(charge)
    )
    rows = pd.DataFrame({"k": pd.to_timedelta([1, 2] * 50, unit="s"), "x": [1.0, 2.0] * 50})
    query = "SELECT k, COUNT(*) / (SELECT COUNT(*) FROM t) AS part FROM t GROUP BY k"
    terms = {"schema": dfp.Schema(unit="t.x"), "max_rows": 9, "max_groups": 9, "delta": 1e-9}
    with pytest.raises(dfp.UnsupportedDtypeError):
        dfp.sql(query, t=rows, **terms)
    assert not paid
