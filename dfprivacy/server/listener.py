"""Speak the Postgres protocol: log analysts in, and carry their statements to a session."""

from __future__ import annotations

import asyncio
import hmac
import multiprocessing
import re
import signal
import ssl
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pygwire import BackendConnection, messages
from pygwire.constants import StartupRequestCode, TransactionStatus
from pygwire.exceptions import PygwireError
from pygwire.messages import PGMessage

from dfprivacy.server import encoding
from dfprivacy.server.catalog import SETTINGS, Answer
from dfprivacy.server.policy import Policy
from dfprivacy.server.session import (
    FAILED_LOGIN_SECONDS,
    Server,
    Session,
    check_length,
    count_parameters,
    find_keyword,
    split_statements,
)
from dfprivacy.server.users import NOBODY, ScramExchange, make_secret, read_users
from dfprivacy.server.workers import ServerError, describe_error

_LARGEST_MESSAGE = 2**20  # bytes
_LARGEST_LOGIN_MESSAGE = 10_000  # bytes
_LARGEST_MEMORY = 2**24  # bytes of all messages whose statements and portals a connection keeps
_ROWS_AT_ONCE = 500  # that are encoded before other connections have their turn
_LOGIN_SECONDS = 20
_SSL_REQUEST_SIZE = 8  # bytes
_COPY_MESSAGES = (messages.CopyOutResponse, messages.CopyData, messages.CopyDone)
_COPY = re.compile(
    r"\s*COPY\s*(?:\((?P<query>.*)\)|(?P<table>[\w.\"]+)(?:\s*\((?P<columns>[^()]*)\))?)"
    r"\s*TO\s+STDOUT\b(?P<options>[^;]{0,100})[\s;]{0,100}\Z",
    re.IGNORECASE | re.DOTALL,
)


@dataclass
class Prepared:
    """A statement, and the types of its parameters."""

    statement: str
    types: Sequence[int]
    size: int = 0
    """Bytes that it keeps."""
    columns: Sequence[int] | None = None
    """The types of its columns, as the client was told."""


@dataclass
class Portal:
    """A statement with values, the tag of its answer once it has run, and the rows left of it.

    An answer about the catalog that described it is kept for its run.
    """

    statement: str
    parameters: Sequence[Any] = ()
    formats: Sequence[int] = ()
    size: int = 0
    columns: Sequence[int] | None = None
    described: Answer | None = None
    tag: str | None = None
    rows: pa.Table | None = None


class _Kept(dict[str, Any]):
    """Statements or portals of a connection by name."""

    def __missing__(self, name: str) -> Any:
        raise ServerError("26000", f"nothing is prepared under the name {name!r}")

    @property
    def size(self) -> int:
        """Bytes that they keep."""
        return sum(item.size for item in self.values())


class Listener(Server):
    """A server on an address."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.sessions: dict[int, Client] = {}
        self.logins = 0  # that are under way
        self.secret, self.room = make_secret(32), policy.limits.connections
        self.tls: ssl.SSLContext | None = None
        if policy.listen.tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_3
            self.tls.load_cert_chain(policy.listen.tls.certificate, policy.listen.tls.key)

    async def open(self) -> int:
        """Open the data and the port, which is returned."""
        await self.open_data()
        self.flight: Any = None
        if self.policy.listen.flight is not None:
            from dfprivacy.server.flight import FlightListener  # noqa: PLC0415 loads gRPC

            self.flight = FlightListener(self)
        host, number = self.policy.listen.host_and_port
        self._listening = await asyncio.start_server(self._accept, host, number, limit=2**16)
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def serve(self) -> None:
        """Answer until SIGINT or SIGTERM. Then end all connections and workers."""
        stopping = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        async with self._listening:
            await stopping.wait()
            self._listening.close()
        for client in list(self.sessions.values()):
            client.writer.close()
        for process in multiprocessing.active_children():  # all are workers
            process.kill()
        if self.flight is not None:
            await asyncio.to_thread(self.flight.shutdown)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(self, reader, writer)
        try:
            await client.run()
        except ServerError as error:
            client.send_error(error, "FATAL")
        except (OSError, EOFError, asyncio.CancelledError):  # it has left, or the server ends
            pass
        finally:
            self.sessions.pop(client.number, None)
            with suppress(ConnectionError):
                await writer.drain()
            writer.close()


class Client:
    """One connection: its login, its prepared statements and its portals."""

    def __init__(
        self, listener: Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.listener, self.reader, self.writer = listener, reader, writer
        self.wire = BackendConnection(strict=False)
        self.number, self.key = int.from_bytes(make_secret(4)) >> 1, make_secret(4)
        self.session: Session | None = None
        self.status = TransactionStatus.IDLE
        self.prepared, self.portals = _Kept(), _Kept()
        self.skips_to_sync = False
        self.chunk_size = 0

    def send(self, *replies: PGMessage) -> None:
        """Write messages to the client."""
        for reply in replies:  # pygwire would leave the extended protocol after a COPY
            is_copy = isinstance(reply, _COPY_MESSAGES)
            self.writer.write(reply.to_wire() if is_copy else self.wire.send(reply))

    def send_error(self, error: ServerError, severity: str = "ERROR") -> None:
        """Write an error with its code and hint."""
        fields = {"S": severity, "V": severity, "C": error.code, "M": error.message}
        fields |= {"H": error.hint} if error.hint else {}
        self.send(messages.ErrorResponse(fields=fields))

    async def receive(self, largest: int) -> AsyncIterator[PGMessage]:
        """Yield messages. A message of more bytes than `largest` ends the connection."""
        unread = 0
        while data := await self.reader.read(2**16):
            unread += len(data)
            self.chunk_size = len(data)
            try:
                for message in self.wire.receive(data):
                    unread = 0
                    yield message
            except (PygwireError, UnicodeDecodeError, struct.error, ValueError, IndexError):
                raise ServerError("08P01", "the bytes are no message of the protocol") from None
            if unread > largest:
                raise ServerError("08P01", f"a message has more than {largest:,} bytes")
            await self.writer.drain()

    async def run(self) -> None:
        """Log the analyst in, then answer messages until the connection ends."""
        if max(len(self.listener.sessions), self.listener.logins) >= self.listener.room:
            raise ServerError("53300", "the server has no room for another connection")
        self.listener.logins += 1
        try:
            async with asyncio.timeout(_LOGIN_SECONDS):
                await self._log_in()
        except (ValueError, LookupError):  # a malformed proof, or no file of users
            raise ServerError("28P01", "the login can't be read") from None
        finally:
            self.listener.logins -= 1
        self.listener.sessions[self.number] = self
        async for message in self.receive(_LARGEST_MESSAGE):
            if isinstance(message, messages.Terminate):
                return
            await self._answer(message)
            await self.writer.drain()

    # Login

    async def _log_in(self) -> None:
        exchange: ScramExchange | None = None
        async for message in self.receive(_LARGEST_LOGIN_MESSAGE):
            match message:
                case messages.SSLRequest():
                    await self._start_tls()
                case messages.GSSEncRequest():
                    self.writer.write(b"N")
                    self.wire = BackendConnection(strict=False)
                case messages.CancelRequest():
                    self._cancel(message)
                    raise EOFError
                case messages.StartupMessage():
                    exchange = self._start_login(message)
                case messages.SASLInitialResponse(mechanism="SCRAM-SHA-256") if exchange:
                    first = exchange.start(message.data.decode())
                    self.send(messages.AuthenticationSASLContinue(data=first.encode()))
                case messages.SASLResponse() if exchange:
                    await self._finish_login(exchange.finish(message.data.decode()))
                    return
                case _:
                    raise ServerError("08P01", "the login is no exchange of SCRAM-SHA-256")
            await self.writer.drain()
        raise EOFError

    async def _start_tls(self) -> None:
        is_first = self.writer.get_extra_info("ssl_object") is None
        if self.chunk_size > _SSL_REQUEST_SIZE or not is_first:
            raise EOFError  # unencrypted bytes must not pass for encrypted
        self.writer.write(b"S" if self.listener.tls else b"N")
        await self.writer.drain()
        if self.listener.tls:
            await self.writer.start_tls(self.listener.tls)
        self.wire = BackendConnection(strict=False)

    def _start_login(self, startup: messages.StartupMessage) -> ScramExchange:
        if self.listener.tls and self.writer.get_extra_info("ssl_object") is None:
            raise ServerError("28000", "this server takes encrypted connections only")
        if startup.protocol_version > StartupRequestCode.V3_0:
            self.send(messages.NegotiateProtocolVersion(StartupRequestCode.V3_0, []))
        self.user = startup.params.get("user", "")
        self.dataset = startup.params.get("database", "")
        self.send(messages.AuthenticationSASL(mechanisms=["SCRAM-SHA-256"]))
        users = read_users(self.listener.policy.users)
        secret = users[NOBODY].stored_key if NOBODY in users else self.listener.secret
        return ScramExchange(self.user, users.get(self.user), secret)

    async def _finish_login(self, signature: bytes | None) -> None:
        is_proven = signature is not None
        try:
            self.session = self.listener.log_in(self.user, self.dataset, is_proven=is_proven)
        except ServerError:
            await asyncio.sleep(FAILED_LOGIN_SECONDS)
            raise
        self.send(
            messages.AuthenticationSASLFinal(data=b"v=" + b64encode(signature or b"")),
            messages.AuthenticationOk(),
            *(messages.ParameterStatus(name, value) for name, value in SETTINGS.items()),
            messages.BackendKeyData(process_id=self.number, secret_key=self.key),
            messages.ReadyForQuery(status=self.status),
        )

    def _cancel(self, request: messages.CancelRequest) -> None:
        """End the worker that runs the statement of a connection."""
        client = self.listener.sessions.get(request.process_id)
        if client and client.session and hmac.compare_digest(client.key, request.secret_key):
            client.session.cancel()

    # Statements

    async def _answer(self, message: PGMessage) -> None:
        is_sync = isinstance(message, messages.Sync)
        if self.skips_to_sync and not is_sync:
            return
        self.skips_to_sync = False
        try:
            await self._handle(message)
        except Exception as error:  # noqa: BLE001 the client reads what it may
            self.skips_to_sync = not isinstance(message, messages.Query)
            if self.status is TransactionStatus.IN_TRANSACTION:
                self.status = TransactionStatus.ERROR_TRANSACTION
            self.send_error(describe_error(error))
        if is_sync or isinstance(message, messages.Query):
            self.send(messages.ReadyForQuery(status=self.status))
            if self.status is TransactionStatus.IDLE:  # portals end with their transaction
                self.portals.clear()

    async def _handle(self, message: PGMessage) -> None:
        match message:
            case messages.Query():
                check_length(message.query_string)
                statements = split_statements(message.query_string)
                if not statements:
                    self.send(messages.EmptyQueryResponse())
                for statement in statements:
                    await self._execute(Portal(statement), describes=True)
            case messages.Parse():
                check_length(message.query)
                unknown = count_parameters(message.query) - len(message.param_types)
                types = [*message.param_types, *[0] * unknown]
                size = self._make_room(self.prepared, message.statement, message)
                self.prepared[message.statement] = Prepared(message.query, types, size)
                self.send(messages.ParseComplete())
            case messages.Bind():
                prepared = self.prepared[message.statement]
                types = prepared.types
                if len(message.param_values) != len(types):
                    raise ServerError("08P01", f"the statement has {len(types)} parameters")
                forms = [encoding.find_format(message.param_formats, i) for i in range(len(types))]
                rows = zip(message.param_values, types, forms, strict=True)
                values = [encoding.decode_parameter(*row) for row in rows]
                size = self._make_room(self.portals, message.portal, message)
                terms = values, message.result_formats, size, prepared.columns
                self.portals[message.portal] = Portal(prepared.statement, *terms)
                self.send(messages.BindComplete())
            case messages.Describe(kind="S"):
                prepared = self.prepared[message.name]
                parameters = [oid or encoding.TEXT for oid in prepared.types]
                self.send(messages.ParameterDescription(type_oids=parameters))
                samples = [*map(encoding.SAMPLES.get, prepared.types)]
                portal = Portal(prepared.statement, samples)
                await self._describe(portal)
                prepared.columns = portal.columns
            case messages.Describe():
                await self._describe(self.portals[message.name])
            case messages.Execute():
                await self._execute(self.portals[message.portal], message.max_rows)
            case messages.Close():
                names = self.prepared if message.kind == "S" else self.portals
                names.pop(message.name, None)
                self.send(messages.CloseComplete())
            case messages.Flush() | messages.Sync():
                pass
            case _:
                self.send_error(ServerError("0A000", "this server has no such message"))

    def _make_room(self, names: _Kept, name: str, message: PGMessage) -> int:
        """Drop what has the name of a message, and return the bytes that the message takes."""
        names.pop(name, None)
        size = 1000 + len(message.encode())
        if size + self.prepared.size + self.portals.size > _LARGEST_MEMORY:
            raise ServerError(
                "53200",
                f"the connection keeps more than {_LARGEST_MEMORY:,} bytes of statements",
                "close those that are not needed any more",
            )
        return size

    async def _run(
        self, statement: str, parameters: Sequence[Any] = (), described: Answer | None = None
    ) -> Answer:
        assert self.session is not None  # noqa: S101 the login has made it
        ends = {"ROLLBACK", "ABORT", "COMMIT", "END"}
        has_failed = self.status is TransactionStatus.ERROR_TRANSACTION
        if has_failed and find_keyword(statement) not in ends:
            raise ServerError("25P02", "the transaction has failed", "ROLLBACK ends it")
        answer = await self.session.run(statement, parameters, described)
        if answer.tag == "BEGIN":
            self.status = TransactionStatus.IN_TRANSACTION
        elif answer.tag in ends and "TO" not in statement.upper().split():
            self.status = TransactionStatus.IDLE
        elif answer.tag in ends and has_failed:  # it goes on from a savepoint
            self.status = TransactionStatus.IN_TRANSACTION
        if answer.notice:
            fields = {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": answer.notice}
            self.send(messages.NoticeResponse(fields=fields))
        return answer

    async def _execute(self, portal: Portal, size: int = 0, *, describes: bool = False) -> None:
        """Run a portal, if it has not run, and send its next rows. A size of 0 means all."""
        if copied := _COPY.match(portal.statement):
            await self._copy(copied)
            return
        if portal.tag is None:
            answer = await self._run(portal.statement, portal.parameters, portal.described)
            if portal.columns is not None and portal.columns != _find_oids(answer):
                raise ServerError(
                    "0A000",
                    "cached plan must not change result type",
                    "the tables have changed: prepare it again, which costs nothing more",
                )
            portal.tag = answer.tag
            portal.rows = answer.table
            if answer.table is not None:
                if answer.tag == "SELECT":
                    portal.tag = f"SELECT {answer.table.num_rows}"
                if describes:
                    self.send(_describe_rows(answer.table.schema, portal.formats))
        if portal.rows is not None:
            size = size if size > 0 else portal.rows.num_rows
            first, portal.rows = portal.rows.slice(0, size), portal.rows.slice(size)
            async for rows in self._encode(first, portal.formats):
                self.send(*(messages.DataRow(columns=row) for row in rows))
        if portal.rows:
            portal.size = max(portal.size, portal.rows.nbytes)
            self.send(messages.PortalSuspended())
        elif portal.tag:
            self.send(messages.CommandComplete(tag=portal.tag))
        else:
            self.send(messages.EmptyQueryResponse())

    async def _encode(
        self, table: pa.Table, formats: Sequence[int]
    ) -> AsyncIterator[list[list[bytes | None]]]:
        """Yield encoded rows, some at a time. In between the client reads, and others get on."""
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            yield encoding.encode_rows(table.slice(start, _ROWS_AT_ONCE), formats)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def _describe(self, portal: Portal) -> None:
        assert self.session is not None  # noqa: S101 the login has made it
        answer = Answer(None, tag="COPY")
        if not _COPY.match(portal.statement):
            answer = await self.session.describe(portal.statement, portal.parameters)
        if answer.tag == "SELECT":
            portal.described = answer
        portal.columns = _find_oids(answer)
        if answer.table is None:
            self.send(messages.NoData())
        else:
            self.send(_describe_rows(answer.table.schema, portal.formats))

    async def _copy(self, copied: re.Match[str]) -> None:
        """Answer COPY (query) TO STDOUT, as text or binary. COPY of a table is a query for rows."""
        form = re.sub(r"[\s()\"]|WITH|FORMAT", "", copied["options"].upper()).lower() or "text"
        if form not in {"text", "binary"}:
            raise ServerError("0A000", "COPY writes text or binary", "leave options out")
        query = copied["query"] or f"SELECT {copied['columns'] or '*'} FROM {copied['table']}"  # noqa: S608
        table = (await self._run(query)).table
        if table is None:
            raise ServerError("42601", "COPY needs a SELECT")
        formats = [int(form == "binary")] * table.num_columns
        self.send(
            messages.CopyOutResponse(overall_format=int(form == "binary"), col_formats=formats)
        )
        write, head = _write_text, b""
        if form == "binary":
            write, head = _write_binary, b"PGCOPY\n\xff\r\n\0" + bytes(8)
        async for rows in self._encode(table, formats):
            first, *others = map(write, rows)
            self.send(*(messages.CopyData(data=line) for line in (head + first, *others)))
            head = b""
        if form == "binary":
            self.send(messages.CopyData(data=head + b"\xff\xff"))
        tag = messages.CommandComplete(tag=f"COPY {table.num_rows}")
        self.send(messages.CopyDone(), tag)


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _write_binary(row: list[bytes | None]) -> bytes:
    return messages.DataRow(columns=row).encode()  # which is the body of one


def _write_text(row: list[bytes | None]) -> bytes:
    cells = ("\\N" if cell is None else cell.decode().translate(_ESCAPES) for cell in row)
    return "\t".join(cells).encode() + b"\n"


def _find_oids(answer: Answer) -> Sequence[int] | None:
    if answer.table is None:
        return None
    return [encoding.find_oid(kind) for kind in answer.table.schema.types]


def _describe_rows(schema: pa.Schema, formats: Sequence[int]) -> messages.RowDescription:
    oids = [encoding.find_oid(kind) for kind in schema.types]
    return messages.RowDescription(
        fields=[
            messages.FieldDescription(
                name=name,
                type_oid=oid,
                type_size=encoding.SIZES.get(oid, -1),
                type_modifier=-1,
                format_code=encoding.find_format(formats, index),
            )
            for index, (name, oid) in enumerate(zip(schema.names, oids, strict=True))
        ]
    )
