"""A schema says who owns which rows, or says what is wrong with it, the same on any rows."""

from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dfprivacy as dfp
from tests.statements.shop import SCHEMA, measure_rows, shop

LINKS = dict(SCHEMA.links)


def test_a_schema_is_a_value():
    """A schema pastes back, equals one that says the same, and cannot be changed."""
    again = eval(repr(SCHEMA), {"Schema": dfp.Schema})
    assert again == SCHEMA
    assert hash(again) == hash(SCHEMA)
    with pytest.raises(AttributeError):
        SCHEMA.unit = "orders.customer"
    with pytest.raises(TypeError):
        SCHEMA.links["orders.customer"] = "nation.nation"


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"unit": "customer"}, "no 'table.column'"),
        ({"unit": 3}, "no 'table.column'"),
        ({"unit": "c.id", "links": {"o": "c.id"}}, "no 'table.column'"),
        ({"unit": "c.id", "links": ["o.c"]}, "links is no mapping"),
        ({"unit": "c.id", "public": "nation"}, "public is no list"),
        ({"unit": "c.id", "links": {"o.c": "c.id", "o.d": "c.id"}}, "two links"),
        ({"unit": "c.id", "links": {"a.x": "b.x", "b.x": "a.x"}}, "circle"),
        ({"unit": "c.id", "links": {"o.c": "o.id"}}, "circle"),
        ({"unit": "c.id", "links": {"o.c": "p.id"}}, "does not reach"),
        ({"unit": "c.id", "links": {"c.x": "o.id"}}, "linked to another"),
        ({"unit": "c.id", "links": {"o.c": "c.id"}, "public": ["O"]}, "touches a public table"),
        ({"unit": "c.id", "public": ["C"]}, "is public"),
        ({"unit": "c.id", "bounds": {"c.x": 3}}, "no pair of numbers"),
    ],
)
def test_a_wrong_schema_is_refused(terms, message):
    """Links lead, each table along one, to the unit's table, and no public table is on the way."""
    with pytest.raises(dfp.errors.InvalidUnitError, match=message):
        dfp.Schema(**terms)


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ({"unit": "buyer.id"}, dfp.RefusedStatementError, "no table or view 'buyer'"),
        ({"unit": "customer.number"}, dfp.MissingColumnError, "no column 'number'"),
        ({"links": {"orders.buyer": "customer.id"}}, dfp.MissingColumnError, "no column 'buyer'"),
        ({"links": {"large.customer": "customer.id"}}, dfp.RefusedStatementError, "view 'large'"),
        ({"public": ["main.nation", "nation"]}, dfp.RefusedStatementError, "twice"),
        ({"links": {"orders.status": "customer.id"}}, dfp.RefusedStatementError, "the link from"),
        ({"bounds": {"product.price": (0, 1)}, "public": []}, dfp.RefusedStatementError, "bounds"),
    ],
)
def test_a_schema_fits_its_tables(terms, error, message):
    """Tables and columns of a schema exist, are no views, and links are between like types."""
    schema = dfp.Schema(**{"unit": SCHEMA.unit, **terms})
    query = "SELECT dp_count(*) FROM " + ("orders" if schema.links else "customer")
    with pytest.raises(error, match=message):
        dfp.explain(query, con=shop(), schema=schema, max_rows=5)


@pytest.mark.parametrize(
    ("call", "same"),
    [
        ("dp_sum(total)", "dp_sum(total, 0, 2)"),
        ("dp_avg(o.Total)", "dp_avg(total, 0, 2)"),
        ("dp_sum(total, 0, 9)", "dp_sum(total, 0, 9)"),
        ("dp_sum(price)", "dp_sum(price, 0, 5)"),
        ("dp_median(total)", "dp_median(total)"),
        ("var_samp(total)", "dp_var(total, 0, 2)"),
        ("stddev_samp(total)", "dp_stddev(total, 0, 2)"),
        ("covar_samp(total, price)", "dp_cov(total, price, 0, 2, 0, 5)"),
        ("corr(price, total)", "dp_corr(price, total, 0, 5, 0, 2)"),
        (
            "dp_corr(price, total, epsilon := 1e9)",
            "dp_corr(price, total, 0, 5, 0, 2, epsilon := 1e9)",
        ),
        ("regr_slope(total, price)", "dp_slope(total, price, 0, 2, 0, 5)"),
        ("regr_intercept(price, total)", "dp_intercept(price, total, 0, 5, 0, 2)"),
        ("regr_r2(total, price)", "dp_r_squared(total, price, 0, 2, 0, 5)"),
    ],
)
def test_bounds_of_a_schema_are_those_of_its_columns(call, same):
    """A call that would find bounds of a column takes those that the schema knows."""
    bounded_schema = dfp.Schema(
        SCHEMA.unit, SCHEMA.links, SCHEMA.public, {"orders.TOTAL": (0, 2), "product.price": (0, 5)}
    )
    rest = "FROM orders o JOIN item USING (order_id) JOIN product p USING (product)"
    con, answers = shop(), []
    for expression, schema in ((call, bounded_schema), (same, SCHEMA)):
        terms = {"con": con, "schema": schema, "max_rows": 50, "epsilon": 1e12}
        answers.append(dfp.sql(f"SELECT {expression} {rest}", **terms).fetchall()[0][0])
    assert answers[0] == pytest.approx(answers[1], abs=1e-4)


UNNAMED = dfp.Schema(unit="customer.id", links={"item.order_id": "customer.id"})


@pytest.mark.parametrize("name", ["orders", "large", "per_customer"])
def test_tables_that_are_not_named_are_refused(name):
    """A table that a schema does not name is refused, in a view too."""
    with pytest.raises(dfp.RefusedStatementError, match="which the schema does not name"):
        dfp.explain(f"SELECT dp_count(*) FROM {name}", con=shop(), schema=UNNAMED, max_rows=5)


@pytest.mark.parametrize(
    "make", [lambda rows: rows.df(), lambda rows: rows.pl(), lambda rows: duckdb.from_df(rows.df())]
)
def test_frames_by_name(make):
    """Frames are joined by name, private ones by a schema, and the answer is such a frame."""
    con = shop()
    names = ("customer", "orders", "item", "nation", "product")
    frames = {name: make(con.table(name)) for name in names}
    query = (
        "SELECT name, dp_count(*) AS n FROM orders JOIN customer ON customer = id "
        "JOIN nation USING (nation) GROUP BY name"
    )
    terms = {"schema": SCHEMA, "max_rows": 8, "max_groups": 1, "epsilon": 1e12}
    terms["keys"] = ["N1", "N3"]
    ours = dfp.sql(query, **frames, **terms)
    theirs = dfp.sql(query, con=con, **terms)
    rows = ours.fetchall() if hasattr(ours, "fetchall") else duckdb.sql("FROM ours").fetchall()
    assert [(k, round(n)) for k, n in rows] == [(k, round(n)) for k, n in theirs.fetchall()]
    assert hasattr(ours, "fetchall") or type(ours) is type(frames["orders"])


def test_a_reader_is_read_once():
    """Batches, which can be read once, stand in as many places of a statement as they are named."""
    con = shop()
    query = (
        "SELECT dp_count(*) AS n FROM orders a JOIN orders b USING (customer) WHERE a.day < b.day"
    )
    counts = []
    for frame in ((table := con.table("orders").to_arrow_table()), table.to_reader()):
        frames = {"orders": frame, "customer": con.table("customer").to_arrow_table()}
        terms = {"schema": dfp.Schema(unit="customer.id", links={"orders.customer": "customer.id"})}
        release = dfp.sql(query, **frames, **terms, max_rows=20, epsilon=1e12)
        counts.append(round(release["n"][0].as_py()))
    assert counts == [counts[0]] * 2
    assert counts[0] > 100


def test_public_frames():
    """A frame that is declared public is joined with one that is not, by a unit or row by row."""
    flights = pd.DataFrame(
        {"plane": [f"N{i % 40}" for i in range(400)], "carrier": ["A", "B"] * 200}
    )
    airlines = pd.DataFrame({"carrier": ["A", "B", "C"], "name": ["Alpha", "Beta", "Gamma"]})
    query = "SELECT name, dp_count(*) AS n FROM flights JOIN airlines USING (carrier) GROUP BY name"
    terms = {"epsilon": 1e12, "keys": ["Alpha", "Beta", "Gamma"]}
    for unit in ({"unit": "plane", "max_rows": 10, "max_groups": 1}, {}):
        release = dfp.sql(query, flights=flights, airlines=dfp.public(airlines), **unit, **terms)
        assert [round(n) for n in release["n"]] == [200, 200, 0]
    frames = {"flights": flights, "airlines": airlines, "a": dfp.public(airlines)}
    with pytest.raises(dfp.errors.InvalidUnitError, match="several frames are private"):
        dfp.sql(query, **frames, unit="plane", max_rows=1)


ROWS = dfp.Schema(rows="orders", public=["nation", "product"])
BY_ROW = Path(__file__).with_name("owned_by_row.sql").read_text().splitlines()


@pytest.mark.parametrize("query", BY_ROW)
def test_rows_by_themselves_meet_public_rows(query):
    """Each protected row is one row of what is measured at most: with it, one row comes."""
    con = shop()
    columns = "order_id, customer, total, status, day"
    _, before = measure_rows(query, con, schema=ROWS)
    con.execute(f"INSERT INTO orders SELECT {columns} FROM orders WHERE order_id < 9")
    _, after = measure_rows(query, con, schema=ROWS)
    con.execute("INSERT INTO nation SELECT * FROM nation")
    assert before.num_rows <= after.num_rows <= before.num_rows + 9
    assert before.num_rows > 0


def test_matches_beyond_those_declared_are_left_out_alike_for_every_unit():
    """Of a unit's rows with one value so many are seen, whatever other units have."""
    schema = dfp.Schema(SCHEMA.unit, SCHEMA.links, SCHEMA.public, matches={"orders.customer": 2})
    query = "SELECT dp_sum(a.total * b.total, 0, 9) FROM orders a JOIN orders b USING (customer)"
    con = shop("INSERT INTO orders SELECT 900 + i, 1, i, 'new', NULL FROM range(50) r(i)")
    plan, table = measure_rows(query, con, schema=schema)
    rows = table.to_pylist()
    units = [row[plan.terms.unit.column] for row in rows]
    assert max(map(units.count, units)) == 4
    con.execute("DELETE FROM orders WHERE customer = 1")
    _, others = measure_rows(query, con, schema=schema)
    gone = [row for row in rows if row not in others.to_pylist()]
    assert {row[plan.terms.unit.column] for row in gone} == {1}
    assert len(rows) - others.num_rows == 4


def test_a_schema_reads_from_a_file(tmp_path):
    """A schema is a mapping or a YAML file as well; what is none is refused."""
    path = tmp_path / "schema.yml"
    path.write_text(
        "unit: customer.id\nlinks:\n  orders.customer: customer.id\n"
        "  item.order_id: orders.order_id\npublic: [nation, product]\n"
    )
    con, query = shop(), "SELECT dp_count(*) FROM item JOIN product USING (product)"
    plans = [
        dfp.explain(query, con=con, schema=schema, max_rows=5)
        for schema in (
            SCHEMA,
            str(path),
            {"unit": SCHEMA.unit, "links": LINKS, "public": SCHEMA.public},
        )
    ]
    assert len({plan.row_query for plan in plans}) == 1
    twice, deep = tmp_path / "twice.yml", tmp_path / "deep.yml"
    twice.write_text("unit: customer.id\nunit: orders.customer\n")
    deep.write_text("unit: " + "[" * 20_000)
    for wrong in (tmp_path / "none.yml", twice, deep, {"units": "a.b"}, 7, {}):
        with pytest.raises(dfp.errors.InvalidUnitError):
            dfp.explain(query, con=con, schema=wrong, max_rows=5)
    with pytest.raises(dfp.errors.InvalidUnitError, match="leave unit= out"):
        dfp.explain(query, con=con, schema=SCHEMA, unit="customer", max_rows=5)


KINDS = [
    ("VARCHAR", "'U' || i"),
    ("VARCHAR COLLATE NOCASE", "CASE WHEN i % 2 = 0 THEN 'u' ELSE 'U' END || i // 2"),
    ("DOUBLE", "CASE i WHEN 0 THEN ['0', '-0.0'][1 + again] WHEN 1 THEN 'NaN' ELSE i::TEXT END"),
    ("DATE", "DATE '2024-01-01' + i::INTEGER"),
    ("BLOB", "encode('U' || i)"),
    ("UUID", "md5(i::VARCHAR)::UUID"),
]


@pytest.mark.parametrize(("kind", "value"), KINDS, ids=[kind for kind, _ in KINDS])
def test_units_of_any_type(kind, value):
    """Two units are one where they are the same to everybody: no collation makes one of two."""
    con = duckdb.connect()
    con.execute(
        f"CREATE TABLE u (id {kind}, x INTEGER); CREATE TABLE v (id {kind}, y INTEGER);"
        "CREATE TABLE twice AS SELECT r % 6 AS i, r // 6 AS again FROM range(12) t(r);"
        f"INSERT INTO u SELECT {value}, i FROM twice;"
        f"INSERT INTO v SELECT {value}, i FROM twice WHERE again = 0"
    )
    schema = dfp.Schema(unit="u.id", links={"v.id": "u.id"})
    plan, table = measure_rows(
        "SELECT dp_sum(y, 0, 9), dp_sum(x, 0, 9) FROM u JOIN v USING (id)", con, schema=schema
    )
    rows = table.to_pylist()
    assert sorted(row["x"] for row in rows) == sorted([*range(6)] * 2)
    assert all(row["x"] == row["y"] for row in rows)
    _, single_table = measure_rows("SELECT dp_sum(x, 0, 9) FROM u", con, schema=schema)
    for owned_rows in (rows, single_table.to_pylist()):
        assert len({repr(row[plan.terms.unit.column]) for row in owned_rows}) == 6


def test_units_of_types_whose_equal_values_differ_are_refused():
    """An interval of 30 days is one of a month to DuckDB: no unit can go by it."""
    con = duckdb.connect()
    con.execute("CREATE TABLE u AS SELECT INTERVAL (i) DAY AS id FROM range(9) r(i)")
    with pytest.raises(dfp.RefusedStatementError, match="a unit of type INTERVAL"):
        dfp.explain(
            "SELECT dp_count(*) FROM u", con=con, schema=dfp.Schema(unit="u.id"), max_rows=1
        )


REFUSED = [
    ("nation LEFT JOIN customer USING (nation)", "LEFT JOIN from a public table"),
    ("customer FULL JOIN nation USING (nation)", "FULL JOIN"),
    ("customer POSITIONAL JOIN nation", "POSITIONAL JOIN"),
    ("customer ASOF RIGHT JOIN orders ON id = customer AND balance >= total", "ASOF JOIN"),
    ("nation", "a release of public tables"),
    ("(SELECT nation FROM customer UNION ALL SELECT nation FROM nation)", "UNION ALL of"),
    ("(SELECT id FROM customer UNION ALL SELECT called FROM customer)", "UNION ALL of columns"),
    ("(SELECT * FROM customer LIMIT 3)", "LIMIT inside"),
    ("(SELECT * FROM customer USING SAMPLE 3)", "SAMPLE"),
    ("customer WHERE balance IN (SELECT total, 1 FROM orders)", "IN over such columns"),
    ("customer WHERE nation = (SELECT nation FROM nation)", "a scalar subquery that is not one"),
    ("customer JOIN orders ON id = customer WHERE x.nation = 1", "no table in FROM"),
    ("customer, nation WHERE nation = 1", "column 'nation', which several tables have"),
    ("customer WHERE random() < 0.5", "random"),
    ("range(5)", "a table function"),
    ("customer JOIN (SELECT x, count(*) FROM orders GROUP BY x) ON true", "has a column 'x'"),
    (
        "customer LEFT JOIN orders ON id = customer AND total IN (SELECT paid FROM item)",
        "a subquery in ON",
    ),
    (
        "customer LEFT JOIN (orders JOIN product ON EXISTS (FROM nation)) ON id = customer",
        "a subquery in ON",
    ),
]


@pytest.mark.parametrize(("rest", "message"), REFUSED)
def test_what_has_no_owner_is_refused(rest, message):
    """Rows that no rule gives an owner are refused by name on any tables, and nothing is read."""
    answers = []
    for con in (shop(), shop("DELETE FROM orders; DELETE FROM customer")):
        with pytest.raises(dfp.DPError) as caught:
            dfp.sql(f"SELECT dp_count(*) AS n FROM {rest}", con=con, schema=SCHEMA, max_rows=5)
        answers.append((type(caught.value), str(caught.value)))
    assert answers[0] == answers[1]
    assert message in answers[0][1]
