"""SQL as analysts write it: with next to no noise, each text has DuckDB's rows, names and order."""

import datetime as dt
from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp
from tests.statements.same_rows import require_same_rows
from tests.statements.shop import SCHEMA, shop

TERMS = {"schema": SCHEMA, "max_rows": 4, "max_groups": 4, "epsilon": 1e13, "delta": 1e-2}
QUERIES = Path(__file__).with_name("analysts.sql").read_text().split(";\n")[:-1]


@pytest.mark.sample(16)
@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_duckdbs(query):
    """A private answer at epsilon 10^13 is DuckDB's; a false alarm is rarer than 10^-6."""
    con = shop()
    ours = dfp.sql(query, con=con, **TERMS)
    require_same_rows(ours, con.sql(query), ordered=True, rel=0.03, off=0.1)


def test_keys_without_calls_cost_one_count():
    """SELECT DISTINCT is a partition selection: it pays epsilon and delta, and hides few units."""
    con = shop("INSERT INTO orders VALUES (900, 3, 1.0, 'rare', NULL)")
    terms = {**TERMS, "epsilon": 1}
    plan = dfp.explain("SELECT DISTINCT status FROM orders", con=con, **terms)
    assert (plan.epsilon, plan.delta, len(plan.draws)) == (1, 1e-2, 1)
    statuses = dfp.sql("SELECT DISTINCT status FROM orders", con=con, **TERMS).fetchall()
    assert ("rare",) not in statuses


def test_values_cost_one_count():
    """The mode of a column is read from counts by value: it shows no value of few units."""
    con = shop("UPDATE orders SET status = 'rare' || order_id WHERE order_id > 40")
    terms = {**TERMS, "epsilon": 1}
    plan = dfp.explain("SELECT histogram(status), mode(status) FROM orders", con=con, **terms)
    assert (plan.epsilon, plan.delta, len(plan.draws)) == (1, 1e-2, 1)
    assert plan.keys == ("status",)
    ((histogram, mode),) = dfp.sql(
        "SELECT histogram(status), mode(status) FROM orders", con=con, **{**TERMS, "delta": 1e-9}
    ).fetchall()
    assert not any(value.startswith("rare") for value, _ in histogram)
    assert mode in dict(histogram)


def test_explain_is_a_plan_at_no_cost(tmp_path):
    """EXPLAIN returns what `explain` says, makes no table and charges nothing."""
    con, ledger = shop(), dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    terms = {**TERMS, "epsilon": 1, "ledger": ledger, "dataset": "shop"}
    query = "CREATE TABLE counts AS SELECT count(*) AS n FROM orders"
    rows = dfp.sql(f"EXPLAIN {query}", con=con, **terms).fetchall()
    assert rows == dfp.explain(query, con=con, **terms).head()
    connected = dfp.connect(con, **terms)
    assert connected.sql(f"explain {query}").fetchall() == rows
    assert ledger.spent("shop").epsilon == 0
    assert ("counts",) not in con.sql("SHOW TABLES").fetchall()


def test_a_statement_has_one_clock():
    """All times of a statement and of its views are one constant, in the zone of the session."""
    con = shop("SET TimeZone = 'Pacific/Kiritimati'")
    con.execute("CREATE VIEW dated AS SELECT customer, now() AS t, current_date AS d FROM orders")
    query = "SELECT count(*) AS n FROM dated WHERE t = now() AND d = today() AND d = t::DATE"
    assert dfp.sql(query, con=con, **TERMS).fetchall() == [(160,)]
    text = dfp.explain(query, con=con, **TERMS).row_query
    day = con.execute("SELECT current_date").fetchone()[0]
    assert any(str(day - dt.timedelta(days=late)) in text for late in (0, 1))


def test_the_catalog_has_names_and_types_of_the_schema_alone():
    """SHOW, DESCRIBE and information_schema cost nothing and have no row and no other table."""
    con = shop("CREATE TABLE private_notes AS SELECT 1 AS x")
    names = [(name,) for name in ("customer", "item", "nation", "orders", "product")]
    assert dfp.sql("SHOW TABLES", con=con, **TERMS).fetchall() == names
    table_query = "SELECT table_name FROM information_schema.tables ORDER BY 1"
    assert dfp.sql(table_query, con=con, **TERMS).fetchall() == names
    theirs = con.sql("DESCRIBE orders").fetchall()
    assert dfp.sql("DESCRIBE orders", con=con, **TERMS).fetchall() == theirs
    columns = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = "
    ours = dfp.sql(f"{columns}'item'", con=con, **TERMS).fetchall()
    assert ours == con.sql(f"{columns}'item'").fetchall()
    assert dfp.explain("DESCRIBE orders", con=con, **TERMS).epsilon == 0
    copied = shop("DELETE FROM orders; DELETE FROM customer")
    assert dfp.sql("DESCRIBE orders", con=copied, **TERMS).fetchall() == theirs


def test_functions_that_duckdb_lacks():
    """iff, to_char and width_bucket are what Postgres and Snowflake make of them."""
    con = shop()
    query = (
        "SELECT to_char(day, 'YYYY-MM') AS m, iff(total > 3, 'a', 'b') AS s, "
        "width_bucket(total, 0, 5, 5) AS w, count(*) AS n FROM orders GROUP BY ALL ORDER BY ALL"
    )
    plain = (
        "SELECT strftime(day, '%Y-%m') AS m, CASE WHEN total > 3 THEN 'a' ELSE 'b' END AS s, "
        "CASE WHEN total >= 5 THEN 6 ELSE floor(total)::INT + 1 END AS w, count(*) AS n "
        "FROM orders GROUP BY ALL ORDER BY ALL"
    )
    ours = {row[:3]: row[3] for row in dfp.sql(query, con=con, **TERMS).fetchall()}
    theirs = {row[:3]: row[3] for row in con.sql(plain).fetchall()}
    assert ours
    assert ours.items() <= theirs.items()


@pytest.mark.parametrize(
    ("call", "exact"),
    [
        ("to_timestamp(whole)", "to_timestamp(whole)"),
        ("to_timestamp(small)", "to_timestamp(small::DOUBLE)"),
        ("width_bucket(small, 0, 100, 5)", "least(small::INTEGER // 20 + 1, 6)"),
        ("width_bucket(small, 100, 0, 5)", "least((100 - small::INTEGER) // 20 + 1, 6)"),
        ("width_bucket(whole, 0, 2000000000, 4)", "whole // 500000000 + 1"),
    ],
)
def test_functions_that_duckdb_lacks_overflow_in_no_type(call, exact):
    """Their values are those of wide numbers, whatever type the column is declared."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT (i % 4 * 500000000)::INTEGER AS whole, "
        "(i % 10 * 10)::UTINYINT AS small FROM range(2000) r(i)"
    )
    query = f"SELECT {call} AS k, count(*) AS n FROM t GROUP BY k"
    ours = dfp.sql(query, con=con, epsilon=1e13, delta=1e-2)
    theirs = con.sql(f"SELECT {exact} AS k, count(*) AS n FROM t GROUP BY k ORDER BY k")
    assert ours.fetchall() == theirs.fetchall()


@pytest.mark.parametrize(
    "condition",
    [
        "status = ANY(['new', 'paid'])",
        "status IN (SELECT unnest(['new', 'paid']))",
        "status <> ALL(ARRAY['new'])",
        "NOT status = ANY(['new', NULL])",
        "total + 1 = ANY([total + 1, 3])",
    ],
)
def test_a_list_has_members(condition):
    """A comparison with ANY or ALL of a list is one with its items."""
    con, query = shop(), f"SELECT count(*) AS n FROM orders WHERE {condition}"
    assert dfp.sql(query, con=con, **TERMS).fetchall() == con.sql(query).fetchall()


def test_a_list_of_a_row_is_asked_by_list_contains():
    """The hint for ANY of a list that is no constant has the call that is answered."""
    con, query = shop(), "SELECT count(*) AS n FROM orders WHERE {}"
    with pytest.raises(dfp.RefusedStatementError) as refused:
        dfp.sql(query.format("'o' = ANY(string_split(status, 'p'))"), con=con, **TERMS)
    assert "list_contains(tags, 'a') for 'a' = ANY(tags)" in refused.value.hint
    rewritten = query.format("list_contains(string_split(status, 'p'), 'o')")
    assert dfp.sql(rewritten, con=con, **TERMS).fetchall() == con.sql(rewritten).fetchall()


def test_groups_of_a_public_table_have_any_answer():
    """Sums and means of protected columns are those of the rows with each public key.

    A key without rows has answers too: the sum of no values is 0.
    """
    query = (
        "SELECT n.nation, count(id) AS n, {sum} AS s, {mean} AS a FROM (SELECT DISTINCT "
        "nation + 3 AS nation FROM nation) n LEFT JOIN customer USING (nation) GROUP BY n.nation "
        "ORDER BY 1"
    )
    con = shop()
    private = query.format(sum="dp_sum(balance, 0, 99)", mean="dp_mean(balance, 0, 99)")
    plain = query.format(sum="coalesce(sum(balance), 0)", mean="avg(balance)")
    ours, theirs = dfp.sql(private, con=con, **TERMS).fetchall(), con.sql(plain).fetchall()
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    assert not all(rows for _, rows, *_ in theirs)
    for (*_, total, mean), (_, rows, true_total, true_mean) in zip(ours, theirs, strict=True):
        assert total == pytest.approx(true_total, abs=1e-3)
        assert not rows or mean == pytest.approx(true_mean, abs=1e-3)


REFUSED = {
    "SELECT n.nation, count(*) FROM nation n LEFT JOIN customer USING (nation) GROUP BY 1": "keys",
    "SELECT n.nation, count(id) FROM nation n LEFT JOIN customer c USING (nation) WHERE "
    "c.id > 3 GROUP BY 1": "keys",
    "SELECT c.called, count(id) FROM nation n LEFT JOIN customer c USING (nation) GROUP BY 1":
        "keys",
    "SELECT n.nation, count(id) FROM nation n LEFT JOIN customer c USING (nation) JOIN orders "
    "ON customer = id GROUP BY 1": "LEFT JOIN from a public table",
    "SELECT count(*) FROM nation n, LATERAL (SELECT 1 FROM customer c WHERE c.nation = n.nation "
    "LIMIT 2)": "a subquery in FROM that names columns of tables before it",
}  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_public_rows_without_a_match(query):
    """A list of public keys is answered if no protected row decides which of them are there."""
    with pytest.raises(dfp.RefusedStatementError) as caught:
        dfp.sql(query, con=shop(), **TERMS)
    assert REFUSED[query] in caught.value.message


@pytest.mark.parametrize("keys", ["ALL", "status"])
def test_groups_beside_each_row(keys):
    """A subquery for each row that groups its rows is refused, however its keys are said."""
    query = (
        "SELECT count(*) FROM customer c, LATERAL (SELECT status FROM orders o WHERE "
        f"o.customer = c.id GROUP BY {keys})"
    )
    with pytest.raises(dfp.RefusedStatementError, match="names columns of tables before it"):
        dfp.sql(query, con=shop(), **TERMS)


@pytest.mark.parametrize(
    "text",
    [
        "WITH g AS ({}) SELECT * FROM g",
        "SELECT m + 1 AS m FROM ({})",
        "{} UNION ALL SELECT count(*) AS m FROM orders",
        "SELECT ({}) AS m",
        "SELECT a.m, b.m AS n FROM (SELECT count(*) AS m FROM item) a, ({}) b",
    ],
)
@pytest.mark.parametrize(
    "aggregate",
    [
        "{'n': count(*)} AS m FROM orders",
        "string_agg(status) AS m FROM orders",
        "count(*) AS m FROM orders WHERE random() < 1",
        "count(*) AS m FROM orders, customer WHERE total > balance",
        "sum(totl) AS m FROM orders",
        "sum(total) AS m, count(*) AS m FROM orders",
    ],
)
def test_an_aggregate_is_refused_for_its_own_reason(text, aggregate):
    """An inner SELECT is refused for the same reason as that SELECT alone."""
    con = shop()
    with pytest.raises(dfp.DPError) as alone:
        dfp.sql(f"SELECT {aggregate}", con=con, **TERMS)
    with pytest.raises(dfp.DPError) as inside:
        dfp.sql(text.replace("{}", f"SELECT {aggregate}"), con=con, **TERMS)
    assert inside.value.message == alone.value.message
