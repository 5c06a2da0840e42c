"""ROLLUP, CUBE and GROUPING SETS: totals are sums of the noisy cells that are shown."""

import pytest

import dfprivacy as dfp
from tests.statements.same_rows import require_same_rows
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
    ours = dfp.sql(query, con=shared, epsilon=1e13, **terms)
    require_same_rows(ours, exact.sql(query), ordered=False)


def roll_up(con, epsilon=0.5, **terms):
    """Return counts, sums and means of a rollup by its cells, and those of the totals."""
    query = f"SELECT city, vip, {ASKED} FROM visits GROUP BY ROLLUP (city, vip)"
    rows = dfp.sql(query, con=con, epsilon=epsilon, **terms).fetchall()
    return {tuple(row[:2]): row[2:] for row in rows}


def test_totals_agree_with_their_cells(shared):
    """Whatever the noise is, counts and sums of totals are those of the cells that they have."""
    totals = roll_up(shared, keys={"city": ["Bonn", "Oslo", "Rome"], "vip": [False, True]})
    cities = ["Bonn", "Oslo", "Rome"]
    assert len(totals) == 6 + 3 + 1
    for city in cities:
        cells = [totals[city, vip] for vip in (False, True)]
        assert abs(totals[city, None][0] - sum(cell[0] for cell in cells)) <= 1
        assert totals[city, None][1] == pytest.approx(sum(cell[1] for cell in cells), abs=1)
    assert totals[None, None][1] == pytest.approx(sum(totals[c, None][1] for c in cities), abs=1)


def test_cells_that_are_not_shown_are_in_no_total(con):
    """With secret keys a total is that of the cells that are shown: it says nothing of others."""
    con.execute("INSERT INTO visits SELECT * REPLACE ('Ulm' AS city) FROM visits LIMIT 1")
    totals = roll_up(con, epsilon=100, delta=1e-9)
    assert ("Ulm", None) not in totals
    assert totals[None, None][0] == 600


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
    totals = roll_up(empty, delta=1e-6)
    assert list(totals) == [(None, None)]
    assert totals[None, None][0] == 0


@pytest.mark.parametrize("by", ["ROLLUP (city, vip)", "CUBE (city, vip)"])
def test_totals_cost_nothing(shared, by):
    """Totals measure, draw and charge what GROUP BY all keys does: they are made of its cells."""
    terms = {"con": shared, "unit": "user_id", "max_rows": 3, "max_groups": 2, "delta": 1e-6}
    plans = [
        dfp.explain(f"SELECT city, vip, {ASKED} FROM visits GROUP BY {grouping}", **terms)
        for grouping in (by, "city, vip")
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
    release = dfp.sql(query, con=con, epsilon=1e9, intervals=True, **terms)
    expected = con.sql(query).fetchall()
    rows = release.fetchall()
    assert release.columns[3:6] == ["n_low", "n_high", "s"]
    assert [(row[:3], pytest.approx(row[5], abs=0.1)) for row in rows] == [
        (row[:3], row[3]) for row in expected
    ]
    wide = dfp.sql(query, con=con, epsilon=1, intervals=True, keys={"region": [0, 1], "status": [
        "open", "done", "lost"]}, schema=schema, max_rows=9).fetchall()  # fmt: skip
    cell, total = wide[0], wide[-1]
    assert 1.5 < (total[4] - total[2]) / (cell[4] - cell[2]) < 6  # low ends are not below 0
