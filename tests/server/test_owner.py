"""The owner of the data checks, adds users, reviews and restarts; workers may fail."""

import asyncio
import datetime as dt
import itertools
import os
import random
import re
import resource
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.command_line import command

from .conftest import PASSWORD, connect_to, make_folder, serve, write_flights
from .test_protocol import ask_salt

psycopg = pytest.importorskip("psycopg")


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ("flights.plane", "flights.plain", ("flights.plain", "did you mean 'flights.plane'?")),
        ("flights.plane", "boats.hull", ("boats.hull", "write table.column")),
        ("127.0.0.1:0", "0.0.0.0:0", ("tls",)),
        ('127.0.0.1:0"', '127.0.0.1:0", flight: 0', ("flight needs tls",)),
        ("analysts:", "color: red\nanalysts:", ("color",)),
        ("analysts:", "expires: 2020-01-01\nanalysts:", ("expired",)),
        ("workers: 1", "workers: 0", ("workers",)),
        ("analysts:", "users: nowhere.scram\nanalysts:", ("no password",)),
    ],
)
def test_check_names_what_is_wrong(tmp_path, old, new, messages):
    """A policy with a fault is refused before an analyst meets it.

    So are fields and columns that there are not, and without TLS other machines and Flight.
    """
    file = make_folder(tmp_path, users=("ann", "bob", "probe"))
    file.write_text(file.read_text().replace(old, new))
    checked = command("serve", "check", file)
    assert checked.exit_code != 0
    for message in messages:
        assert message in " ".join(checked.stderr.split())


def test_check_passes_a_good_policy_and_refuses_a_readable_password_file(tmp_path):
    """The file of users is the owner's alone."""
    file = make_folder(tmp_path)
    file.write_text(file.read_text().replace("  bob:", "  rob:").replace("  probe: {}\n", ""))
    assert "rob has no password" in command("serve", "check", file).stderr
    assert command("serve", "user", "add", file, "rob", text="secret").exit_code == 0
    assert command("serve", "check", file).exit_code == 0
    assert command("serve", "user", "list", file).stdout.split() == ["ann", "rob"]
    assert command("serve", "user", "remove", file, "rob").exit_code == 0
    assert command("serve", "user", "list", file).stdout.split() == ["ann"]
    (tmp_path / "users.scram").chmod(0o644)
    assert "chmod 600" in command("serve", "check", file).stderr


@pytest.mark.slow
def test_the_statement_of_the_demo_has_a_useful_answer(tmp_path):
    """The first statement shows three delays of 10 to 17 minutes; a count is that of the flights.

    Noise exceeds 2 minutes in one of 20 releases; twenty minutes in one of 10**13. So rarely does
    the count lack a tenth of 334,264 flights of known planes.
    """
    words = [sys.executable, "-m", "dfprivacy", "serve", "demo", "--folder", "demo"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    shown = process.stdout.readline()
    process.terminate()
    process.communicate(timeout=30)
    file = tmp_path / "demo" / "policy.yml"
    file.write_text(file.read_text().replace(":5433", ":0").replace(": 5434", ": 0"))
    password, statements = shown.split()[0].partition("=")[2], shown.split('"')[1::2]
    with serve(file) as (port, _), connect_to(port, password=password) as connection:
        for statement in statements:
            rows = connection.execute(statement)
        rows = rows.fetchall()
        ((flights, *_),) = connection.execute("SELECT COUNT(*) FROM flights").fetchall()
    assert 300_000 < flights < 370_000
    assert [row[0] for row in rows] == ["EWR", "JFK", "LGA"]
    for _, delay, low, high, _ in rows:
        assert -10 < delay < 37
        assert low < delay < high < low + 10


def test_a_dear_statement_waits_for_approval(tmp_path):
    """It costs nothing until the owner approves it, and is answered then."""
    file = make_folder(tmp_path, "review: {above: 100}")
    query = "SELECT COUNT(*) FROM flights"
    with serve(file) as (port, _), connect_to(port) as connection:
        before = connection.execute("SHOW dfprivacy.budget").fetchone()
        for _ in range(2):
            with pytest.raises(psycopg.Error, match="waits for approval under the number 1"):
                connection.execute(query)
        assert connection.execute("SHOW dfprivacy.budget").fetchone() == before
        assert "COUNT" in command("serve", "log", "--waiting", file).stdout
        assert command("serve", "reject", file, 1).exit_code == 0
        with pytest.raises(psycopg.Error, match="was rejected"):
            connection.execute(query)
        assert command("serve", "approve", file, 1).exit_code == 0
        assert abs(connection.execute(query).fetchone()[0] - 30_000) < 10
        assert connection.execute("SHOW dfprivacy.budget").fetchone() != before


@pytest.mark.parametrize("content", [b"garbage" * 1000, bytes(8192), "columns"])
def test_a_damaged_list_of_statements_is_named(tmp_path, content):
    """Whoever needs a list for review that can't be read is told so. No statement passes."""
    file, damaged = make_folder(tmp_path, "review: {above: 100}"), tmp_path / "budget.db-review.db"
    if content == "columns":
        with closing(sqlite3.connect(damaged)) as connection:
            connection.execute("CREATE TABLE waiting (number)")
    else:
        damaged.write_bytes(content)
    for words in (("log", "--waiting", file), ("approve", file, 1)):
        assert "for review, 'budget.db-review.db', can't be read" in command("serve", *words).stderr


def test_damaged_lines_of_a_server_are_shown_or_named(tmp_path):
    """A line of the log that a crash has cut hides no other. Passwords have to be whole."""
    file = make_folder(tmp_path)
    line = b'{"time": "2026-01-01", "analyst": "ann"}\n'
    for cut in (b'{"time": "2026', bytes(9), b"7", b"\xff\xfe"):
        (tmp_path / "statements.jsonl").write_bytes(line + cut + b"\n" + line)
        shown = command("serve", "log", file)
        assert (shown.exit_code, shown.stdout.count("2026-01-01 | ann\n")) == (0, 2)
        (tmp_path / "users.scram").write_bytes(cut)
        assert "line 1 of 'users.scram' is no verifier" in command("serve", "check", file).stderr


def test_a_restart_answers_again_at_no_cost(tmp_path):
    """Answers are remembered for a version of the data, and a start adds nothing to the ledger.

    Unknown users keep their salt, too.
    """
    file, query = make_folder(tmp_path), "SELECT COUNT(*) FROM flights WHERE month = 5"
    seen = []
    for _ in range(2):
        with serve(file) as (port, _), connect_to(port) as connection:
            answer = connection.execute(query).fetchone()
            left = connection.execute("SHOW dfprivacy.budget").fetchone()
            salts = [ask_salt(port, user) for user in ("ann", "nobody", "*")]
            seen.append((answer, left, (tmp_path / "budget.db").stat().st_size, *salts))
    assert seen[0] == seen[1]
    assert len(set(seen[0][-3:])) == 3


def test_a_full_disk_leaves_a_log_of_whole_lines(tmp_path):
    """A statement that can't be logged is not answered. Asked again it costs nothing more."""
    file, log, endless = (
        make_folder(tmp_path),
        tmp_path / "statements.jsonl",
        resource.RLIM_INFINITY,
    )
    with serve(file) as (port, process), connect_to(port) as connection:
        connection.execute("SELECT COUNT(*) FROM flights")
        size = log.stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size + 40, endless))
        for _ in range(2):
            with pytest.raises(psycopg.errors.DiskFull, match="can't write its log"):
                connection.execute("SELECT AVG(delay) FROM flights")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (endless, endless))
        connection.execute("SELECT AVG(delay) FROM flights")
        spent = connection.execute("SHOW dfprivacy.budget").fetchone()[0].partition("spent")[2]
    assert "epsilon 2000000" in spent.replace(",", "")
    shown = command("serve", "log", file)
    assert shown.exit_code == 0
    assert [line.split(" | ")[3] for line in shown.stdout.splitlines()] == [
        "SELECT COUNT(*) FROM flights",
        "SELECT AVG(delay) FROM flights",
        "SHOW dfprivacy.budget",
    ]


@pytest.mark.battery
def test_datasets_with_ledgers_of_their_own_have_budgets_of_their_own(tmp_path):
    """One ledger has one budget. A dataset that names another ledger spends nothing of it."""
    file = make_folder(tmp_path)
    part = "ann: {datasets: {flights: {epsilon: 900000000}"
    with duckdb.connect(str(tmp_path / "flights.duckdb")) as connection:
        connection.execute(f"COPY flights TO '{tmp_path}/flights.parquet'")
    other = "  others:\n    source: {flights: flights.parquet}\n    unit: plane\n"
    budget = "    budget: {epsilon: 5}\n    statement: {epsilon: 2}\n    max_rows: 4\n"
    text = file.read_text().replace(part, f"{part}, others: {{epsilon: 3}}")
    file.write_text(text.replace("analysts:", f"{other}{budget}analysts:"))
    assert "a ledger of its own" in command("serve", "check", file).stderr
    file.write_text(text.replace("analysts:", f"{other}    ledger: others.db\n{budget}analysts:"))
    with serve(file) as (port, _):
        with connect_to(port) as connection:
            connection.execute("SELECT COUNT(*) FROM flights")
        with connect_to(port, dbname="others") as connection:
            assert len(connection.execute("SELECT * FROM flights LIMIT 2").fetchall()[0]) == 6
            connection.execute("SELECT COUNT(*) FROM flights")
            left = connection.execute("SHOW dfprivacy.budget").fetchone()[0]
            assert left.startswith("left epsilon 1;")
            with pytest.raises(psycopg.Error, match="may spend"):
                connection.execute("SELECT COUNT(*) FROM flights WHERE month = 2")


@pytest.mark.battery
def test_a_file_that_was_replaced_is_read_and_charged_anew(tmp_path):
    """The next statement is about the new rows, and no remembered answer stands for them."""
    file, query = make_folder(tmp_path), "SELECT COUNT(*) FROM flights"
    with serve(file) as (port, _), connect_to(port) as connection:
        before = connection.execute(query).fetchone()[0]
        write_flights(tmp_path / "new.duckdb", 3000)
        (tmp_path / "new.duckdb").replace(tmp_path / "flights.duckdb")
        after = [connection.execute(query).fetchone()[0] for _ in range(4)]
        left = connection.execute("SHOW dfprivacy.budget").fetchone()[0]
    assert abs(before - 30_000) < 10
    assert abs(after[0] - 3000) < 10
    assert len(set(after)) == 1
    assert "left epsilon 898000000" in left  # two releases of a million each


@pytest.mark.battery
def test_data_that_can_not_be_opened_are_named_until_they_can(tmp_path):
    """Every statement says what is wrong with the data. Once they are whole, it is answered."""
    file, query = make_folder(tmp_path), "SELECT COUNT(*) FROM flights"
    data, new = tmp_path / "flights.duckdb", tmp_path / "new.duckdb"
    with serve(file) as (port, _), connect_to(port) as connection:
        connection.execute(query)
        for reason in ("FileNotFoundError", "IOException", "names 'flights.plane'"):
            if reason == "IOException":
                data.write_bytes(b"no database" * 1000)
            elif reason != "FileNotFoundError":
                write_flights(new, 3000)
                with duckdb.connect(str(new)) as database:
                    database.execute("ALTER TABLE flights DROP COLUMN plane")
                new.replace(data)
            else:
                data.unlink()
            for _ in range(2):
                with pytest.raises(psycopg.Error, match=reason):
                    connection.execute(query)
        write_flights(new, 3000)
        new.replace(data)
        assert abs(connection.execute(query).fetchone()[0] - 3000) < 10


@pytest.mark.battery
def test_columns_of_another_type_than_a_client_was_told_are_not_sent(tmp_path):
    """A client that keeps a prepared statement would read the bytes of a float as an integer."""
    asyncpg = pytest.importorskip("asyncpg")
    file, new = make_folder(tmp_path), tmp_path / "new.duckdb"
    query = "SELECT month, COUNT(*) AS n FROM flights GROUP BY month ORDER BY month"

    async def ask(port):
        login = {"user": "ann", "password": PASSWORD, "database": "flights"}
        connection = await asyncpg.connect(host="127.0.0.1", port=port, **login)
        statement = await connection.prepare(query)
        before = await statement.fetch()
        new.replace(tmp_path / "flights.duckdb")
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="must not change result type"):
            await statement.fetch()
        after = await (await connection.prepare(query)).fetch()
        (left,) = await connection.fetchrow("SHOW dfprivacy.budget")
        await connection.close()
        return [row["month"] for row in (before[0], after[0])], left

    with serve(file) as (port, _):
        write_flights(new, 3000)
        with duckdb.connect(str(new)) as database:
            database.execute("ALTER TABLE flights ALTER month TYPE DOUBLE USING month + 0.5")
        months, left = asyncio.run(ask(port))
    assert months == [1, 1.5]
    assert "left epsilon 898000000" in left  # two releases: that of the new type is sent once


@pytest.mark.battery
def test_changes_in_a_log_beside_a_file_are_a_version_of_their_own(tmp_path):
    """Changes that a writer left in DuckDB's log are read and charged anew, like a new file."""
    file, query = make_folder(tmp_path), "SELECT COUNT(*) FROM flights"
    with serve(file) as (port, _), connect_to(port) as connection:
        before = connection.execute(query).fetchone()[0]
    writer = (
        "import duckdb, os, sys; connection = duckdb.connect(sys.argv[1]); "
        "connection.execute('DELETE FROM flights WHERE month > 6'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", writer, tmp_path / "flights.duckdb"], check=True)
    assert (tmp_path / "flights.duckdb.wal").exists()
    with serve(file) as (port, _), connect_to(port) as connection:
        after = connection.execute(query).fetchone()[0]
    assert abs(before - 30_000) < 10
    assert abs(after - 15_000) < 10


def test_small_groups_stay_hidden(tmp_path):
    """`minimum_units` hides a group of fewer units, and a delta in the statement can't show it.

    The groups have 10,000 units. One is shown in one of 10**8 releases; without a minimum, in all.
    """
    file = make_folder(tmp_path)
    limits = "max_epsilon: 2000000, minimum_units: 12000"
    file.write_text(file.read_text().replace("max_epsilon: 2000000", limits))
    file.write_text(file.read_text().replace("epsilon: 1000000,", "epsilon: 0.1,"))
    query = "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"
    with serve(file) as (port, _), connect_to(port) as connection:
        assert connection.execute(query).fetchall() == []
        with pytest.raises(psycopg.Error, match="together"):
            connection.execute(f"{query} HAVING dp_keep(1e-6)")


@pytest.mark.battery
def test_a_policy_without_delta_shows_no_secret_groups(tmp_path):
    """A statement that names a delta of its own costs more than the policy allows."""
    file = make_folder(tmp_path)
    file.write_text(file.read_text().replace("delta: 1e-6, max", "max"))
    query = "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier HAVING dp_keep(1e-6)"
    with serve(file) as (port, _), connect_to(port) as connection:
        before = connection.execute("SHOW dfprivacy.budget").fetchone()
        with pytest.raises(psycopg.Error, match="costs delta") as caught:
            connection.execute(query)
        assert caught.value.sqlstate == "53400"
        assert connection.execute("SHOW dfprivacy.budget").fetchone() == before


def find_children(process):
    """Return the numbers of the workers of a server."""
    completed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = completed.stdout.splitlines()
    return [int(line.split()[0]) for line in lines if "spawn_main" in line]


def list_open_files(number):
    """Return the files that a process holds open."""
    links = Path(f"/proc/{number}/fd").iterdir()
    return {str(link.readlink()) for link in links if link.is_symlink()}


def test_only_workers_open_the_data(connect, process, policy_file):
    """The process that speaks with clients holds no file of the data, whatever is asked."""
    data = str(policy_file.with_name("flights.duckdb"))
    with connect() as connection:
        for statement in ("SELECT COUNT(*) FROM flights", "SELECT * FROM flights LIMIT 2"):
            connection.execute(statement).fetchall()
            assert data not in list_open_files(process.pid)
        holders = [data in list_open_files(number) for number in find_children(process)]
        assert sorted(holders) == [False, True]  # one worker knows the catalogs alone


@pytest.mark.battery
def test_a_table_without_rows_is_answered(tmp_path):
    """No rows and no groups are answers like others, with the same columns and types."""
    file = make_folder(tmp_path)
    (tmp_path / "flights.duckdb").unlink()
    write_flights(tmp_path / "flights.duckdb", 0)
    with serve(file) as (port, _), connect_to(port) as connection:
        assert abs(connection.execute("SELECT COUNT(*) FROM flights").fetchone()[0]) < 10
        groups = connection.execute("SELECT carrier, AVG(delay) AS d FROM flights GROUP BY carrier")
        assert [column.type_code for column in groups.description] == [25, 701]
        assert groups.fetchall() == []


@pytest.mark.battery
def test_durations_of_a_file_are_intervals(tmp_path):
    """Analysts see the durations of a Parquet file as those of a table, not as numbers."""
    file = make_folder(tmp_path)
    stays = pl.DataFrame({"stay": [dt.timedelta(hours=4)] * 2_000})
    stays.cast(pl.Duration("ms")).write_parquet(tmp_path / "stays.parquet")
    text = re.sub(
        "    source: .*\\n    schema: .*\\n", "    source: {s: stays.parquet}\n", file.read_text()
    )
    file.write_text(text.replace("    max_rows: 4\n    max_groups: 3\n", ""))
    with serve(file) as (port, _), connect_to(port) as connection:
        kinds = connection.execute("SELECT data_type FROM information_schema.columns").fetchall()
        ((preview,),) = connection.execute("SELECT * FROM s LIMIT 1").fetchall()
        ((median,),) = connection.execute("SELECT MEDIAN(stay) FROM s").fetchall()
    assert kinds == [("INTERVAL",)]
    assert isinstance(preview, dt.timedelta)
    assert abs(median - dt.timedelta(hours=4)) < dt.timedelta(minutes=1)


@pytest.mark.battery
def test_killed_workers_show_no_answer_that_was_not_charged(tmp_path):
    """Workers die at random moments: retries are answered, in the same way, and charged once."""
    file, generator = make_folder(tmp_path), random.Random(1)
    statements = [f"SELECT COUNT(*) FROM flights WHERE month = {month}" for month in range(1, 5)]
    answers: dict[str, tuple[int]] = {}
    with serve(file) as (port, process), connect_to(port) as connection:

        def kill_worker():
            if workers := find_children(process):  # the next statement starts new ones
                os.kill(generator.choice(workers), signal.SIGKILL)

        def ask(statement):
            for _ in range(50):
                with suppress(psycopg.errors.QueryCanceled):
                    return connection.execute(statement).fetchone()
            raise AssertionError(statement)

        for statement in statements * 2:
            killer = threading.Timer(generator.uniform(0, 0.3), kill_worker)
            killer.start()
            answer = ask(statement)
            assert answers.setdefault(statement, answer) == answer
            killer.join()
        (left,) = ask("SHOW dfprivacy.budget")
    assert set(answers) == set(statements)
    charges = 900 - float(left.partition("epsilon ")[2].partition(",")[0]) / 1e6
    assert charges == 4  # of four statements, whenever workers were killed


@pytest.mark.battery
def test_a_connection_is_encrypted_where_the_policy_has_a_certificate(tmp_path):
    """TLS is spoken, and a client that refuses it is refused, or asks for it twice."""
    file = make_folder(tmp_path)
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    completed = subprocess.run(
        [*words.split(), "-keyout", "server.key", "-out", "server.crt"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    if completed.returncode:
        pytest.skip("openssl is not installed")
    text = file.read_text()
    tls = '127.0.0.1:0", tls: {certificate: server.crt, key: server.key}'
    file.write_text(text.replace('127.0.0.1:0"', tls))
    with serve(file) as (port, _):
        with connect_to(port, sslmode="require") as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="encrypted"):
            connect_to(port, sslmode="disable")
        trusting, request = ssl.create_default_context(), struct.pack("!ii", 8, 80877103)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", port), timeout=30) as wire:
            wire.sendall(request)
            assert wire.recv(1) == b"S"
            with trusting.wrap_socket(wire) as encrypted:
                encrypted.sendall(request)
                assert encrypted.recv(1) == b""


def test_the_log_shows_a_statement_on_one_line(tmp_path):
    """An analyst writes no line of another, and no command to the owner's terminal."""
    file = make_folder(tmp_path, "review: {above: 100}")
    query = "SELECT COUNT(*) FROM flights /* \x1b[2J\n2 bob 1 SELECT 1 */"
    with (
        serve(file) as (port, _),
        connect_to(port) as connection,
        pytest.raises(psycopg.Error, match="waits for approval"),
    ):
        connection.execute(query)
    for words in (("log", file), ("log", "--waiting", file), ("approve", file, 1)):
        shown = command("serve", *words).stdout
        assert "/* \\x1b[2J\\n2 bob 1 SELECT 1" in shown
        assert shown.count("\n") == 1


def test_an_analyst_waits_behind_no_queue_of_another(tmp_path):
    """One worker is held up. Then it answers the statement that runs, and bob before more of ann's.

    Statements are asked a second apart.
    """
    file, answered = make_folder(tmp_path, "limits: {workers: 1}", users=("ann", "bob")), []
    with serve(file) as (port, process), ThreadPoolExecutor(7) as pool:
        connections = [connect_to(port, user=user) for user in ["ann"] * 6 + ["bob"]]
        for connection in connections:
            connection.execute("SELECT 1")

        def ask(number):
            connections[number].execute(f"SELECT COUNT(*) FROM flights WHERE month < {20 + number}")
            answered.append(number)

        children = find_children(process)
        for child in children:
            os.kill(child, signal.SIGSTOP)
        for number in range(7):
            pool.submit(ask, number)
            time.sleep(1)
        for child in children:
            os.kill(child, signal.SIGCONT)
        pool.shutdown()
        for connection in connections:
            connection.close()
    assert len(answered) == 7
    assert answered.index(6) <= 2


def test_a_session_repeats_constants_without_a_worker(tmp_path):
    """A constant that was asked last has the same answer and type while all workers stand still."""
    query = "SELECT 1 AS n, 'up' AS state"
    with serve(make_folder(tmp_path)) as (port, process), connect_to(port) as connection:
        first = connection.execute(query)
        rows, kinds = first.fetchall(), [column.type_code for column in first.description]
        children = find_children(process)
        for child in children:
            os.kill(child, signal.SIGSTOP)
        for is_prepared in (False, True):
            again = connection.execute(query, prepare=is_prepared)
            assert again.fetchall() == rows == [(1, "up")]
            assert [column.type_code for column in again.description] == kinds
        for child in children:
            os.kill(child, signal.SIGCONT)
        assert connection.execute("SELECT now() < now()").fetchone() == (False,)


def test_a_statement_about_the_catalog_ends_after_seconds(connect):
    """A statement without data that would run forever is refused, and the connection goes on."""
    endless = "WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r"
    with connect() as connection:
        with pytest.raises(psycopg.errors.QueryCanceled, match="more than 10 seconds"):
            connection.execute(endless)
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.battery
def test_a_cancelled_statement_ends_and_the_connection_goes_on(tmp_path):
    """A cancel request ends a worker that has stopped, and another one answers what comes next.

    Nothing was drawn, so the statement is charged when it is asked again, and once.
    """
    file = make_folder(tmp_path, "limits: {workers: 1, seconds: 40}")
    query = "SELECT carrier, AVG(delay) AS d FROM flights GROUP BY carrier"
    with serve(file) as (port, process), connect_to(port) as connection:
        (worker,) = (
            number
            for number in find_children(process)
            if str(tmp_path / "flights.duckdb") in list_open_files(number)
        )
        os.kill(worker, signal.SIGSTOP)
        for seconds in itertools.count(2, 2):  # an early request meets the catalogs
            request = threading.Timer(seconds, connection.cancel)
            request.start()
            with pytest.raises(psycopg.errors.QueryCanceled, match="was ended before its answer"):
                connection.execute(query)
            request.join()
            if worker not in find_children(process):
                break
        for left in ("left epsilon 900000000", "left epsilon 899000000"):
            assert left in connection.execute("SHOW dfprivacy.budget").fetchone()[0]
            assert len(connection.execute(query).fetchall()) == 3
        assert worker not in find_children(process)
