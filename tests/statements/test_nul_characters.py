"""A character NUL is refused where it would cut a text short, and counts elsewhere."""

from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dfprivacy as dfp

TEXT = "a\0b"
EXACT = 1e6


@pytest.fixture(scope="module")
def con():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT 'a' AS s FROM range(1000) "
        "UNION ALL SELECT 'a' || chr(0) || 'b' FROM range(50)"
    )
    return connection


REFUSED = {
    "parameter": lambda con, terms: dfp.connect(con, **terms).execute(
        "SELECT dp_count(*) AS n FROM t WHERE s = ?", [TEXT]
    ),
    "constant": lambda con, terms: dfp.sql(
        f"SELECT dp_count(*) AS n FROM t WHERE s = '{TEXT}'", con=con, **terms
    ),
    "constant beside answers": lambda con, terms: dfp.sql(
        f"SELECT n FROM (SELECT s, dp_count(*) AS n FROM t GROUP BY s) WHERE s = '{TEXT}'",
        con=con, delta=1e-6, **terms,
    ),
    "alias": lambda con, terms: dfp.sql(
        f'SELECT dp_count(*) AS "{TEXT}" FROM t', con=con, **terms
    ),
    "target": lambda con, terms: dfp.sql(
        f'CREATE TABLE "{TEXT}" AS SELECT dp_count(*) AS n FROM t', con=con, **terms
    ),
    "unit": lambda _, terms: dfp.sql(
        "SELECT dp_count(*) AS n FROM f", f=pd.DataFrame({TEXT: [1]}), unit=TEXT, max_rows=1,
        **terms,
    ),
    "column": lambda _, terms: dfp.sql(
        f'SELECT dp_count("{TEXT}") AS n FROM f', f=pd.DataFrame({TEXT: [1]}), **terms
    ),
    "explanation": lambda con, terms: dfp.explain(
        f"SELECT dp_count(*) AS n FROM t WHERE s = '{TEXT}'", con=con, **terms
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_text_that_would_be_cut_is_refused_for_nothing(con, tmp_path, case):
    """A statement, parameter or name with NUL is refused in our own words before any charge."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1e7, delta=1e-3)
    terms = {"epsilon": EXACT, "ledger": ledger, "dataset": "d"}
    with pytest.raises(dfp.DPError, match="NUL"):
        REFUSED[case](con, terms)
    assert ledger.spent("d").epsilon == 0


@pytest.mark.parametrize("kind", ["pandas", "arrow", "duckdb", "parquet", "csv"])
def test_public_keys_with_a_nul_are_counted(con, tmp_path, kind):
    """A public key with NUL is the key of its own rows, in every kind of frame."""
    path = Path(tmp_path / f"t.{kind}")
    if kind in {"parquet", "csv"}:
        con.execute(f"COPY t TO '{path}'")
    frames = {"pandas": con.table("t").df, "arrow": con.table("t").to_arrow_table}
    frame = frames.get(kind, lambda: con.table("t") if kind == "duckdb" else path)()
    query = "SELECT s, dp_count(*) AS n FROM t GROUP BY s"
    release = dfp.connect({"t": frame}, epsilon=EXACT).sql(query, keys=[TEXT])
    assert release.fetchall() == [(TEXT, 50)]
    assert dfp.frame(frame).share("s", TEXT, epsilon=EXACT) == pytest.approx(50 / 1050, abs=1e-4)


def test_a_table_without_nul_can_be_asked(con):
    """The table that the refusal advises is answered: one in which the character is replaced."""
    con.execute("CREATE TABLE prepared AS SELECT replace(s, chr(0), ' ') AS s FROM t")
    query = "SELECT dp_count(*) AS n FROM prepared WHERE s = 'a b'"
    assert dfp.sql(query, con=con, epsilon=EXACT).fetchall() == [(50,)]
