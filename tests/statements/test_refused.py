"""What is not known to be safe is refused: by name, before a charge, whatever the data."""

from __future__ import annotations

import re
import runpy
import string
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.statements.rules import REFUSALS, SECTIONS

HERE = Path(__file__).parent
SHOP, WORLD = runpy.run_path(str(HERE / "shop.py")), runpy.run_path(str(HERE / "conftest.py"))
PAGE = HERE.parents[1] / "docs" / "refusals.md"
RULES = [(title, name) for title, rules in SECTIONS.items() for name in rules]
ELSEWHERE = {"another system"}
"""Rules whose example needs what DuckDB would download: test_gate.py has a test of each."""
LONG = {"too many relations"}

FILES = ("sources", "ctes", "rows", "calls", "functions", "statements")
CASES = [
    case for name in FILES for case in runpy.run_path(str(HERE / f"refused_{name}.py"))["REFUSED"]
]
BUDGET = {"epsilon": 10, "delta": 0.1}


@pytest.fixture(scope="session")
def ledger(tmp_path_factory):
    return dfp.Ledger(tmp_path_factory.mktemp("ledger") / "budget.db", **BUDGET)


def refusal(connection, query, **terms):
    python_frame = duckdb.sql("SELECT 1 AS x")
    delta = None if "dp_keep" in query else 1e-6
    with pytest.raises(dfp.DPError) as caught:
        dfp.sql(query, con=connection, delta=delta, **terms)
    del python_frame
    return caught.value


def test_there_are_enough():
    """At least eighty statements are refused."""
    assert len({query for query, _, _ in CASES}) >= 80


@pytest.mark.parametrize(("query", "kind", "start"), CASES, ids=[case[0] for case in CASES])
def test_refused(shared, ledger, query, kind, start):
    """A refusal names its construct, shows a rewrite and costs nothing."""
    error = refusal(shared, query, ledger=ledger, dataset="visits")
    assert type(error).__name__ == kind
    assert error.message.startswith(start)
    assert error.hint
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert ledger.remaining("visits") == dfp.Budget(**BUDGET)


@pytest.mark.parametrize("query", [query for query, _, _ in CASES[::5]])
def test_refused_without_rows(shared, empty, query):
    """A refusal says the same of a table without rows: it reads none."""
    error, other = (refusal(connection, query) for connection in (shared, empty))
    assert (type(other), str(other)) == (type(error), str(error))


@pytest.mark.parametrize("query", [None, b"SELECT 1", 7, "", "  ", "\n", ";", "x" * 70_000])
def test_no_statement(shared, query):
    """What is no text with a statement in it is refused."""
    with pytest.raises(dfp.RefusedStatementError):
        dfp.sql(query, con=shared)


def test_deep_statements(shared):
    """A statement that is nested a little is planned, one that is nested too deeply is refused."""
    query = "SELECT dp_count({}age{}) FROM visits"
    assert dfp.explain(query.format("(" * 30, ")" * 30), con=shared).epsilon == 1
    with pytest.raises(dfp.RefusedStatementError, match="nested too deeply"):
        dfp.explain(query.format("(" * 20_000, ")" * 20_000), con=shared)


@pytest.mark.parametrize("link", ["age + ", "city || ", "age * "])
def test_long_chains_of_operators(shared, link):
    """A chain of some operators is planned, one that can't be followed is refused."""
    query = f"SELECT dp_count(*) FROM visits WHERE ({{}}{link.split()[0]}) IS NOT NULL"
    assert dfp.explain(query.format(link * 20), con=shared).epsilon == 1
    with pytest.raises(dfp.RefusedStatementError, match="nested too deeply"):
        dfp.explain(query.format(link * 1500), con=shared)


def test_long_chains_of_conditions(shared):
    """AND and OR are one node however many conditions they join."""
    query = f"SELECT dp_count(*) FROM visits WHERE {'age > 1 AND ' * 1500}vip"
    assert dfp.explain(query, con=shared).epsilon == 1


def test_long_chains_of_aliases(shared):
    """Expressions that double with every alias are refused before they fill the memory."""
    doubled = ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(40))
    query = f"SELECT dp_count(a40) FROM (SELECT age AS a0, {doubled} FROM visits)"
    with pytest.raises(dfp.RefusedStatementError, match="grows too long"):
        dfp.explain(query, con=shared)


def world(rows=""):
    """Return a connection with visits, a shop and their views, with the rows of a condition."""
    con = WORLD["made"](rows, f"{WORLD['OTHERS']}; {SHOP['SHOP']}")
    if rows:
        con.execute("DELETE FROM orders WHERE customer = 3; DELETE FROM customer WHERE id = 3")
    con.register("registered", pa.table({"x": [1]}))
    return con


@pytest.fixture(scope="module")
def neighbours():
    """Make two worlds that differ in a person, and say whether an example may change them."""
    conditions = ("", "WHERE i % 50 <> 7")
    known = [world(rows) for rows in conditions]
    return lambda changes: [world(rows) for rows in conditions] if changes else known


def ask(title, example, con, **paid):
    """Run an example."""
    if example.startswith(("dfp.", "con.")):
        frame = pd.DataFrame({"x": [1, 2, 2]})
        given = {"dfp": dfp, "con": con, "frame": frame, "schema": SHOP["SCHEMA"]}
        exec(example, given)
        return
    *before, query = example.split("; ")
    con.execute("; ".join(before) or "SELECT 1")
    terms = {} if "dp_keep" in query else {"delta": 1e-6}
    if title == "Several tables":
        terms |= {"schema": SHOP["SCHEMA"], "max_rows": 3}
    dfp.sql(query, con=con, **terms, **paid)


def texts(rule):
    """Return what the messages of a rule look like."""
    text = f"{rule.construct}: {rule.why}" if rule.why else rule.construct
    parts = string.Formatter().parse(text)
    made = "".join(re.escape(own) + (".*" if word else "") for own, word, *_ in parts)
    return re.compile(f"(in the view '.*?': )?{made}", re.DOTALL)


@pytest.mark.parametrize(
    ("title", "name"),
    [pytest.param(*own, id=own[1], marks=[pytest.mark.slow] * (own[1] in LONG)) for own in RULES],
)
def test_a_rule_refuses_its_example(title, name, ledger, neighbours):
    """By this rule and no other, with a rewrite, for nothing, and the same on a neighbour."""
    example = SECTIONS[title][name].example
    if name in ELSEWHERE:
        pytest.skip("another test has it")
    errors = []
    for con in neighbours("; " in example):
        with pytest.raises(dfp.RefusedStatementError) as caught:
            ask(title, example, con, ledger=ledger, dataset="visits")
        errors.append(caught.value)
    fitting = [
        own for where, own in RULES if texts(SECTIONS[where][own]).fullmatch(errors[0].message)
    ]
    assert fitting == [name]
    assert errors[0].hint
    assert ledger.remaining("visits") == dfp.Budget(**BUDGET)
    assert str(errors[0]) == str(errors[1])


def test_rules_that_are_named_are_in_the_registry():
    """Every rule that a refusal names is there."""
    sources = "".join(own.read_text() for own in Path(dfp.__file__).parent.rglob("*.py"))
    named = set(re.findall(r"""\brefuse\(\s*"([^"]+)""", sources))
    assert named <= set(REFUSALS)


ABOUT = (
    "Each rule with its reason, what to write in its place, and an example that it refuses; words "
    "in *italics* come from the statement. A refusal comes before a charge, whatever the rows are. "
    "`tests/statements/test_refused.py` sees that each example is refused by its rule alone, for "
    "nothing, and in the same words on a neighbouring table; run as a program, it writes this page."
)


def page():
    """Return the page of the registry."""
    text = f"# What is refused in SQL\n\n{ABOUT}\n"
    for title, rules in SECTIONS.items():
        text += f"\n## {title}\n\n| refused | because | instead | example |\n|:--|:--|:--|:--|\n"
        for rule in rules.values():
            plain = [cell(own) for own in (rule.construct, rule.why, rule.rewrite)]
            text += f"| {' | '.join(plain)} | `{rule.example.replace('|', chr(92) + '|')}` |\n"
    return text


def cell(text):
    """Return a text of a rule for a table: its words in italics."""
    parts = string.Formatter().parse(text)
    made = "".join(
        re.sub(r"([*_|<>\[\]`])", r"\\\1", own) + (f"*{word}*" if word and word != "near" else "")
        for own, word, *_ in parts
    )
    return " ".join(made.split())


def test_the_page_has_every_rule():
    """The page of refusals is that of the registry: run this file where it is not."""
    assert PAGE.read_text(encoding="utf-8") == page()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
