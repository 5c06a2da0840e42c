import sys
import threading
import time
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.engine import progress
from dfprivacy.engine.progress import TerminalDisplay


class Recorder:
    """Keeps what would be shown."""

    made: ClassVar[list["Recorder"]] = []

    def __init__(self):
        self.parts, self.erased = [], 0
        Recorder.made.append(self)

    def show(self, part):
        self.parts.append(part)

    def erase(self):
        self.erased += 1


@pytest.fixture
def recorded(monkeypatch):
    """Let every pass be watched from its first moment."""
    Recorder.made.clear()
    monkeypatch.setattr(progress, "_display", lambda: Recorder)
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(progress, "_STEP", 0.001)
    return Recorder.made


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch):
    monkeypatch.setattr(progress, "_CHOSEN", [])
    monkeypatch.delenv(progress.VARIABLE, raising=False)


def test_a_pass_over_a_file_shows_how_far_it_is(recorded, many_rows):
    """Parts lie between 0 and 1 and grow; what was shown is erased; no thread is left."""
    before = threading.active_count()
    dfp.frame(many_rows).group_by("g").mean("x", (0, 100), delta=1e-6)
    (display,) = recorded
    known = [part for part in display.parts if part is not None]
    assert known
    assert known == sorted(known)
    assert 0 <= known[0] <= known[-1] <= 1
    assert display.erased == 1
    assert threading.active_count() == before


def test_other_engines_show_the_time_alone(recorded, engines, monkeypatch):
    """The embedded connection is asked how far it is; a caller's, and polars, are not."""
    asked, part_of = [], progress._part_of
    monkeypatch.setattr(progress, "_part_of", lambda own: asked.append(own) or part_of(own))
    table = pa.table({"x": [1.0] * 1000})
    for name in ("polars", "duckdb"):
        dfp.frame(engines[name](table)).count()
    assert asked == []
    dfp.frame(table).count()
    assert len(asked) == 1
    assert all(display.erased == 1 for display in recorded)


def test_an_error_is_erased_too(recorded):
    """What was shown goes when a pass fails, however late the other thread begins to show it."""

    def until_something_is_shown():
        deadline = time.monotonic() + 60
        while not (recorded and recorded[0].parts) and time.monotonic() < deadline:
            time.sleep(0.001)

    def fail():
        with progress.watched():
            until_something_is_shown()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert recorded[0].parts
    assert recorded[0].erased == 1


def test_quick_calls_stay_silent(recorded, monkeypatch):
    """Nothing is shown before the delay is over."""
    monkeypatch.setattr(progress, "DELAY", 60)
    dfp.frame(pa.table({"x": [1.0]})).count()
    assert recorded == []


def test_nothing_under_pytest_or_without_a_terminal(monkeypatch):
    """By itself progress shows in a terminal or a notebook only."""
    assert progress._display() is None
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))
    assert progress._display() is None
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True))
    assert progress._display() is TerminalDisplay
    monkeypatch.setattr(sys, "stderr", None)  # as pythonw has it
    assert progress._display() is None


def test_what_was_chosen_goes_first(monkeypatch):
    """A call goes before the environment, which goes before the terminal; unknown words are off."""
    assert progress.mode_now() == "auto"
    monkeypatch.setenv(progress.VARIABLE, "OFF")
    assert progress.mode_now() == "off"
    dfp.progress("on")
    assert progress.mode_now() == "on"
    assert progress._display() is TerminalDisplay
    dfp.progress("off")
    assert progress._display() is None
    dfp.progress("auto")
    assert progress.mode_now() == "auto"
    monkeypatch.setattr(progress, "_CHOSEN", [])
    monkeypatch.setenv(progress.VARIABLE, "loud")
    assert progress.mode_now() == "off"


@pytest.mark.parametrize("mode", [True, False, None, "no", 1])
def test_other_words_are_refused(mode):
    """Progress is one of three words."""
    with pytest.raises(dfp.InvalidEngineError):
        dfp.progress(mode)


def test_a_notebook_gets_text_that_is_emptied(monkeypatch):
    """In a notebook a line of text is updated, and empty at the end: no widgets, no stream."""
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
    shown = progress._display()()
    shown.show(None)
    shown.show(0.25)
    shown.erase()
    assert lines == ["reading", "reading: 25%", ""]


def test_the_terminal_gets_a_bar_that_is_erased(capsys, monkeypatch):
    """The bar goes to the standard error stream, and its line is emptied; the output stays."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the stream for a terminal
    monkeypatch.setenv("TERM", "xterm")
    display = TerminalDisplay()
    display.show(0.5)
    display.erase()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "50%" in printed.err
    assert printed.err.endswith("\x1b[2K")  # a line is erased, and nothing follows
