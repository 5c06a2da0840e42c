"""Rows of several tables reach the measurement by their owner: nobody's rows depend on others'."""

import random
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp
from dfprivacy.statements import jobs, relations, select
from dfprivacy.statements.gate import ConnectionSource, connection_source
from dfprivacy.statements.tables import Tables
from tests.statements.shop import HOSTILE, NOBODY, SCHEMA, by_owner, measure_rows, shop

HERE = Path(__file__).parent
ALLOWED = (HERE / "owned_allowed.sql").read_text().splitlines()
UNSAID = [line.split(" -- ") for line in (HERE / "owned_unsaid.sql").read_text().splitlines()]
"""Statements that look at several units at once as they are written, and how they are refused."""


def skip_checks(monkeypatch):
    """Leave out the checks of what an author has said."""
    monkeypatch.setattr(select, "require", lambda *_, **__: None)


@pytest.fixture(scope="module")
def clean():
    return shop()


@pytest.fixture(scope="module")
def dirty():
    """Make a shop in which much is linked to nobody."""
    return shop(NOBODY)


def sample_cases(items, start):
    """Return every third of some cases for the fast lane; the others are for the slow one."""
    return [
        pytest.param(*(item if isinstance(item, list) else [item]), id=str(index),
                     marks=[] if index % 3 == start else [pytest.mark.slow])
        for index, item in enumerate(items)
    ]  # fmt: skip


COMING = [
    pytest.param((3, 60), id="known"),
    pytest.param((100, 7), id="new", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=COMING)
def crowded(request):
    """Make a shop into which one unit has come with many rows."""
    return with_unit(*request.param)


def with_unit(unit, many):
    return unit, shop(NOBODY, HOSTILE.format(unit=unit, many=many))


@pytest.fixture(scope="module")
def neighbor_shops():
    """Make one shop into which a known unit has come with many rows, and one with a new one."""
    return [with_unit(3, 60), with_unit(100, 7)]


def differ_in_one_unit(query, before, after, unit):
    """Return whether all other units have the rows that they had, and no row lacks an owner."""
    rows_before, rows_after = by_owner(query, before), by_owner(query, after)
    assert None not in rows_before
    assert None not in rows_after
    for rows in (rows_before, rows_after):
        rows.pop(unit, None)
    return rows_before == rows_after


@pytest.mark.parametrize("query", sample_cases(ALLOWED, 0))
def test_a_unit_changes_its_own_rows_only(dirty, crowded, query):
    """A unit comes with many rows, duplicates and others' numbers: all other rows are as before."""
    unit, con = crowded
    assert differ_in_one_unit(query, dirty, con, unit)


@pytest.mark.parametrize(("query", "_"), sample_cases(UNSAID, 0))
def test_without_the_checker_too(dirty, crowded, monkeypatch, query, _):
    """With the checker off, whatever runs keeps owners apart by itself."""
    skip_checks(monkeypatch)
    unit, con = crowded
    assert differ_in_one_unit(query, dirty, con, unit)


def without_owner(bag):
    """Return a relation as if nobody owned its rows."""
    return relations.Bag(
        bag.facts,
        False,
        lambda names, leaf: (
            f"SELECT {relations._list(relations._quote_all(names))} FROM ({bag.sql(names, leaf)}) x"
        ),
    )


JOINED = [query for query, why in UNSAID if why.startswith(("a join", "a number"))]


@pytest.mark.parametrize("query", sample_cases(JOINED, 1))
def test_the_audit_finds_a_join_without_owners(dirty, neighbor_shops, monkeypatch, query):
    """Where the owner's equality goes from a join, the audit fails."""
    true = relations.join_relations

    def leaking(left, right, how, equal, others=()):
        return true(left, without_owner(right), how, equal, others)

    skip_checks(monkeypatch)
    monkeypatch.setattr(select, "join_relations", leaking)
    monkeypatch.setattr(relations, "join_relations", leaking)
    assert not all(differ_in_one_unit(query, dirty, con, unit) for unit, con in neighbor_shops)


@pytest.mark.parametrize(
    ("column_type", "unit_type"),
    [("BIGINT", "BIGINT"), ("INTEGER", "BIGINT"), ("BIGINT", "INTEGER")],
)
def test_rows_are_owned_by_their_own_value_of_the_unit(column_type, unit_type):
    """Orders of a customer count without a row of that customer; what is no unit owns nothing.

    A join with the unit's table leaves them out.
    """
    con = shop(NOBODY, f"ALTER TABLE orders ALTER customer TYPE {column_type}")
    con.execute(f"ALTER TABLE customer ALTER id TYPE {unit_type}")
    if (column_type, unit_type) == ("BIGINT", "INTEGER"):
        con.execute("INSERT INTO orders VALUES (9000, 1000000000000, 5.0, 'open', NULL)")
    for rows in ("orders", "item JOIN orders USING (order_id)"):
        rows_by_owner = by_owner(f"SELECT dp_count(*) FROM {rows}", con)
        plain = f"SELECT customer, count(*) FROM {rows} WHERE customer < 1000000 GROUP BY 1"
        assert {owner: len(of) for owner, of in rows_by_owner.items()} == dict(
            con.sql(plain).fetchall()
        )
        assert 99999 in rows_by_owner
    joined = "SELECT dp_count(*) FROM orders JOIN customer ON customer = id"
    assert 99999 not in by_owner(joined, con)


ALONG = (
    "SELECT dp_count(*) AS n FROM item JOIN orders USING (order_id) JOIN customer ON customer = id"
)


def test_a_join_along_links_is_these_links(clean):
    """Tables that a statement joins along their links itself are read once each."""
    text = dfp.explain(ALONG, con=clean, schema=SCHEMA, max_rows=3).row_query
    assert [text.count(f'"main"."{name}"') for name in ("item", "orders")] == [1, 1]


def test_few_rows_are_given_owners(clean):
    """Rows of a linked table meet public ones, and what an OR asks of each table, before links."""
    (query,) = (text for text in ALLOWED if "quantity < 3" in text)
    text = dfp.explain(query, con=clean, schema=SCHEMA, max_rows=3, max_groups=1, delta=1e-6)
    rows, links = text.row_query.split("DISTINCT")
    condition = '(("quantity" < 3)) OR (("quantity" > 1) AND ("paid" > 2))'
    assert condition in rows
    assert '"product"' in rows
    assert '"product"' not in links


def test_a_join_on_another_column_is_no_link(monkeypatch):
    """Rows meet others by their link with the owners of its key alone, or get their own."""
    query = "SELECT dp_count(*) AS n FROM item JOIN orders ON item.order_id = orders.customer"
    more = (
        "INSERT INTO customer VALUES (1000, 'named as an order', 1, 5.0); "
        "INSERT INTO orders VALUES (8000, 1000, 5.0, 'open', NULL)"
    )
    skip_checks(monkeypatch)
    before, after = shop(NOBODY, more), shop(NOBODY, more, HOSTILE.format(unit=3, many=60))
    assert differ_in_one_unit(query, before, after, 3)
    monkeypatch.setattr(
        relations.Link,
        "said_by",
        lambda link, pairs, _: link.column in {column for column, _ in pairs},
    )
    assert not differ_in_one_unit(query, before, after, 3)


def test_a_scalar_subquery_is_compared_side_by_side(clean):
    """Each side of its equality is about the subquery's rows alone, or about those around it."""
    mixed = "SELECT max(total) FROM orders o WHERE o.total + c.balance = 5"
    with pytest.raises(dfp.RefusedStatementError, match="compared with the rows around it"):
        dfp.explain(
            f"SELECT dp_count(*) FROM customer c WHERE 9 > ({mixed})", con=clean, schema=SCHEMA
        )


@pytest.mark.parametrize(("query", "why"), sample_cases(UNSAID, 2))
def test_what_is_not_said_is_refused(clean, tmp_path, query, why):
    """A query that looks at several units as written is refused with a rewrite, free of charge."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1, delta=0.5)
    with pytest.raises(dfp.RefusedStatementError) as caught:
        dfp.sql(query, con=clean, schema=SCHEMA, max_rows=5, ledger=ledger, dataset="shop")
    assert caught.value.message.startswith(why)
    assert caught.value.hint
    assert ledger.remaining("shop").epsilon == 1


@pytest.mark.parametrize(
    ("rest", "condition"),
    [
        ("orders a JOIN orders b ON a.day = b.day", "a.customer = b.customer"),
        ("orders a, (SELECT customer AS who FROM orders) b", "a.customer = b.who"),
        ("customer c WHERE EXISTS (SELECT 1 FROM large x WHERE x.total > 7)", "c.id = x.customer"),
    ],
)
def test_a_refused_join_names_what_its_author_can_write(clean, rest, condition):
    """The condition that would do is in the author's names, and does."""
    query, terms = f"SELECT dp_count(*) FROM {rest}", {"con": clean, "schema": SCHEMA}
    with pytest.raises(dfp.RefusedStatementError) as caught:
        dfp.explain(query, **terms, max_rows=5)
    assert caught.value.hint.endswith(f": {condition}")
    rewritten = f"{query[:-1]} AND {condition})" if query.endswith(")") else (
        f"{query} {'AND' if ' ON ' in rest else 'WHERE'} {condition}"
    )  # fmt: skip
    dfp.explain(rewritten, **terms, max_rows=5)


@pytest.mark.parametrize(
    ("rows", "picked"),
    [
        ("CAST(day AS TIMESTAMP) - TIMESTAMP '2024-01-01'", "row_number()"),
        ("[total]", "lag(status)"),
    ],
)
def test_what_breaks_ties_has_one_value(clean, rows, picked):
    """A column that can't tell equal rows apart is refused beside windows that depend on ties."""
    below = f"SELECT customer, status, {rows} AS kept FROM orders"
    picked = f"{picked} OVER (PARTITION BY customer ORDER BY status) IS NOT NULL"
    query = f"SELECT dp_count({{}}) FROM (SELECT * FROM ({below}) QUALIFY {picked})"
    with pytest.raises(dfp.RefusedStatementError) as caught:
        dfp.explain(query.format("kept"), con=clean, schema=SCHEMA, max_rows=5)
    assert caught.value.message.startswith("column 'kept' beside a window that breaks ties by it")
    dfp.explain(query.format("status").replace("*", "customer, status"), con=clean, schema=SCHEMA,
                max_rows=5)  # fmt: skip


LARGE = """
    CREATE TABLE customer AS SELECT i AS id FROM range(7) r(i);
    CREATE TABLE orders AS SELECT i AS order_id, i * 7919 % 7 AS customer, i % 5 AS day,
        sin(i) * 10 ** (i % 17) AS total,
        ['-0.0', '0.0', 'nan', '-nan'][1 + i % 4]::DOUBLE AS zero
        FROM range(300000) r(i);
"""
PER_UNIT = (HERE / "owned_per_unit.sql").read_text().splitlines()
"""Statements whose rows would depend on threads and storage if sums or ties did."""


@pytest.mark.parametrize(
    "query", [PER_UNIT[0], *(pytest.param(text, marks=pytest.mark.slow) for text in PER_UNIT[1:])]
)
def test_rows_of_a_unit_are_the_same_bits(query):
    """Threads, the order of storage and other units change no bit of a unit's rows."""
    schema = dfp.Schema(unit="customer.id", links={"orders.customer": "customer.id"})
    shuffled = "CREATE OR REPLACE TABLE orders AS FROM orders ORDER BY hash(order_id)"
    others = "DELETE FROM orders WHERE customer IN (0, 2, 3)"
    ways = ["SET threads = 1", f"SET threads = 8; {shuffled}", others]
    rows_by_way = []
    for way in ways:
        con = duckdb.connect()
        con.execute(f"{LARGE}; {way}")
        rows_by_owner = by_owner(query, con, schema=schema)
        rows_by_way.append(
            {owner: unit_rows for owner, unit_rows in rows_by_owner.items() if owner in {1, 4, 5}}
        )
    assert rows_by_way[0]
    assert rows_by_way[0] == rows_by_way[1] == rows_by_way[2]


EQUAL = [
    "SELECT DISTINCT customer, zero AS z FROM orders",
    "SELECT DISTINCT ON (customer, isnan(zero)) customer, zero AS z FROM orders",
    "SELECT customer, min(zero) AS z FROM orders GROUP BY customer, zero",
    "SELECT customer, max(zero) OVER (PARTITION BY customer, zero) AS z FROM orders",
    "SELECT customer, first_value(zero) OVER (PARTITION BY customer, isnan(zero)) AS z FROM orders",
]


@pytest.mark.parametrize("below", EQUAL)
def test_which_of_equal_floats_comes_first_says_nothing(below):
    """0.0 equals -0.0, and NaN any NaN: which of them a unit has does not depend on their order."""
    condition = "CASE WHEN isnan(z) THEN CAST(z AS VARCHAR) = '-nan' ELSE 1 / z < 0 END"
    query = f"SELECT dp_sum(CASE WHEN {condition} THEN 1 ELSE 0 END, 0, 1) FROM ({below})"
    schema = dfp.Schema(unit="customer.id", links={"orders.customer": "customer.id"})
    answers = set()
    for order in ("", "DESC"):
        con = duckdb.connect()
        con.execute(
            "CREATE TABLE customer AS SELECT i AS id FROM range(3) r(i);"
            "CREATE TABLE orders AS SELECT i % 3 AS customer, 1 AS day, "
            "['-0.0', '0.0', 'nan', '-nan'][1 + i // 3]::DOUBLE AS zero "
            f"FROM range(12) r(i) ORDER BY i {order}"
        )
        released = dfp.sql(query, con=con, schema=schema, max_rows=12, epsilon=1e12)
        answers.add(round(released.fetchall()[0][0]))
    assert answers == {0}


EXACT = """
    CREATE OR REPLACE TEMP MACRO dp_count() AS count(*);
    CREATE OR REPLACE TEMP MACRO dp_sum(x, l, h) AS list(x ORDER BY x) FILTER (WHERE x IS NOT NULL);
    CREATE OR REPLACE TEMP MACRO dp_mean(x, l, h) AS list(x ORDER BY x) FILTER (WHERE x IS NOT NULL)
"""


def in_groups(query, con):
    """Return the answers of a statement from the rows that reach the measurement."""
    plan, table = measure_rows(query, con)
    groups = {}
    for row in table.to_pylist():
        groups.setdefault(tuple(row[label] for label in plan.by), []).append(row)
    if not plan.by and not groups:
        groups[()] = []
    calls = [call for _, call in plan.statement.calls]
    questions = list(plan.questions.values())
    answers = []
    for key, rows in groups.items():
        line = []
        for output in plan.statement.outputs:
            kind, _, index = output.sql.removeprefix("released.").partition("_")
            if kind == "key":
                line.append(key[int(index)])
            elif not calls[int(index)].values:
                line.append(len(rows))
            else:
                values = [row[questions[int(index)].columns[0]] for row in rows]
                line.append(sorted(v for v in values if v is not None) or None)
        answers.append(repr(plain(line)))
    return sorted(answers)


def plain(value):
    """Return a value whose numbers are floats."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, int | Decimal) else value


def test_rows_are_read_by_the_release_alone(clean, monkeypatch):
    """Nothing counts them before, where a row could end the query without a charge."""

    def count_rows(_):
        raise AssertionError

    monkeypatch.setattr(duckdb.DuckDBPyRelation, "__len__", count_rows)
    dfp.sql(ALLOWED[0], con=clean, schema=SCHEMA, max_rows=5, max_groups=1, delta=1e-6)


@pytest.mark.parametrize("query", sample_cases(ALLOWED, 1))
def test_no_row_is_lost_or_made(clean, query):
    """Without noise, a statement is about the rows that DuckDB takes the same text to be about."""
    exact = clean.cursor()
    exact.execute(EXACT)
    expected = sorted(repr(plain(row)) for row in exact.execute(query).fetchall())
    assert in_groups(query, clean) == expected


ROWS = dfp.Schema(rows="orders", public=["nation", "product"])


def test_rows_by_themselves_count_once(monkeypatch):
    """A public table with several rows of a key is refused; unchecked, a row still counts once."""
    con = shop("INSERT INTO nation SELECT * FROM nation")
    query = "SELECT dp_count(*) AS n FROM orders JOIN nation ON nation = customer"
    with pytest.raises(dfp.RefusedStatementError, match="several rows of one nation"):
        dfp.explain(query, con=con, schema=ROWS)
    monkeypatch.setattr(Tables, "repeats", lambda *_: False)
    _, table = measure_rows(query, con, schema=ROWS)
    assert table.num_rows == con.sql("FROM orders WHERE customer < 5").df().shape[0]


@pytest.mark.parametrize(
    "rest",
    [
        "orders a JOIN orders b USING (customer)",
        "(SELECT customer, count(*) AS n FROM orders GROUP BY customer)",
        "(SELECT DISTINCT customer FROM orders)",
        "(SELECT row_number() OVER (ORDER BY day) AS r FROM orders)",
        "(SELECT total FROM orders UNION ALL SELECT total FROM orders)",
        "orders, nation",
        "orders JOIN nation ON nation < customer",
    ],
)
def test_rows_by_themselves_are_not_compared(rest, monkeypatch):
    """A query that compares protected rows, or repeats one, is refused, unchecked as well."""
    for _ in range(2):
        with pytest.raises(dfp.RefusedStatementError):
            dfp.explain(f"SELECT dp_count(*) AS n FROM {rest}", con=shop(), schema=ROWS)
        skip_checks(monkeypatch)


PRICES = "CREATE TABLE price AS SELECT i % 9 AS customer, i // 9 AS list FROM range(63) r(i)"
MATCHES = dfp.Schema(rows="orders", public=["price", "nation"], matches={"price.customer": 3})
MET = [
    ("dp_count(*) FROM orders JOIN price USING (customer)", 3),
    ("list, dp_sum(total, 0, 9) FROM orders LEFT JOIN price USING (customer) GROUP BY 1", 3),
    ("dp_count(*) FROM price p JOIN orders o ON o.customer = p.customer AND list > 1", 3),
    ("dp_count(*) FROM orders JOIN price a USING (customer) JOIN price b USING (customer)", 9),
    ("dp_count(*) FROM orders WHERE customer IN (SELECT customer FROM price)", 1),
    ("dp_count(*) FROM orders JOIN (FROM price WHERE list < 6) USING (customer)", 3),
]


@pytest.mark.parametrize(("query", "limit"), MET)
@pytest.mark.parametrize("checked", [True, False])
def test_a_protected_row_counts_as_its_declared_matches(query, limit, checked, monkeypatch):
    """By brute force no row brings more rows than declared, and noise is for so many."""
    if not checked:
        monkeypatch.setattr(Tables, "repeats", lambda *_: False)
        skip_checks(monkeypatch)
    con, largest, query = shop(PRICES), 0, f"SELECT {query}"
    _, all_rows = measure_rows(query, con, schema=MATCHES)
    for row in (0, 1, 7, 8):
        con.execute("CREATE OR REPLACE TABLE gone AS FROM orders")
        con.execute(f"DELETE FROM orders WHERE rowid = {row}")
        _, other_rows = measure_rows(query, con, schema=MATCHES)
        con.execute("CREATE OR REPLACE TABLE orders AS FROM gone")
        largest = max(largest, all_rows.num_rows - other_rows.num_rows)
        assert 0 <= all_rows.num_rows - other_rows.num_rows <= limit
    assert largest == limit
    delta = 1e-6 if "GROUP" in query else None
    plan = dfp.explain(query, con=con, schema=MATCHES, delta=delta, epsilon=1)
    assert (f"counts as at most {limit} rows" in plan.protects) == (limit > 1)
    if limit > 1:
        bare = dfp.explain("SELECT dp_count(*) FROM orders", con=con, schema=MATCHES, epsilon=1)
        count = "SELECT dp_count(*) FROM orders JOIN price USING (customer)"
        three = dfp.explain(count, con=con, schema=MATCHES, epsilon=1)
        assert three.answers[0].scale == 3 * bare.answers[0].scale


@pytest.mark.parametrize(
    ("matches", "error"),
    [
        ({"price.customer": 0}, dfp.errors.InvalidUnitError),
        ({"price.customer": 2.0}, dfp.errors.InvalidUnitError),
        ({"price.customer": 2**21}, dfp.errors.InvalidUnitError),
        ({"price": 2}, dfp.errors.InvalidUnitError),
        ([3], dfp.errors.InvalidUnitError),
        ({"orders.customer": 2}, dfp.errors.InvalidUnitError),
        ({"price.buyer": 2}, dfp.MissingColumnError),
        ({"product.product": 2}, dfp.RefusedStatementError),
    ],
)
def test_matches_are_numbers_of_columns_that_there_are(matches, error):
    """A value that is no number of matches is refused; a schema with matches pastes back."""
    schema = {"rows": "orders", "public": ["price"], "matches": matches}
    with pytest.raises(error):
        dfp.explain("SELECT dp_count(*) FROM orders", con=shop(PRICES), schema=schema)
    assert eval(repr(MATCHES), {"Schema": dfp.Schema}) == MATCHES


LINKED = dfp.Schema(unit="who.id", links={"bill.who": "who.id", "line.bill": "bill.bill"})
SURE = [
    "paid > 2.5", "paid BETWEEN 0.05 AND 9", "fee <= 1 + 10", "few IN (1, 2, 300)", "many < 5",
    "word = 'true'", "word LIKE 't%'", "day < DATE '2024-05-01'", "paid = fee", "few < many",
    "ratio >= 0.5", "word IS NULL", "many = 5000000000", "who > 3", "zero < 7", "level = 0",
    "none = 1",
]  # fmt: skip
NUMBERS = ["paid", "fee", "few", "many", "ratio", "3", "(1 - fee)", "zero", "level", "one", "none"]


def sure(choose, depth):
    """Return a condition that fails on no row."""
    if depth == 0:
        return choose.choice(SURE)
    left, right = (sure(choose, depth - 1) for _ in range(2))
    return choose.choice([f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})"])


def arithmetic(choose, depth):
    """Return numbers that are too large on some rows."""
    if depth == 0:
        return choose.choice(NUMBERS)
    left, right = (arithmetic(choose, depth - 1) for _ in range(2))
    chosen = f"CASE WHEN {sure(choose, 1)} THEN {left} ELSE {right} END"
    return choose.choice([f"({left} {sign} {right})" for sign in "+-**"] + [chosen])


def bills(*, late):
    """Make bills of 20 units, many of them too large to compute with.

    A `late` unit has what lies beyond all others in every column.
    """
    con = duckdb.connect()
    con.execute("""
        CREATE TABLE who AS SELECT i AS id FROM range(21) r(i);
        CREATE TABLE bill AS SELECT i AS bill, i % 20 AS who FROM range(80) r(i);
        CREATE TABLE line AS SELECT i % 80 AS bill, (i % 9)::DECIMAL(15, 2) AS paid,
            CASE WHEN i % 7 = 0 THEN 9999999999999.99 ELSE i % 5 END::DECIMAL(15, 2) AS fee,
            (i % 2 * 100)::TINYINT AS few, CASE WHEN i % 5 = 0 THEN 9e18 ELSE i % 4 END::BIGINT
            AS many, CASE WHEN i % 2 = 0 THEN 'true' END AS word, (i / 8)::DOUBLE AS ratio,
            DATE '2024-01-01' + (i % 9)::INTEGER AS day, 0::BIGINT AS zero, 1::BIGINT AS one,
            0::DECIMAL(15, 2) AS level, NULL::BIGINT AS none FROM range(400) r(i)
    """)
    if late:
        con.execute("""
            INSERT INTO bill SELECT 1000 + i, 20 FROM range(9) r(i);
            INSERT INTO line SELECT 1000 + i, -9999999999999.99, -9999999999999.99, -128, -9e18,
                'zzz', 'NaN', DATE '9999-12-31', 9e18, -9e18, 9999999999999.99, 9e18
                FROM range(9) r(i)
        """)
    return con


@pytest.fixture(scope="module")
def on_time():
    return bills(late=False)


@pytest.fixture(scope="module")
def with_late():
    return bills(late=True)


def rows_of_others(query, con):
    """Return the rows that are measured, by owner, but for those of the late unit."""
    rows = by_owner(query, con, schema=LINKED)
    rows.pop(20, None)
    return rows


@pytest.mark.parametrize("seed", sample_cases(range(60), 0))
def test_what_the_optimiser_knows_changes_no_row(on_time, with_late, monkeypatch, seed):
    """Where it stays on, rows are what they are without it, and without a unit beyond all others.

    So it is where conditions can't fail, and numbers are sums and products, too large on some rows.
    """
    choose = random.Random(seed)
    number = arithmetic(choose, 1 + seed % 3)
    query = f"SELECT dp_count({number}) AS n, dp_count(({number}) * fee) AS m FROM line "
    query += f"JOIN bill USING (bill) WHERE {sure(choose, seed % 3)}"
    fenced = ConnectionSource.fence
    monkeypatch.setattr(ConnectionSource, "fence", None)
    expected = rows_of_others(query, on_time)
    assert rows_of_others(query, with_late) == expected
    with fenced(connection_source(on_time)):
        assert rows_of_others(query, on_time) == expected


def test_the_audit_finds_an_optimiser_that_is_on(on_time, with_late, monkeypatch):
    """Where a condition can fail the optimiser is off; were it on, the late unit would be seen."""
    failing = "CAST(word AS INTEGER) = 7 OR day < DATE '2024-05-01'"
    query = f"SELECT dp_count(CASE WHEN {failing} THEN 1 END) AS n FROM line"
    assert rows_of_others(query, on_time) == rows_of_others(query, with_late)
    monkeypatch.setattr(jobs.Plan, "computes", False)
    assert rows_of_others(query, on_time) != rows_of_others(query, with_late)


LONGER = f"concat({', '.join(['own.called'] * 8)})"
LINKS = {
    "projection": "SELECT id, {longer} AS called FROM {below} AS own",
    "distinct": "SELECT DISTINCT id, {longer} AS called FROM {below} AS own",
    "union": "SELECT id, {longer} AS called FROM (SELECT id, called FROM {below} UNION ALL SELECT "
    "id, called FROM customer) AS own",
    "join": "SELECT own.id, {longer} AS called FROM {below} AS own JOIN customer USING (id)",
    "value of an aggregate": "SELECT id, max({longer}) AS called FROM {below} AS own GROUP BY id",
    "filtered": "SELECT id, max({longer}) FILTER (WHERE id > 0) AS called FROM {below} AS own "
    "GROUP BY id",
    "of an aggregate": "SELECT id, {longer} AS called FROM (SELECT id, max(called) AS called FROM "
    "{below} GROUP BY id) AS own",
    "window": "SELECT id, lag({longer}) OVER (PARTITION BY id ORDER BY id) AS called FROM {below} "
    "AS own",
    "scalar": "SELECT c.id, (SELECT max({longer}) FROM {below} AS own WHERE own.id = c.id) AS "
    "called FROM customer AS c",
    "of a scalar": "SELECT id, {longer} AS called FROM (SELECT c.id, (SELECT max(a.called) FROM "
    "{below} AS a WHERE a.id = c.id) AS called FROM customer AS c) AS own",
    "lateral": "SELECT c.id, l.called FROM customer AS c, LATERAL (SELECT max({longer}) AS called "
    "FROM {below} AS own WHERE own.id = c.id) AS l",
}


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_values_that_grow_in_each_query_are_refused(clean, link):
    """The bound on how long a value gets is one over all queries: with memory all others fail."""

    def ask_chain(many):
        names = ["customer", *(f"a{number}" for number in range(many))]
        definitions = ", ".join(
            f"{new} AS ({link.format(longer=LONGER, below=old)})" for old, new in pairwise(names)
        )
        query = f"WITH {definitions} SELECT dp_count(called) AS n FROM {names[-1]}"
        return dfp.explain(query, con=clean, schema=SCHEMA, max_rows=3)

    assert ask_chain(3).epsilon == 1
    with pytest.raises(dfp.RefusedStatementError, match="grows too long"):
        ask_chain(4)


def test_what_is_asked_counts_the_queries_below(clean):
    """An expression in the outermost SELECT is bounded by what its columns have become."""
    query = "SELECT dp_count(concat({})) FROM (SELECT concat({}) AS x FROM customer)"
    short, long = ", ".join(["x"] * 30), ", ".join(["called"] * 30)
    assert dfp.explain(query.format(short, long), con=clean, schema=SCHEMA, max_rows=3).epsilon == 1
    with pytest.raises(dfp.RefusedStatementError, match="grows too long"):
        dfp.explain(query.format(f"{short}, {short}", long), con=clean, schema=SCHEMA, max_rows=3)
