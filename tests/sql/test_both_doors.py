"""A dp_ call means the same in `dfp.sql` and as a function, and explain says what both cost."""

import functools
import inspect
import re

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp
import sql_udfs
from benchmarks.releases import replayed
from tests.wrapped import Wrapped

DEFAULT = 0.75


@pytest.fixture(scope="module")
def con():
    rng = np.random.default_rng(3)
    table = pa.table({"g": np.arange(9000) % 3, "x": rng.normal(20, 9, 9000)})
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE t AS SELECT *, x::INTEGER AS i, 'a' AS s FROM given")
    connection.execute("UPDATE t SET x = 'nan' WHERE i = 3")
    connection.execute("UPDATE t SET x = NULL WHERE i = 5")
    sql_udfs.register(connection, epsilon=DEFAULT, interval=0.9, max_epsilon=1e12)
    return connection


@pytest.fixture
def replay():
    """Return a function that makes all random bytes begin anew."""
    with replayed("both doors") as stream:
        yield stream.restart


BOUNDED = re.compile(r"(dp_(?:sum|mean|avg|var|stddev))(\([^()]*,[^()]*,[^()]*\))")
MOMENTS = ("dp_sum", "dp_mean", "dp_avg", "dp_var", "dp_stddev")
SOME = ("dp_sum", "dp_stddev")  # the others differ from these by name alone: see the registry
CALLS = {
    "dp_count()": DEFAULT,
    "dp_count(*)": DEFAULT,
    "dp_count(x)": DEFAULT,
    "dp_count(s, 0.5)": 0.5,
    "dp_count(1, 0.5)": 0.5,
    "dp_count_interval()": DEFAULT,
    "dp_count_interval(x, 0.5)": 0.5,
    **{f"{name}{end}(x, -10, 50)": DEFAULT for name in MOMENTS for end in ("", "_interval")},
    **{f"{name}{end}(x, -10, 50, 0.25)": 0.25 for name in SOME for end in ("", "_interval")},
    **{f"{name}{end}(i)": DEFAULT for name in SOME for end in ("", "_interval")},
    **{f"{name}{end}(x, 2)": 2 for name in SOME for end in ("", "_interval")},
    "dp_mean(x + 1, 3 * 2, 1e2 / 2, 1 / 4)": 0.25,
    "dp_mean(x, hi := 50, lo := -10)": DEFAULT,
    "dp_mean(x, -10, 50, epsilon := 0.5)": 0.5,
    "dp_sum(x, epsilon := 0.5)": 0.5,
    "dp_median(x)": DEFAULT,
    "dp_median(i, 0.5)": 0.5,
    "dp_quantile(i, 0.3)": DEFAULT,
    "dp_min(i)": DEFAULT,
    "dp_median_interval(i)": DEFAULT,
    "dp_quantile(x, 0.9)": DEFAULT,
    "dp_median_interval(x)": DEFAULT,
    "dp_quantile_interval(x, 0.9, 0.5)": 0.5,
    "dp_median_interval(x, 0, 50, 0.5)": 0.5,
    "dp_quantile(x, 0.5)": DEFAULT,
    "dp_quantile(x, q := 0.1, epsilon := 0.5)": 0.5,
    "dp_quantiles(x, [0.75, 0.25])": DEFAULT,
    "dp_quantiles(x, [0.5], 0.5)": 0.5,
    "dp_quantiles(x, [0.25, 0.75])[2]": DEFAULT,
    "dp_bounds(x)": DEFAULT,
    "dp_bounds(x, 0.5)": 0.5,
    "dp_bounds(x, 0.5).upper": 0.5,
    "dp_mean_interval(x, 0, 9).low": DEFAULT,
    "round(dp_mean(x, 0, 9) / 2 + 1, 3)": DEFAULT,
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_one_question_at_both_doors(con, replay, tmp_path, call):
    """With the same random bytes both give the same answer, in the same type, at one price.

    The noise that a function draws is that of the epsilon which the ledger is charged for. A
    statement counts what bounds clip, as functions do that show a note.
    """
    query = f"SELECT {call} AS answer FROM t"
    terms = {"con": con, "epsilon": DEFAULT, "interval": 0.9}
    plan = dfp.explain(query, **terms)
    assert (plan.epsilon, plan.delta) == (CALLS[call], 0)
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10)
    replay()
    relation = dfp.sql(query, **terms, ledger=ledger, dataset="t")
    assert ledger.spent("t").epsilon == CALLS[call]
    replay()
    noted = BOUNDED.sub(r"\1_interval\2.value", query)
    functions = con.sql(noted)
    assert functions.types == relation.types
    assert functions.fetchall() == relation.fetchall()


TEXTS = {
    "SELECT dp_mean(x, 0, 9), dp_count() FROM t": (2 * DEFAULT, 0),
    "SELECT dp_mean(x, 0, 9) AS a, dp_avg(x, 0, 9) AS b FROM t": (2 * DEFAULT, 0),
    "SELECT dp_mean(x, 0, 9) / dp_count(), dp_median(x, 0.25) FROM t": (2 * DEFAULT + 0.25, 0),
    "SELECT dp_count() AS n FROM t ORDER BY n": (DEFAULT, 0),
    "SELECT dp_count() AS n FROM t ORDER BY (dp_count())": (DEFAULT, 0),
    "SELECT dp_count() AS n FROM t ORDER BY dp_count() + 1": (2 * DEFAULT, 0),
    "CREATE OR REPLACE TABLE made AS SELECT dp_count() AS n FROM t": (DEFAULT, 0),
    "WITH c AS (SELECT x FROM t WHERE x > 3) SELECT dp_sum(x, 0, 9) FROM c": (DEFAULT, 0),
    "SELECT g, dp_count() AS n FROM t GROUP BY g HAVING dp_keep(1e-6)": (2 * DEFAULT, 1e-6),
    "SELECT g, dp_count() AS n FROM t GROUP BY g HAVING dp_keep(1e-6, 0.5)": (DEFAULT + 0.5, 1e-6),
    "SELECT g, dp_sum(x) FROM t GROUP BY g HAVING dp_keep(1e-6) AND dp_count() > 3 ORDER BY g": (
        3 * DEFAULT, 1e-6
    ),
    "SELECT dp_count() BETWEEN 1 AND 9, coalesce(dp_count(), 0) FROM t": (2 * DEFAULT, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def watched():
    """Return a connection that notes what its functions draw."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS g, 2.0 AS x FROM range(1000)")
    watched_connection = Watched(connection)
    sql_udfs.register(watched_connection, epsilon=DEFAULT, max_epsilon=1e12)
    return watched_connection


@pytest.mark.parametrize("query", TEXTS)
def test_every_function_pays_by_itself(watched, query):
    """Each call of a text spends the epsilon of the connection, or the one that it names."""
    epsilon, _ = TEXTS[query]
    with replayed(query) as watched.stream:
        watched.spent.clear()
        watched.connection.execute(query).fetchall()
    assert sum(watched.spent) == epsilon


class Watched(Wrapped):
    """A connection that notes the epsilon of every call of a function which draws."""

    def __init__(self, connection):
        super().__init__(connection)
        self.stream, self.spent = None, []

    def create_function(self, name, function, *declared, **options):
        position = -2 if name.removesuffix("_of_list").endswith("_interval") else -1

        @functools.wraps(function)
        def call(*columns):
            before = self.stream.taken
            answer = function(*columns)
            if self.stream.taken > before:
                self.spent.append(columns[position][0].as_py())
            return answer

        call.__signature__ = inspect.signature(function)
        return self.connection.create_function(name, call, *declared, **options)


def test_a_count_of_its_own_selects_groups(con, replay):
    """dp_keep(delta, epsilon) decides by a count at that epsilon, at both doors."""
    small = "(SELECT * FROM t WHERE g = 1 OR i = 40) AS s"
    for epsilon in (0.5, 1e6):
        keys_query = (
            f"SELECT g FROM {small} GROUP BY g "
            f"HAVING dp_keep(1e-6, epsilon := {epsilon:.1f}) ORDER BY g"
        )
        query = keys_query.replace("SELECT g", "SELECT g, dp_count() AS n")
        plan = dfp.explain(query, con=con, epsilon=1)
        assert plan.epsilon == 1 + epsilon
        assert plan.draws[0].epsilon == epsilon
        replay()
        rows = dfp.sql(query, con=con, epsilon=1).fetchall()
        replay()
        assert [row[0] for row in rows] == [g for (g,) in con.execute(keys_query).fetchall()]
        assert len(rows) == (1 if epsilon < 1 else 3)


@pytest.mark.parametrize("name", ["ledger", "unit", "max_rows", "dataset", "note", "epsilom"])
def test_register_refuses_what_only_statements_can_keep(name):
    """A ledger or a unit is never ignored: the error names dfp.sql."""
    with duckdb.connect() as connection, pytest.raises(dfp.errors.UnknownArgumentError) as caught:
        sql_udfs.register(connection, **{name: None})
    assert isinstance(caught.value, TypeError)
    expected = "register(con, epsilon=1.0" if name == "epsilom" else "dfp.sql("
    assert expected in caught.value.hint
