"""Hostile and broken clients: the server answers with an error or hangs up, and goes on."""

import datetime as dt
import hmac
import os
import socket
import struct
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path

import pytest

from .conftest import PASSWORD, connect_to, make_folder, serve

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


def ask_salt(port, user):
    """Begin a login, and return the salt of the user and the number of iterations."""
    first = f"n,,n={user},r=abcdef".encode()
    body = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
    message = startup(user=user, database="flights")
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        wire.sendall(message + pack(b"p", body))
        while b",i=4096" not in received:
            received += wire.recv(2**16)
    return received.rpartition(b",s=")[2]


def test_unknown_users_look_like_known_ones(port):
    """The first answer to a login has the same fields, and the same salt at each try."""
    answers = []
    for user in ("ann", "nobody"):
        salts = {ask_salt(port, user) for _ in range(2)}
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


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, b"v="),
        ({"header": "y,,"}, b"v="),
        ({"more": ",x=1"}, b"v="),
        ({"header": "p=tls-unique,,"}, b"can't be read"),
        ({"header": "n,a=bob,"}, b"can't be read"),
        ({"first": "m=1,n=,r=abc"}, b"can't be read"),
        ({"mechanism": b"SCRAM-SHA-256-PLUS"}, b"no exchange"),
        ({"mechanism": b"PLAIN"}, b"no exchange"),
        ({"binding": "y,,"}, b"authentication failed"),
        ({"binding": ""}, b"authentication failed"),
    ],
)
def test_a_login_says_what_the_server_has_offered(port, changes, answer):
    """A channel binding, another identity, a mechanism or a changed header are refused.

    The proof of the password is right in each of them (RFC 5802, sections 5.1 and 6).
    """
    terms = {"header": "n,,", "first": "n=,r=abc", "mechanism": b"SCRAM-SHA-256", "more": ""}
    terms |= changes
    terms.setdefault("binding", terms["header"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        begin = (terms["header"] + terms["first"]).encode()
        begin = terms["mechanism"] + b"\0" + struct.pack("!i", len(begin)) + begin
        wire.sendall(startup(user="ann", database="flights") + pack(b"p", begin))
        received = b""
        while b",i=4096" not in received and b"FATAL" not in received:
            received += wire.recv(2**16)
        if b"FATAL" not in received:
            server_first = received[received.index(b"r=abc") :].decode()
            nonce, salt, _ = server_first.split(",")
            final = f"c={b64encode(terms['binding'].encode()).decode()},{nonce}{terms['more']}"
            salted = pbkdf2_hmac("sha256", PASSWORD.encode(), b64decode(salt[2:]), 4096)
            key = hmac.digest(salted, b"Client Key", "sha256")
            transcript = f"{terms['first']},{server_first},{final}".encode()
            signature = hmac.digest(sha256(key).digest(), transcript, "sha256")
            proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
            wire.sendall(pack(b"p", f"{final},p=".encode() + proof))
            received = wire.recv(2**16)
    assert answer in received


def test_a_statement_that_is_too_long_is_refused(connect):
    """100,000 characters are the most."""
    with connect() as connection, pytest.raises(psycopg.Error, match="characters") as caught:
        connection.execute("SELECT " + "1 + " * 60_000 + "1")
    assert caught.value.sqlstate == "54000"


def pack(kind, body=b""):
    """Return a message."""
    return kind + struct.pack("!i", len(body) + 4) + body


def send(connection, *messages):
    """Send messages and Sync on a connection of psycopg, and return the kinds and bodies back."""
    data, replies = b"", []
    with socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.settimeout(60)
        wire.sendall(b"".join(messages) + pack(b"S"))
        while data[-6:-1] != b"Z\0\0\0\5":
            data += wire.recv(2**16)
    while data:
        end = 1 + struct.unpack("!i", data[1:5])[0]
        replies.append((data[:1], data[5:end]))
        data = data[end:]
    return replies


def parse(statement, name=b""):
    """Return a message that prepares a statement."""
    return pack(b"P", name + b"\0" + statement + b"\0\0\0")


def bind(name=b""):
    """Return a message that binds a statement without parameters to the portal without a name."""
    return pack(b"B", b"\0" + name + b"\0" + bytes(6))


HOSTILE = {
    "spaces of SET": b"SET dfprivacy.epsilon = " + b" " * 50_000 + b"'x'y",
    "spaces of RESET": b"RESET ALL" + b" " * 90_000 + b"x",
    "spaces of COPY": b"COPY t" + b" " * 90_000 + b"x",
    "ends of COPY": b"COPY (" + b") TO STDOUT" * 8_000 + b" " * 9_000 + b";x",
    "comments": b"/*" * 500_000,
    "quotes": b"$$'\"" * 200_000,
    "names": b"SELECT a" + b".a" * 45_000,
    "rows": b"SELECT * FROM range(100000000)",
    "a long list": b"SELECT len(range(2000000000))",
    "a long text": b"SELECT repeat('x', 1000000000)",
    "a place": b"SELECT $999999999",
    "another place": b"SELECT $99999 + $99999",
}
"""Statements that are short, and long to look at or to answer."""


def test_a_hostile_statement_takes_no_time_and_no_memory_of_others(tmp_path):
    """Whatever an analyst asks, another one is answered meanwhile, and the listener stays small.

    The other one waits for parts of a second. On a busy machine they may become seconds.
    """
    file = make_folder(tmp_path, users=("ann", "bob"))
    with serve(file) as (port, process), connect_to(port, user="bob") as other:
        pages = Path(f"/proc/{process.pid}/statm")
        before = int(pages.read_text().split()[1])
        for name, statement in HOSTILE.items():
            with connect_to(port) as connection:
                described = parse(statement) + pack(b"D", b"S\0") + pack(b"S")
                with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                    wire.sendall(pack(b"Q", statement + b"\0") + described)
                with ThreadPoolExecutor(1) as pool:
                    answer = pool.submit(other.execute, "SHOW server_version")
                    assert answer.result(30).fetchone() == ("15.0",), name
            growth = int(pages.read_text().split()[1]) - before
            assert growth * os.sysconf("SC_PAGE_SIZE") < 2**27, name


def test_a_connection_keeps_few_statements(connect):
    """Statements and portals of 16 MiB in all are kept. Closing one makes room."""
    text = b"SELECT 1 -- " + b"x" * 90_000
    with connect() as connection:

        def is_kept(*messages):
            replies = send(connection, *messages)
            assert all(b"C53200\0" in body for kind, body in replies if kind == b"E")
            return replies[-2][0] != b"E"

        outcomes = [is_kept(parse(text, b"s%d" % number)) for number in range(250)]
        assert outcomes == sorted(outcomes, reverse=True)
        assert 150 < sum(outcomes) < 200
        assert is_kept(pack(b"C", b"Ss1\0"), parse(text, b"other"))
        assert not is_kept(parse(text, b"another"))
        assert is_kept(bind(b"s0"))
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_portal_gives_all_rows_in_parts(connect):
    """Rows come once and in order, by so many as Execute asks for. No positive number means all."""
    sizes = [pack(b"E", b"\0" + struct.pack("!i", size)) for size in (1, 600, 601, -3, 5)]
    with connect() as connection:
        replies = send(connection, parse(b"SELECT * FROM range(1203)"), bind(), *sizes)
    assert [int(body[6:]) for kind, body in replies if kind == b"D"] == list(range(1203))
    assert "".join(kind.decode() for kind, _ in replies if kind in b"sCE") == "sssCC"


@pytest.mark.parametrize("form", ["text", "binary"])
def test_a_long_copy_has_all_rows(connect, form):
    """Rows are encoded in parts, which COPY joins."""
    with connect() as connection:
        statement = f"COPY (SELECT i FROM range(1203) t(i)) TO STDOUT (FORMAT {form})"
        with connection.cursor().copy(statement) as copied:
            copied.set_types(["int8"])
            assert [number for (number,) in copied.rows()] == list(range(1203))


MOMENTS = {
    "DATE '12000-01-01'": "12000-01-01", "DATE 'infinity'": "infinity",
    "TIMESTAMP '12000-01-01 10:00'": "12000-01-01 10:00:00.000000",
    "TIMESTAMP '-infinity'": "-infinity", "DATE '0044-03-15 (BC)'": "0044-03-15 BC",
    "[DATE '12000-01-01']": "{12000-01-01}",
}  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("form", ["text", "binary"])
def test_moments_that_python_has_no_place_for_are_sent(connect, form, moment):
    """A release by them is paid for, and has to reach the client."""
    query = f"SELECT {moment} AS k, COUNT(*) AS n FROM flights"
    with connect() as connection:
        with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT {form})") as copied:
            ((sent, _),) = copied.rows()
        assert form == "binary" or sent == MOMENTS[moment]


def test_logins_under_way_are_few(tmp_path):
    """Strangers who never finish a login take no more than so many connections."""
    file = make_folder(tmp_path, "limits: {connections: 3}")
    with serve(file) as (port, _), ExitStack() as strangers, connect_to(port) as connection:
        for _ in range(3):
            strangers.enter_context(socket.create_connection(("127.0.0.1", port)))
        with pytest.raises(psycopg.OperationalError):
            connect_to(port, sslmode="disable")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_place_in_quotes_is_no_parameter(connect):
    """Quotes and comments hold what looks like a parameter, and a statement has no other number."""
    with connect() as connection:
        connection.pgconn.prepare(b"p1", b"SELECT '$5', $1::VARCHAR -- $7")
        assert connection.pgconn.describe_prepared(b"p1").nparams == 1
        result = connection.pgconn.exec_prepared(b"p1", [b"x", b"y"])
        assert b"has 1 parameters" in result.error_message


def test_portals_end_with_their_transaction(connect):
    """The answer of a named portal is kept after Sync only while a transaction is open."""
    bound = parse(b"SELECT 1") + pack(b"B", b"name\0\0" + bytes(6))
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
