"""ROLLUP, CUBE and GROUPING SETS: totals are sums of the noisy cells that are shown."""

import pytest

import dfprivacy as dfp
from tests.statements.shop import shop

ASKED = "dp_count(*) AS n, dp_sum(income, 0, 32000) AS s, dp_mean(income, 0, 32000) AS m"
SETS = [
    f"SELECT city, vip, {ASKED}, GROUPING(city, vip) AS g FROM visits GROUP BY ROLLUP (city, vip)",
    f"SELECT city, vip, {ASKED} FROM visits GROUP BY CUBE (city, vip)",
    f"SELECT vip AND true AS v, city, {ASKED} FROM visits GROUP BY GROUPING SETS ((2), (1), ())",
    """
        SELECT city, month(day) AS m, dp_count(*) AS n, GROUPING_ID(m) AS whole,
        n / sum(n) OVER (PARTITION BY GROUPING(m)) AS share
        FROM visits GROUP BY city, ROLLUP (m) HAVING n > 10
    """,
    """
        SELECT city, sum(n) OVER (ORDER BY city) AS n FROM (SELECT city, dp_count(*) AS n
        FROM visits GROUP BY ROLLUP (city)) WHERE city IS NOT NULL
    """,
    "SELECT GROUPING(city) AS g, city, dp_var(income, 0, 32000) AS v FROM visits GROUP BY city",
]


@pytest.mark.parametrize("query", SETS)
@pytest.mark.parametrize("public", [False, True])
def test_answers_are_duckdbs_without_noise(shared, exact, query, public):
    """Without noise rows of all grouping sets are DuckDB's, with secret keys and public ones."""
    terms = {"delta": 0.001}
    if public:
        cells = {"city": ["Bonn", "Oslo", "Rome"], "vip": [False, True], "v": [False, True],
                 "m": range(1, 7)}  # fmt: skip
        named = dfp.explain(query, con=shared, **terms).keys
        terms = {"keys": {name: list(cells[name]) for name in named}}
    ours, theirs = dfp.sql(query, con=shared, epsilon=1e13, **terms), exact.sql(query)
    assert ours.columns == theirs.columns
    found, wanted = (sorted(own.fetchall(), key=repr) for own in (ours, theirs))
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        for one, two in zip(row, other, strict=True):
            assert one == (pytest.approx(two, rel=1e-3, abs=0.5) if isinstance(two, float) else two)


def rolled(con, epsilon=0.5, **terms):
    """Return counts, sums and means of a rollup by its cells, and those of the totals."""
    query = f"SELECT city, vip, {ASKED} FROM visits GROUP BY ROLLUP (city, vip)"
    rows = dfp.sql(query, con=con, epsilon=epsilon, **terms).fetchall()
    return {tuple(row[:2]): row[2:] for row in rows}


def test_totals_agree_with_their_cells(shared):
    """Whatever the noise is, counts and sums of totals are those of the cells that they have."""
    found = rolled(shared, keys={"city": ["Bonn", "Oslo", "Rome"], "vip": [False, True]})
    cities = ["Bonn", "Oslo", "Rome"]
    assert len(found) == 6 + 3 + 1
    for city in cities:
        cells = [found[city, vip] for vip in (False, True)]
        assert abs(found[city, None][0] - sum(own[0] for own in cells)) <= 1
        assert found[city, None][1] == pytest.approx(sum(own[1] for own in cells), abs=1)
    assert found[None, None][1] == pytest.approx(sum(found[c, None][1] for c in cities), abs=1)


def test_cells_that_are_not_shown_are_in_no_total(con):
    """With secret keys a total is that of the cells that are shown: it says nothing of others."""
    con.execute("INSERT INTO visits SELECT * REPLACE ('Ulm' AS city) FROM visits LIMIT 1")
    found = rolled(con, epsilon=100, delta=1e-9)
    assert ("Ulm", None) not in found
    assert found[None, None][0] == 600


@pytest.mark.parametrize("intervals", [False, True])
def test_totals_of_shown_cells_say_so(con, caplog, intervals):
    """A note tells of groups that totals lack, where keys are secret: in the log and the page."""
    query, note = "SELECT city, dp_count(*) AS n FROM visits GROUP BY ROLLUP (city)", "are shown"
    terms = {"con": con, "intervals": intervals}
    dfp.sql(query, keys=["Bonn", "Oslo", "Rome"], **terms)
    dfp.sql(query.replace("ROLLUP (city)", "city"), delta=1e-6, **terms)
    assert note not in caplog.text
    page = repr(dfp.show(dfp.sql(query, delta=1e-6, **terms)))
    assert "totals are sums of the groups that are shown" in page
    assert note in caplog.text


def test_a_total_of_nothing_is_there(empty):
    """The grand total has one row on any table: that it is there tells nothing."""
    found = rolled(empty, delta=1e-6)
    assert list(found) == [(None, None)]
    assert found[None, None][0] == 0


@pytest.mark.parametrize("by", ["ROLLUP (city, vip)", "CUBE (city, vip)"])
def test_totals_cost_nothing(shared, by):
    """What is measured, drawn and charged is what GROUP BY all keys is: totals are made of that."""
    terms = {"con": shared, "unit": "user_id", "max_rows": 3, "max_groups": 2, "delta": 1e-6}
    plans = [
        dfp.explain(f"SELECT city, vip, {ASKED} FROM visits GROUP BY {own}", **terms)
        for own in (by, "city, vip")
    ]
    assert plans[0].row_query == plans[1].row_query
    assert plans[0].draws == plans[1].draws
    assert (
        plans[0].selection == f"{plans[1].selection}; totals are sums of the groups that are shown"
    )
    assert (plans[0].epsilon, plans[0].delta) == (plans[1].epsilon, plans[1].delta)


def test_over_the_tables_of_a_schema():
    """Joined tables, ordinary aggregates with the bounds of a schema, and intervals."""
    schema = dfp.Schema(
        unit="customer.id",
        links={"orders.customer": "customer.id"},
        public=["nation"],
        bounds={"orders.total": (0, 7)},
    )
    query = """
        SELECT region, status, COUNT(*) AS n, SUM(total) AS s FROM orders
        JOIN customer ON customer = id JOIN nation USING (nation)
        GROUP BY ROLLUP (region, status) ORDER BY GROUPING(region, status), 1, 2
    """
    con, terms = shop(), {"schema": schema, "max_rows": 9, "max_groups": 9, "delta": 1e-3}
    found = dfp.sql(query, con=con, epsilon=1e9, intervals=True, **terms)
    wanted = con.sql(query).fetchall()
    rows = found.fetchall()
    assert found.columns[3:6] == ["n_low", "n_high", "s"]
    assert [(row[:3], pytest.approx(row[5], abs=0.1)) for row in rows] == [
        (row[:3], row[3]) for row in wanted
    ]
    wide = dfp.sql(query, con=con, epsilon=1, intervals=True, keys={"region": [0, 1], "status": [
        "open", "done", "lost"]}, schema=schema, max_rows=9).fetchall()  # fmt: skip
    cell, total = wide[0], wide[-1]
    assert 1.5 < (total[4] - total[2]) / (cell[4] - cell[2]) < 6  # low ends are not below 0
