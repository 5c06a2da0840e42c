"""Connections with a table of visits."""

import pyarrow as pa
import pytest

from tests.statements.visits import EXACT, OTHERS, make_visits


@pytest.fixture
def con():
    """Make a connection of its own."""
    return make_visits()


@pytest.fixture(scope="session")
def empty():
    """Make a connection whose table has no rows; nothing is written to it."""
    connection = make_visits("WHERE false", OTHERS)
    connection.register("registered", pa.table({"x": [1]}))
    return connection


@pytest.fixture(scope="session")
def shared():
    """Make a connection that is only read."""
    connection = make_visits(more=OTHERS)
    connection.register("registered", pa.table({"x": [1]}))
    return connection


@pytest.fixture(scope="session")
def exact():
    """Make a connection on which dp_mean is avg, and so on."""
    return make_visits(more=EXACT)
