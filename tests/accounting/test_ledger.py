"""A ledger is a file with rules: its history, its names, its end."""

import os
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

import dfprivacy as dfp
from dfprivacy.accounting.charge import PER_ONE, PER_ONE_DELTA
from tests.accounting.charges import charge, forge


def test_history(ledger):
    """The history holds every charge in order: when, what, how much, why, by which version."""
    start = datetime.now(UTC)
    ledger.charge("flights", charge(0.1, delta=1e-7), note="monthly \u00fc report")
    ledger.charge("trains", charge(0.25))
    frame = ledger.history()
    assert list(frame.columns) == [
        "time", "dataset", "question", "epsilon", "rho", "delta", "note", "uuid", "dfprivacy",
        "analyst",
    ]  # fmt: skip
    assert frame["dataset"].tolist() == ["flights", "trains"]
    assert frame["question"].tolist() == ["count()"] * 2
    assert frame["epsilon"].tolist() == [0.1, 0.25]
    assert frame["rho"].isna().all()
    assert frame["delta"].tolist() == [1e-7, 0.0]
    assert frame["note"].tolist()[0] == "monthly \u00fc report"
    assert frame["note"].isna().tolist() == [False, True]
    assert len({UUID(text) for text in frame["uuid"]}) == 2
    assert all(timedelta(0) <= when - start < timedelta(hours=1) for when in frame["time"])
    assert ledger.history("trains")["epsilon"].tolist() == [0.25]
    assert ledger.history("ships").dtypes.equals(frame.dtypes)


def test_history_in_rho(tmp_path):
    """On a ledger in rho the history shows what was asked as epsilon, and what it cost in rho."""
    ledger = dfp.Ledger(tmp_path / "b.db", rho=1)
    ledger.charge("d", charge(rho=0.25))
    ledger.charge("d", charge(0.1))
    assert ledger.remaining("d") == dfp.Budget(rho=0.745)
    frame = ledger.history()
    assert frame["epsilon"].isna().tolist() == [True, False]
    assert frame["rho"].tolist() == [0.25, 0.005]


@pytest.mark.parametrize(
    "other",
    [{"epsilon": 2}, {"epsilon": 1}, {"rho": 1, "delta": 1e-6}, {"epsilon": 1, "delta": 1e-7}],
)
def test_another_budget_is_refused(ledger, other):
    """A file keeps the budget that it was made with."""
    ledger.charge("flights", charge(0.9))
    with pytest.raises(
        dfp.errors.LedgerBudgetError, match="was made with epsilon 1, delta 1e-6, not"
    ):
        dfp.Ledger(ledger.path, **other)
    assert ledger.remaining("flights") == dfp.Budget(epsilon=0.1, delta=1e-6)


@pytest.mark.parametrize("budget", [{"epsilon": 0.1, "delta": 1e-9}, {"rho": 1e6 + 1e-9}])
def test_repr_can_be_pasted(tmp_path, budget, monkeypatch):
    """The repr opens the same ledger, from any directory; a pickle does too."""
    monkeypatch.chdir(tmp_path)
    ledger = dfp.Ledger("b.db", **budget)
    ledger.charge("d", charge(0.01))
    monkeypatch.chdir("/")
    for same in (eval(repr(ledger), {"Ledger": dfp.Ledger}), pickle.loads(pickle.dumps(ledger))):
        assert repr(same) == repr(ledger)
        assert same.remaining("d") == ledger.remaining("d") != ledger.budget


def test_a_charge_waits_for_the_disk(ledger, monkeypatch):
    """The log is written and flushed, and then its newest hash; nothing else is left behind."""
    ledger.charge("flights", charge(0.1))
    done, write, sync = [], os.write, os.fsync
    name = lambda descriptor: str(Path(f"/proc/self/fd/{descriptor}").readlink())  # noqa: E731
    monkeypatch.setattr(
        os, "write", lambda file, text: done.append(("write", name(file))) or write(file, text)
    )
    monkeypatch.setattr(os, "fsync", lambda file: done.append(("flush", name(file))) or sync(file))
    ledger.charge("flights", charge(0.1))
    log, head = str(ledger.path), f"{ledger.path}-head"
    assert done == [("write", log), ("flush", log), ("write", head), ("flush", head)]
    assert sorted(map(str, ledger.path.parent.iterdir())) == [log, head]


CHARGE = {
    "uuid": "u", "time": "2026-11-20T00:00:00+00:00", "question": "count()", "note": None,
    "version": "1", "dataset": "flights", "asked": "epsilon", "amount": "1/10",
    "cost": PER_ONE // 10, "cost_delta": 0,
}  # fmt: skip
RELEASE = {"fingerprint": "f" * 64, "dataset": "flights", "digest": "d" * 64, "length": 0}


@pytest.mark.parametrize(
    "entry",
    [
        *(("charge", CHARGE | {"cost": cost}) for cost in (PER_ONE, -1, 0, 0.5, "1", True)),
        *(("charge", CHARGE | {"cost_delta": delta}) for delta in (-1, PER_ONE_DELTA, None)),
        ("charge", CHARGE | {"asked": "delta"}), ("charge", CHARGE | {"more": "1"}),
        *(("charge", CHARGE | {name: 7}) for name in CHARGE if not name.startswith("cost")),
        ("charge", CHARGE | {"time": None}), ("charge", CHARGE | {"analyst": None}),
        ("charge", CHARGE | {"dataset": "\ud800"}), ("charge", 7),
        ("allowance", {"analyst": None, "dataset": "d", "loss": 1, "delta": 0}),
        ("charge", {}), ("refund", CHARGE), ("release", RELEASE), ("drop", {"fingerprints": ["f"]}),
        ("founding", {"ledger": "l", "measure": "epsilon", "total": 9, "total_delta": 0,
                      "remember": 0}), 7, ["charge"],
    ],
)  # fmt: skip
def test_a_log_keeps_the_rules(ledger, entry):
    """Nothing is spent beyond the total, given back, founded twice or kept against the rules.

    The running hash of what breaks a rule is right.
    """
    ledger.charge("flights", charge(0.5))
    content = ledger.path.read_bytes()
    forge(ledger.path, ("charge", CHARGE))
    assert dfp.Ledger(ledger.path).spent("flights").epsilon == 0.6
    ledger.path.write_bytes(content)
    forge(ledger.path, entry)
    for use in (lambda: dfp.Ledger(ledger.path), lambda: ledger.charge("flights", charge(0.1))):
        with pytest.raises(dfp.errors.LedgerFileError, match="is damaged"):
            use()
    ledger.path.write_bytes(content)
    assert ledger.remaining("flights") == dfp.Budget(epsilon=0.5, delta=1e-6)


@pytest.mark.parametrize("name", ["", " flights", "flights\n", "a\x00b", "x" * 201, None, 7, b"f"])
def test_wrong_names(ledger, name):
    """A dataset's name is text that can be read and typed again."""
    for use in (ledger.remaining, ledger.spent, lambda name: ledger.charge(name, charge(0.1))):
        with pytest.raises(dfp.errors.InvalidLedgerError, match="no usable name"):
            use(name)


@pytest.mark.parametrize("note", [7, b"n", "\ud800"])
def test_wrong_notes(ledger, note):
    """A note is text."""
    with pytest.raises(dfp.errors.InvalidLedgerError):
        ledger.charge("flights", charge(0.1), note=note)
    assert len(ledger.history()) == 0


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("argument", "values", "message"),
    [
        ("path", [None, 7, b"budget.db", ["budget.db"]], "a ledger is a file"),
        ("timeout", [-1, None, "5", float("nan"), True], "number of seconds"),
        ("remember", [1, "yes", object()], "must be True or False"),
        ("strict", [1, "yes", object()], "must be True or False"),
    ],
)
def test_arguments_of_a_ledger_are_checked(tmp_path, argument, values, message):
    """A value of another kind is refused, and no file is made."""
    for value in values:
        arguments = {"path": tmp_path / "b.db", "epsilon": 1, argument: value}
        with pytest.raises(dfp.errors.InvalidLedgerError, match=message):
            dfp.Ledger(arguments.pop("path"), **arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b?mode=memory#x.db", "caf\u00e9%20.db", "'quoted\".db"])
def test_any_file_name(tmp_path, name):
    """A file name is taken as it is."""
    ledger = dfp.Ledger(tmp_path / name, epsilon=1)
    ledger.charge("d", charge(0.5))
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}-head"]
