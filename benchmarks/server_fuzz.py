"""Send the server messages that no client would send, and look for rows, charges and crashes.

    python -m benchmarks.server_fuzz [--messages 1000000] [--logins 5000] [--statements 20000]
                                     [--commands 20000] [--seed 1]

The data and a file beside them hold marks: texts and numbers that occur nowhere else. Messages of
the protocol are built at random and damaged: bits, lengths, cuts and repeats. Logins are the same
before a password. Statements put functions and tables of DuckDB together, also those that read
files; some repeat a fragment up to the longest text, or ask for much with few words. Commands,
tickets, actions and rows of values go to the Flight SQL listener. Several clients send at a time. A
message counts if the server has read it, which a later reply shows. The server must answer or hang
up within a minute, let others log in, keep its memory, and go on. No reply may hold a mark, no
reply and no output a traceback, no login may pass, no release may be answered, and the budget must
be as before. Prints lines of counts, and ends with an error if one of this fails.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.flight as fl
from google.protobuf.any_pb2 import Any as AnyMessage

from dfprivacy.server.users import Verifier, write_users

MARK, NUMBER = "fuzzmark", 271828.1828
"""Secrets that no reply may hold: a text, and a number, by its first digits and bytes."""
MARKS = (MARK.encode(), b"271828", struct.pack("!d", NUMBER)[:4])
BATCH = 100  # messages between two statements whose answer is waited for
JOB = 5_000  # messages of a client between two looks at the health of the server
CLIENTS = 6
HANG_SECONDS = 60
MEMORY_GROWTH = 2**28  # bytes that the listeners may keep, of caches and threads
LOGGED_IN = b"R\0\0\0\x08\0\0\0\0"
POLICY = """
ledger: budget.db
datasets:
  flights:
    source: flights.duckdb
    schema: {unit: flights.plane}
    max_rows: 1
    max_groups: 1
    budget: {epsilon: 1, delta: 1.0e-6}
    statement: {epsilon: 0.001, max_epsilon: 0.001}
analysts: {ann: {datasets: {flights: {epsilon: 0.0005}}}}
limits: {statements_per_minute: 100000000, workers: 1}
listen: {address: "127.0.0.1:0"}
"""
"""Ann may spend less than a statement costs, so that every release is refused."""

RELEASES = (
    "SELECT AVG(delay) FROM flights",
    "SELECT plane, delay FROM flights",
    "EXPLAIN SELECT COUNT(*) FROM flights",
    "COPY (SELECT plane FROM flights) TO STDOUT (FORMAT binary)",
)
"""Statements for a worker, which takes 20 times as long as the rest of the server."""
STATEMENTS = (
    "SELECT 1",
    "SELECT * FROM flights LIMIT 3",
    "SHOW dfprivacy.budget",
    "SET dfprivacy.epsilon = 0.0007",
    "BEGIN",
    "ROLLBACK",
    "COPY (SELECT 1) TO STDOUT",
    "COPY (SELECT 1, 'a', NULL) TO STDOUT (FORMAT binary)",
    "COPY flights FROM STDIN",
    "SELECT $1",
    "SELECT oid, relname FROM pg_catalog.pg_class WHERE relname = $1",
    "",
    ";",
)
SOURCES = (
    "flights",
    "main.flights",
    "flights.main.flights",
    "memory.main.flights",
    '"flights.duckdb"',
    "'flights.duckdb'",
    "'secret.csv'",
    "read_csv('secret.csv')",
    "read_text('*')",
    "read_blob('flights.duckdb')",
    "glob('*')",
    "sniff_csv('secret.csv')",
    "query('FROM flights')",
    "query_table('flights')",
    "duckdb_tables()",
    "duckdb_columns()",
    "duckdb_settings()",
    "duckdb_secrets()",
    "duckdb_temporary_files()",
    "pragma_storage_info('flights')",
    "pragma_database_size()",
    "information_schema.tables",
    "pg_catalog.pg_stats",
    "pg_catalog.pg_class",
    "sqlite_scan('budget.db', 'x')",
    "parquet_metadata('*')",
    "(SELECT * FROM flights WHERE 0 = 1)",
    "(SELECT * FROM flights LIMIT 2)",
    "(VALUES (1))",
    "range(3)",
)
COLUMNS = (
    "*",
    "plane",
    "delay",
    "count(*)",
    "max(plane)",
    "min(delay)",
    "any_value(flights)",
    "flights",
    "to_json(flights)",
    "list(plane)",
    "string_agg(plane)",
    "stats(delay)",
    "hash(plane)",
    "getenv('PATH')",
    "current_setting('home_directory')",
    "dp_mean(delay, 0, 1)",
    "arg_max(plane, delay)",
    "histogram(plane)",
    "approx_top_k(plane, 3)",
    "1",
    "COLUMNS('.*')",
)
SHAPES = (
    "SELECT {column} FROM {source}",
    "SELECT {column} FROM {source} LIMIT 2",
    "SELECT {column} FROM {source} WHERE 0 = 1",
    "SELECT {column} FROM {source} WHERE (0 = 1) OR true",
    "SELECT {column} FROM {source} GROUP BY ALL",
    "SELECT (SELECT {column} FROM {source} LIMIT 1)",
    "SELECT * FROM (SELECT {column} FROM {source}) t LIMIT 3",
    "WITH t AS MATERIALIZED (SELECT {column} FROM {source}) SELECT * FROM t LIMIT 2",
    "SELECT {column} FROM {source}, {other} LIMIT 2",
    "SELECT {column} FROM {source} UNION ALL SELECT {column} FROM {other} LIMIT 2",
    "SELECT DISTINCT {column} FROM {source} LIMIT 2",
    "EXPLAIN SELECT {column} FROM {source}",
    "EXPLAIN ANALYZE SELECT {column} FROM {source}",
    "COPY (SELECT {column} FROM {source}) TO STDOUT",
    "COPY (SELECT {column} FROM {source}) TO 'out.csv'",
    "CREATE TABLE t AS SELECT {column} FROM {source}",
    "SUMMARIZE SELECT {column} FROM {source}",
    "PIVOT {source} ON {column}",
    "FROM {source} SELECT {column} LIMIT 1",
    "SELECT {column} FROM {source} TABLESAMPLE 50%",
    "EXECUTE x({column})",
    "CALL {source}",
)


FRAGMENTS = (" ", "(", ")", "'", '"', "/*", "$$", "$9", ";", "a.", "+1", "[", "NOT ", "::int",
    ") TO STDOUT", " COLLATE", "OPERATOR(", "(SELECT ", " UNION SELECT 1", ",range(9)")  # fmt: skip
STARTS = ("", "SELECT 1", "SET dfprivacy.epsilon = ", "RESET ALL", "COPY (", "COPY t", "EXPLAIN ",
    "SELECT pg_x ", "SELECT COUNT(*) FROM flights WHERE ", "SELECT * FROM range(9)")  # fmt: skip
ENDS = ("", "x", "'x'y", ";x", ")", "1", "*/")
LARGE = (
    "SELECT * FROM range(9{zeros})",
    "SELECT len(range(9{zeros}))",
    "SELECT length(repeat('x', 9{zeros}))",
    "SELECT count(DISTINCT i) FROM range(9{zeros}) t(i)",
    "SELECT $9{zeros}",
)
"""Texts to repeat between others, and statements that take as much as a number says."""


def make_folder(folder: Path) -> Path:
    """Write marked data, a marked file, a policy and a password, and return the policy's file."""
    with duckdb.connect(str(folder / "flights.duckdb")) as connection:
        connection.execute(
            f"CREATE TABLE flights AS SELECT '{MARK}' || i AS plane, {NUMBER} + i / 2e4 AS delay "
            "FROM range(1000) r(i)"
        )
    (folder / "secret.csv").write_text(f"a,b\n{MARK},{NUMBER}\n")
    policy = folder / "policy.yml"
    policy.write_text(POLICY)
    write_users(folder / "users.scram", {"ann": Verifier.from_password("secret", iterations=1)})
    return policy


def build_message(generator: random.Random) -> bytes:
    """Build one message of a client, mostly as the protocol has it."""
    kinds = b"QPBDECHSdcfFp?"
    (kind,) = generator.choices(kinds, [500, *[1500] * 5, 2000, 2000, *[2] * 6])
    statement = generator.choice(RELEASES if generator.random() < 0.04 else STATEMENTS)
    name = generator.choice([b"\0", b"a\0", b"b\0", b"nothing\0"])
    body = b""
    match chr(kind):
        case "Q":
            body = statement.encode() + b"\0"
        case "P":
            types = generator.choice([b"\0\0", b"\0\1\0\0\0\x17"])
            body = name + statement.encode() + b"\0" + types
        case "B":
            values = generator.choice([b"\0\0\0\0\0\0", b"\0\0\0\1\0\0\0\2hi\0\1\0\1"])
            body = name + generator.choice([name, name, b"a\0"]) + values
        case "D" | "C":
            body = generator.choices(b"SPx", [200, 200, 1])[0].to_bytes() + name
        case "E":
            body = name + struct.pack("!i", generator.choice([0, 1, -1, 2**31 - 1]))
        case "d" | "F" | "?":
            body = generator.randbytes(generator.randrange(40))
        case "f" | "p":
            body = b"why\0"
    return pack(generator.randrange(1, 256) if kind == ord("?") else kind, body)


def pack(kind: int, body: bytes) -> bytes:
    """Return a message of a kind, or one without a kind for 0."""
    return (kind.to_bytes() if kind else b"") + struct.pack("!i", len(body) + 4) + body


def build_login_message(generator: random.Random) -> bytes:
    """Build a message of a client that has not logged in."""
    first = generator.choice(
        [b"n,,n=ann,r=abcdef", b"n,,n=ann", b"", b"y,,n=,r=", b"n,,n=a,r=\xff"]
    )
    last = generator.choice([b"c=biws,r=abcdef,p=" + b"A" * 43 + b"=", b"c=biws", b"p=", b"\xff"])
    return generator.choice(
        [
            pack(0, b"\0\3\0\0user\0ann\0database\0flights\0\0"),
            pack(0, b"\0\3\0\0user\0ann\0database\0flights\0\0"),
            pack(
                0, struct.pack("!i", generator.choice([80877103, 80877104, 2 << 16, 3 << 16 | 2]))
            ),
            pack(0, struct.pack("!iI", 80877102, generator.getrandbits(32)) + b"key!"),
            pack(ord("p"), b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first),
            pack(ord("p"), last),
            build_message(generator),
        ]
    )


def damage(message: bytes, generator: random.Random) -> bytes:
    """Flip a bit, change a length, cut or repeat a message."""
    data = bytearray(message)
    match generator.randrange(4):
        case 0:
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        case 1:
            data[1:5] = struct.pack("!i", generator.choice([-1, 0, 3, 4, 5, 2**20, 2**30]))
        case 2:
            del data[generator.randrange(1, len(data) + 1) :]
        case _:
            return message * 2
    return bytes(data)


def build_statement(generator: random.Random) -> str:
    """Put a shape, columns and sources together, or ask for much."""
    if generator.random() < 0.005:
        return generator.choice(LARGE).format(zeros="0" * generator.randrange(10))
    if generator.random() < 0.005:
        fragment = generator.choice(FRAGMENTS)
        middle = fragment * (generator.choice([300, 3_000, 99_900]) // len(fragment))
        return generator.choice(STARTS) + middle + generator.choice(ENDS)
    return generator.choice(SHAPES).format(
        column=generator.choice(COLUMNS),
        source=generator.choice(SOURCES),
        other=generator.choice(SOURCES),
    )


COMMANDS = (
    "CommandStatementQuery",
    "CommandPreparedStatementQuery",
    "CommandGetTables",
    "CommandGetDbSchemas",
    "CommandGetCatalogs",
    "CommandGetTableTypes",
    "CommandGetSqlInfo",
    "CommandStatementUpdate",
    "ActionCreatePreparedStatementRequest",
)


def build_command(generator: random.Random) -> bytes:
    """Build a command of Flight SQL, with a bit or a byte changed in one of four."""
    texts = (generator.choice(STATEMENTS), build_statement(generator), "%", "flights' OR '1' = '1")
    body = AnyMessage(
        type_url=generator.choice(texts), value=generator.choice([b"", b"%", b"\xff"])
    )
    body_bytes = body.SerializeToString() + generator.choice(
        [b"", b"\x28\x01", b"\x0b", b"\x22\x01V"]
    )
    name = f"type.googleapis.com/arrow.flight.protocol.sql.{generator.choice(COMMANDS)}"
    data = bytearray(AnyMessage(type_url=name, value=body_bytes).SerializeToString())
    if generator.random() < 0.25:
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(data)


class FlightTarget:
    """A client of the Flight SQL listener."""

    def __init__(self, address: str, certificate: str) -> None:
        self.sealed, self.counts = [b""], Counter[str]()
        self.client = fl.connect(address, tls_root_certs=certificate)
        token = self.client.authenticate_basic_token("ann", "secret")
        self.options = fl.FlightCallOptions(headers=[token], timeout=HANG_SECONDS)

    def send(self, generator: random.Random) -> None:
        """Send a command, or something sealed, in one of the ways that a client may."""
        command, sealed = build_command(generator), generator.choice(self.sealed)
        descriptor = fl.FlightDescriptor.for_command(command)
        if generator.random() < 0.2:
            sealed += generator.randbytes(2)
        if generator.random() < 0.3:
            name = COMMANDS[1]
            body = AnyMessage(type_url=sealed.decode(errors="replace")).SerializeToString()
            packed = AnyMessage(type_url=f"/arrow.flight.protocol.sql.{name}", value=body)
            descriptor = fl.FlightDescriptor.for_command(packed.SerializeToString())
        try:
            match generator.randrange(9):
                case 0 | 1:
                    info = self.client.get_flight_info(descriptor, self.options)
                    self.sealed.append(info.endpoints[0].ticket.ticket)
                    reply: object = b""
                case 2 | 3:
                    table = self.client.do_get(fl.Ticket(sealed), self.options).read_all()
                    reply = (table.to_pylist(), table.schema.metadata)
                case 4 | 5:
                    name = generator.choice(["CreatePreparedStatement", "CloseSession", "x"])
                    results = list(self.client.do_action((name, command), self.options))
                    reply = [result.body.to_pybytes() for result in results]
                case 6:
                    list_method = generator.choice(
                        [self.client.list_flights, self.client.list_actions]
                    )
                    reply = [str(item) for item in list_method(options=self.options)]
                case 7 if generator.random() < 0.5:
                    reply = self.client.get_schema(descriptor, self.options)
                case 7:
                    writer, exchanged = self.client.do_exchange(descriptor, self.options)
                    with writer:
                        reply = exchanged.read_all()
                case _:
                    values = pa.table({"a": generator.choice([[1], ["x"], [None], [1, 2], []])})
                    writer, reader = self.client.do_put(descriptor, values.schema, self.options)
                    writer.write_table(values)
                    writer.done_writing()
                    reply = reader.read()
                    writer.close()
            self.counts["answered"] += 1
        except (pa.ArrowException, OSError, StopIteration) as error:
            reply = str(error)
            self.counts["errors"] += 1
            if "Traceback" in reply:
                raise AssertionError(f"an error holds a traceback: {reply}") from None
        self.counts["commands"] += 1
        check_reply(repr(reply).encode(), command)


def check_reply(reply: bytes, cause: object) -> None:
    """Raise an error if a reply holds a mark."""
    if any(mark in reply for mark in MARKS):
        raise AssertionError(f"a reply holds data: {reply!r} to {cause!r}")


class Target:
    """A server with marked data, and what is counted of its replies."""

    def __init__(self, policy: Path) -> None:
        self.errors = policy.with_name("errors.txt")
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dfprivacy", "serve", str(policy)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=policy.parent,
            )
        self.log = policy.with_name("statements.jsonl")
        self.port, self.counts = self.read_port(), Counter[str]()
        self.budget, self.memory = self.read_budget(), 0

    def read_port(self) -> int:
        """Read the port of the next listener from the output of the server."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline().rpartition(":")[2].rstrip(".\n"))

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Log in."""
        address = f"host=127.0.0.1 port={self.port} user=ann password=secret dbname=flights"
        return psycopg.connect(address, autocommit=True, connect_timeout=HANG_SECONDS)

    def read_budget(self) -> object:
        """Return the remaining budget, which also shows that the server answers."""
        with self.connect() as connection:
            row = connection.execute("SHOW dfprivacy.budget").fetchone()
        return None if row is None else row[0]

    def run(self, job: Callable[..., Counter[str]], total: int, size: int, seed: str) -> None:
        """Run jobs of so many messages on several clients, and check the server after each."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            jobs = [
                pool.submit(job, min(size, total - start), random.Random(f"{seed} {start}"))
                for start in range(0, total, size)
            ]
            for finished in as_completed(jobs):
                self.counts.update(finished.result())
                self.check_health()

    def check_health(self) -> None:
        """Raise an error unless the server answers, with the budget and memory that it had."""
        if self.process.poll() is not None:
            raise AssertionError("the server has ended")
        if self.read_budget() != self.budget:
            raise AssertionError("the budget has changed")
        status = Path(f"/proc/{self.process.pid}/statm").read_text()
        memory = int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.memory = self.memory or memory
        if memory > self.memory + MEMORY_GROWTH:
            raise AssertionError(f"the server takes {memory:,} bytes, {self.memory:,} at first")

    def stop(self) -> None:
        """End the server, and raise an error if its log has an answer with a price."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        errors = self.errors.read_text()
        if "Traceback" in errors or any(mark.decode("latin-1") in errors for mark in MARKS[:2]):
            raise AssertionError(f"the server has printed: {errors}")
        with self.log.open() as lines:
            if any('"epsilon": ' in line and '"epsilon": 0.0,' not in line for line in lines):
                raise AssertionError("a release was answered")

    def send_messages(self, size: int, generator: random.Random) -> Counter[str]:
        """Send messages on connections that are kept until the server closes them."""
        counts: Counter[str] = Counter()
        while counts["messages"] < size:
            with self.connect() as connection:
                counts["connections"] += 1
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as wire:
                    while counts["messages"] < size:
                        messages = [build_message(generator) for _ in range(BATCH)]
                        is_damaged = generator.random() < 0.1
                        if is_damaged:
                            index = generator.randrange(BATCH)
                            messages[index] = damage(messages[index], generator)
                        if generator.random() < 0.002:
                            connection.pgconn.get_cancel().cancel()
                            counts["cancel requests"] += 1
                        mark = f"last{counts['messages']}end".encode()
                        end = pack(ord("S"), b"") + pack(
                            ord("Q"), b"ROLLBACK; SHOW " + mark + b"\0"
                        )
                        replies = exchange(wire, [*messages, end], mark, is_last=is_damaged)
                        check_reply(replies, messages)
                        if is_open := mark in replies:
                            counts["messages"] += BATCH
                        else:  # it has read up to the last reply to a Sync or a Query
                            ends = [i for i, text in enumerate(messages) if text[:1] in b"SQ"]
                            ready = replies.count(b"Z\0\0\0\5")
                            counts["messages"] += 1 + max([0, *ends[:ready]])
                        counts["errors"] += replies.count(b"SERROR\0") + replies.count(b"SFATAL\0")
                        counts["bytes of replies"] += len(replies)
                        if is_damaged or not is_open:
                            break
        return counts

    def send_logins(self, size: int, generator: random.Random) -> Counter[str]:
        """Send messages without a password, until the server hangs up."""
        counts: Counter[str] = Counter()
        for _ in range(size):
            messages = [build_login_message(generator) for _ in range(generator.randrange(1, 6))]
            if generator.random() < 0.5:
                messages[-1] = damage(messages[-1], generator)
            with socket.create_connection(("127.0.0.1", self.port)) as wire:
                replies = exchange(wire, messages, LOGGED_IN, is_last=True)
            check_reply(replies, messages)
            if LOGGED_IN in replies:
                raise AssertionError(f"a login without a password has passed: {messages}")
            counts["logins"] += 1
        return counts

    def run_statements(self, size: int, generator: random.Random) -> Counter[str]:
        """Send statements on one connection, and look at their answers and errors."""
        counts: Counter[str] = Counter()
        with closing(self.connect()) as connection:
            wire = connection.pgconn
            for _ in range(size):
                statement = build_statement(generator)
                result = wire.exec_(statement.encode())
                cells = [
                    result.get_value(row, column) or b""
                    for row in range(result.ntuples)
                    for column in range(result.nfields)
                ]
                while result.status == psycopg.pq.ExecStatus.COPY_OUT:
                    length, data = wire.get_copy_data(0)
                    cells.append(bytes(data))
                    if length < 0:
                        result = wire.get_result() or result
                        break
                while wire.get_result():
                    pass
                counts["statements"] += 1
                counts["answered"] += bool(cells)
                check_reply(b" ".join([*cells, result.error_message]), statement)
        return counts


def exchange(wire: socket.socket, messages: list[bytes], mark: bytes, *, is_last: bool) -> bytes:
    """Send messages, and return the replies up to a mark, or until the server hangs up.

    The last messages of a connection are followed by its end, so that a server that waits for
    the rest of a damaged one hangs up.
    """
    data, replies = b"".join(messages), bytearray()
    wire.settimeout(0)
    try:
        while mark not in replies[-500:]:
            readable, writable, _ = select.select([wire], [wire] if data else [], [], HANG_SECONDS)
            if not readable and not writable:
                raise AssertionError(f"the server hangs: {messages}")
            if writable:
                data = data[wire.send(data) :]
                if is_last and not data:
                    wire.shutdown(socket.SHUT_WR)
            if readable:
                chunk = wire.recv(2**16)
                if not chunk:
                    break
                replies += chunk
    except OSError:
        pass  # it hung up
    return bytes(replies)


def fuzz(messages: int, statements: int, logins: int, seed: int) -> Counter[str]:
    """Send so many messages, statements and logins, and return the counts."""
    with tempfile.TemporaryDirectory() as folder:
        target = Target(make_folder(Path(folder)))
        try:
            target.run(target.send_messages, messages, JOB, f"messages {seed}")
            target.run(target.send_logins, logins, BATCH, f"logins {seed}")
            target.run(target.run_statements, statements, BATCH, f"statements {seed}")
        finally:
            target.stop()
    return target.counts


def fuzz_flight(commands: int, seed: int) -> Counter[str]:
    """Send so many commands to a server with Flight SQL, and return the counts."""
    openssl = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout server.key -out server.crt"
    )
    with tempfile.TemporaryDirectory() as name:
        policy, folder = make_folder(Path(name)), Path(name)
        subprocess.run(openssl.split(), cwd=folder, check=True, capture_output=True)
        listen = ':0", flight: 0, tls: {certificate: server.crt, key: server.key}'
        policy.write_text(policy.read_text().replace(':0"', listen))
        target = Target(policy)
        address = f"grpc+tls://localhost:{target.read_port()}"
        certificate = (folder / "server.crt").read_text()

        def send_commands(size: int, generator: random.Random) -> Counter[str]:
            flight = FlightTarget(address, certificate)
            for _ in range(size):
                flight.send(generator)
            return flight.counts

        try:
            target.run(send_commands, commands, BATCH * 10, f"flight {seed}")
        finally:
            target.stop()
    return target.counts


def main() -> None:
    """Fuzz a server, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--logins", type=int, default=5_000)
    parser.add_argument("--statements", type=int, default=20_000)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for counts in (
        fuzz(options.messages, options.statements, options.logins, options.seed),
        fuzz_flight(options.commands, options.seed),
    ):
        print(", ".join(f"{count:,} {name}" for name, count in counts.items()), flush=True)


if __name__ == "__main__":
    main()
