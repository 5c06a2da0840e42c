"""A shop: customers, their orders, items of these, and public tables; all of it made up."""

import duckdb
import pyarrow as pa

import dfprivacy as dfp
from dfprivacy.release.terms import Terms, read_unit
from dfprivacy.statements.gate import gate_rows
from dfprivacy.statements.jobs import _Drawn, open_job

SCHEMA = dfp.Schema(
    unit="customer.id",
    links={"orders.customer": "customer.id", "item.order_id": "orders.order_id"},
    public=["nation", "product"],
)
SHOP = """
    CREATE TABLE nation AS SELECT i AS nation, 'N' || i AS name, i % 2 AS region
        FROM range(5) r(i);
    CREATE TABLE product AS SELECT i AS product, 'P' || i AS label, i * 1.5::DOUBLE AS price
        FROM range(8) r(i);
    CREATE TABLE customer AS SELECT i AS id, 'C' || i AS called, i % 6 AS nation,
        CASE WHEN i % 7 > 0 THEN (i * 37 % 100)::DOUBLE END AS balance
        FROM range(40) r(i);
    CREATE TABLE orders AS SELECT i AS order_id, i * 7 % 40 AS customer,
        (i * 13 % 50)::DOUBLE / 8 AS total, ['open', 'done', 'lost'][1 + i % 3] AS status,
        DATE '2024-01-01' + (i % 60)::INTEGER AS day
        FROM range(160) r(i);
    CREATE TABLE item AS SELECT i * 11 % 160 AS order_id, i % 9 AS product,
        (i % 5)::INTEGER AS quantity, ((i * 3 % 70) / 4)::DECIMAL(9, 2) AS paid
        FROM range(400) r(i);
    CREATE VIEW large AS SELECT * FROM orders WHERE total > 3;
    CREATE VIEW per_customer AS SELECT customer, count(*) AS n, max(total) AS most FROM orders
        GROUP BY customer;
"""
HOSTILE = """
    INSERT INTO customer SELECT {unit}, 'C3', i % 3, 1e300 FROM range({many}) r(i);
    INSERT INTO customer VALUES ({unit}, NULL, NULL, NULL);
    INSERT INTO orders SELECT i % 30, {unit}, i, 'done', DATE '2024-01-05' FROM range({many}) r(i);
    INSERT INTO orders SELECT 1000 + i % 5, {unit}, 'NaN', NULL, NULL FROM range({many}) r(i);
    INSERT INTO orders VALUES (NULL, {unit}, NULL, 'open', NULL), (5000, {unit}, '-0.0', 'x', NULL);
    INSERT INTO item SELECT 1000 + i % 5, i % 9, i, i FROM range({many}) r(i);
    INSERT INTO item VALUES (5000, NULL, NULL, NULL), (NULL, 1, 1, 1);
"""
"""A unit with many rows, among them orders that go by the numbers of others' orders."""
NOBODY = """
    INSERT INTO customer VALUES (NULL, 'nobody', 1, 5.0);
    INSERT INTO orders VALUES (7000, NULL, 5.0, 'open', NULL), (7001, 99999, 6.0, 'open', NULL);
    INSERT INTO item VALUES (7000, 1, 1, 1), (7001, 1, 1, 1), (88888, 1, 1, 1), (NULL, 2, 2, 2);
"""
"""Rows that are linked to nobody."""


def shop(*more: str) -> duckdb.DuckDBPyConnection:
    """Return a connection with the tables of a shop."""
    con = duckdb.connect()
    con.execute(SHOP)
    for text in more:
        con.execute(text)
    return con


LENT = {"VARCHAR": ["open", "done", "P1"], "DOUBLE": [3.5, 2.0, 40.0], "BIGINT": [4, 2, 1]}
"""Constants in place of draws, the same on all tables."""


def lend_table(release, engine):
    """Return a table of fixed values of the types of a released one; one row where it has one."""
    kinds = engine.from_arrow(release.table).types
    rows = 1 if release.single else 3
    values = [LENT.get(str(kind), [1, 2, 3])[:rows] for kind in kinds]
    return pa.table(values, names=release.table.column_names).cast(release.table.schema)


def measure_rows(query, con=None, schema=SCHEMA, **frames):
    """Return the plan of a statement and the rows that reach the measurement, without noise.

    Of a statement in which releases stand inside of one, it is that one.
    """
    terms = Terms(epsilon=1, delta=1e-6, unit=schema.unit and read_unit(schema.unit, 5, 5))
    with open_job(query, con, frames, terms, None, schema=schema) as job:
        plan = job.plans[-1]
        releases = plan.statement.givens
        if any(release.script.statements for release in releases):
            for release in releases:
                release.table = lend_table(release, job.engine)
        else:  # of public tables alone
            _Drawn(job).give(plan)
        rows, facts = plan.read(job.engine), plan.statement.scope.bag.facts
        read = gate_rows(rows, {"owner", *(name for name in facts if facts[name].is_read)})
        try:
            with job.reading(plain=read is rows):
                return plan, read.project(plan.projection).to_arrow_table()
        finally:
            job.source.take_back()


def by_owner(query, con, **more):
    """Return the rows that reach the measurement, sorted, by their owner."""
    plan, table = measure_rows(query, con, **more)
    rows_by_owner = {}
    for row in table.to_pylist():
        owner = row[plan.terms.unit.column]
        rows_by_owner.setdefault(owner, []).append(repr(row))
    return {owner: sorted(rows) for owner, rows in rows_by_owner.items()}
