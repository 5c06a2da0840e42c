"""Long passes show how far they are, quick ones nothing, and what was shown is erased."""

import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest

import dfprivacy as dfp

VARIABLE = "DFPRIVACY_PROGRESS"
TABLE = pa.table({"x": [1.0] * 1000})


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch):
    """Begin as a terminal of 80 columns does; end with what holds by itself."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the stream for a terminal
    monkeypatch.setenv("TERM", "xterm")
    yield
    dfp.progress("auto")


def slow(seconds=1.15, error=None, ask=lambda frame: frame.count()):
    """Count rows that take their time, and may end in an error; or ask something else."""

    def batches():
        yield from TABLE.to_batches()
        time.sleep(seconds)
        if error is not None:
            raise error

    return ask(dfp.frame(pa.RecordBatchReader.from_batches(TABLE.schema, batches())))


def test_a_long_pass_shows_a_bar_that_is_erased(capsys):
    """The bar goes to the standard error stream, and its line is emptied; no thread is left."""
    dfp.progress("on")
    before = threading.active_count()
    slow()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "0:00:0" in printed.err
    assert printed.err.endswith("\x1b[2K")  # a line is erased, and nothing follows
    assert threading.active_count() == before


def test_a_pass_shows_one_bar(capsys):
    """Where rows are counted beside the engine that reads them, there is one bar."""
    dfp.progress("on")
    slow(ask=lambda frame: frame.median("x"))
    assert capsys.readouterr().err.count("\x1b[?25l") == 1  # a bar hides the cursor


@pytest.mark.slow
def test_an_error_is_erased_too(capsys):
    """A line of progress is erased when a pass fails."""
    dfp.progress("on")
    with pytest.raises(dfp.EngineError):
        slow(error=ZeroDivisionError())
    assert capsys.readouterr().err.endswith("\x1b[2K")


def test_quick_calls_stay_silent(capsys):
    """Nothing is shown before a second is over."""
    dfp.progress("on")
    slow(0)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "setting", [None, *(pytest.param(value, marks=pytest.mark.slow) for value in ("off", "loud"))]
)
def test_nothing_is_shown_where_nobody_looks(setting, capsys, monkeypatch):
    """By itself nothing is shown under pytest, nor where the environment says so or is odd."""
    if setting is not None:
        monkeypatch.setenv(VARIABLE, setting)
    slow()
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_what_was_chosen_goes_first(capsys, monkeypatch):
    """A call goes before the environment, in both directions."""
    monkeypatch.setenv(VARIABLE, "OFF")
    dfp.progress("on")
    slow()
    assert capsys.readouterr().err
    monkeypatch.setenv(VARIABLE, "on")
    dfp.progress("off")
    slow()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("mode", [True, False, None, "no", 1])
def test_other_words_are_refused(mode):
    """Progress is one of three words."""
    with pytest.raises(dfp.errors.InvalidEngineError):
        dfp.progress(mode)


def test_a_notebook_gets_text_that_is_emptied(monkeypatch):
    """In a notebook a line of text is shown, and empty at the end: no widgets, no stream."""
    lines = []
    handle = SimpleNamespace(update=lambda data, raw: lines.append(data["text/plain"]))

    def display(data, *, raw, display_id):
        lines.append(data["text/plain"])
        return handle

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    slow()
    assert lines[0] == "reading"
    assert lines[-1] == ""
