"""Hostile and broken clients: the server answers with an error or hangs up, and goes on."""

import datetime as dt
import os
import random
import socket
import struct

import pytest

psycopg = pytest.importorskip("psycopg")


def exchange(port, data):
    """Send bytes to the server, and return what comes back until it hangs up or waits."""
    with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
        received = b""
        try:
            connection.sendall(data)
            connection.settimeout(0.3)
            while chunk := connection.recv(2**16):
                received += chunk
        except (TimeoutError, ConnectionError):
            pass
        return received


def startup(**fields):
    """Return a startup message."""
    body = struct.pack("!i", 3 << 16)
    body += b"".join(f"{name}\0{value}\0".encode() for name, value in fields.items()) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def test_garbage_ends_a_connection_and_not_the_server(port, connect):
    """Random bytes, before and in place of a login, are refused; the next client is served."""
    generator = random.Random(0)
    for size in (1, 7, 8, 9, 100, 5000):
        exchange(port, generator.randbytes(size))
        exchange(port, startup(user="ann", database="flights") + generator.randbytes(size))
    with connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_message_that_claims_to_be_huge_is_refused(port):
    """A login of a gigabyte is not waited for."""
    answer = exchange(port, struct.pack("!i", 2**30) + bytes(20_000))
    assert answer == b"" or b"08P01" in answer


def test_statements_before_the_login_are_refused(port):
    """Nobody asks before they have shown who they are."""
    query = b"SELECT 1\0"
    message = b"Q" + struct.pack("!i", len(query) + 4) + query
    assert b"D\0\0\0" not in exchange(port, message)
    assert b"D\0\0\0" not in exchange(port, startup(user="ann", database="flights") + message)


def test_unknown_users_look_like_known_ones(port):
    """The first answer to a login has the same fields, and the same salt at each try."""
    answers = []
    for user in ("ann", "nobody"):
        first = f"n,,n={user},r=abcdef".encode()
        body = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
        message = startup(user=user, database="flights")
        message += b"p" + struct.pack("!i", len(body) + 4) + body
        salts = {exchange(port, message).rpartition(b",s=")[2] for _ in range(2)}
        assert len(salts) == 1
        answers.append(salts.pop())
    assert len(answers[0]) == len(answers[1]) > 20


@pytest.mark.parametrize("first", [b"", b"n,,", b"n,,n=ann", b"n,,n=ann,r=\xff", b"n,,n=ann,r"])
def test_a_malformed_login_is_refused(port, first):
    """A proof that can't be read ends the connection with an error of the login."""
    body = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
    message = startup(user="ann", database="flights")
    message += b"p" + struct.pack("!i", len(body) + 4) + body
    assert exchange(port, message).endswith((b"28P01\0Mthe login can't be read\0\0",))


def test_a_statement_that_is_too_long_is_refused(connect):
    """100,000 characters are the most."""
    with connect() as connection, pytest.raises(psycopg.Error, match="characters") as caught:
        connection.execute("SELECT " + "1 + " * 60_000 + "1")
    assert caught.value.sqlstate == "54000"


def test_portals_end_with_their_transaction(connect):
    """The answer of a named portal is kept after Sync only while a transaction is open."""

    def pack(kind, body=b""):
        return kind + struct.pack("!i", len(body) + 4) + body

    bound = pack(b"P", b"\0SELECT 1\0\0\0") + pack(b"B", b"name\0\0" + bytes(6))
    executed = pack(b"E", b"name\0" + bytes(4))
    with connect() as connection, socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.settimeout(30)
        for begin, rows in ((pack(b"S"), 0), (pack(b"Q", b"BEGIN\0"), 1)):
            wire.sendall(begin + bound + pack(b"S") + executed + pack(b"S"))
            replies = b""
            while replies.count(b"Z\0\0\0\5") < 3:
                replies += wire.recv(2**16)
            assert (replies.count(b"C26000\0"), replies.count(b"SELECT 1\0")) == (1 - rows, rows)


MADE_UP = {"example", 0, 1, None, dt.date(2000, 1, 1)}
MADE_UP |= {dt.datetime(2000, 1, 1, 12)}  # noqa: DTZ001 as SQL's TIMESTAMP
"""Values of made-up rows, and counts and sizes of the catalog, which has no rows."""


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM flights",
        "SELECT (SELECT delay FROM flights LIMIT 1)",
        "SELECT max(delay) FROM (SELECT * FROM flights LIMIT 5)",
        "WITH t AS (SELECT * FROM flights) SELECT * FROM t LIMIT 5",
        'SELECT * FROM "main"."flights" ORDER BY delay LIMIT 1',
        "SELECT 1 FROM pg_class, flights LIMIT 1",
        "SELECT query('SELECT * FROM flights')",
        "SELECT * FROM query('SELECT * FROM flights')",
        "SELECT * FROM query_table('flights')",
        "TABLE flights",
        "FROM flights LIMIT 2",
        "SUMMARIZE flights",
        "SELECT count(*) FROM 'flights.duckdb'",
        "SELECT * FROM duckdb_secrets()",
        "PREPARE p AS SELECT * FROM flights",
        "ATTACH 'flights.duckdb' AS other",
        "SELECT getenv('HOME')",
        "SELECT estimated_size FROM duckdb_tables() WHERE table_name = 'flights'",
    ],
)
def test_no_statement_shows_a_row(connect, statement):
    """A statement is answered without rows, from made-up ones, or refused: never from the data."""
    with connect() as connection:
        before = connection.execute("SHOW dfprivacy.budget").fetchone()
        try:
            rows = connection.execute(statement).fetchall()
        except psycopg.Error:
            rows = []
        if connection.execute("SHOW dfprivacy.budget").fetchone() == before:
            assert {value for row in rows for value in row} <= MADE_UP
