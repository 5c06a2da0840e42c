"""Test that typed nodes hold all that DuckDB's tree says, or are of a class that is refused."""

import copy
import json

import duckdb

from dfprivacy.statements.nodes import Other, OtherQuery, read_node, to_json
from tests.statements import test_analysts, test_refused
from tests.statements.test_refused import nodes

ENGINE = duckdb.connect()
QUERIES = [
    *test_refused.QUERIES,
    *(query for query, _ in test_refused.REFUSED),
    *test_analysts.QUERIES,
    "SELECT * EXCLUDE (a) REPLACE (b AS c), x.y.z, COLUMNS('a') FROM a.b.c AS d(e) ORDER BY ALL",
    "SELECT first(a ORDER BY b) OVER (PARTITION BY c ORDER BY d ROWS 1 PRECEDING EXCLUDE TIES)",
    "SELECT lag(a IGNORE NULLS) FILTER (WHERE b) OVER () FROM t",
    "FROM t NATURAL JOIN u LEFT JOIN v USING (a) POSITIONAL JOIN w QUALIFY a LIMIT 3 OFFSET 2",
    "WITH c(a) AS MATERIALIZED (SELECT DISTINCT ON (a) a FROM t) FROM c UNION ALL BY NAME FROM d",
]
IGNORED = {
    "class", "query_location", "query_location_length", "is_operator", "is_implicit",
    "materialized", "qualified_name", "catalog_name", "schema_name", "table_name",
}  # fmt: skip
"""Parts that say nothing, or what the path of a name says."""


def trees():
    """Yield the trees of all statements that DuckDB can parse."""
    for query in QUERIES:
        ((text,),) = ENGINE.execute(
            "SELECT json_serialize_sql(?::VARCHAR)", [str(query)]
        ).fetchall()
        for statement in json.loads(text).get("statements", ()):
            yield statement["node"]


def kinds():
    """Return one tree for each kind of object in trees of DuckDB, with its place in the tree."""
    examples = {}
    for tree in trees():
        for position, node in enumerate(nodes(tree)):
            sort = (str(node.get("class")), str(node.get("type")), *sorted(node))
            examples.setdefault(sort, (tree, position))
    return examples.values()


def test_trees_are_read_whole():
    """DuckDB's tree can be written from the typed nodes, but for ignored parts."""
    for tree in trees():
        assert to_json(read_node(tree)) == tree


def test_every_part_is_read():
    """A part of any node that changes makes another node, so that no rule can miss it."""
    for tree, position in kinds():
        before = read_node(tree)
        for part, value in list(nodes(tree))[position].items():
            if part not in IGNORED and not isinstance(value, dict | list):
                changed = copy.deepcopy(tree)
                list(nodes(changed))[position][part] = "other" if value != "other" else "another"
                assert read_node(changed) != before, (part, tree)


def test_unknown_parts_are_refused():
    """An object with a part that nobody knows is read as the class that no rule accepts."""
    for tree, position in kinds():
        node = {**list(nodes(tree))[position], "a_new_part": True}
        if "class" in node or "type" in node:
            assert isinstance(read_node(node), Other | OtherQuery), node
