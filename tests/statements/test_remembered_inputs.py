"""A remembered answer of a nested statement is the answer that a fresh release would give."""

import copy
import json

import duckdb
import pytest

import dfprivacy as dfp

STATEMENTS = {
    "arithmetic": "SELECT dp_count(*) AS n FROM orders WHERE total > "
    "(SELECT 1.513 * dp_mean(total, 0, 40) + 1 FROM orders WHERE total < 35)",
    "HAVING": "SELECT dp_count(*) AS n FROM customer WHERE nation IN "
    "(SELECT nation FROM customer GROUP BY nation HAVING dp_count(*) > 200)",
    "LIMIT": "WITH ranked AS (SELECT nation, dp_count(*) AS n FROM customer GROUP BY nation "
    "ORDER BY n DESC, nation LIMIT 2 OFFSET 1) "
    "SELECT dp_count(*) AS n FROM customer JOIN ranked USING (nation)",
    "QUALIFY": "WITH ranked AS (SELECT nation, dp_sum(balance, 0, 9) AS s FROM customer "
    "GROUP BY nation QUALIFY row_number() OVER (ORDER BY s DESC) <= 2) "
    "SELECT dp_count(*) AS n FROM customer WHERE nation IN (SELECT nation FROM ranked)",
    "FILTER": "SELECT dp_count(*) AS n FROM customer WHERE balance > (SELECT "
    "dp_count(*) FILTER (WHERE nation > 2) / dp_count(*) FILTER (WHERE nation < 3) FROM customer)",
    "query over answers": "WITH r AS (SELECT nation, dp_count(*) AS n FROM customer "
    "GROUP BY nation) SELECT dp_count(*) AS n FROM customer WHERE balance * 100 < "
    "(SELECT max(n) - min(n) FROM r WHERE nation <> 0)",
    "two levels": "SELECT dp_count(*) AS n FROM orders WHERE total > (SELECT 1.13 * "
    "dp_mean(total, 0, 40) FROM orders WHERE total > (SELECT 0.97 * dp_mean(total, 0, 40) "
    "FROM orders))",
    "public tables": "SELECT dp_count(*) AS n FROM orders WHERE total > "
    "(SELECT max(level) - 1 FROM low WHERE level > 2)",
}
OTHER_NAMES = {
    "total": "order_id", "nation": "balance", "balance": "nation", "low": "high",
    "+": "-", "-": "+", "*": "+", "/": "*", "max": "min", "min": "max",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN", "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_NOTEQUAL": "COMPARE_EQUAL", "DESCENDING": "ASCENDING",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHAN", "ORDER_DEFAULT": "DESCENDING",
}  # fmt: skip
SAMPLES = [
    pytest.param(name, marks=[] if name in {"HAVING", "public tables"} else pytest.mark.battery)
    for name in STATEMENTS
]
REMOVED = ("where_clause", "having", "qualify", "limit", "offset", "filter")


@pytest.fixture(scope="module")
def shop():
    con = duckdb.connect()
    con.execute("""
        CREATE TABLE customer AS SELECT i AS id, i % 10 AS balance,
            CASE WHEN i < 700 THEN 0 ELSE i % 5 END AS nation FROM range(1000) r(i);
        CREATE TABLE orders AS SELECT i AS order_id, i * 7 % 1000 AS customer,
            (i % 40)::DOUBLE AS total FROM range(3000) r(i);
        CREATE TABLE low AS SELECT i AS level FROM range(9) r(i);
        CREATE TABLE high AS SELECT i AS level FROM range(30) r(i);
    """)
    schema = dfp.Schema(
        unit="customer.id", links={"orders.customer": "customer.id"}, public=["low", "high"]
    )
    terms = {"con": con, "schema": schema, "max_rows": 3, "max_groups": 1}
    return {**terms, "epsilon": 1e6, "delta": 1e-4}


def change_parts(tree):
    """Yield copies of a syntax tree in which one part is another one, or is left out."""

    def paths(part, path):
        if isinstance(part, dict):
            for name, inner in part.items():
                yield (*path, name), inner
                yield from paths(inner, (*path, name))
        elif isinstance(part, list):
            for index, inner in enumerate(part):
                yield (*path, index), inner
                yield from paths(inner, (*path, index))

    for path, part in paths(tree, ()):
        if path[-1] == "text" and str(part).replace(".", "").isdecimal():
            other = str(float(part) + 1) if "." in part else str(int(part) + 1)
        elif isinstance(part, str) and part in OTHER_NAMES and path[-1] != "alias":
            other = OTHER_NAMES[part]
        elif path[-1] in REMOVED and part:
            other = None
        else:
            continue
        copied = copy.deepcopy(tree)
        target = copied
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = other
        yield copied


def variants(text):
    """Return a statement and every text in which one part of it is changed."""
    con = duckdb.connect()
    ((tree,),) = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    texts = [text]
    for changed in change_parts(json.loads(tree)):
        try:
            written = con.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(changed)])
            texts += written.fetchone()
        except duckdb.Error:
            continue
    return list(dict.fromkeys(texts))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_free_answer_equals_a_fresh_one(shop, tmp_path, name):
    """Whichever part of a nested statement changes, what a ledger remembers is its own answer."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=4e9, delta=0.9, remember=True)
    terms = {**shop, "ledger": ledger, "dataset": "shop", "version": "1"}
    answers = set()
    for text in variants(STATEMENTS[name]):
        try:
            fresh = dfp.sql(text, **shop).fetchall()
        except dfp.DPError:
            continue
        assert dfp.sql(text, **terms).fetchall() == fresh, text
        answers.add(str(fresh))
    assert len(answers) > 3
