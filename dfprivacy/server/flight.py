"""Speak Flight SQL: carry the statements of ADBC clients to sessions of the same server.

A ticket is a statement, sealed for its user. It costs nothing, and no data is read for it. Whoever
fetches its answer asks the statement, as with the Postgres listener.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import time
from base64 import b64decode
from collections.abc import Coroutine, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from dfprivacy.engine.files import quote
from dfprivacy.errors import DPError
from dfprivacy.server.session import FAILED_LOGIN_SECONDS, Server, Session
from dfprivacy.server.users import Verifier, check_password, make_secret, read_users
from dfprivacy.server.workers import ServerError, describe_error
from dfprivacy.statements.interface import with_constants

_METHODS = {
    fl.FlightMethod[name]
    for name in ("HANDSHAKE", "GET_FLIGHT_INFO", "DO_GET", "DO_PUT", "DO_ACTION")
}
_SEAL_SIZE = 64  # hexadecimal digits
_RESULT = "type.googleapis.com/arrow.flight.protocol.sql.ActionCreatePreparedStatementResult"
_SESSIONS_PER_USER = 20  # a login beyond ends the oldest session of its user
_COLUMNS = {  # of the answers about the catalog
    "CommandGetCatalogs": "catalog_name",
    "CommandGetDbSchemas": "catalog_name, db_schema_name",
    "CommandGetTables": "catalog_name, db_schema_name, table_name, table_type",
    "CommandGetTableTypes": "table_type",
}
_TABLES = (
    "(SELECT table_catalog AS catalog_name, table_schema AS db_schema_name, table_name, "
    "'TABLE' AS table_type FROM information_schema.tables)"
)
_FILTERS = ("catalog_name", "db_schema_name", "table_name")  # patterns, by their place in a command


def _read_command(data: bytes | None) -> tuple[str, dict[int, str]]:
    """Return the name of a command and its fields by number. Repeated values are joined."""
    fields: dict[int, str] = {}
    try:
        command = AnyMessage.FromString(data or b"")
        values: Any = UnknownFieldSet(Empty.FromString(command.value))
        for value in values:
            text = value.data.decode() if isinstance(value.data, bytes) else str(value.data)
            fields[value.field_number] = fields.get(value.field_number, "") + text
    except (DecodeError, UnicodeDecodeError):
        raise ServerError("08P01", "the bytes are no command of Flight SQL") from None
    return command.type_url.rpartition(".")[2], fields


def _refuse(name: str) -> ServerError:
    hint = "it answers statements, and changes no data"
    return ServerError("0A000", f"this server has no {name[:100]!r}", hint)


def _find_statement(name: str, fields: dict[int, str]) -> str:
    """Return the SQL of a command, and how its rows are returned in front of it."""
    if name == "CommandStatementQuery":
        return f"rows:{fields.get(1, '')}"
    if name not in _COLUMNS:
        raise _refuse(name)
    where = str("TABLE" in fields.get(4, "TABLE"))  # the types of tables that are asked for
    for number, column in enumerate(_FILTERS, 1):
        pattern = fields.get(number, "").replace("'", "''") or "%"
        where += f" AND {column} LIKE '{pattern}'"
    kind = "schemas" if fields.get(5, "0") != "0" else "catalog"
    return f"{kind}:SELECT DISTINCT {_COLUMNS[name]} FROM {_TABLES} WHERE {where} ORDER BY ALL"  # noqa: S608 quoted


async def _answer(session: Session, text: str) -> pa.Table:
    """Run a statement, and return its rows as its command wants them."""
    kind, _, statement = text.partition(":")
    answer = await session.run(statement)
    table = pa.table({}) if answer.table is None else answer.table
    if kind == "rows":
        return table.replace_schema_metadata({"dfprivacy.notice": answer.notice})
    if kind == "schemas":
        content = []
        for name in table["table_name"].to_pylist():
            query = f"SELECT * FROM {quote(name)} WHERE 0 = 1"  # noqa: S608 quoted
            described = await session.describe(query, ())
            content.append(described.table.schema.serialize().to_pybytes())
        table = table.append_column("table_schema", pa.array(content, pa.binary()))
    optional = {"catalog_name", "db_schema_name"} - {table.column_names[-1]}
    return table.cast(pa.schema([f.with_nullable(f.name in optional) for f in table.schema]))


@contextmanager
def _readable_errors(context: fl.ServerCallContext | None = None) -> Iterator[Any]:
    """Yield the session of a call. Raise errors with the text and the hint of Postgres clients.

    Privacy: pyarrow sends the traceback of any other error to the client.
    """
    try:
        yield context.get_middleware("login").session if context else None
    except Exception as error:  # noqa: BLE001 the client reads what it may
        safe = describe_error(error)
    else:
        return
    is_login = safe.code.startswith("28")
    kind = fl.FlightUnauthenticatedError if is_login else fl.FlightServerError
    raise kind(f"{safe}\n\nSQLSTATE: {safe.code}")


class _Call(fl.ServerMiddleware):  # type: ignore[misc]
    """A call of a session, and the token that answers a login."""

    def __init__(self, session: Session, token: str = "") -> None:
        self.session, self._token = session, token

    def sending_headers(self) -> dict[str, str]:
        """Send the token."""
        return {"authorization": f"Bearer {self._token}"} if self._token else {}


class _Logins(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Find the session of a call by its token, or make one for a name and a password."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sessions: dict[str, tuple[Session, Verifier]] = {}
        self._room = BoundedSemaphore(server.policy.limits.connections)

    def start_call(self, call: fl.CallInfo, headers: dict[str, list[str]]) -> _Call:
        """Return the call, or refuse it."""
        with _readable_errors():
            if call.method not in _METHODS:  # pyarrow would answer with a traceback
                raise _refuse(call.method.name)
            scheme, _, secret = headers.get("authorization", [""])[0].partition(" ")
            if scheme.lower() == "basic":
                return self._log_in(secret, headers.get("database", [""])[0])
            session, verifier = self._sessions.get(secret, (None, None))
            users = read_users(self._server.policy.users)
            if session is None or users.get(session.analyst) != verifier:
                raise ServerError("28000", "the call has no login", "name a user and a password")
            return _Call(replace(session))  # calls share the terms of their session

    def _log_in(self, secret: str, dataset: str) -> _Call:
        if not self._room.acquire(blocking=False):
            raise ServerError("53300", "the server has no room for another login")
        try:
            user, _, password = b64decode(f"{secret}==").decode().partition(":")
            verifier = read_users(self._server.policy.users).get(user)
            is_proven = check_password(verifier, password)
            session = self._server.log_in(user, dataset, is_proven=is_proven)
        except ValueError:
            raise ServerError("28P01", "the login can't be read") from None
        except ServerError:
            time.sleep(FAILED_LOGIN_SECONDS)
            raise
        finally:
            self._room.release()
        assert verifier is not None  # noqa: S101 it is proven
        sessions = list(self._sessions.items())
        tokens = [token for token, (old, _) in sessions if old.analyst == user]
        for token in tokens[: 1 - _SESSIONS_PER_USER]:
            self._sessions.pop(token, None)
        token = make_secret(32).hex()
        self._sessions[token] = session, verifier
        return _Call(session, token)


class _Handshake(fl.ServerAuthHandler):  # type: ignore[misc]
    """Let clients ask for a token. The headers of each call have its login."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        """Add nothing."""

    def is_valid(self, token: object) -> str:  # noqa: ARG002 the headers show who calls
        """Add nothing."""
        return ""


class FlightListener(fl.FlightServerBase):  # type: ignore[misc]
    """A Flight SQL server beside the Postgres listener, on the sessions of the same server."""

    def __init__(self, server: Server) -> None:
        listen = server.policy.listen
        assert listen.tls is not None  # noqa: S101 the policy requires it
        # the only suite of TLS 1.2 needs a key that nobody has: clients speak TLS 1.3
        os.environ["GRPC_SSL_CIPHER_SUITES"] = "PSK-AES128-GCM-SHA256"
        self._loop, self._key = asyncio.get_running_loop(), make_secret(32)
        super().__init__(
            f"grpc+tls://{listen.address.rpartition(':')[0]}:{listen.flight}",
            auth_handler=_Handshake(),
            tls_certificates=[(listen.tls.certificate.read_bytes(), listen.tls.key.read_bytes())],
            middleware={"login": _Logins(server)},
        )

    def _seal(self, session: Session, text: str) -> str:
        """Bind a statement to the user and the dataset of a session, until the server stops."""
        bound = f"{session.analyst}\0{session.dataset}\0{text}".encode()
        return hmac.digest(self._key, bound, "sha256").hex() + text

    def _unseal(self, session: Session, sealed: str) -> str:
        text = sealed[_SEAL_SIZE:]
        if not hmac.compare_digest(self._seal(session, text).encode(), sealed.encode()):
            raise ServerError(
                "26000", "the ticket is of another user, dataset or server", "ask for a new one"
            )
        return text

    def _wait(
        self, context: fl.ServerCallContext, session: Session, answer: Coroutine[Any, Any, Any]
    ) -> Any:
        """Wait for an answer of the server's loop. A call that is cancelled ends its worker."""
        future = asyncio.run_coroutine_threadsafe(answer, self._loop)
        while not wait([future], 0.2).done:
            if context.is_cancelled():
                self._loop.call_soon_threadsafe(session.cancel)
        return future.result()

    def get_flight_info(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.FlightInfo:
        """Return a ticket for a command."""
        with _readable_errors(context) as session:
            name, fields = _read_command(descriptor.command)
            if name == "CommandPreparedStatementQuery":
                text = self._unseal(session, fields.get(1, ""))
            else:
                text = _find_statement(name, fields)
            ticket = fl.Ticket(self._seal(session, text))
            return fl.FlightInfo(None, descriptor, [fl.FlightEndpoint(ticket, [])])

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.RecordBatchStream:
        """Answer a ticket. A release is charged before the first row is sent."""
        with _readable_errors(context) as session:
            answer = _answer(session, self._unseal(session, ticket.ticket.decode(errors="replace")))
            return fl.RecordBatchStream(self._wait(context, session, answer))

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> Iterator[bytes]:
        """Prepare a statement: return its handle and its columns. The server keeps nothing."""
        with _readable_errors(context) as session:
            if action.type == "ClosePreparedStatement":
                return iter([])
            if action.type != "CreatePreparedStatement":
                raise _refuse(action.type)
            statement = _read_command(action.body.to_pybytes())[1].get(1, "")
            columns = b""
            with suppress(DPError):  # the statement has parameters, or is refused
                described = self._wait(context, session, session.describe(statement, ()))
                if described.table is not None:
                    columns = described.table.schema.serialize().to_pybytes()
            handle = self._seal(session, f"rows:{statement}")
            result = AnyMessage(type_url=_RESULT)  # which has fields 1 and 2 of the same kinds
            result.value = AnyMessage(type_url=handle, value=columns).SerializeToString()
            return iter([result.SerializeToString()])

    def do_put(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.FlightMetadataWriter,
    ) -> None:
        """Return the handle of a prepared statement with values in place of its parameters."""
        with _readable_errors(context) as session:
            name, fields = _read_command(descriptor.command)
            if name != "CommandPreparedStatementQuery":
                raise _refuse(name)
            text = self._unseal(session, fields.get(1, ""))
            rows = reader.read_chunk().data
            rows.validate(full=True)  # before bytes of a client are read
            if rows.num_rows != 1:
                raise ServerError("0A000", "a statement takes one row of values")
            values = [column[0].as_py() for column in rows.columns]
            statement = with_constants(text.partition(":")[2], values)
            handle = self._seal(session, f"rows:{statement}")
            writer.write(pa.py_buffer(AnyMessage(type_url=handle).SerializeToString()))
