"""The page about a ledger: complete, exact, safe against its own texts, and bounded in size."""

import re
import sys

import polars as pl
import pytest

import dfprivacy as dfp
from tests.accounting.charges import forge

XSS = "<script>alert(1)</script>"
FRAME = pl.DataFrame({"carrier": ["AA"], "delay": [1.0], XSS: [1]})


def charge(ledger, dataset, note=None, column=None, **loss):
    """Charge a ledger by asking for a count, of the rows or of a column's values."""
    FRAME.dp(ledger=ledger, dataset=dataset, note=note).count(column, **loss)


@pytest.fixture
def ledger(tmp_path):
    """Return a ledger with three charges to two datasets, whose texts are hostile."""
    new_ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=2, delta=1e-6)
    private = FRAME.dp(ledger=new_ledger, dataset="flights", note="monthly report", epsilon=0.1)
    private.group_by("carrier", keys=["AA"]).mean("delay", (0, 60))
    charge(new_ledger, "flights", XSS, epsilon=0.2)
    charge(new_ledger, f"patients {XSS}", "two\nlines \x00\u202e", XSS, epsilon=0.5)
    return new_ledger


@pytest.fixture
def page(ledger, tmp_path):
    return ledger.report(tmp_path / "report.html").read_text(encoding="utf-8")


def read_rows(page, table):
    """Return the texts of the cells of a table, row by row."""
    body = re.search(rf'<table id="{table}".*?<tbody>(.*?)</tbody>', page, re.DOTALL).group(1)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[re.sub(r"<svg.*</svg>", "", cell) for cell in row] for row in cells]


def test_every_charge_is_listed(ledger, page):
    """The newest first: when, which dataset, which question, what it cost, which note."""
    rows, history = read_rows(page, "charges"), ledger.history()
    assert [row[0] for row in rows] == [f"{t:%Y-%m-%d %H:%M:%S}" for t in history["time"][::-1]]
    assert [float(row[3]) for row in rows] == list(history["epsilon"][::-1])
    question = "mean(&#39;delay&#39;, bounds=(0.0, 60.0)) by &#39;carrier&#39;"
    assert rows[2][1:] == ["flights", question, "0.1", "0", "monthly report"]


def test_what_is_spent_and_left(ledger, page):
    """Each dataset stands with what the ledger says of it; totals are never rounded down."""
    rows = read_rows(page, "accounts")
    assert rows[0][:6] == ["flights", "2", "0.3", "1.7", "0", "1e-6"]
    assert float(rows[0][6]) >= ledger.total("flights", delta=1e-6).epsilon
    assert float(rows[0][7]) >= ledger.tight_total("flights", delta=1e-6).epsilon
    assert len(rows) == 2


def test_the_promise(ledger, page):
    """The promise of the whole budget stands there, and what it means for a guess."""
    promise = ledger.promise()
    assert (promise.epsilon, promise.delta) == (2.0, 1e-6)
    assert "differentially private with epsilon 2 and delta 1e-6." in page
    assert "right with a probability of at most 88.08 %" in page


@pytest.mark.parametrize(
    ("budget", "chance"),
    [
        ({"epsilon": 1}, "73.11 %"), ({"epsilon": 0.001}, "50.03 %"),
        ({"epsilon": 1, "delta": 0.01}, "73.38 %"),
    ],
)  # fmt: skip
def test_a_guess(tmp_path, budget, chance):
    """The chance is that of the best test between two neighbors: of 1 + e**epsilon, rounded up."""
    page = dfp.Ledger(tmp_path / "b.db", **budget).report(tmp_path / "r.html").read_text()
    assert f"right with a probability of at most {chance}" in page


def test_a_large_budget_is_not_praised(tmp_path):
    """A budget under which a guess may be nearly certain says that it promises little."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=12)
    page = ledger.report(tmp_path / "r.html").read_text()
    assert "promises little by itself" in page
    assert "Nothing has been spent." in page
    assert "<table" not in page


def test_texts_stay_texts(page, read_html):
    """Datasets, questions and notes can't become markup; what can't be seen is shown as such."""
    read = read_html(page)
    assert "script" not in read.tags
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
    assert "two lines \ufffd\ufffd" in read.words
    assert not [name for name, _ in read.attributes if name.startswith("on") or name == "style"]


def test_no_answers_and_no_paths(tmp_path, page):
    """A ledger that remembers shows how many releases it keeps, and none of them."""
    memory = dfp.Ledger(tmp_path / "memory.db", epsilon=5, remember=True)
    frame = pl.DataFrame({"secret carrier": ["AA"] * 100})
    private = frame.dp(ledger=memory, dataset="flights", version="1")
    private.group_by("secret carrier", keys=["AA"]).count()
    shown = memory.report(tmp_path / "m.html").read_text()
    assert read_rows(shown, "accounts")[0][8] == "1"
    assert "keys" not in shown
    assert ">AA<" not in shown
    assert str(tmp_path) not in shown + page


def test_a_ledger_in_rho(tmp_path):
    """The loss as named and its cost both stand there; epsilons are quoted with delta to spare."""
    ledger = dfp.Ledger(tmp_path / "r.db", rho=1, delta=1e-6)
    charge(ledger, "d", epsilon=0.1)
    charge(ledger, "d", rho=0.25)
    page = ledger.report(tmp_path / "r.html").read_text()
    assert [row[3:6] for row in read_rows(page, "charges")] == [
        ["rho 0.25", "0.25", "0"], ["epsilon 0.1", "0.005", "0"],
    ]  # fmt: skip
    (quoted,) = re.findall(r"epsilon ([0-9.]+) and delta 2e-6\.", page)
    promised = ledger.promise(delta=2e-6).epsilon
    assert promised <= float(quoted) <= promised * 1.001
    other = ledger.report(tmp_path / "r.html", delta=1e-3).read_text()
    assert "and delta 0.001." in other
    with pytest.raises(dfp.errors.InvalidLossError):
        ledger.report(tmp_path / "r.html", delta=1e-6)
    assert (tmp_path / "r.html").read_text() == other


def test_without_the_accounting_extra(ledger, tmp_path, monkeypatch):
    """The page is made all the same, and says how to get tight totals."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    page = ledger.report(tmp_path / "r.html").read_text()
    assert "pip install &#39;dfprivacy[accounting]&#39;" in page
    assert [row[7] for row in read_rows(page, "accounts")] == ["", ""]


def test_where_a_report_may_go(ledger, tmp_path):
    """Only to a page, never over the ledger itself; a refusal writes nothing."""
    disguised = dfp.Ledger(tmp_path / "ledger.html", epsilon=1)
    before = disguised.path.read_bytes()
    for source, path in [
        (ledger, "budget.db"), (ledger, "report"), (ledger, "none/r.html"),
        (disguised, "ledger.html"), (ledger, "ledger.html"),
    ]:  # fmt: skip
        with pytest.raises(dfp.errors.PictureError):
            source.report(tmp_path / path)
    assert disguised.path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "budget.db", "budget.db-head", "ledger.html",
    ]  # fmt: skip


def test_many_datasets_are_listed(tmp_path):
    """Every charge and dataset of a longer ledger is listed and counted."""
    ledger = dfp.Ledger(tmp_path / "many.db", epsilon=100)
    for number in range(27):
        charge(ledger, f"data {number % 9}", epsilon=0.001 * (number + 1))
    page = ledger.report(tmp_path / "many.html").read_text()
    assert len(read_rows(page, "charges")) == 27
    assert "27 charges to 9 datasets" in page
    assert len(read_rows(page, "accounts")) == 9


def test_large_ledgers_stay_bounded(tmp_path):
    """Of 12,000 charges the newest 10,000 are listed, and all count."""
    ledger = dfp.Ledger(tmp_path / "big.db", epsilon=100, timeout=60)
    about = {
        "uuid": "u", "time": "2026-11-20T00:00:00+00:00", "question": "count()", "note": None,
        "version": "0", "asked": "epsilon", "amount": "1/1000", "cost": 10**21, "cost_delta": 0,
    }  # fmt: skip
    forge(
        ledger.path,
        *(("charge", about | {"dataset": f"data {number % 9}"}) for number in range(12_000)),
    )
    page = ledger.report(tmp_path / "big.html").read_text()
    assert len(read_rows(page, "charges")) == 10_000
    assert "Shows 10,000 of 12,000 charges, the newest." in page
    assert "12,000 charges to 9 datasets" in page
    assert len(page) < 3_000_000
