"""`run --log-format json` writes one JSON object per line on stderr, and nothing else there."""

import json
import os
from datetime import datetime, timedelta

import polars as pl
import pytest

from tests.command_line import run_python
from tests.frontends.described_delays import DELAYS, HEAD

COMMON = {"time", "event", "release"}
FIELDS = {
    "release": {*COMMON, "seconds", "cost", "charged", "remembered", "outputs"},
    "output": {*COMMON, "path", "rows"},
    "error": {*COMMON, "seconds", "error", "message", "hint", "exit_code"},
    "interrupt": {*COMMON, "seconds", "exit_code"},
    "warning": {*COMMON, "message"},
}
TOTAL = '  total: {questions: {n: {count: "*"}}, outputs: [total.csv]}\n'


def events(stderr):
    """Return the events of a log, once the fields of each line are checked."""
    lines = [json.loads(line) for line in stderr.splitlines()]
    for line in lines:
        assert line.keys() == FIELDS[line["event"]]
        assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
        assert line.get("seconds", 0) >= 0
    return lines


@pytest.fixture
def run_log(run):
    """Run a description with a JSON log, and return the result and its events."""

    def run_text(text, *args):
        result = run(text, "--log-format", "json", *args)
        return result, events(result.stderr)

    return run_text


def test_log_of_releases(run_log):
    """Each output and each release has a line, which tells a remembered release from a new one."""
    for remembered in (False, True):
        result, lines = run_log(HEAD + DELAYS + TOTAL)
        assert result.exit_code == 0
        assert [line["event"] for line in lines] == [
            *["output"] * 3,
            "release",
            "output",
            "release",
        ]
        delays, total = (line for line in lines if line["event"] == "release")
        assert (delays["release"], delays["cost"]) == ("delays", {"epsilon": 1.0, "delta": 1e-7})
        assert (total["release"], total["cost"]) == ("total", {"epsilon": 1.0, "delta": 0.0})
        assert delays["outputs"] == ["delays.csv", "delays.parquet", "out.duckdb:de lays"]
        assert {line["remembered"] for line in (delays, total)} == {remembered}
        assert {line["charged"] for line in (delays, total)} == {not remembered}
        assert lines[0]["path"] == "delays.csv"
        assert lines[0]["rows"] == len(pl.read_csv("delays.csv"))


FAILURES = {
    "unknown field": ("color: red\n" + HEAD + DELAYS, 2, "InvalidDescriptionError", None),
    "budget": (HEAD.replace(": 1}", ": 1000}") + DELAYS, 3, "BudgetExceededError", None),
    "source": (HEAD.replace("flights.p", "no.p") + DELAYS, 1, "UnsupportedFrameError", None),
    "draw": (HEAD + TOTAL + DELAYS, 1, "EntropyError", "total"),
}


def stop_draws(monkeypatch, error):
    """Raise an error in place of the random bytes of noise."""

    def raise_error(_):
        raise error

    monkeypatch.setattr(os, "urandom", raise_error)


@pytest.mark.parametrize("failure", FAILURES)
def test_log_of_a_failure(run, run_log, monkeypatch, failure):
    """A failure is one line with the class and the message of the error, and the usual code."""
    text, code, error, release = FAILURES[failure]
    if failure == "draw":
        stop_draws(monkeypatch, OSError("secret 4711"))
    result, (line,) = run_log(text)
    assert result.exit_code == code == line["exit_code"]
    assert (line["error"], line["release"]) == (error, release)
    assert "4711" not in result.stderr
    plain_text = run(text)
    assert plain_text.exit_code == code
    assert line["message"].splitlines()[0] in plain_text.stderr.replace("\n", " ")


def test_log_of_an_interrupt(run_log, monkeypatch):
    """Ctrl-C is one line, too, and the code stays 130."""
    stop_draws(monkeypatch, KeyboardInterrupt())
    result, (line,) = run_log(HEAD + DELAYS)
    assert (result.exit_code, line["event"], line["exit_code"]) == (130, "interrupt", 130)
    assert line["release"] == "delays"


@pytest.mark.slow
def test_log_of_a_process(run):
    """Every line that a process writes to stderr is an event, even with progress on."""
    assert run(HEAD + DELAYS, "--check").exit_code == 0
    words = ["-m", "dfprivacy", "run", "release.yml", "--log-format=json", "--quiet"]
    done = run_python(*words, DFPRIVACY_PROGRESS="on")
    assert (done.returncode, done.stdout) == (0, "")
    assert [line["event"] for line in events(done.stderr)][-1] == "release"
