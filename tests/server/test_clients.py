"""Real clients ask the server: what they see, what it costs, what is refused."""

import asyncio
import datetime as dt
import re
import shutil
import subprocess
from decimal import Decimal

import pytest

from tests.command_line import command

from .conftest import PASSWORD

psycopg = pytest.importorskip("psycopg")

MEANS = "SELECT carrier, AVG(delay) AS delay, COUNT(*) AS n FROM flights GROUP BY carrier"


def test_a_mean_by_group_is_private_and_noticed_with_its_price(connect):
    """An ordinary aggregate is a release; the notice says its cost and what is left."""
    notices = []
    with connect() as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        rows = connection.execute(f"{MEANS} ORDER BY carrier").fetchall()
    assert [row[0] for row in rows] == ["AA", "DL", "UA"]
    assert all(abs(row[1] - 24.5) < 2 and abs(row[2] - 10_000) < 10 for row in rows)
    assert "epsilon 1000000" in notices[0]
    assert "ann has left" in notices[0]
    assert "SET dfprivacy.intervals = on" in notices[0]


def test_the_same_statement_costs_once_whatever_its_spelling(connect):
    """A retry, another connection and another spelling get the same answer for nothing."""
    spellings = [
        "SELECT COUNT(*) AS n FROM flights WHERE month = 3",
        "select  count(*) as n\nfrom flights where month = 3",
        "-- from a dashboard\nSELECT COUNT(*) AS n FROM main.flights WHERE month = 3;",
    ]
    answers, budgets = set(), []
    for spelling in spellings:
        with connect() as connection:
            answers.add(connection.execute(spelling).fetchone())
            budgets.append(connection.execute("SHOW dfprivacy.budget").fetchone())
    assert len(answers) == 1
    ((budget,),) = set(budgets)
    amount = r"epsilon [0-9.]+(, delta [0-9.e-]+)?"
    assert re.fullmatch(f"left {amount}; spent by ann {amount}", budget)


def test_describe_and_explain_charge_nothing(connect):
    """Column names and types, and the plan, come without a release."""
    with connect() as connection:
        before = connection.execute("SHOW dfprivacy.budget").fetchone()
        statement = "SELECT carrier, MEDIAN(delay) AS m FROM flights GROUP BY carrier"
        described = connection.pgconn.prepare(b"p1", statement.encode())
        assert described.status == psycopg.pq.ExecStatus.COMMAND_OK
        columns = connection.pgconn.describe_prepared(b"p1")
        assert [columns.fname(index) for index in range(columns.nfields)] == [b"carrier", b"m"]
        assert [columns.ftype(index) for index in range(columns.nfields)] == [25, 701]
        plan = connection.execute(f"EXPLAIN {statement}").fetchall()
        assert any("epsilon" in line for (line,) in plan)
        assert connection.execute("SHOW dfprivacy.budget").fetchone() == before


def test_terms_are_set_for_a_connection(connect):
    """Intervals come as columns, of the level and the kind that were set, until they are reset."""
    query = "SELECT COUNT(*) AS n, AVG(delay) AS delay FROM flights"
    with connect() as connection:
        connection.execute("SET dfprivacy.intervals = on")
        connection.execute("SET dfprivacy.population = on")
        connection.execute("SET dfprivacy.interval = 0.9")
        cursor = connection.execute(query)
        names = [column.name for column in cursor.description]
        assert names == ["n", "n_low", "n_high", "delay", "delay_low", "delay_high", "delay_note"]
        row = cursor.fetchone()
        assert row[4] < row[3] < row[5]
        for statement in ("RESET ALL", "DISCARD ALL"):
            connection.execute(statement)
            assert len(connection.execute(query).fetchone()) == 2
            connection.execute("SET dfprivacy.intervals TO 'on'")
            assert len(connection.execute(query).fetchone()) == 7


@pytest.mark.parametrize("binary", [False, True])
def test_parameters_of_each_type(connect, binary):
    """Numbers, texts, dates and moments with a zone are constants of the statement."""
    query = "SELECT COUNT(*) FROM flights WHERE month > %s AND carrier = %s AND day >= %s"
    with connect() as connection:
        for day in (dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)):
            counted = connection.execute(query, (6, "AA", day), binary=binary).fetchone()
            assert abs(counted[0] - 5000) < 10


def test_a_decimal_is_one_number_in_text_and_in_binary_form(connect):
    """A decimal asks the same in each form, and none costs twice: pgjdbc changes the form."""
    query = "SELECT COUNT(*) FROM flights WHERE delay >= "
    numbers = ("12.5", "-0.00050", "12345.678", "100000000", "0", "-1.10")
    with connect() as connection:
        for number in map(Decimal, numbers):
            seen = set()
            for form in ("%t", "%b", str(number)):
                values = (number,) if form[0] == "%" else None
                counted = connection.execute(query + form, values).fetchone()
                left = connection.execute("SHOW dfprivacy.budget").fetchone()
                seen.add((counted, left))
            assert len(seen) == 1
        with pytest.raises(psycopg.Error, match="parameter"):
            connection.execute(query + "%b", (Decimal("NaN"),))


@pytest.mark.parametrize("prepare", [False, True])
def test_parameters_may_be_lists(connect, prepare):
    """A list in text or in binary form is one of constants, with quotes and NULL among them."""
    lists = (["AA", 'B"{},\\', None], [5, None, 7]) if not prepare else (["AA"], [5, 7])
    queries = ("carrier = ANY(%s)", "month = ANY(%s)")
    with connect() as connection:
        for items, condition in zip(lists, queries, strict=True):
            query = f"SELECT COUNT(*) FROM flights WHERE {condition}"
            counts = [
                connection.execute(query.replace("%s", form), (items,), prepare=prepare).fetchone()[
                    0
                ]
                for form in ("%t", "%b")
            ]
            members = ", ".join(map(repr, filter(None, items)))
            plain = f"SELECT COUNT(*) FROM flights WHERE {condition.split()[0]} IN ({members})"
            assert counts[0] == pytest.approx(counts[1], abs=20)
            assert counts[0] == pytest.approx(connection.execute(plain).fetchone()[0], abs=20)


def test_a_prepared_statement_is_answered_anew_each_time(connect):
    """Each execution has its own values, and its own random number, though its columns are known.

    Two random numbers of six pairs agree with a probability below 1e-8.
    """
    with connect() as connection:
        for statement in ("SELECT %s::INT8 AS n, random()", "SELECT %s::INT8 AS n, uuid()"):
            executed = [connection.execute(statement, (n,), prepare=True) for n in range(4)]
            rows = [cursor.fetchone() for cursor in executed]
            assert [number for number, _ in rows] == [0, 1, 2, 3]
            assert len({value for _, value in rows}) == 4
        query = "SELECT COUNT(*) FROM flights WHERE month > %s"
        counts = [connection.execute(query, (n,), prepare=True).fetchone()[0] for n in (6, 9)]
        assert counts == pytest.approx([15_000, 7500], abs=10)


def test_a_preview_is_made_up(connect):
    """Rows of a table are never shown: a preview has values made from types alone."""
    notices = []
    with connect() as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        rows = connection.execute("SELECT * FROM flights LIMIT 4").fetchall()
    assert len(rows) == 4
    assert len(set(rows)) == 1
    assert "made up" in notices[0]


@pytest.mark.parametrize("binary", [False, True])
def test_an_interval_is_one_to_a_client(connect, binary):
    """An interval of the catalog, such as a made-up one, comes as an interval of Postgres."""
    with connect() as connection:
        cursor = connection.cursor(binary=binary)
        (row,) = cursor.execute("SELECT INTERVAL '2 days -3 hours' AS i, NULL AS n").fetchall()
    assert row == (dt.timedelta(days=2, hours=-3), None)


@pytest.mark.parametrize(
    ("statement", "code", "hint"),
    [
        ("SELECT plane FROM flights", "42601", "GROUP BY plane"),
        ("SELECT AVG(delay) FROM flights GROUP BY nowhere", "22023", ""),
        ("SELECT 1 FROM nowhere", "42601", "no rows"),
        ("SET dfprivacy.epsilon = 1e9", "22023", "less"),
        ("SET dfprivacy.colour = 1", "42704", "epsilon"),
        ("CREATE TABLE t (x INT)", "42601", "SELECT"),
        ("COPY flights TO '/tmp/x'", "42601", "SELECT"),
        ("COPY flights TO STDOUT", "42601", "dp_count(*)"),
        ("COPY flights (plane, month) TO STDOUT (FORMAT binary)", "42601", "GROUP BY plane"),
        ("COPY (SELECT 1) TO STDOUT CSV HEADER", "0A000", "options"),
        ("ALTER USER ann PASSWORD 'x'", "42501", "serve user add"),
        ("SELECT * FROM read_csv('/etc/passwd')", "42601", ""),
        ("SELECT dp_count(*) FROM flights GROUP BY month HAVING dp_keep(1e-3)", "42601", "dp_keep"),
        ("SELECT dp_count(delay, epsilon := 9000000) FROM flights", "53400", "epsilon"),
    ],
)
def test_a_refusal_has_a_code_and_a_hint(connect, statement, code, hint):
    """A statement that can't be answered is an error of Postgres that says what to do."""
    with connect() as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement)
        assert caught.value.sqlstate == code, caught.value
        assert hint in (caught.value.diag.message_hint or "")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_transaction_waits_for_its_end(connect):
    """BEGIN, an error and ROLLBACK act as in Postgres."""
    with connect(autocommit=False) as connection:
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("SELECT plane FROM flights")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_transaction_goes_on_from_a_savepoint(connect):
    """ROLLBACK TO ends the failure of a transaction, and not the transaction, as in Postgres."""
    with connect(autocommit=False) as connection, connection.transaction():
        with pytest.raises(psycopg.errors.SyntaxError), connection.transaction():
            connection.execute("SELECT plane FROM flights")
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.info.transaction_status.name == "INTRANS"


def test_the_budget_of_an_analyst_ends(connect):
    """A cost that is not left is refused before anything is released, and the log says so."""
    with connect(user="bob") as connection:
        connection.execute("SELECT COUNT(*) FROM flights WHERE month = 1")
        with pytest.raises(psycopg.Error, match="may spend") as raised:
            connection.execute("SELECT COUNT(*) FROM flights WHERE month = 2")
        assert "SHOW dfprivacy.budget" in raised.value.diag.message_hint


def test_logins_that_are_refused(connect):
    """Wrong passwords, unknown users and other datasets end the connection."""
    for terms in ({"password": "wrong"}, {"user": "nobody"}, {"dbname": "other"}):
        with pytest.raises(psycopg.OperationalError):
            connect(**terms)


def test_a_password_of_any_letters_logs_in(policy_file, connect):
    """Clients send a password's letters in their normal form, in which the server keeps them."""
    for password in ("\N{LATIN SMALL LIGATURE FI}ve \u00e9 e\u0301", PASSWORD):
        added = command("serve", "user", "add", policy_file, "probe", text=password)
        assert added.exit_code == 0
        with connect(user="probe", dbname="any", password=password) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_quantiles_come_as_an_array(connect):
    """A list is an array of Postgres, in text and in binary."""
    query = "SELECT dp_quantiles(delay, [0.25, 0.75]) AS q FROM flights"
    with connect() as connection:
        text, binary = (connection.execute(query, binary=form).fetchone()[0] for form in (0, 1))
    assert text == binary == pytest.approx([2, 47], abs=1)


def test_a_monitor_asks_for_nothing_else(connect):
    """A user without a dataset gets SELECT 1 and no release."""
    with connect(user="probe", dbname="any") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        for statement in ("SELECT dp_count(*) FROM flights", "SET dfprivacy.epsilon = 1"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()


def test_copy_gives_the_rows_of_a_release(connect):
    """COPY (query) TO STDOUT writes text and binary."""
    with connect() as connection:
        with connection.cursor().copy(f"COPY ({MEANS}) TO STDOUT") as copied:
            rows = list(copied.rows())
        with connection.cursor().copy(f"COPY ({MEANS}) TO STDOUT (FORMAT binary)") as copied:
            copied.set_types(["text", "float8", "int8"])
            binary = list(copied.rows())
    assert [(name, float(mean), int(n)) for name, mean, n in rows] == binary


def test_tables_and_columns_are_listed(connect):
    """information_schema and pg_catalog name the declared tables, and no others have rows."""
    with connect() as connection:
        tables = connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        columns = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'flights'"
        ).fetchall()
        missing = connection.execute("SELECT count(*) FROM pg_catalog.pg_stat_activity").fetchall()
    assert tables == [("flights",)]
    assert ("delay",) in columns
    assert missing == [(0,)]


def test_asyncpg_reads_binary_values(port):
    """A client that takes binary values only reads numbers, texts and dates."""
    asyncpg = pytest.importorskip("asyncpg")

    async def ask():
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user="ann", password=PASSWORD, database="flights"
        )
        try:
            means = await connection.fetch(f"{MEANS} ORDER BY carrier")
            days = await connection.fetch(
                "SELECT date_trunc('month', departure) AS month, COUNT(*) AS n, "
                "CAST(COUNT(*) AS DECIMAL(18, 2)) AS d FROM flights GROUP BY 1 ORDER BY 1"
            )
            return means, days
        finally:
            await connection.close()

    means, days = asyncio.run(ask())
    assert [row["carrier"] for row in means] == ["AA", "DL", "UA"]
    assert isinstance(means[0]["delay"], float)
    assert days[0]["month"] == dt.datetime(2024, 1, 1)  # noqa: DTZ001 without a zone in SQL
    assert days[0]["d"] == Decimal(days[0]["n"])


def test_pandas_reads_through_sqlalchemy(port):
    """pandas.read_sql and the inspector work."""
    pd = pytest.importorskip("pandas")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(
        sqlalchemy.URL.create(
            "postgresql+psycopg", "ann", PASSWORD, "127.0.0.1", port, database="flights"
        )
    )
    frame = pd.read_sql(f"{MEANS} ORDER BY carrier", engine)
    assert frame["carrier"].to_list() == ["AA", "DL", "UA"]
    assert abs(frame["delay"] - 24.5).max() < 2
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_table_names() == ["flights"]
    names = [column["name"] for column in inspector.get_columns("flights")]
    assert names == ["plane", "carrier", "month", "delay", "day", "departure"]
    table = sqlalchemy.Table("flights", sqlalchemy.MetaData(), autoload_with=engine)
    assert table.c.keys() == names
    engine.dispose()


def test_adbc_reads_arrow_tables(port):
    """ADBC asks with COPY in binary, lists tables and columns, and goes on after an error."""
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
    address = f"postgresql://ann:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/flights"
    with adbc.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for _ in range(2):
            cursor.execute(f"{MEANS} ORDER BY carrier")
            table = cursor.fetch_arrow_table()
            assert table["carrier"].to_pylist() == ["AA", "DL", "UA"]
            assert [str(kind) for kind in table.schema.types] == ["string", "double", "int64"]
            with pytest.raises(adbc.Error, match="rows are not shown"):
                cursor.execute("SELECT plane FROM flights")
        cursor.execute("SELECT COUNT(*) AS n FROM flights WHERE month > $1", (6,))
        assert abs(cursor.fetch_arrow_table()["n"][0].as_py() - 15_000) < 10
        schema = connection.adbc_get_table_schema("flights")
        assert [str(kind) for kind in schema.types][2:] == [
            "int64",
            "double",
            "date32[day]",
            "timestamp[us]",
        ]
        databases = connection.adbc_get_objects().read_all().to_pylist()
        (schemas,) = (
            item["catalog_db_schemas"] for item in databases if item["catalog_name"] == "flights"
        )
        assert [item["table_name"] for item in schemas[0]["db_schema_tables"]] == ["flights"]


def test_columns_of_no_rows_are_described(connect):
    """Clients that ask WHERE 0 = 1 for names and types get them, free."""
    with connect() as connection:
        before = connection.execute("SHOW dfprivacy.budget").fetchone()
        cursor = connection.execute('SELECT * FROM "flights" AS "q01" WHERE (0 = 1)')
        assert [column.type_code for column in cursor.description] == [25, 25, 20, 701, 1082, 1114]
        assert cursor.fetchall() == []
        assert connection.execute("SHOW dfprivacy.budget").fetchone() == before


def test_psql_describes_and_asks(port):
    r"""The client psql answers a mean by carrier, \d describes a table, and others list.

    Lists of what this server lacks are empty, with their columns.
    """
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    address = f"host=127.0.0.1 port={port} user=ann dbname=flights password='{PASSWORD}'"
    names = r"\d flights \d+ \dt+ \du \dx \df+ \do \db+ \dconfig \dp \dn+ \dT \dD+ \dC \dL \dy \l"
    commands = (f"{MEANS} ORDER BY 1", *names.replace(" \\", "\n\\").splitlines())
    completed = subprocess.run(
        ["psql", address, "-At", *(part for command in commands for part in ("-c", command))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ERROR" not in completed.stderr
    assert completed.stdout.startswith("AA|2"), completed.stderr
    for line in ("delay|double precision|", "\npg_default|owner|", "\nDateStyle|ISO, MDY\n"):
        assert line in completed.stdout, completed.stderr
    assert completed.stdout.splitlines()[-1].startswith("flights|")


def test_each_statement_is_logged(policy_file, connect):
    """The log has one line a statement, with its analyst, price and outcome."""
    with connect() as connection, pytest.raises(psycopg.Error):
        connection.execute("SELECT plane FROM flights WHERE month = 77")
    shown = command("serve", "log", policy_file)
    line = next(line for line in shown.stdout.splitlines() if "month = 77" in line)
    assert "ann" in line
    assert "refused" in line
