"""What a guarded connection does, charges and refuses does not depend on rows."""

from __future__ import annotations

import duckdb
import pytest

import dfprivacy as dfp
import sql_udfs

TABLE = """
    CREATE TYPE mood AS ENUM ('a', 'b');
    CREATE TABLE t(
        k BIGINT, x DOUBLE, name VARCHAR, c VARCHAR COLLATE NOCASE, i INTERVAL, l INTEGER[],
        m mood, d DATE, n DECIMAL(5, 2)
    );
"""
ALICE = "INSERT INTO t VALUES (1, 5, 'Alice', 'rome', '1 month', [1], 'a', '2020-01-01', 1)"
OTHERS = "INSERT INTO t BY NAME SELECT i % 3 AS k, i AS x, 'n' || i AS name FROM range(3000) r(i)"
KEEP = "HAVING dp_keep(1e-6)"
HERS = "FROM t WHERE name = 'Alice' GROUP BY k"


def guarded(folder, *statements):
    ledger = dfp.Ledger(folder / "budget.db", epsilon=1000, delta=0.9)
    connection = duckdb.connect()
    for statement in (TABLE, *statements):
        connection.execute(statement)
    sql_udfs.register(connection, ledger=ledger, dataset="d")
    return connection, ledger


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory):
    """Return guarded tables: without Alice, with her, and without any row."""
    tables = [(OTHERS,), (OTHERS, ALICE), ()]
    return [guarded(tmp_path_factory.mktemp("d"), *statements) for statements in tables]


@pytest.fixture
def alone(neighbours):
    """Return the guarded table that has no row."""
    return neighbours[2]


def outcome(connection, ledger, query):
    """Return the error of a statement, if it has one, and what it is charged."""
    before, said = spent(ledger), ""
    try:
        connection.execute(query).fetchall()
    except duckdb.Error as error:
        said = str(error).split("what is left")[0].split("\n\nAt:")[0]  # DuckDB 1.4 adds our lines
    return said, spent(ledger) - before


def spent(ledger):
    return ledger.spent("d").epsilon if ledger.datasets() else 0


ON_NEIGHBOURS = [
    f"SELECT k, dp_count() {HERS} {KEEP} ORDER BY k",
    f"SELECT k, dp_median(x), dp_mean(x, 0, 9, 0.5) {HERS} {KEEP} ORDER BY k LIMIT 3",
    f"SELECT k, dp_mean_interval(x) AS a {HERS} {KEEP} AND k > 100 ORDER BY a, k",
    f"CREATE TABLE made AS SELECT k, dp_count() AS n {HERS} {KEEP} ORDER BY dp_count(), k",
    f"SELECT k, dp_count(x, 5000) {HERS} {KEEP} ORDER BY k",
    f"SELECT k, dp_count() {HERS}",
    f"SELECT k, dp_count(), max(x) {HERS} {KEEP} ORDER BY k",
    f"SELECT k, dp_count() {HERS} {KEEP}",
    f"SELECT k, dp_count() FROM t WHERE x < 0 GROUP BY ALL {KEEP} ORDER BY ALL",
    "SELECT dp_count(), dp_sum(x, 0, 1) FROM t WHERE name = 'Alice'",
]


@pytest.mark.parametrize("optimizer", ["enable_optimizer", "disable_optimizer"])
@pytest.mark.parametrize("query", ON_NEIGHBOURS)
def test_charges_and_errors_are_those_of_the_neighbour(neighbours, query, optimizer):
    """A statement costs the same, and fails alike, with a row, without it and without any."""
    outcomes = []
    for connection, ledger in neighbours:
        connection.execute(f"DROP TABLE IF EXISTS made; PRAGMA {optimizer}")
        outcomes.append(outcome(connection, ledger, query))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    said, charged = outcomes[0]
    assert bool(said) != bool(charged)


def test_a_prepared_statement_is_refused_without_groups(alone):
    """EXECUTE is refused on a table without rows as on any other."""
    connection, ledger = alone
    connection.execute(f"PREPARE p AS SELECT k, dp_count() FROM t GROUP BY k {KEEP} ORDER BY k")
    said, charged = outcome(connection, ledger, "EXECUTE p")
    assert "EXECUTE as a statement" in said
    assert charged == 0


def by(key):
    return f"SELECT {key} AS key, dp_count() FROM t GROUP BY {key} {KEEP} ORDER BY key"


@pytest.mark.parametrize("key", ["x", "c", "upper(c)", "c || name", "i", "l"])
def test_keys_of_several_spellings_are_refused(alone, key):
    """Equal keys that look different are refused: DuckDB shows the one that it meets first."""
    said, charged = outcome(*alone, by(key))
    assert "may be spelled apart" in said
    assert charged == 0


def test_a_default_collation_is_one(alone):
    """Text is grouped by the default collation, too."""
    alone[0].execute("SET default_collation = 'NOCASE'")
    said, charged = outcome(*alone, by("name"))
    alone[0].execute("RESET default_collation")
    assert "may be spelled apart" in said
    assert charged == 0


@pytest.mark.parametrize("key", ["k", "name", "m", "d", "n", "k % 2 = 0", "CAST(x AS VARCHAR)"])
def test_keys_of_one_spelling_are_shown(alone, key):
    """Keys whose equal values look equal are released."""
    assert outcome(*alone, by(key)) == ("", 2)


@pytest.mark.parametrize(
    "order", ["", "ORDER BY k", "ORDER BY dp_count()", "ORDER BY d, k % 2", "ORDER BY d, abs(k)"]
)
def test_groups_are_sorted_by_all_their_keys(alone, order):
    """Groups are sorted by every key, or refused: DuckDB's own order is that of the rows."""
    query = f"SELECT k, d, dp_count() FROM t GROUP BY k, d {KEEP}"
    said, charged = outcome(*alone, f"{query} {order}")
    assert "in ORDER BY" in said
    assert charged == 0
    assert outcome(*alone, f"{query} ORDER BY dp_count() DESC, d DESC, k LIMIT 3") == ("", 3)


@pytest.mark.parametrize("order", ["k", "(k)", "((k)) DESC"])
def test_an_alias_hides_a_key_in_order_by(alone, order):
    """ORDER BY (k) means the alias k, as ORDER BY k does, not the key: groups are not sorted."""
    query = f"SELECT k AS c, round(dp_count()) AS k FROM t GROUP BY t.k {KEEP} ORDER BY {order}"
    said, charged = outcome(*alone, query)
    assert "groups without c in ORDER BY" in said
    assert charged == 0
    assert outcome(*alone, f"{query}, (c)") == ("", 2)
    assert outcome(*alone, f"{query}, (1)") == ("", 2)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT dp_count(x, 1000 - 999999 / 1000) FROM t",
        "SELECT dp_count(x, 1e16 + 3 - 1e16) FROM t",
        "SELECT dp_mean(x, 0, 9 * 1) FROM t",
        "SELECT dp_quantiles(x, [0.5, 1 - 0.1]) FROM t",
        "SELECT k, dp_count() FROM t GROUP BY k HAVING dp_keep(0.9 - 8999 / 10000) ORDER BY k",
    ],
)
def test_constants_are_written_out(alone, query):
    """A charge is the number that DuckDB draws with: nothing is left to its arithmetic."""
    alone[0].execute("SET integer_division = true")
    said, charged = outcome(*alone, query)
    alone[0].execute("RESET integer_division")
    assert "no plain number" in said
    assert charged == 0
    assert outcome(*alone, "SELECT dp_mean(x, -(9), 1e1, (0.5)) FROM t") == ("", 0.5)


def test_generated_columns_are_refused(alone):
    """A column that DuckDB computes anew at every look is not held to its bounds: refused."""
    alone[0].execute(
        "CREATE TABLE changing(s INTEGER, y DOUBLE GENERATED ALWAYS AS (random() * 1e4)); "
        "CREATE VIEW seen AS SELECT * FROM changing; "
        'CREATE TABLE prepared AS SELECT *, 1 AS "GENERATED" FROM changing'
    )
    for relation in ("changing", "seen"):
        said, charged = outcome(*alone, f"SELECT dp_sum(y, 0, 1) FROM {relation}")
        assert "generated columns" in said
        assert charged == 0
    assert outcome(*alone, "SELECT dp_sum(y, 0, 1) FROM prepared") == ("", 1)
