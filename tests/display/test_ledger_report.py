"""The page about a ledger: complete, exact, safe against its own texts, and bounded in size."""

import base64
import hashlib
import re
from fractions import Fraction

import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.accounting import ledger_file
from dfprivacy.accounting.charge import Charge, Units
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.viz.ledger_page import MOST_CHARGES, guess, upper

XSS = "<script>alert(1)</script>"


def charged(ledger, dataset, epsilon, note=None, question="count()"):
    ledger.charge(dataset, Charge(Epsilon(Fraction(epsilon)), question=question), note=note)


@pytest.fixture
def ledger(tmp_path):
    """Return a ledger with three charges to two datasets, whose texts are hostile."""
    made = dfp.Ledger(tmp_path / "budget.db", epsilon=2, delta=1e-6)
    charged(made, "flights", "1/10", "monthly report", "mean('delay') by 'carrier'")
    charged(made, "flights", "1/5", XSS)
    charged(made, f"patients {XSS}", "1/2", "two\nlines \x00\u202e", f"count({XSS})")
    return made


@pytest.fixture
def page(ledger, tmp_path):
    return ledger.report(tmp_path / "report.html").read_text(encoding="utf-8")


def rows_of(page, table):
    """Return the texts of the cells of a table, row by row."""
    body = re.search(rf'<table id="{table}".*?<tbody>(.*?)</tbody>', page, re.DOTALL).group(1)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[re.sub(r"<svg.*</svg>", "", cell) for cell in row] for row in cells]


def test_every_charge_is_listed(ledger, page):
    """The newest first: when, which dataset, which question, what it cost, which note."""
    rows, history = rows_of(page, "charges"), ledger.history()
    assert [row[0] for row in rows] == [f"{t:%Y-%m-%d %H:%M:%S}" for t in history["time"][::-1]]
    assert [float(row[3]) for row in rows] == list(history["epsilon"][::-1])
    assert rows[2][1:] == ["flights", "mean(&#39;delay&#39;) by &#39;carrier&#39;", "0.1", "0",
                           "monthly report"]  # fmt: skip


def test_what_is_spent_and_left(ledger, page):
    """Each dataset stands with what the ledger says of it; totals are never rounded down."""
    rows = rows_of(page, "accounts")
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


def test_a_guess():
    """The chance is that of the best test between two neighbours, and a sure thing at infinity."""
    assert guess(0, 0) == 0.5
    assert guess(1, 0) == pytest.approx(2.718281828459045 / 3.718281828459045)
    assert guess(0, 0.5) == 0.75
    assert guess(800, 0) == 1.0
    for value in (7.7662201, 0.1, 1e-9, 123456789.0):
        assert float(upper(value)) >= value


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
    assert read.tags.count("script") == 1
    assert "alert(1)</script>" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
    assert "two lines \ufffd\ufffd" in read.words
    assert not [name for name, _ in read.attributes if name.startswith("on") or name == "style"]


def test_the_page_loads_nothing(page, read_html):
    """No address is in it, and its policy lets a browser run its own script and style alone."""
    read = read_html(page)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", page)
    assert not [value for name, value in read.attributes if name == "src"]
    (policy,) = [v for n, v in read.attributes if n == "content" and "default-src" in v]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_no_answers_and_no_paths(tmp_path, page):
    """A ledger that remembers shows how many releases it keeps, and none of them."""
    memory = dfp.Ledger(tmp_path / "memory.db", epsilon=5, remember=True)
    frame = pl.DataFrame({"secret carrier": ["AA"] * 100})
    private = frame.dp(ledger=memory, dataset="flights", version="1")
    private.group_by("secret carrier", keys=["AA"]).count()
    shown = memory.report(tmp_path / "m.html").read_text()
    assert rows_of(shown, "accounts")[0][8] == "1"
    assert "keys" not in shown
    assert ">AA<" not in shown
    assert str(tmp_path) not in shown + page


def test_a_ledger_in_rho(tmp_path):
    """What was asked and what it cost both stand there; epsilons are quoted with delta to spare."""
    ledger = dfp.Ledger(tmp_path / "r.db", rho=1, delta=1e-6)
    charged(ledger, "d", "1/10")
    ledger.charge("d", Charge(Rho(Fraction(1, 4)), question="count()"))
    page = ledger.report(tmp_path / "r.html").read_text()
    assert [row[3:6] for row in rows_of(page, "charges")] == [
        ["rho 0.25", "0.25", "0"], ["epsilon 0.1", "0.005", "0"],
    ]  # fmt: skip
    assert f"epsilon {upper(ledger.promise(delta=2e-6).epsilon)} and delta 2e-6." in page
    other = ledger.report(tmp_path / "r.html", delta=1e-3).read_text()
    assert "and delta 0.001." in other
    with pytest.raises(dfp.InvalidLossError):
        ledger.report(tmp_path / "r.html", delta=1e-6)
    assert (tmp_path / "r.html").read_text() == other


def test_without_the_accounting_extra(ledger, tmp_path, monkeypatch):
    """The page is made all the same, and says how to get tight totals."""
    monkeypatch.setattr("dfprivacy.viz.ledger_page.find_spec", lambda name: None)
    page = ledger.report(tmp_path / "r.html").read_text()
    assert "pip install &#39;dfprivacy[accounting]&#39;" in page
    assert [row[7] for row in rows_of(page, "accounts")] == ["", ""]


def test_where_a_report_may_go(ledger, tmp_path):
    """Only to a page, never over the ledger itself; a refusal writes nothing."""
    disguised = dfp.Ledger(tmp_path / "ledger.html", epsilon=1)
    before = disguised.path.read_bytes()
    for source, path in [
        (ledger, "budget.db"), (ledger, "report"), (ledger, "none/r.html"),
        (disguised, "ledger.html"),
    ]:  # fmt: skip
        with pytest.raises(dfp.PictureError):
            source.report(tmp_path / path)
    assert disguised.path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.db", "ledger.html"]


def test_large_ledgers_stay_bounded(tmp_path):
    """Of 12,000 charges the newest 10,000 are listed, all count, and the drawing stays small."""
    ledger = dfp.Ledger(tmp_path / "big.db", epsilon=100, timeout=60)
    about = {"question": "count()", "asked": "epsilon", "amount": "1/1000", "note": None,
             "version": "0"}  # fmt: skip
    with ledger._open("BEGIN IMMEDIATE") as connection:
        for number in range(12_000):
            cost = Units("epsilon", 10**6, 0)
            ledger_file.append(connection, f"data {number % 9}", ledger._total, cost, about)
    page = ledger.report(tmp_path / "big.html").read_text()
    assert len(rows_of(page, "charges")) == MOST_CHARGES == 10_000
    assert "Shows 10,000 of 12,000 charges, the newest." in page
    assert "12,000 charges to 9 datasets" in page
    assert "Shows 6 of 9 datasets, those that spent most." in page
    assert all(len(path) < 10_000 for path in re.findall(r'd="([^"]*)"', page))
    assert len(page) < 3_000_000
