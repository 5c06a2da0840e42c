"""UNION ALL of columns of different types: numbers become floats, the rest needs a CAST."""

import duckdb
import pytest

import dfprivacy as dfp

TYPES = ["TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(9, 2)", "FLOAT", "DOUBLE", "VARCHAR"]
NUMBERS, FLOATS, WHOLE = TYPES[:-1], TYPES[5:7], TYPES[:2]


@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", TYPES)
def test_columns_of_a_union_have_a_common_type_or_are_refused(first: str, second: str) -> None:
    """Types that casts join for every value are answered as DuckDB does, others are refused."""
    con = duckdb.connect()
    con.execute(
        f"CREATE TABLE t AS SELECT i AS k, (i % 9)::{first} AS a, (i % 50)::{second} AS b "
        "FROM range(900) r(i)"
    )
    rows = "(SELECT k, a AS x FROM t UNION ALL SELECT k, b FROM t)"
    is_joined = {first, second} <= {*NUMBERS} and bool({first, second} & {*FLOATS})
    is_joined |= first == second or {first, second} <= {*WHOLE}
    terms = {"con": con, "unit": "k", "max_rows": 2, "epsilon": 20}
    if not is_joined:
        with pytest.raises(dfp.errors.RefusedStatementError, match="of different types"):
            dfp.sql(f"SELECT dp_count(x) FROM {rows}", **terms)
    elif first != "VARCHAR":
        ((mean,),) = dfp.sql(f"SELECT dp_mean(x, 0, 50) FROM {rows}", **terms).fetchall()
        ((truth,),) = con.sql(f"SELECT avg(x) FROM {rows}").fetchall()
        assert mean == pytest.approx(float(truth), abs=1)  # 200 deviations of the noise
