"""Every statistic answers zero rows and zero groups, at every entry point, as it answers one row.

A table of no rows, of one row, of one row of NULLs and of one row without a unit are neighbors: the
same question has the same outcome about each, and costs the same.
"""

import itertools
import json
import math

import duckdb
import polars as pl
import pytest

import dfprivacy as dfp
import sql_udfs
from dfprivacy.statistics import STATISTICS
from tests.command_line import command
from tests.laws.empty_tables import (
    CALLS,
    FORMS,
    LISTED,
    QUESTIONS,
    SCHEMA,
    STATISTICS_BY_NAME,
    TABLES,
    TERMS,
    ask,
    run_question,
)
from tests.products import take_turns


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """Return a ledger that pays for every question of this file."""
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    return dfp.Ledger(path, rho=1e6, delta=0.9)


def check(question, keys, terms, ledger, tables=TABLES):
    """Require the same outcome of a question about every table."""
    outcomes = {}
    for name, table in tables.items():
        ended = run_question(
            ledger,
            lambda table=table, **account: ask(
                dfp.frame(table)(**terms, **account), question, keys
            ),
        )
        outcomes.setdefault(ended, []).append(name)
    assert len(outcomes) == 1, outcomes


KEYS = ["whole", "public", "secret"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_secret_keys_of_no_rows(question, ledger):
    """By secret keys a table without groups has the outcome of one with a group."""
    check(question, "secret", {}, ledger)


@pytest.mark.battery
@pytest.mark.parametrize(
    ("question", "keys", "terms"),
    take_turns(QUESTIONS, KEYS, list(TERMS)),
)
@pytest.mark.parametrize("form", FORMS)
def test_questions_about_no_rows(question, keys, terms, form, ledger):
    """Every question has one outcome and one charge, whatever the keys and the privacy unit.

    All pairs of question, keys and unit are covered.
    """
    tables = {name: FORMS[form](table) for name, table in TABLES.items()}
    check(question, keys, TERMS[terms], ledger, tables)


COLUMNS = {
    "ordinary": [k % 90 - 20.0 for k in range(400)],
    "constant": [7.3] * 400,
    "zeros": [0.0] * 50,
    "minus zero": [-0.0],
    "not a number": [math.nan],
    "missing": [None] * 50,
    "infinite": [math.inf] * 50,
    "huge": [1e300, -1e300] * 30,
    "tiny": [5e-324] * 9,
    "an outlier": [*[1.0] * 100, 1e9],
    "far": [2.0**53 + 1] * 60,
    "doublings": [2.0 ** (k % 60) for k in range(2_400)],
}


def build_table(xs):
    """Return a table of one group with these values, each row with a unit of its own."""
    rows = [("a", i % 3, i, x, xs[-1 - i], i, True, [1]) for i, x in enumerate(xs)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row", infer_schema_length=None)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_about_any_column(question, keys, ledger):
    """Whatever the columns hold, every question has one outcome and one charge."""
    check(question, keys, {}, ledger, {name: build_table(xs) for name, xs in COLUMNS.items()})


STATEMENTS = ["SELECT {} AS a FROM t", "SELECT g, {} AS a FROM t GROUP BY g HAVING dp_keep(1e-6)"]


@pytest.mark.battery
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("kind", CALLS)
def test_statements_about_no_rows(kind, statement, ledger):
    """A statement of `dfp.sql` has one outcome about no rows and about one."""
    text = statement.format(CALLS[kind])
    outcomes = {
        run_question(ledger, lambda table=table, **account: dfp.sql(text, t=table, **account))
        for table in TABLES.values()
    }
    assert len(outcomes) == 1
    assert "Error" not in str(outcomes)


@pytest.fixture(scope="module")
def connection():
    """Return a raw connection with the functions, and the tables by number."""
    connection = duckdb.connect()
    sql_udfs.register(connection)
    for number, table in enumerate(TABLES.values()):
        connection.register(f"t{number}", table.to_arrow())
    return connection


@pytest.mark.parametrize("tail", ["", " GROUP BY g", " GROUP BY g HAVING dp_keep(1e-6)"])
@pytest.mark.parametrize("kind", CALLS)
def test_functions_about_no_rows(kind, tail, connection):
    """A function on a raw connection has one outcome about no rows and about one."""
    for number in range(len(TABLES)):
        connection.execute(f"SELECT {CALLS[kind]} FROM t{number}{tail}").fetchall()


ADDED_UP = [name for name, statistic in STATISTICS_BY_NAME.items() if statistic.adds_up]


@pytest.mark.battery
@pytest.mark.parametrize(("name", "keys"), [*zip(ADDED_UP, itertools.cycle(KEYS))])
def test_files_of_statistics_of_no_rows(name, keys, ledger, tmp_path):
    """Files of statistics of no rows are merged as files of one row are."""
    by = {"whole": {}, "public": {"by": "g", "keys": LISTED}, "secret": {"by": "g"}}[keys]
    delta = {"delta": 1e-6} if keys == "secret" else {}

    def merge(*tables, **account):
        paths = []
        for number, table in enumerate(tables):
            paths.append(tmp_path / f"{account['dataset']} {number}.parquet")
            dfp.statistics(table, paths[-1], STATISTICS_BY_NAME[name], **by)
        return dfp.merge(paths, epsilon=1, **delta, **account)

    none = TABLES["no rows"]
    outcomes = {
        run_question(ledger, lambda tables=tables, **account: merge(*tables, **account))
        for table in TABLES.values()
        for tables in ([table], [none, table], [table, none])
    }
    assert len(outcomes) == 1


@pytest.mark.battery
@pytest.mark.parametrize("name", STATISTICS_BY_NAME)
def test_cross_tables_of_no_rows(name, ledger):
    """A cross table of a statistic has one outcome, with public and with secret keys."""
    values = STATISTICS_BY_NAME[name]
    for keys in ({}, {"keys": {"g": LISTED, "h": [1, 2]}}):
        delta = {} if keys else {"delta": 1e-6}
        outcomes = {
            run_question(
                ledger,
                lambda table=table, keys=keys, delta=delta, **account: (
                    (
                        dfp.frame(table)(**account).crosstab(
                            "g", "h", values=values, **keys, **delta
                        )
                    ).shape
                    and None
                ),
            )
            for table in TABLES.values()
        }
        assert len(outcomes) == 1


@pytest.mark.battery
@pytest.mark.parametrize("kind", STATISTICS)
def test_commands_about_no_rows(kind, tmp_path):
    """A command and a described release end in the same way about no rows and about one."""
    statistic = STATISTICS[kind]
    words, fields = [], {}
    for argument in statistic.arguments():
        option = f"--{argument.name.replace('_', '-')}"
        if argument.form == "bounds":
            words += [option, "0", "9"]
            fields[argument.name] = [0, 9]
        elif argument.required and argument.form != "column":
            values = argument.sample if argument.form == "numbers" else [argument.sample]
            option = option.removesuffix("s") if argument.form == "numbers" else option
            words += [word for value in values for word in (option, str(value))]
            fields[argument.name] = list(values) if argument.form == "numbers" else argument.sample
    columns = ["x", "y"][: len(statistic.places())] if kind != "share" else ["b"]
    fields[kind] = columns if len(columns) > 1 else columns[0]
    endings = set()
    for name, table in TABLES.items():
        folder = tmp_path / name
        folder.mkdir()
        table.drop("s").write_parquet(folder / "rows.parquet")
        by = ["--by", "g", "--delta", "1e-6", "--output", folder / "asked.json"]
        ran = command(kind, folder / "rows.parquet", *columns, *words, *by)
        dfp.Ledger(folder / "ledger.db", epsilon=2, delta=1e-3, remember=True)
        job = {
            "budget": {
                "ledger": "ledger.db",
                "dataset": "rows",
                "version": "1",
                "epsilon": 1,
                "delta": 1e-6,
            },
            "source": {"file": "rows.parquet"},
            "releases": {"one": {"by": "g", "questions": {"a": fields}, "outputs": "out.csv"}},
        }
        (folder / "job.yml").write_text(json.dumps(job), encoding="utf-8")
        described = command("run", folder / "job.yml")
        endings.add((ran.exit_code, described.exit_code))
        assert (ran.exit_code, described.exit_code) == (0, 0), ran.output + described.output
    assert len(endings) == 1
