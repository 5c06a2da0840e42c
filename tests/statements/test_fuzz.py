"""Allowed statements into which something refused is put, anywhere, are refused."""

from __future__ import annotations

import random
import runpy
from pathlib import Path

import pytest
from sqlglot import exp

from dfprivacy.errors import DPError
from dfprivacy.statements.grammar import parse

FILES = ("answers", "groups", "groups_2", "rows")
QUERIES = [
    case["query"]
    for name in FILES
    for case in runpy.run_path(str(Path(__file__).with_name(f"allowed_{name}.py")))["ALLOWED"]
]
EXPRESSIONS = [
    "(SELECT max(age) FROM visits)",
    "EXISTS (SELECT 1 FROM visits)",
    "avg(age)",
    "count(*)",
    "max(age)",
    "string_agg(note, ',')",
    "row_number() OVER ()",
    "sum(age) OVER (PARTITION BY city)",
    "random()",
    "now()",
    "current_date",
    "error(note)",
    "getenv('HOME')",
    "current_setting('threads')",
    "read_text('x')",
    "nextval('s')",
    "unnest(tags)",
    "list_transform(tags, t -> t)",
    "my_macro(age)",
    "sum(age) FILTER (WHERE vip)",
    "count(DISTINCT age)",
    "dp_max(age)",
    "?",
    "dp_mean(age, 0, user_id)",
    "dp_count(dp_count(*))",
    "repeat(note, 1000000000)",
]
SOURCES = [
    "visits, adults",
    "visits CROSS JOIN adults",
    "range(10)",
    "read_csv('x')",
    "'x.parquet'",
    "nowhere",
    "(SELECT * FROM visits UNION ALL SELECT * FROM visits)",
    "(SELECT * FROM visits LIMIT 3)",
    "(SELECT DISTINCT city FROM visits)",
    "(SELECT *, row_number() OVER () AS r FROM visits)",
    "visits TABLESAMPLE 10%",
    "visits, LATERAL (SELECT 1)",
    "(VALUES (1)) v(x)",
]
CLAUSES = ["distinct", "qualify", "sample", "windows", "joins", "laterals", "pivots"]
DONOR = (
    "SELECT DISTINCT a FROM t JOIN u USING (a) QUALIFY rank() OVER w = 1 "
    "WINDOW w AS (ORDER BY a) USING SAMPLE 10 ROWS"
)


def places(tree, kinds):
    """Return the nodes of a tree that can be replaced: none is the tree itself or a name."""
    found = [node for node in tree.find_all(*kinds) if node.parent is not None]
    return [
        node
        for node in found
        if not isinstance(node.parent, exp.DataTypeParam | exp.Interval | exp.Escape)
    ]


def refused(statement, query):
    with pytest.raises(DPError) as caught:
        statement(query)
    assert "can't be read" not in str(caught.value), query
    assert "can't parse" not in str(caught.value), query


@pytest.mark.parametrize("query", QUERIES)
def test_refused_expressions(statement, query):
    """Whatever column or constant is replaced by a refused expression, the statement is refused."""
    statement(query)
    choice = random.Random(query)
    for _ in range(12):
        tree = parse(query).tree.copy()
        node = choice.choice(places(tree, (exp.Column, exp.Literal, exp.Anonymous)) or [None])
        if node is None:
            return
        hostile = exp.maybe_parse(choice.choice(EXPRESSIONS), dialect="duckdb")
        node.replace(hostile)
        refused(statement, tree.sql(dialect="duckdb", normalize_functions=False))


@pytest.mark.parametrize("query", QUERIES)
def test_refused_sources(statement, query):
    """Whatever relation is replaced by a refused one, the statement is refused."""
    for source in SOURCES:
        tree = parse(query).tree.copy()
        (table,) = list(tree.find_all(exp.Table))[-1:]
        clause = table.find_ancestor(exp.From)
        donor = exp.maybe_parse(f"SELECT 1 FROM {source}", dialect="duckdb")
        clause.replace(donor.args["from_"])
        for part in ("joins", "laterals"):
            if donor.args.get(part):
                tree.set(part, donor.args[part])
        refused(statement, tree.sql(dialect="duckdb", normalize_functions=False))


@pytest.mark.parametrize("query", QUERIES)
def test_refused_clauses(statement, query):
    """Whatever clause that is not known is put into whatever SELECT, the statement is refused."""
    donor = exp.maybe_parse(DONOR, dialect="duckdb")
    for clause in CLAUSES:
        value = donor.args.get(clause)
        if value is None:
            continue
        count = len(list(parse(query).tree.find_all(exp.Select)))
        for place in range(count):
            tree = parse(query).tree.copy()
            list(tree.find_all(exp.Select))[place].set(clause, value)
            refused(statement, tree.sql(dialect="duckdb", normalize_functions=False))


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ROLLUP",
    "(",
    ")",
    ",",
    ";",
    "UNION",
    "visits",
    "age",
]
WORDS += [
    "dp_count(*)",
    "count(*)",
    "*",
    "AS",
    "1",
    "'x'",
    "OVER",
    "LIMIT",
    "DISTINCT",
    "JOIN",
    "--",
    "/*",
]


def test_broken_texts(statement):
    """Texts that are cut, doubled or shuffled end in an error of ours, or in a vetted statement."""
    choice = random.Random(1)
    for _ in range(1500):
        words = choice.choice(QUERIES).split()
        for _ in range(choice.randint(1, 3)):
            place = choice.randrange(len(words))
            words[place : place + choice.randint(0, 2)] = choice.sample(WORDS, choice.randint(0, 2))
            words = words or ["SELECT"]
        try:
            read = statement(" ".join(words))
        except DPError:
            continue
        assert read.calls
        assert read.rows.base.path[-1] == "visits"
