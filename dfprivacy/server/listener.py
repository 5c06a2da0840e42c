"""Speak the Postgres protocol: log analysts in, and carry their statements to a session."""

from __future__ import annotations

import asyncio
import hmac
import re
import signal
import ssl
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pygwire import BackendConnection, messages
from pygwire.constants import StartupRequestCode, TransactionStatus
from pygwire.exceptions import PygwireError
from pygwire.messages import PGMessage

from dfprivacy.errors import DPError
from dfprivacy.server import encoding
from dfprivacy.server.policy import Policy
from dfprivacy.server.session import Outcome, Server, Session, split_statements
from dfprivacy.server.users import ScramExchange, make_secret, read_users
from dfprivacy.server.workers import Failure, ServerError, describe_error

_LARGEST_MESSAGE = 2**20  # bytes
_LARGEST_LOGIN_MESSAGE = 10_000  # bytes
_LOGIN_SECONDS = 20
_FAILED_LOGIN_SECONDS = 1
_SSL_REQUEST_SIZE = 8  # bytes
_STATUS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
}
_COPY_MESSAGES = (messages.CopyOutResponse, messages.CopyData, messages.CopyDone)
_COPY = re.compile(
    r"\s*COPY\s*\((?P<query>.*)\)\s*TO\s+STDOUT\s*"
    r"(?:(?:WITH\s*)?\(\s*FORMAT\s+\"?(?P<format>\w+)\"?\s*\))?\s*;?\s*$",
    re.IGNORECASE | re.DOTALL,
)


class Disconnect(Exception):  # noqa: N818 no error
    """End the connection."""


@dataclass(frozen=True)
class Prepared:
    """A statement and the types of its parameters."""

    statement: str
    oids: tuple[int, ...]


@dataclass
class Portal:
    """A prepared statement with values, and the rows that are left of its answer."""

    statement: str
    parameters: tuple[Any, ...]
    formats: Sequence[int]
    outcome: Outcome | None = None
    rows: list[tuple[Any, ...]] | None = None


class Listener:
    """A server on an address. It ends after `stop`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.server = Server(policy)
        self.sessions: dict[int, Client] = {}
        self.secret = make_secret(32)
        self._stopping = asyncio.Event()
        self.tls: ssl.SSLContext | None = None
        if policy.listen.tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_3
            self.tls.load_cert_chain(policy.listen.tls.certificate, policy.listen.tls.key)

    async def serve(self, started: asyncio.Event | None = None) -> None:
        """Open the data, then answer until `stop` or a signal."""
        await self.server.open()
        host, port = self.policy.listen.host_and_port
        listening = await asyncio.start_server(self._accept, host, port, limit=2**16)
        self.port = listening.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        with suppress(ValueError, RuntimeError):  # signals reach the main thread only
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.stop)
        if started is not None:
            started.set()
        async with listening:
            await self._stopping.wait()
            listening.close()
        for client in list(self.sessions.values()):
            client.writer.close()
        self.server.close()

    def stop(self) -> None:
        """End the server: no new connections, and open ones are closed."""
        self._stopping.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(self, reader, writer)
        try:
            if len(self.sessions) >= self.policy.limits.connections:
                client.send_fatal("53300", "the server has no room for another connection")
            else:
                await client.run()
        except (
            Disconnect,
            ConnectionError,
            TimeoutError,
            asyncio.IncompleteReadError,
            ssl.SSLError,
        ):
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
        self.prepared: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}
        self.skips_to_sync = False
        self.chunk_size = 0

    def send(self, *replies: PGMessage) -> None:
        """Write messages to the client."""
        for reply in replies:  # pygwire would leave the extended protocol after a COPY
            is_copy = isinstance(reply, _COPY_MESSAGES)
            self.writer.write(reply.to_wire() if is_copy else self.wire.send(reply))

    def send_failure(self, failure: Failure, severity: str = "ERROR") -> None:
        """Write an error with its code and hint."""
        fields = {"S": severity, "V": severity, "C": failure.code, "M": failure.message}
        if failure.hint:
            fields["H"] = failure.hint
        self.send(messages.ErrorResponse(fields=fields))

    def send_fatal(self, code: str, message: str) -> None:
        """Write an error that ends the connection."""
        self.send_failure(Failure(code, message), "FATAL")

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
                self.send_fatal("08P01", "the bytes are no message of the protocol")
                raise Disconnect from None
            if unread > largest:
                self.send_fatal("08P01", f"a message has more than {largest:,} bytes")
                raise Disconnect
            await self.writer.drain()

    async def run(self) -> None:
        """Log the analyst in, then answer messages until the connection ends."""
        async with asyncio.timeout(_LOGIN_SECONDS):
            await self._log_in()
        self.listener.sessions[self.number] = self
        async for message in self.receive(_LARGEST_MESSAGE):
            if isinstance(message, messages.Terminate):
                return
            await self._answer(message)
            await self.writer.drain()

    # Login

    async def _log_in(self) -> None:
        try:
            await self._exchange_login()
        except (ValueError, LookupError, DPError):  # a malformed proof, or no file of users
            self.send_fatal("28P01", "the login can't be read")
            raise Disconnect from None

    async def _exchange_login(self) -> None:
        startup: messages.StartupMessage | None = None
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
                    raise Disconnect
                case messages.StartupMessage():
                    startup = message
                    exchange = self._start_login(startup)
                case messages.SASLInitialResponse() if exchange:
                    first = exchange.start(message.data.decode())
                    self.send(messages.AuthenticationSASLContinue(data=first.encode()))
                case messages.SASLResponse() if exchange and startup:
                    await self._finish_login(startup, exchange.finish(message.data.decode()))
                    return
                case _:
                    self.send_fatal("08P01", "the login has another order of messages")
                    raise Disconnect
            await self.writer.drain()
        raise Disconnect

    async def _start_tls(self) -> None:
        if self.chunk_size > _SSL_REQUEST_SIZE:  # unencrypted bytes must not pass for encrypted
            raise Disconnect
        self.writer.write(b"S" if self.listener.tls else b"N")
        await self.writer.drain()
        if self.listener.tls:
            await self.writer.start_tls(self.listener.tls)
        self.wire = BackendConnection(strict=False)

    def _start_login(self, startup: messages.StartupMessage) -> ScramExchange:
        if self.listener.tls and self.writer.get_extra_info("ssl_object") is None:
            self.send_fatal("28000", "this server takes encrypted connections only")
            raise Disconnect
        if startup.protocol_version > StartupRequestCode.V3_0:
            self.send(messages.NegotiateProtocolVersion(StartupRequestCode.V3_0, []))
        user = startup.params.get("user", "")
        self.send(messages.AuthenticationSASL(mechanisms=["SCRAM-SHA-256"]))
        users = read_users(self.listener.policy.users)
        return ScramExchange(user, users.get(user), self.listener.secret)

    async def _finish_login(
        self, startup: messages.StartupMessage, signature: bytes | None
    ) -> None:
        user, dataset = startup.params.get("user", ""), startup.params.get("database", "")
        rules = self.listener.policy.analysts.get(user)
        if signature is None or rules is None:
            self.listener.server.write_log(analyst=user, outcome="wrong password")
            await asyncio.sleep(_FAILED_LOGIN_SECONDS)
            self.send_fatal("28P01", f'password authentication failed for user "{user}"')
            raise Disconnect
        if not rules.datasets:
            dataset = ""  # a monitor asks SELECT 1
        elif dataset not in rules.datasets:
            self.send_fatal("3D000", f"{user} has no part of a dataset {dataset!r}")
            raise Disconnect
        login = f"{self.number}"
        self.session = Session(self.listener.server, user, dataset, login)
        self.send(
            messages.AuthenticationSASLFinal(data=b"v=" + b64encode(signature)),
            messages.AuthenticationOk(),
            *(messages.ParameterStatus(name, value) for name, value in _STATUS.items()),
            messages.BackendKeyData(process_id=self.number, secret_key=self.key),
            messages.ReadyForQuery(status=self.status),
        )

    def _cancel(self, request: messages.CancelRequest) -> None:
        """End the worker that runs the statement of a connection."""
        client = self.listener.sessions.get(request.process_id)
        if client and client.session and hmac.compare_digest(client.key, request.secret_key):
            worker = self.listener.server.running.get(client.session.login)
            if worker is not None:
                worker.process.kill()

    # Statements

    async def _answer(self, message: PGMessage) -> None:  # noqa: PLR0912 one a message
        if isinstance(message, messages.Sync):
            self.skips_to_sync = False
            self.send(messages.ReadyForQuery(status=self.status))
            return
        if self.skips_to_sync:
            return
        try:
            match message:
                case messages.Query():
                    await self._run_query(message.query_string)
                case messages.Parse():
                    self._parse(message)
                case messages.Bind():
                    self._bind(message)
                case messages.Describe():
                    await self._describe(message)
                case messages.Execute():
                    await self._execute(message)
                case messages.Close():
                    names = self.prepared if message.kind == "S" else self.portals
                    names.pop(message.name, None)
                    self.send(messages.CloseComplete())
                case messages.Flush():
                    pass
                case _:
                    self.send_failure(Failure("0A000", "this server has no such message"))
        except Exception as error:  # noqa: BLE001 the client reads what it may
            self.skips_to_sync = not isinstance(message, messages.Query)
            if self.status is TransactionStatus.IN_TRANSACTION:
                self.status = TransactionStatus.ERROR_TRANSACTION
            self.send_failure(describe_error(error))
        if isinstance(message, messages.Query):
            self.send(messages.ReadyForQuery(status=self.status))

    async def _run_query(self, text: str) -> None:
        statements = split_statements(text)
        if not statements:
            self.send(messages.EmptyQueryResponse())
        for statement in statements:
            if copied := _COPY.match(statement):
                await self._copy(copied["query"], (copied["format"] or "text").lower())
                continue
            outcome = await self._run(statement, ())
            if outcome.table is not None:
                self.send(_describe_rows(outcome.table.schema, ()))
                self._send_rows(outcome.table.schema, encoding.list_rows(outcome.table), ())
            self.send(messages.CommandComplete(tag=outcome.tag))

    async def _run(self, statement: str, parameters: Sequence[Any]) -> Outcome:
        assert self.session is not None  # noqa: S101 the login has made it
        tag = statement.split(None, 1)[0].upper() if statement.strip() else ""
        if self.status is TransactionStatus.ERROR_TRANSACTION and tag not in {
            "ROLLBACK",
            "ABORT",
            "COMMIT",
            "END",
        }:
            raise ServerError("25P02", "the transaction has failed", "ROLLBACK ends it")
        outcome = await self.session.run(statement, parameters)
        if outcome.tag == "BEGIN":
            self.status = TransactionStatus.IN_TRANSACTION
        elif outcome.tag in {"COMMIT", "ROLLBACK"} and "TO" not in statement.upper().split():
            self.status = TransactionStatus.IDLE
        for notice in outcome.notices:
            fields = {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": notice}
            self.send(messages.NoticeResponse(fields=fields))
        return outcome

    def _send_rows(
        self, schema: pa.Schema, rows: Iterable[tuple[Any, ...]], formats: Sequence[int]
    ) -> None:
        oids = [encoding.find_oid(field.type) for field in schema]
        binary = [_find_format(formats, index) == 1 for index in range(len(oids))]
        for row in rows:
            columns = [
                encoding.encode(value, oid, binary=is_binary)
                for value, oid, is_binary in zip(row, oids, binary, strict=True)
            ]
            self.send(messages.DataRow(columns=columns))

    def _parse(self, message: messages.Parse) -> None:
        numbers = {int(number) for number in re.findall(r"\$(\d+)", message.query)}
        oids = [*message.param_types, *[0] * (max(numbers, default=0) - len(message.param_types))]
        self.prepared[message.statement] = Prepared(message.query, tuple(oids))
        self.send(messages.ParseComplete())

    def _bind(self, message: messages.Bind) -> None:
        prepared = self._find_prepared(message.statement)
        values = tuple(
            encoding.decode_parameter(
                value, oid, binary=_find_format(message.param_formats, index) == 1
            )
            for index, (value, oid) in enumerate(
                zip(message.param_values, prepared.oids, strict=True)
            )
        )
        self.portals[message.portal] = Portal(prepared.statement, values, message.result_formats)
        self.send(messages.BindComplete())

    def _find_prepared(self, name: str) -> Prepared:
        if name not in self.prepared:
            raise ServerError("26000", f"no statement is prepared under the name {name!r}")
        return self.prepared[name]

    async def _describe(self, message: messages.Describe) -> None:
        assert self.session is not None  # noqa: S101 the login has made it
        formats: Sequence[int] = ()
        if message.kind == "S":
            prepared = self._find_prepared(message.name)
            oids = [oid or encoding.TEXT for oid in prepared.oids]
            self.send(messages.ParameterDescription(type_oids=oids))
            statement = prepared.statement
            parameters = tuple(_find_sample(oid) for oid in prepared.oids)
        else:
            portal = self._find_portal(message.name)
            statement, parameters, formats = portal.statement, portal.parameters, portal.formats
        if copied := _COPY.match(statement):
            statement = copied["query"]
            self.send(messages.NoData())
            return
        schema = await self.session.describe(statement, parameters)
        self.send(messages.NoData() if schema is None else _describe_rows(schema, formats))

    def _find_portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise ServerError("34000", f"no portal has the name {name!r}")
        return self.portals[name]

    async def _execute(self, message: messages.Execute) -> None:
        portal = self._find_portal(message.portal)
        if copied := _COPY.match(portal.statement):
            await self._copy(copied["query"], (copied["format"] or "text").lower())
            return
        if portal.outcome is None:
            portal.outcome = await self._run(portal.statement, portal.parameters)
            if portal.outcome.table is not None:
                portal.rows = encoding.list_rows(portal.outcome.table)
        outcome = portal.outcome
        if outcome.table is None or portal.rows is None:
            empty = not portal.statement.strip(" \t\r\n;")
            self.send(
                messages.EmptyQueryResponse()
                if empty
                else messages.CommandComplete(tag=outcome.tag)
            )
            return
        size = message.max_rows or len(portal.rows)
        now, portal.rows = portal.rows[:size], portal.rows[size:]
        self._send_rows(outcome.table.schema, now, portal.formats)
        self.send(
            messages.PortalSuspended() if portal.rows else messages.CommandComplete(tag=outcome.tag)
        )

    async def _copy(self, query: str, form: str) -> None:
        """Answer COPY (query) TO STDOUT, as text or binary."""
        if form not in {"text", "binary"}:
            raise ServerError("0A000", "COPY writes text or binary", "leave FORMAT out")
        outcome = await self._run(query, ())
        if outcome.table is None:
            raise ServerError("42601", "COPY needs a SELECT")
        binary = form == "binary"
        schema = outcome.table.schema
        oids = [encoding.find_oid(field.type) for field in schema]
        code = int(binary)
        self.send(messages.CopyOutResponse(overall_format=code, col_formats=[code] * len(oids)))
        header = b"PGCOPY\n\xff\r\n\0" + bytes(8) if binary else b""  # goes with the first row
        for row in encoding.list_rows(outcome.table):
            cells = [
                encoding.encode(value, oid, binary=binary)
                for value, oid in zip(row, oids, strict=True)
            ]
            self.send(messages.CopyData(data=header + _to_copy_row(cells, binary=binary)))
            header = b""
        if binary:
            self.send(messages.CopyData(data=header + b"\xff\xff"))
        self.send(messages.CopyDone(), messages.CommandComplete(tag=f"COPY {len(outcome.table)}"))


def _to_copy_row(cells: list[bytes | None], *, binary: bool) -> bytes:
    if binary:
        parts = [struct.pack("!h", len(cells))]
        for cell in cells:
            parts.append(struct.pack("!i", -1 if cell is None else len(cell)))
            parts.append(cell or b"")
        return b"".join(parts)
    escapes = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r"))
    texts = []
    for cell in cells:
        text = b"\\N" if cell is None else cell
        if cell is not None:
            for character, escaped in escapes:
                text = text.replace(character, escaped)
        texts.append(text)
    return b"\t".join(texts) + b"\n"


def _describe_rows(schema: pa.Schema, formats: Sequence[int]) -> messages.RowDescription:
    fields = []
    for index, field in enumerate(schema):
        oid = encoding.find_oid(field.type)
        fields.append(
            messages.FieldDescription(
                name=field.name,
                type_oid=oid,
                type_size=encoding.SIZES.get(oid, -1),
                type_modifier=-1,
                format_code=_find_format(formats, index),
            )
        )
    return messages.RowDescription(fields=fields)


def _find_format(formats: Sequence[int], index: int) -> int:
    """Return the format of a column: 0 is text, and one format is that of all."""
    if not formats:
        return 0
    return formats[index] if len(formats) > 1 else formats[0]


def _find_sample(oid: int) -> Any:
    """Return a value to describe a statement with: NULL where a type may be any other."""
    if oid in {encoding.INT2, encoding.INT4, encoding.INT8}:
        return 0
    if oid in {encoding.FLOAT4, encoding.FLOAT8, encoding.NUMERIC}:
        return 0.0
    return True if oid == encoding.BOOL else None
