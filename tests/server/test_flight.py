"""Flight SQL clients: what they see, when a statement is charged, which tickets are refused."""

import datetime as dt
import re
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from tests.command_line import command

from .conftest import PASSWORD, connect_to, make_folder, serve

psycopg = pytest.importorskip("psycopg")
any_pb2 = pytest.importorskip("google.protobuf.any_pb2")

MEANS = "SELECT carrier, AVG(delay) AS delay, COUNT(*) AS n FROM flights GROUP BY 1 ORDER BY 1"
TYPES = "type.googleapis.com/arrow.flight.protocol.sql."
UPDATES = ("CommandStatementUpdate", "CommandStatementIngest", "CommandPreparedStatementUpdate")


class Client:
    """A login of pyarrow, which sees tickets."""

    def __init__(self, server, user="ann", password=PASSWORD):
        self.wire = fl.connect(server.address, tls_root_certs=server.certificate)
        self.options = fl.FlightCallOptions(
            headers=[self.wire.authenticate_basic_token(user, password)]
        )

    def send(self, command):
        descriptor = fl.FlightDescriptor.for_command(command)
        return self.wire.get_flight_info(descriptor, self.options).endpoints[0].ticket

    def find_ticket(self, text, name="CommandStatementQuery"):
        return self.send(write_command(name, text))

    def fetch(self, ticket):
        return self.wire.do_get(ticket, self.options).read_all()

    def ask(self, statement):
        return self.fetch(self.find_ticket(statement))

    def act(self, name, body=b""):
        results = self.wire.do_action((name, body), self.options)
        return [result.body.to_pybytes() for result in results]

    def read_budget(self):
        return self.ask("SHOW dfprivacy.budget")[0][0].as_py()


def write_command(name, text=""):
    """Write a command whose first field is a text, as Any is a message of fields 1 and 2."""
    body = any_pb2.Any(type_url=text).SerializeToString()
    return any_pb2.Any(type_url=TYPES + name, value=body).SerializeToString()


class Served:
    """A server with both listeners."""

    def __init__(self, file, port, process):
        self.file, self.port, self.process = file, port, process
        number = process.stdout.readline().rpartition(":")[2].rstrip(".\n")
        self.address = f"grpc+tls://localhost:{number}"
        self.certificate = (file.parent / "server.crt").read_text()

    def connect_adbc(self, password=PASSWORD, **headers):
        adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")
        terms = {"username": "ann", "password": password}
        terms["adbc.flight.sql.client_option.tls_root_certs"] = self.certificate
        for name, text in headers.items():
            terms[f"adbc.flight.sql.rpc.call_header.{name}"] = text
        return adbc.connect(self.address, db_kwargs=terms, autocommit=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start a server with a certificate and a port for Flight SQL."""
    folder = tmp_path_factory.mktemp("flight")
    words = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout server.key -out server.crt"
    )
    try:
        subprocess.run(words.split(), cwd=folder, check=True, capture_output=True)
    except OSError:
        pytest.skip("openssl is not installed")
    file = make_folder(folder, users=("ann", "bob", "probe"))
    listen = '127.0.0.1:0", flight: 0, tls: {certificate: server.crt, key: server.key}'
    text = file.read_text().replace("workers: 1", "workers: 2")
    file.write_text(text.replace('127.0.0.1:0"', listen))
    with serve(file) as (port, process):
        yield Served(file, port, process)


def test_adbc_asks_as_clients_of_postgres_do(server):
    """Answers, parameters, terms of a session, columns, tables and refusals with their hint."""
    with server.connect_adbc(database="flights") as connection, connection.cursor() as cursor:

        def ask(statement, parameters=None):
            cursor.execute(statement, parameters)
            return cursor.fetch_arrow_table()

        means = ask(MEANS)
        assert means["carrier"].to_pylist() == ["AA", "DL", "UA"]
        assert [str(kind) for kind in means.schema.types] == ["string", "double", "int64"]
        assert b"ann has left" in means.schema.metadata[b"dfprivacy.notice"]
        with connect_to(server.port) as postgres:
            assert postgres.execute(MEANS).fetchall() == [
                tuple(row.values()) for row in means.to_pylist()
            ]
        counted = ask(
            "SELECT COUNT(*) AS n FROM flights WHERE month > ? AND carrier = ? AND day >= ?",
            (6, "AA", dt.date(2024, 1, 1)),
        )
        assert abs(counted["n"][0].as_py() - 5000) < 10
        ask("SET dfprivacy.intervals = on")
        assert ask(MEANS).column_names[1:4] == ["delay", "delay_low", "delay_high"]
        ask("RESET ALL")
        assert cursor.adbc_execute_schema(MEANS).names == ["carrier", "delay", "n"]
        preview = ask("SELECT * FROM flights LIMIT 2")
        assert b"made up" in preview.schema.metadata[b"dfprivacy.notice"]
        with pytest.raises(Exception, match=r"rows are not shown\s+Hint: GROUP BY plane"):
            ask("SELECT plane FROM flights")
        columns = connection.adbc_get_table_schema("flights")
        assert columns.names == ["plane", "carrier", "month", "delay", "day", "departure"]
        assert connection.adbc_get_table_types() == ["TABLE"]
        for kinds, names in ((["TABLE"], ["flights"]), (["VIEW"], [])):
            objects = connection.adbc_get_objects(table_types_filter=kinds).read_all().to_pylist()
            (schema,) = objects[0]["catalog_db_schemas"]
            assert [table["table_name"] for table in schema["db_schema_tables"]] == names


def test_polars_reads_a_release(server):
    """polars.read_database takes the connection of ADBC."""
    polars = pytest.importorskip("polars")
    with server.connect_adbc() as connection:
        frame = polars.read_database(MEANS, connection)
    assert frame["carrier"].to_list() == ["AA", "DL", "UA"]
    assert frame.schema["delay"] == polars.Float64


def test_a_statement_is_charged_when_its_answer_is_fetched_and_once(server):
    """Tickets and handles are free. Of all fetches, in parallel too, the first is charged."""
    first, second = Client(server), Client(server)
    statement = "SELECT COUNT(*) AS n FROM flights WHERE month = 5"
    budget = first.read_budget()
    tickets = [client.find_ticket(statement) for client in (first, second, first)]
    request = any_pb2.Any(type_url=statement).SerializeToString()
    packed = any_pb2.Any(type_url="ActionCreatePreparedStatementRequest", value=request)
    (reply,) = first.act("CreatePreparedStatement", packed.SerializeToString())
    result = any_pb2.Any.FromString(any_pb2.Any.FromString(reply).value)
    assert pa.ipc.read_schema(pa.py_buffer(result.value)).names == ["n"]
    name = "CommandPreparedStatementQuery"
    tickets += [first.find_ticket(result.type_url, name) for _ in range(2)]
    assert first.act("ClosePreparedStatement") == []
    fetched = first.wire.do_get(tickets[0], first.options)
    fetched.cancel()
    with ThreadPoolExecutor(5) as pool:
        clients = [first, second, first, second, first]
        answers = list(pool.map(lambda client, ticket: client.fetch(ticket), clients, tickets))
    with connect_to(server.port) as connection:
        answers.append(pa.table({"n": list(connection.execute(statement).fetchone())}))
    assert len({answer["n"][0].as_py() for answer in answers}) == 1
    assert count_charges(budget, first.read_budget()) == 1


def count_charges(before, after):
    """Return the charges of 1,000,000 between two budgets as they are shown."""
    numbers = [float(re.match(r"left epsilon ([0-9.]+)", text)[1]) for text in (before, after)]
    return (numbers[0] - numbers[1]) / 1e6


def test_a_ticket_that_is_not_fetched_costs_nothing(server):
    """A client that leaves with its ticket, or asks for columns, has spent nothing."""
    client = Client(server)
    budget = client.read_budget()
    client.find_ticket("SELECT COUNT(*) AS n FROM flights WHERE month = 6")
    client.wire.close()
    assert Client(server).read_budget() == budget


def test_tickets_are_of_one_user(server):
    """A ticket or handle of another user, or a changed one, is refused and charges nobody."""
    ann, bob = Client(server), Client(server, "bob")
    budgets = [ann.read_budget(), bob.read_budget()]
    ticket = ann.find_ticket("SELECT COUNT(*) AS n FROM flights WHERE month = 7").ticket
    for candidate in (ticket, ticket[:-1], ticket + b" ", b"", b"\xff" * 80, ticket[64:]):
        client = bob if candidate == ticket else ann
        with pytest.raises(fl.FlightServerError, match="of another user"):
            client.fetch(fl.Ticket(candidate))
        with pytest.raises(fl.FlightServerError, match="SQLSTATE"):
            client.find_ticket(candidate.decode(errors="replace"), "CommandPreparedStatementQuery")
    assert [ann.read_budget(), bob.read_budget()] == budgets


def test_logins_that_are_refused(server):
    """Wrong passwords, unknown users and other datasets wait a second, with one text for both."""
    texts = set()
    for user, password in (("ann", "wrong"), ("anna", PASSWORD), ("nobody", "")):
        begin = time.monotonic()
        with pytest.raises(fl.FlightUnauthenticatedError) as caught:
            Client(server, user, password)
        assert time.monotonic() - begin > 1
        texts.add(str(caught.value).replace(user, "USER"))
    assert len(texts) == 1
    assert "wrong password" in command("serve", "log", server.file).stdout
    with pytest.raises(Exception, match="datasets of ann: flights"):
        server.connect_adbc(database="other")
    for header in (b"Bearer x", b"Basic %%%", b"Basic /w==", b""):
        options = fl.FlightCallOptions(headers=[(b"authorization", header)])
        with pytest.raises(fl.FlightUnauthenticatedError):
            fl.connect(server.address, tls_root_certs=server.certificate).do_get(
                fl.Ticket(b""), options
            ).read_all()


def test_a_password_that_changes_ends_sessions(server):
    """A token is worth nothing after its user has another password, or none."""
    probe = Client(server, "probe")
    assert probe.ask("SELECT 1 AS one")["one"].to_pylist() == [1]
    with pytest.raises(fl.FlightError):
        probe.ask("SELECT dp_count(*) FROM flights")
    command("serve", "user", "add", server.file, "probe", text="another")
    with pytest.raises(fl.FlightUnauthenticatedError):
        probe.ask("SELECT 1")


def test_old_sessions_end(server):
    """A user has twenty sessions. One more ends the oldest, and none of another user."""
    ann = Client(server)
    bobs = [Client(server, "bob") for _ in range(21)]
    assert ann.ask("SELECT 1 AS n")["n"].to_pylist() == [1]
    assert bobs[1].ask("SELECT 1 AS n")["n"].to_pylist() == [1]
    with pytest.raises(fl.FlightUnauthenticatedError):
        bobs[0].ask("SELECT 1")


@pytest.mark.parametrize("name", [*UPDATES, "CommandGetPrimaryKeys"])
def test_what_changes_data_is_refused_with_a_hint(server, name):
    """Updates, ingestion and plans end in an error of Flight that says what is answered."""
    client = Client(server)
    with pytest.raises(fl.FlightServerError, match="changes no data"):
        client.find_ticket("DELETE FROM flights", name)
    descriptor = fl.FlightDescriptor.for_command(write_command(name, "x"))
    writer, _ = client.wire.do_put(descriptor, pa.schema([("a", pa.int64())]), client.options)
    with pytest.raises(fl.FlightServerError, match="changes no data"):
        writer.close()
    with pytest.raises(fl.FlightServerError, match="changes no data"):
        client.act("BeginTransaction")


def test_calls_that_flight_sql_does_not_need_are_refused_without_a_traceback(server):
    """Lists and exchanges end in an error that holds no line of the server's code."""
    client = Client(server)
    descriptor = fl.FlightDescriptor.for_command(b"x")
    calls = (client.wire.list_flights, client.wire.list_actions)
    texts = [read_error(lambda call: list(call(options=client.options)), call) for call in calls]
    calls = (client.wire.get_schema, lambda *terms: client.wire.do_exchange(*terms)[1].read_all())
    texts += [read_error(lambda call: call(descriptor, client.options), call) for call in calls]
    assert all("changes no data" in text and "Traceback" not in text for text in texts)


def read_error(call, data):
    """Return the text of the error that a call ends with, if it does."""
    try:
        call(data)
    except (pa.ArrowException, OSError) as error:
        return str(error)
    return ""


def test_a_statement_with_values_is_bounded(server):
    """Too long a statement, two rows of values and broken texts in them are refused."""
    client = Client(server)
    with pytest.raises(fl.FlightServerError, match="54000"):
        client.ask("SELECT " + "1 + " * 60_000 + "1")
    with server.connect_adbc() as connection, connection.cursor() as cursor:
        for parameters in (pa.table({"a": [1, 2]}), pa.table({"a": pa.array([b"x"])})):
            with pytest.raises(Exception, match="SQLSTATE"):
                cursor.execute("SELECT COUNT(*) FROM flights WHERE month = ?", parameters)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_tls_has_version_1_3(server, version):
    """A client that speaks an older TLS is refused."""
    context = ssl.create_default_context(cadata=server.certificate)
    context.maximum_version = ssl.TLSVersion[version]
    context.set_alpn_protocols(["h2"])
    port = int(server.address.rpartition(":")[2])
    refusal = nullcontext() if version == "TLSv1_3" else pytest.raises(OSError, match="SSL")
    with socket.create_connection(("localhost", port)) as wire, refusal:
        context.wrap_socket(wire, server_hostname="localhost").close()
