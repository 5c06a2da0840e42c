"""Statements made by chance: their rows are DuckDB's, and no unit changes another's."""

import pytest

import dfprivacy as dfp
from tests.statements.generated import statement
from tests.statements.shop import measure_rows, shop

FEW, MANY = range(100), {0: range(100, 900), 1: range(300), 2: range(100)}
"""Seeds, for the slow lane by the depth of nesting: shallow statements cost little."""
BATCH = 25
"""Statements that go through the release as one, which is most of what they cost."""


@pytest.fixture(scope="module")
def clean():
    return shop()


def round_cells(value):
    return None if value is None else round(float(value), 6)


def numbers(seed, depth):
    """Return the query of the numbers that a statement asks about, marked by its seed."""
    query = statement(seed, depth)
    number, rest = query.removeprefix("SELECT dp_sum(").split(", 0, 9) AS s, dp_count(*) AS n", 1)
    return f"SELECT {seed} AS seed, CAST({number} AS DOUBLE) AS number{rest}"


def by_both(seeds, depth, con):
    """Return the numbers that reach the measurement, and those that DuckDB makes of the text."""
    text = " UNION ALL ".join(numbers(seed, depth) for seed in seeds)
    query = f"SELECT seed, dp_sum(number, 0, 9) AS s FROM ({text}) AS many GROUP BY seed"
    plan, table = measure_rows(query, con)
    (key,), value = plan.by, plan.questions["answer_0"].columns[0]
    rows = [(row[key], round_cells(row[value])) for row in table.to_pylist()]
    plain = [(seed, round_cells(number)) for seed, number in con.execute(text).fetchall()]
    return sorted(rows, key=repr), sorted(plain, key=repr)


def require_refusal(con, seeds, depth):
    """Compare statements, and return how many are refused: one that is goes by itself."""
    try:
        ours, theirs = by_both(seeds, depth, con)
    except dfp.RefusedStatementError:
        half = len(seeds) // 2
        return (
            require_refusal(con, seeds[:half], depth) + require_refusal(con, seeds[half:], depth)
            if half
            else 1
        )
    assert ours == theirs, (seeds, depth)
    return 0


def check(con, seeds, depth):
    starts = range(0, len(seeds), BATCH)
    refusals = sum(require_refusal(con, seeds[start : start + BATCH], depth) for start in starts)
    assert refusals < len(seeds) / 20


def test_a_few(clean):
    """Without noise a statement is about DuckDB's rows of the same text; few are refused."""
    check(clean, FEW, 0)


@pytest.mark.slow
@pytest.mark.parametrize("depth", MANY)
def test_many(clean, depth):
    """Of many statements too the rows are DuckDB's, and few are refused."""
    check(clean, MANY[depth], depth)
