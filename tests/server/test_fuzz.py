"""Hostile bytes and statements, as `benchmarks.server_fuzz` sends them in larger numbers."""

import pytest

from benchmarks.server_fuzz import fuzz, fuzz_flight

pytest.importorskip("psycopg")


@pytest.mark.slow
def test_no_message_and_no_statement_shows_a_row_or_costs_anything():
    """Damaged messages, logins and odd statements end in errors: no data, no charge, no crash."""
    counts = fuzz(messages=30_000, statements=600, logins=600, seed=0)
    assert counts["messages"] >= 30_000
    assert counts["errors"] > 2_000
    assert counts["connections"] > 20
    assert counts["logins"] == 600
    assert counts["answered"] > 20


@pytest.mark.slow
def test_no_command_of_flight_shows_a_row_or_costs_anything():
    """Damaged commands, tickets and values end in errors: no data, no charge, no traceback."""
    counts = fuzz_flight(commands=3_000, seed=0)
    assert counts["commands"] == 3_000
    assert counts["errors"] > 1_000
    assert counts["answered"] > 300
