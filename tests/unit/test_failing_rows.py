"""What TRY makes of rows beside one that fails, in the DuckDB that is installed."""

import duckdb

import dfprivacy as dfp
from dfprivacy.statements.fence import check_version, fence


def test_versions_that_mix_rows_are_the_refused_ones():
    """Either a row that fails leaves the row before it alone, or statements refuse the version."""
    con = duckdb.connect()
    fence(con)
    con.execute("CREATE TABLE t(i INTEGER, s VARCHAR)")
    con.execute("INSERT INTO t VALUES (0, 'true')")
    query = "SELECT TRY((i = 0) OR CAST(s AS BOOLEAN)) FROM t LIMIT 1"
    assert con.execute(query).fetchall() == [(True,)]
    con.execute("INSERT INTO t VALUES (1, 'odd')")
    mixed = con.execute(query).fetchall() != [(True,)]
    try:
        check_version(duckdb.__version__)
    except dfp.EngineError:
        assert mixed
    else:
        assert not mixed
