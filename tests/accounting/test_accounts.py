"""Accounts by dataset, by period of the data and by analyst: who may spend what."""

import itertools
import json
import os

import pandas as pd
import pytest

import dfprivacy as dfp
from tests.command_line import run_python

FRAME = pd.DataFrame({"x": range(50)})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def count(ledger, dataset, epsilon=1.0, **named):
    return FRAME.dp(ledger=ledger, dataset=dataset, **named).count(epsilon=epsilon)


def test_a_strict_ledger_has_announced_accounts_alone(path):
    """A misspelt dataset is refused, in objects that open the file later too, and nothing charged.

    To announce a dataset twice is to do nothing.
    """
    ledger = dfp.Ledger(path, epsilon=10, strict=True)
    ledger.announce("flights")
    ledger.announce("flights")
    again = dfp.Ledger(path)
    assert again.strict
    assert eval(repr(again), {"Ledger": dfp.Ledger}).strict
    for opened_ledger in (ledger, again):
        with pytest.raises(
            dfp.errors.UnknownAccountError, match=r"(?s)'fligts'.*did you mean 'flights'"
        ):
            count(opened_ledger, "fligts")
        with pytest.raises(dfp.errors.UnknownAccountError, match="'fligts'"):
            opened_ledger.remaining("fligts")
        with pytest.raises(dfp.errors.UnknownAccountError, match="'fligts'"):
            opened_ledger.allow("ann", "fligts", epsilon=1)
    count(again, "flights")
    assert ledger.datasets() == ["flights"]
    assert ledger.announced() == ["flights"]


@pytest.mark.parametrize("strict", [True, False])
def test_strict_never_changes(path, strict):
    """A ledger is opened as it was made; a plain one takes any name, as ever."""
    ledger = dfp.Ledger(path, epsilon=10, strict=strict)
    with pytest.raises(dfp.errors.LedgerBudgetError, match="strict"):
        dfp.Ledger(path, strict=not strict)
    if not strict:
        count(ledger, "any")
        assert '"strict"' not in path.read_text(encoding="utf-8")
        assert '"analyst"' not in path.read_text(encoding="utf-8")


NAMES = {
    "year": ("2024", ["2024-01", "24", "0000"]),
    "month": ("2024-02", ["2024", "2024-13", "2024-2", "2024-02-01", "2024-02 "]),
    "week": ("2026-W53", ["2024-W53", "2024-W1", "2024-05"]),
    "day": ("2024-02-29", ["2023-02-29", "2024-02"]),
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("strict", [True, False])
def test_each_period_of_the_data_has_a_budget(path, kind, strict):
    """A period has the whole budget and one name; the dataset as a whole can't be charged."""
    name, wrong = NAMES[kind]
    ledger = dfp.Ledger(path, epsilon=1, strict=strict)
    ledger.announce("visits", periods=kind)
    count(ledger, "visits", period=name)
    assert ledger.remaining("visits", period=name) == dfp.Budget(epsilon=0.0)
    with pytest.raises(dfp.BudgetExceededError):
        count(ledger, "visits", 0.1, period=name)
    for arguments in [*({"period": period} for period in wrong), {}]:
        with pytest.raises(dfp.errors.UnknownAccountError):
            count(ledger, "visits", 0.1, **arguments)
        with pytest.raises(dfp.errors.UnknownAccountError):
            ledger.remaining("visits", **arguments)
    assert ledger.datasets() == [f"visits [{name}]"]
    assert ledger.periods() == {"visits": kind}


def test_periods_add_up_for_a_unit_in_all_of_them(path):
    """The loss of a unit over all periods is their sum; that of a period is its own."""
    ledger = dfp.Ledger(path, epsilon=1)
    ledger.announce("visits", periods="month")
    for month, epsilon in (("2024-01", 0.5), ("2024-02", 0.75), ("2024-02", 0.125)):
        count(ledger, "visits", epsilon, period=month)
    count(ledger, "visits of others", 0.25)
    assert ledger.spent("visits").epsilon == ledger.total("visits").epsilon == 1.375
    assert ledger.total("visits", period="2024-02").epsilon == 0.875
    assert ledger.spent("visits", period="2024-02").epsilon == 0.875
    assert ledger.promise().epsilon == 1
    assert list(ledger.history("visits [2024-02]")["epsilon"]) == [0.75, 0.125]


def test_nothing_else_begins_a_budget_anew(path):
    """A period that was not announced is refused, and so is an announcement after a charge."""
    ledger = dfp.Ledger(path, epsilon=1)
    for dataset, named in (("d", {"period": "2024-01"}), ("d [2024-01]", {})):
        with pytest.raises(
            dfp.errors.UnknownAccountError, match="not announced to come in periods"
        ):
            count(ledger, dataset, **named)
    count(ledger, "d")
    with pytest.raises(dfp.errors.InvalidLedgerError, match="charged as a whole"):
        ledger.announce("d", periods="month")
    ledger.announce("d")
    ledger.announce("e", periods="month")
    for periods in (None, "day"):
        with pytest.raises(dfp.errors.InvalidLedgerError, match="announced otherwise"):
            ledger.announce("e", periods=periods)
    with pytest.raises(dfp.errors.UnknownAccountError, match="years, months, weeks or days"):
        ledger.announce("f", periods="fortnight")
    with pytest.raises(dfp.errors.InvalidLedgerError, match="no ledger"):
        FRAME.dp(period="2024-01")


def test_what_goes_wrong_with_periods_is_named(path):
    """A refusal shows the word that was given and a call that is right; nothing is charged."""
    ledger = dfp.Ledger(path, epsilon=1)
    ledger.announce("visits", periods="month")
    with pytest.raises(dfp.errors.UnknownAccountError, match="'2024-01-15' is no month"):
        count(ledger, "visits", period="2024-01-15")
    with pytest.raises(dfp.errors.UnknownAccountError, match="not 'quarter'"):
        ledger.announce("others", periods="quarter")
    with pytest.raises(dfp.BudgetExceededError, match=r"remaining\('visits', period='2024-01'\)"):
        FRAME.dp(ledger=ledger, dataset="visits", period="2024-01").count(epsilon=2)
    arguments = {"ledger": ledger, "dataset": "visits", "f": FRAME, "epsilon": 0.5}
    with pytest.raises(dfp.errors.UnknownArgumentError, match=r"dfp.spending\(.*'2024-01'"):
        dfp.sql("SELECT dp_count(*) FROM f", period="2024-01", **arguments)
    assert ledger.spent("visits").epsilon == 0
    del arguments["ledger"], arguments["dataset"]
    with dfp.spending(ledger, dataset="visits", period="2024-01"):
        dfp.sql("SELECT dp_count(*) FROM f", **arguments)
    assert ledger.spent("visits").epsilon == 0.5


def test_analysts_share_a_budget(path):
    """Each spends no more than a part, all together no more than the budget, whatever the parts."""
    ledger = dfp.Ledger(path, epsilon=2, delta=1e-6)
    for analyst in ("ann", "bob", "eve"):
        ledger.allow(analyst, "d", epsilon=1)
    for analyst, again in itertools.product(("ann", "bob"), range(2)):
        count(ledger, "d", 0.5, analyst=analyst)
        left = ledger.remaining("d", analyst=analyst)
        assert left == dfp.Budget(epsilon=0.5 - 0.5 * again, delta=1e-6)
    with pytest.raises(dfp.BudgetExceededError, match="what 'ann' may spend"):
        count(ledger, "d", 0.1, analyst="ann")
    with pytest.raises(dfp.BudgetExceededError, match="the budget of dataset 'd'"):
        count(ledger, "d", 0.1, analyst="eve")
    assert ledger.remaining("d", analyst="eve").epsilon == 0
    assert ledger.spent("d", analyst="bob").epsilon == 1
    assert [line[:2] for line in ledger.analysts()] == [("d", "ann"), ("d", "bob"), ("d", "eve")]
    assert list(ledger.history()["analyst"]) == ["ann", "ann", "bob", "bob"]
    for named in ({}, {"analyst": "mallory"}):
        with pytest.raises(dfp.errors.UnknownAccountError, match="shared out among analysts"):
            count(ledger, "d", 0.1, **named)
    with pytest.raises(dfp.errors.InvalidLedgerError, match="an analyst is named"):
        count(ledger, "d", 0.1, analyst=7)
    with pytest.raises(dfp.errors.InvalidLossError, match="in epsilon"):
        ledger.allow("ann", "d", rho=1)


def test_parts_can_be_changed_and_hold_for_each_period(path):
    """The last part counts, below what was spent too; of data in periods it is one a period."""
    ledger = dfp.Ledger(path, epsilon=5)
    ledger.announce("v", periods="year")
    ledger.allow("ann", "v", epsilon=2)
    months = [{"period": "2023", "analyst": "ann"}, {"period": "2024", "analyst": "ann"}]
    for named in months:
        count(ledger, "v", 1.5, **named)
    ledger.allow("ann", "v", epsilon=1)
    assert dfp.Ledger(path).remaining("v", **months[0]).epsilon == 0
    with dfp.spending(ledger, dataset="v", **months[1]), pytest.raises(dfp.BudgetExceededError):
        FRAME.dp.count(epsilon=0.5)
    ledger.allow("ann", "v", epsilon=3)
    with dfp.spending(ledger, dataset="v", **months[1]):
        FRAME.dp.count(epsilon=0.5)
    assert FRAME.dp(ledger=ledger, dataset="v", **months[1]).explain.count(
        epsilon=0.25
    ).account.after == dfp.Budget(epsilon=0.75)


def test_why_a_delta_can_not_be_had(path):
    """The error names why a delta lacks: the ledger has none, or it is spent."""
    ledger = dfp.Ledger(path, epsilon=5, delta=1e-6)
    by = FRAME.dp(ledger=ledger, dataset="d").group_by("x")
    by.count(epsilon=1, delta=1e-6)
    with pytest.raises(dfp.BudgetExceededError, match="it is the delta that lacks"):
        by.count(epsilon=1, delta=1e-7)
    none = dfp.Ledger(path.with_name("none.db"), epsilon=5)
    with pytest.raises(dfp.BudgetExceededError, match="made without a delta"):
        FRAME.dp(ledger=none, dataset="d").group_by("x").count(epsilon=1, delta=1e-6)


def test_a_question_that_is_printed_twice_costs_once(path):
    """The same question about the same version is charged once; the answer is the same."""
    ledger = dfp.Ledger(path, epsilon=1, remember=True)
    ledger.announce("d", periods="day")
    ledger.allow("ann", "d", epsilon=1)
    ledger.allow("bob", "d", epsilon=1)
    named = {"ledger": ledger, "dataset": "d", "period": "2024-01-31", "version": "1"}
    both = [FRAME.dp(**named, analyst=who) for who in ("ann", "bob")]
    first, again = (frame.mean("x", (0, 50), epsilon=0.75, clipping=False) for frame in both)
    assert repr(again) == f"{first!r}, remembered"
    assert ledger.spent("d") == dfp.Budget(epsilon=0.75)


NOTICED = """
import io, json, os, sys, warnings
import pandas as pd
import dfprivacy as dfp

def said(ask):
    sys.stderr = io.StringIO()
    ask()
    return sys.stderr.getvalue()

warnings.simplefilter("error")
ledger = dfp.Ledger(sys.argv[1], epsilon=20)
for rows, notice in ((0, ""), (50, ""), (50, "off")):
    if os.fork() == 0:  # a process that has released nothing yet
        os.environ["DFPRIVACY_LEDGER_NOTICE"] = notice
        private = pd.DataFrame({"x": range(rows)}).dp
        asked = [private(ledger=ledger, dataset="d").count, private.explain.count, private.count]
        print(json.dumps([said(ask) for ask in [*asked, private.count]]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_notice_once_a_process(path):
    """One text for any data, before the first release without a ledger, unless it is set off."""
    done = run_python("-c", NOTICED, path, check=True)
    empty, full, off = map(json.loads, done.stdout.splitlines())
    text = empty[2]
    assert "no ledger is in use" in text
    assert "DFPRIVACY_LEDGER_NOTICE=off" in text
    assert empty == full == ["", "", text, ""]
    assert off == [""] * 4
