"""A ledger that remembers returns no answer that was read in another time zone."""

import datetime as dt
import json

import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command
from tests.frame_types import make_database

ROWS = 500
NEW_YEAR = dt.datetime(2023, 12, 31, 23, 30, tzinfo=dt.UTC)
FRAME = pl.DataFrame({"t": [NEW_YEAR] * ROWS})
QUERY = "SELECT dp_count(*) AS n FROM t WHERE year(t) = 2024"
EXPECTED = [0, ROWS, 0, ROWS]
"""The rows of 2024 in UTC and in Berlin, in turn."""

ZONES = ["UTC", "Europe/Berlin"] * 2


def ask_sql(zone, terms):
    """Ask a frame, whose times are read in a zone."""
    return dfp.sql(QUERY, t=FRAME, timezone=zone, **terms)["n"][0]


def ask_session(zone, terms):
    """Ask a connection whose session is in a zone."""
    connection = make_database(t=FRAME)
    connection.execute(f"SET TimeZone = '{zone}'")
    return dfp.sql(QUERY, con=connection, **terms).fetchall()[0][0]


def ask_connection(zone, terms):
    """Ask a connection of PEP 249."""
    with dfp.connect({"t": FRAME}, timezone=zone, **terms) as connection:
        return connection.cursor().execute(QUERY).fetchall()[0][0]


@pytest.mark.parametrize("ask", [ask_sql, ask_session, ask_connection])
def test_statements_in_two_zones_are_two_releases(ask, tmp_path):
    """The same statement in another zone is charged and answered anew, and each is kept."""
    ledger = dfp.Ledger(tmp_path / "ledger.db", epsilon=1000, remember=True)
    terms = {"ledger": ledger, "dataset": "d", "version": "1", "epsilon": 20}
    answers = [ask(zone, terms) for zone in ZONES]
    assert answers == pytest.approx(EXPECTED, abs=5)
    assert answers[:2] == answers[2:]
    assert len(ledger.history()) == 2


@pytest.mark.parametrize("source", ["where", "query"])
def test_jobs_in_two_zones_are_two_releases(source, tmp_path):
    """A file of releases whose time zone has changed is answered anew."""
    FRAME.write_parquet(tmp_path / "t.parquet")
    ledger = dfp.Ledger(tmp_path / "ledger.db", epsilon=1000, remember=True)
    budget = {"ledger": "ledger.db", "dataset": "d", "version": "1", "epsilon": 20}
    release = {"budget": budget, "outputs": "answer.parquet"}
    if source == "where":
        terms = {"where": "year(t) = 2024", "questions": {"n": {"count": "*"}}}
        release |= {"source": {"file": "t.parquet"}} | terms
    else:
        release["source"] = {"query": QUERY, "tables": {"t": "t.parquet"}}
    answers = []
    for zone in ZONES:
        text = json.dumps({"releases": {"one": release | {"timezone": zone}}})
        (tmp_path / "releases.yml").write_text(text, encoding="utf-8")
        ran = command("run", tmp_path / "releases.yml")
        assert ran.exit_code == 0, ran.output
        table = pl.read_parquet(tmp_path / "answer.parquet")
        answers.append(table["value" if source == "where" else "n"][0])
    assert answers == pytest.approx(EXPECTED, abs=5)
    assert len(ledger.history()) == 2
