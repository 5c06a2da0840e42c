"""Hostile bytes and statements, as `benchmarks.server_fuzz` sends them in larger numbers."""

import pytest

from benchmarks.server_fuzz import fuzz, fuzz_flight

pytest.importorskip("psycopg")


@pytest.mark.slow
def test_no_message_and_no_statement_shows_a_row_or_costs_anything():
    """Damaged messages and odd statements end in errors: no data, no charge, and no crash."""
    counts = fuzz(messages=6_000, statements=1_000, seed=0)
    assert counts["messages"] == 6_000
    assert counts["errors"] > 60
    assert counts["answered"] > 20


@pytest.mark.slow
def test_no_command_of_flight_shows_a_row_or_costs_anything():
    """Damaged commands, tickets and values end in errors: no data, no charge, no traceback."""
    counts = fuzz_flight(commands=1_000, seed=0)
    assert counts["commands"] == 1_000
    assert counts["errors"] > 300
    assert counts["answered"] > 100
