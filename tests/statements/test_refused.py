"""Statements that are not surely safe are refused: by name, before a charge, whatever the data.

So are trees of allowed statements into which something unknown is put, anywhere.
"""

import copy
import functools
import json
import random
import re
import string
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.statements import composing
from dfprivacy.statements.gate import Reader, connection_source
from dfprivacy.statements.nodes import read_query
from dfprivacy.statements.rules import REFUSALS
from tests.statements.readers import read_examples, read_statements
from tests.statements.shop import SCHEMA, SHOP
from tests.statements.visits import OTHERS, make_visits

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "refusals.md"
EXAMPLES = read_examples("refused_examples.txt")
"""An example of each rule of refusals, by its heading in docs/reference/refusals.md.

An example is SQL, the last statement of which is refused, or Python.
"""
RULES = [(title, names) for title, rules in EXAMPLES.items() for names in rules]
ELSEWHERE = {"another system"}
"""Rules whose example needs a download by DuckDB: test_row_by_row.py has a test of each."""
LONG = {"too many relations"}
REFUSED = [line.partition(" -- ")[::2] for line in read_statements("refused.sql")]
"""Statements, and how the messages of some begin."""
BUDGET = {"epsilon": 10, "delta": 0.1}


@pytest.fixture(scope="session")
def ledger(tmp_path_factory):
    return dfp.Ledger(tmp_path_factory.mktemp("ledger") / "budget.db", **BUDGET)


def refusal(connection, query, **terms):
    python_frame = duckdb.sql("SELECT 1 AS x")
    delta = None if "dp_keep" in query else 1e-6
    with pytest.raises(dfp.DPError) as caught:
        dfp.sql(query, con=connection, delta=delta, **terms)
    del python_frame
    return caught.value


FRAME = pd.DataFrame({"x": [1.0, 2.0]})
QUESTIONS = {name for name in dir(FRAME.dp) if not name.startswith("_")} - {
    "agg", "explain", "group_by", "local", "shuffle"
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_every_question_of_a_frame_is_a_call_or_says_where_to_ask(name):
    """A question of frames is a function of SQL, or its refusal shows how to ask the frame."""
    with pytest.raises(dfp.DPError) as caught:
        dfp.sql(f"SELECT dp_{name}(x{', x' * 9}) FROM t", t=FRAME, epsilon=1)
    message = str(caught.value)
    assert f"write one of dp_{name}(" in message or f"frame(con.table('t')).{name}(...)" in message


ALSO_EMPTY = set(REFUSED[::5])


@pytest.mark.sample(24)
@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_a_refusal_costs_nothing(shared, empty, ledger, query, message):
    """A refusal has a hint, no cause that could quote a row, and costs nothing.

    A table without rows gives the same refusal, compared for one statement in five, and where rows
    stand beside answers.
    """
    error = refusal(shared, query, ledger=ledger, dataset="visits")
    assert error.message.startswith(message)
    assert error.hint
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert ledger.remaining("visits") == dfp.Budget(**BUDGET)
    if message or (query, message) in ALSO_EMPTY:
        other = refusal(empty, query)
        assert (type(other), str(other)) == (type(error), str(error))


@pytest.mark.parametrize("link", ["age + ", "city || ", "age * "])
def test_long_chains_of_operators(shared, link):
    """A chain of some operators is planned, one that can't be followed is refused."""
    query = f"SELECT dp_count(*) FROM visits WHERE ({{}}{link.split()[0]}) IS NOT NULL"
    assert dfp.explain(query.format(link * 20), con=shared).epsilon == 1
    with pytest.raises(dfp.RefusedStatementError, match="nested too deeply"):
        dfp.explain(query.format(link * 1500), con=shared)


def test_long_chains_of_conditions(shared):
    """AND and OR are one node however many conditions they join."""
    query = f"SELECT dp_count(*) FROM visits WHERE {'age > 1 AND ' * 1500}vip"
    assert dfp.explain(query, con=shared).epsilon == 1


@pytest.mark.parametrize("intervals", [False, True])
@pytest.mark.parametrize(
    ("first", "sign"), [("dp_count(*)", "+"), ("dp_count(*) > 5", "AND"), ("age", "+")]
)
def test_long_chains_of_aliases(first, sign, intervals, shared):
    """Expressions over rows or answers that double with every alias are refused at once."""
    doubled = ", ".join(f"a{i} {sign} a{i} AS a{i + 1}" for i in range(40))
    query = f"SELECT {first} AS a0, {doubled} FROM visits"
    if first == "age":
        query = f"SELECT dp_count(a40) FROM ({query})"
    with pytest.raises(dfp.RefusedStatementError, match="grows too long"):
        dfp.explain(query, con=shared, intervals=intervals)


def world(rows=""):
    """Return a connection with visits, a shop and their views, with the rows of a condition."""
    con = make_visits(rows, f"{OTHERS}; {SHOP}")
    if rows:
        con.execute("DELETE FROM orders WHERE customer = 3; DELETE FROM customer WHERE id = 3")
    con.register("registered", pa.table({"x": [1]}))
    return con


@pytest.fixture(scope="module")
def neighbours():
    """Make two worlds that differ in a person, and say whether an example may change them."""
    conditions = ("", "WHERE i % 50 <> 7")
    worlds = [world(rows) for rows in conditions]
    return lambda changes: [world(rows) for rows in conditions] if changes else worlds


def ask(title, example, con, **paid):
    """Run an example."""
    if example.startswith(("dfp.", "con.")):
        frame = pd.DataFrame({"x": [1, 2, 2]})
        namespace = {"dfp": dfp, "con": con, "frame": frame, "schema": SCHEMA}
        with TemporaryDirectory() as folder:
            exec(example, namespace | {"folder": folder})
        return
    *before, query = example.split("; ")
    con.execute("; ".join(before) or "SELECT 1")
    terms = {} if "dp_keep" in query else {"delta": 1e-6}
    if title == "Several tables":
        terms |= {"schema": SCHEMA, "max_rows": 3}
    dfp.sql(query, con=con, **terms, **paid)


@functools.cache
def texts(names):
    """Return the pattern of the messages of a rule."""
    rule = find_rule(names)
    text = f"{rule.construct}: {rule.why}" if rule.why else rule.construct
    parts = string.Formatter().parse(text)
    pattern = "".join(re.escape(literal) + (".*" if word else "") for literal, word, *_ in parts)
    return re.compile(f"(in the view '.*?': )?{pattern}", re.DOTALL)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        pytest.param(*rule, id=rule[1], marks=[pytest.mark.slow] * (rule[1] in LONG))
        for rule in RULES
    ],
)
def test_a_rule_refuses_its_example(title, name, ledger, neighbours):
    """By this rule and no other, with a rewrite, for nothing, and the same on a neighbour."""
    example = EXAMPLES[title][name]
    if name in ELSEWHERE:
        pytest.skip("another test has it")
    errors = []
    for con in neighbours("; " in example):
        with pytest.raises(dfp.RefusedStatementError) as caught:
            ask(title, example, con, ledger=ledger, dataset="visits")
        errors.append(caught.value)
    fitting = [rule for _, rule in RULES if texts(rule).fullmatch(errors[0].message)]
    assert fitting == [name]
    assert errors[0].hint
    assert ledger.remaining("visits") == dfp.Budget(**BUDGET)
    assert str(errors[0]) == str(errors[1])


def find_rule(names):
    """Return the rule of a name, or of several with bars between them."""
    (rule,) = {REFUSALS[name] for name in names.split("|")}
    return rule


def test_every_rule_has_an_example():
    """And each name of a rule is that of one example."""
    named = [name for _, names in RULES for name in names.split("|")]
    assert sorted(named) == sorted(REFUSALS)


def test_rules_that_are_named_are_in_the_registry():
    """Every rule that a refusal names is there."""
    sources = "".join(path.read_text() for path in Path(dfp.__file__).parent.rglob("*.py"))
    named = set(re.findall(r"""\brefuse\(\s*"([^"]+)""", sources))
    assert named <= set(REFUSALS)


ABOUT = (
    "A refusal names the construct, the reason and a rewrite. It costs nothing and depends on no "
    "row. Constructs that are refused for one reason share a line here. Words in *italics* come "
    "from the statement. `tests/statements/test_refused.py` has an example of each; "
    "`python -m tests.statements.test_refused` writes this page."
)
VAGUE = re.compile(r"^(CREATE .*)?\*\w+\*|\b(such|this|here|these)\b")
"""A construct that its reason alone makes plain."""
EMPTY = {"", "it is not on the list of what is known to be safe"}


def page():
    """Return the page of the registry: constructs by section and reason."""
    text = f"# What is refused in SQL\n\n{ABOUT}\n"
    for title, rules in EXAMPLES.items():
        constructs = {}
        for names in rules:
            rule = find_rule(names)
            constructs.setdefault(cell(rule.why), []).append(cell(rule.construct))
        text += f"\n## {title}\n\n"
        for why, refused in constructs.items():
            because = f": {why}" if VAGUE.search(refused[0]) and why not in EMPTY else ""
            text += f"* {'; '.join(dict.fromkeys(refused))}{because}\n"
    return text


def cell(text):
    """Return a text of a rule for a table: its words in italics."""
    parts = string.Formatter().parse(text)
    escaped = "".join(
        re.sub(r"([*_|<>\[\]`])", r"\\\1", literal)
        + (f"*{word}*" if word and word != "near" else "")
        for literal, word, *_ in parts
    )
    return " ".join(escaped.split())


def test_the_page_has_every_rule():
    """The page of refusals is that of the registry: `python -m tests.statements.test_refused`."""
    assert PAGE.read_text(encoding="utf-8") == page()


# Trees and texts that somebody has changed


QUERIES = read_statements("allowed.sql")
EXPRESSIONS = [
    "EXISTS (SELECT 1 FROM visits)",
    "string_agg(note, ',')",
    "row_number() OVER (ORDER BY income)",
    "sum(age) OVER (PARTITION BY city)",
    "random()",
    "current_time",
    "error(note)",
    "getenv('HOME')",
    "current_setting('threads')",
    "read_text('x')",
    "nextval('s')",
    "unnest(tags)",
    "list_transform(tags, t -> t)",
    "my_macro(age)",
    "dp_product(age)",
    "?",
    "dp_mean(age, 0, user_id)",
    "dp_count(dp_count(*))",
    "repeat(note, 1000000000)",
]
SOURCES = [
    "visits, adults",
    "visits CROSS JOIN adults",
    "range(10)",
    "read_csv('x')",
    "'x.parquet'",
    "nowhere",
    "(SELECT * FROM visits UNION ALL SELECT * FROM visits)",
    "(SELECT * FROM visits LIMIT 3)",
    "(SELECT DISTINCT city FROM visits)",
    "(SELECT *, row_number() OVER () AS r FROM visits)",
    "visits TABLESAMPLE 10%",
    "(VALUES (1)) v(x)",
]
CLAUSES = [
    "SELECT DISTINCT a FROM t",
    "SELECT DISTINCT ON (a) a FROM t",
    "SELECT a FROM t QUALIFY rank() OVER (ORDER BY income) = 1",
    "SELECT a FROM t USING SAMPLE 10 ROWS",
    "SELECT a FROM t GROUP BY ROLLUP (a)",
    "SELECT a FROM t LIMIT 10%",
    "(SELECT a FROM t LIMIT 3) ORDER BY a",
    "WITH c AS (SELECT 1) SELECT a FROM t",
]
ENGINE = duckdb.connect()


def parse_tree(query):
    ((tree,),) = ENGINE.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    return json.loads(tree)["statements"][0]["node"]


@pytest.fixture(scope="session")
def statement(empty):
    """Read a statement over the table, and plan no release of it."""
    parser, source = duckdb.connect(), connection_source(empty)
    value = pa.table({"value": pa.nulls(0)})
    reader = Reader(source, parser, planned=lambda _: value, computed=lambda _: value)
    return lambda text: composing.read(text, reader)


@pytest.fixture
def refused_tree(statement, monkeypatch):
    """Return a function that checks that a tree is refused."""

    def check(tree):
        monkeypatch.setattr(composing, "parse", lambda *_: (None, read_query(tree)))
        with pytest.raises(dfp.DPError):
            statement("")
        monkeypatch.undo()

    return check


def put(node, other):
    """Put one node in the place of another."""
    node.clear()
    node.update(copy.deepcopy(other))


def nodes(tree):
    """Yield the objects in a tree of JSON, the tree itself first."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(part, dict | list):
            yield from nodes(part)


def of_type(tree, *types):
    return [node for node in nodes(tree) if node.get("type") in types]


PARTS = [QUERIES[part::4] for part in range(4)]


@pytest.mark.parametrize("queries", PARTS)
def test_refused_expressions(statement, refused_tree, queries):
    """Whatever column or constant is replaced by a refused expression, the statement is refused."""
    choice = random.Random(1)
    for query in queries:
        statement(query)
        for _ in range(6):
            tree = parse_tree(query)
            hostile = parse_tree(f"SELECT {choice.choice(EXPRESSIONS)}")["select_list"][0]
            put(choice.choice(of_type(tree, "COLUMN_REF", "VALUE_CONSTANT", "FUNCTION")), hostile)
            refused_tree(tree)


@pytest.mark.parametrize("source", SOURCES)
def test_refused_sources(refused_tree, source):
    """Whatever relation is replaced by a refused one, the statement is refused."""
    for query in QUERIES[::2]:
        tree = parse_tree(query)
        put(of_type(tree, "BASE_TABLE")[-1], parse_tree(f"SELECT 1 FROM {source}")["from_table"])
        refused_tree(tree)


@pytest.mark.parametrize("clause", CLAUSES)
def test_refused_clauses(refused_tree, clause):
    """Whatever clause that is not known is put into whatever SELECT, the statement is refused."""
    plain, donor = parse_tree("SELECT a FROM t"), parse_tree(clause)
    clause_parts = [part for part in donor if donor[part] != plain[part] and part != "select_list"]
    for query in QUERIES[::2]:
        for index in range(len(of_type(parse_tree(query), "SELECT_NODE"))):
            tree = parse_tree(query)
            select = of_type(tree, "SELECT_NODE")[index]
            select.update({part: donor[part] for part in clause_parts})
            refused_tree(tree)


@pytest.mark.battery
@pytest.mark.parametrize("queries", PARTS)
def test_unknown_nodes(refused_tree, queries):
    """A node of an unknown class or type is refused, and one with a part that no rule knows."""
    for query in queries[::3]:
        for position in range(sum(1 for _ in nodes(parse_tree(query)))):
            for change in ({"a_new_part": True}, {"type": "NEW"}, {"class": "NEW"}):
                tree = parse_tree(query)
                node = list(nodes(tree))[position]
                new_part = set(change) == {"a_new_part"} and "path" not in node
                if set(change) <= set(node) or new_part:
                    node.update(change)
                    refused_tree(tree)


WORDS = [
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ROLLUP", "(", ")", ",", ";", "UNION", "visits"),
    *("age", "dp_count(*)", "count(*)", "*", "AS", "1", "'x'", "OVER", "LIMIT", "DISTINCT"),
    *("JOIN", "--", "/*"),
]


def test_broken_texts(statement):
    """Texts that are cut, doubled or shuffled end in an error of ours, or in a vetted statement."""
    choice = random.Random(1)
    for _ in range(800):
        words = choice.choice(QUERIES).split()
        for _ in range(choice.randint(1, 3)):
            start = choice.randrange(len(words))
            words[start : start + choice.randint(0, 2)] = choice.sample(WORDS, choice.randint(0, 2))
            words = words or ["SELECT"]
        try:
            read = statement(" ".join(words))
        except dfp.DPError:
            continue
        assert read.statements or not read.public
        for release in read.statements:
            assert release.calls or release.keys  # keys alone are selected by a noisy count
            assert release.compiler.tables.protected.path[-1] == "visits"


@pytest.mark.parametrize(
    "source",
    [
        "read_parquet('{folder}/*/*.parquet')",
        "read_parquet(['{folder}/month=07/a.parquet', '{folder}/month=11/a.parquet'])",
        "read_parquet('{folder}/*/*.parquet', hive_partitioning = true)",
        "'{folder}/*/*.parquet'",
        "in_view",
        "registered",
        "range(20)",
    ],
)
def test_the_hint_on_what_has_no_known_rows_can_be_run(tmp_path, source):
    """It passes the very files or frame by a name, with the path and options that were written."""
    con, frame = duckdb.connect(), pa.table({"x": range(20)})
    write_months(con, tmp_path)
    con.register("registered", frame)
    con.execute(
        f"CREATE VIEW in_view AS FROM read_parquet('{tmp_path}/*/*.parquet', filename = false)"
    )
    error = refusal(con, f"SELECT dp_count(*) FROM {source.format(folder=tmp_path)}", epsilon=1)
    (called,) = re.findall(r"dfp\.sql\((.*)\)(?:;|$)", error.hint)
    released = eval(f"dfp.sql({called}, epsilon=1e6)", {"dfp": dfp, "con": con, "frame": frame})
    table = released if isinstance(released, pa.Table) else released.to_arrow_table()
    assert table.column(0).to_pylist() == [20]


def write_months(con, folder):
    for month in ("07", "11"):
        (folder / f"month={month}").mkdir()
        con.execute(f"COPY (FROM range(10)) TO '{folder}/month={month}/a.parquet'")


@pytest.mark.parametrize(
    ("condition", "cast", "count"),
    [
        ("month >= 9", "CAST(month AS INTEGER)", 10),
        ("month BETWEEN 3 AND 7", "CAST(month AS INTEGER)", 10),
        ("month > 8.5", "CAST(month AS DOUBLE)", 10),
    ],
)
def test_the_hint_on_text_that_is_compared_with_numbers_can_be_run(
    tmp_path, condition, cast, count
):
    """The cast that it names chooses the directories of a key, and the rows of a frame."""
    con = duckdb.connect()
    write_months(con, tmp_path)
    rows = con.sql(f"FROM read_parquet('{tmp_path}/*/*.parquet', hive_types_autocast = false)").pl()
    outside = tmp_path / "month=08"
    outside.mkdir()
    outside.joinpath("a.parquet").write_text("no Parquet")
    for source in (tmp_path, rows):
        query = f"SELECT dp_count(*) AS n FROM t WHERE {condition}"
        with pytest.raises(dfp.DPError) as caught:
            dfp.sql(query, t=source)
        assert cast in caught.value.hint
        released = dfp.sql(query.replace("month", cast), t=source, epsilon=1e6)
        assert int(released["n"][0].as_py() if source is tmp_path else released["n"][0]) == count


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
