"""Trees of allowed statements into which something unknown is put, anywhere, are refused."""

from __future__ import annotations

import copy
import json
import random
import runpy
from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp
from dfprivacy.statements import reading
from dfprivacy.statements.catalog import connection_source
from dfprivacy.statements.rows import Reader
from dfprivacy.statements.tree import nodes

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
    "row_number() OVER (ORDER BY income)",
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
    "dp_product(age)",
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
CLAUSES = [
    "SELECT DISTINCT a FROM t",
    "SELECT DISTINCT ON (a) a FROM t",
    "SELECT a FROM t QUALIFY rank() OVER (ORDER BY income) = 1",
    "SELECT a FROM t USING SAMPLE 10 ROWS",
    "SELECT a FROM t GROUP BY ROLLUP (a)",
    "SELECT a FROM t LIMIT 10%",
    "(SELECT a FROM t LIMIT 3) ORDER BY a",
    "WITH c AS (SELECT 1) SELECT a FROM t",
]
ENGINE = duckdb.connect()


def tree_of(query):
    ((tree,),) = ENGINE.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    return json.loads(tree)["statements"][0]["node"]


@pytest.fixture(scope="session")
def statement(empty):
    """Read a statement over the table, and plan no release of it."""
    parser, place = duckdb.connect(), connection_source(empty)
    return lambda text: reading.read(text, Reader(place, parser))


@pytest.fixture
def refused(statement, monkeypatch):
    """Return what checks that a tree is refused."""

    def check(tree):
        monkeypatch.setattr(reading, "parse", lambda *_: (None, tree))
        with pytest.raises(dfp.DPError):
            statement("")
        monkeypatch.undo()

    return check


def put(node, other):
    """Put one node in the place of another."""
    node.clear()
    node.update(copy.deepcopy(other))


def of_type(tree, *types):
    return [node for node in nodes(tree) if node.get("type") in types]


PARTS = [QUERIES[part::4] for part in range(4)]


@pytest.mark.parametrize("queries", PARTS)
def test_refused_expressions(statement, refused, queries):
    """Whatever column or constant is replaced by a refused expression, the statement is refused."""
    choice = random.Random(1)
    for query in queries:
        statement(query)
        for _ in range(6):
            tree = tree_of(query)
            hostile = tree_of(f"SELECT {choice.choice(EXPRESSIONS)}")["select_list"][0]
            put(choice.choice(of_type(tree, "COLUMN_REF", "VALUE_CONSTANT", "FUNCTION")), hostile)
            refused(tree)


@pytest.mark.parametrize("source", SOURCES)
def test_refused_sources(refused, source):
    """Whatever relation is replaced by a refused one, the statement is refused."""
    for query in QUERIES[::2]:
        tree = tree_of(query)
        put(of_type(tree, "BASE_TABLE")[-1], tree_of(f"SELECT 1 FROM {source}")["from_table"])
        refused(tree)


@pytest.mark.parametrize("clause", CLAUSES)
def test_refused_clauses(refused, clause):
    """Whatever clause that is not known is put into whatever SELECT, the statement is refused."""
    plain, donor = tree_of("SELECT a FROM t"), tree_of(clause)
    given = [part for part in donor if donor[part] != plain[part] and part != "select_list"]
    for query in QUERIES[::2]:
        for place in range(len(of_type(tree_of(query), "SELECT_NODE"))):
            tree = tree_of(query)
            select = of_type(tree, "SELECT_NODE")[place]
            select.update({part: donor[part] for part in given})
            refused(tree)


@pytest.mark.parametrize("queries", PARTS)
def test_unknown_nodes(refused, queries):
    """A node of an unknown class or type is refused, and one with a part that no rule knows."""
    for query in queries[::3]:
        for place in range(sum(1 for _ in nodes(tree_of(query)))):
            for change in ({"a_new_part": True}, {"type": "NEW"}, {"class": "NEW"}):
                tree = tree_of(query)
                node = list(nodes(tree))[place]
                new_part = set(change) == {"a_new_part"} and "path" not in node
                if set(change) <= set(node) or new_part:
                    node.update(change)
                    refused(tree)


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
    for _ in range(800):
        words = choice.choice(QUERIES).split()
        for _ in range(choice.randint(1, 3)):
            place = choice.randrange(len(words))
            words[place : place + choice.randint(0, 2)] = choice.sample(WORDS, choice.randint(0, 2))
            words = words or ["SELECT"]
        try:
            read = statement(" ".join(words))
        except dfp.DPError:
            continue
        assert read.statements
        for one in read.statements:
            assert one.calls
            assert one.rows.base.path[-1] == "visits"
