"""A run is charged once, writes its outputs, and says beside each what was asked and paid."""

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command
from tests.frontends.described_delays import DELAYS, HEAD, ROWS, spent


def contents():
    """Return the bytes of everything but the ledger, and what the DuckDB file holds."""
    files = {p.name: p.read_bytes() for p in Path().iterdir() if p.suffix in {".csv", ".json"}}
    files["delays.parquet"] = Path("delays.parquet").read_bytes()
    with duckdb.connect("out.duckdb", read_only=True) as connection:
        files["out.duckdb"] = connection.sql('SELECT * FROM "de lays"').fetchall()
    return files


def test_a_run_and_the_same_again(run):
    """The second run spends nothing and writes the same bytes; all outputs hold one answer."""
    first = run(HEAD + DELAYS)
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout == (
        "delays: wrote delays.csv, delays.parquet, out.duckdb:de lays; "
        "spent epsilon 1, delta 1e-7\n"
    )
    once = contents()
    assert pl.read_csv("delays.csv").equals(pl.read_parquet("delays.parquet"))
    assert pl.read_parquet("delays.parquet").rows() == once["out.duckdb"]
    second = run(HEAD + DELAYS)
    assert second.stdout.endswith("; paid before, nothing spent\n")
    assert contents() == once
    assert spent() == dfp.Budget(epsilon=1.0, delta=1e-7)
    assert len(dfp.Ledger("budget.db").history()) == 1


def test_outputs_that_were_lost_come_back(run):
    """Outputs that were deleted or damaged are written again, from what the ledger keeps."""
    run(HEAD + DELAYS)
    once = contents()
    Path("delays.csv").write_text("damaged")
    Path("delays.parquet").unlink()
    Path("out.duckdb").unlink()
    assert run(HEAD + DELAYS).exit_code == 0
    assert contents() == once
    assert spent().epsilon == 1


KNOWN = {
    'count: "*"': "e29e3902e96b1639",
    "count: delay": "9c6bed078c7e7d0c",
    "sum: delay, bounds: [0, 9]": "73da18dddf9b5d08",
    "sum: delay": "33d124b25ebf2ebe",
    "mean: delay, bounds: [0, 9]": "5860ae7965be8614",
    "var: delay, bounds: [0, 9]": "ad9ee4017200c340",
    "std: delay, bounds: [0, 9]": "b60680e1b36cb8f6",
    "median: delay": "104d926f491f3e9e",
    "median: delay, bounds: [0, 9], step: 1": "3b3894d0d8f08f57",
    "quantile: delay, q: 0.9": "538c654fbaaf64c2",
    "quantiles: delay, qs: [0.25, 0.75]": "b7822f77b49f9ea1",
    "min: delay": "40ed0814c29d7561",
    "max: delay": "eb65c3bb94a5148d",
    "center: delay, p: 1.5, bounds: [0, 9]": "b344334fc914feb2",
    "bounds: delay": "54a03c7bc67dcea9",
    "histogram: delay, edges: [0, 1, 9]": "a9e8613c169c0876",
    "nunique: carrier": "bb45c269be1b619d",
    "share: carrier, value: AA": "3185e55f0067d1b0",
    "corr: [delay, month], x_bounds: [0, 9], y_bounds: [1, 12]": "43e52e2fe2a4602d",
    "slope: [delay, month], y_bounds: [0, 9], x_bounds: [1, 12]": "156eacf007a1f3d6",
    'describe: "*", top: 2': "ca1b09bcd46b0b0a",
    "value_counts: carrier": "3a27bc0f1b867285",
    "top: carrier, k: 3": "89dfe1a3a069d207",
    "mode: carrier": "d8693ebe3a18b398",
}
"""Questions, and what ledgers know their releases by."""


SECRET, DELTA = ("value_counts", "top", "mode", "describe"), "    budget: {delta: 1e-8}\n"


def test_what_was_charged_stays_charged(run):
    """A release is found in the ledger by what is asked: a change of that here is a second charge.

    So what this test has recorded changes by intent alone, and after a first release by none.
    """
    releases = "".join(
        f"  r{number}:\n{DELTA if question.startswith(SECRET) else ''}"
        f"    questions: {{asked: {{{question}}}}}\n    outputs: r{number}.csv\n"
        for number, question in enumerate(KNOWN)
    )
    result = run(HEAD + releases)
    assert result.exit_code == 0, result.output
    notes = [note.removeprefix("run ") for note in dfp.Ledger("budget.db").history()["note"]]
    assert dict(zip(KNOWN, notes, strict=True)) == KNOWN


def test_edges_of_bins_are_named_as_in_frames_too(run):
    """A list of `bins` is the same release as `edges`."""
    template = (
        "  r:\n    questions: {{h: {{histogram: delay, {}: [0, 1, 9]}}}}\n    outputs: r.csv\n"
    )
    for name in ("edges", "bins"):
        result = run(HEAD + template.format(name))
        assert result.exit_code == 0, result.output
    assert len(dfp.Ledger("budget.db").history()) == 1


@pytest.mark.parametrize(
    "other",
    [
        HEAD.replace('"1"', '"2"') + DELAYS,
        HEAD + DELAYS.replace("240", "241"),
        HEAD + DELAYS.replace("1e-7", "2e-7"),
        HEAD.replace("flights.parquet", "days/*.parquet") + DELAYS,
        HEAD + DELAYS.replace("    questions", "    unit: {column: user, max_rows: 3, "
                              "max_groups: 1}\n    questions"),
        HEAD + DELAYS.replace("    questions", "    interval: 0.9\n    questions"),
    ],
)  # fmt: skip
def test_another_release_is_charged(run, other):
    """Another version, question, loss, source, unit or level is another release."""
    run(HEAD + DELAYS)
    before = Path("delays.csv").read_bytes()
    assert run(other).exit_code == 0
    assert spent().epsilon == 2
    assert Path("delays.csv").read_bytes() != before


def test_counts_by_value(run):
    """Values are the last of the groups: secret by delta, or public; `k` of them, or the first."""
    releases = """\
  often:
    budget: {delta: 1e-7}
    questions: {n: {value_counts: carrier}}
    outputs: often.csv
  most:
    by: carrier
    keys: {carrier: [AA, UA], month: [1, 2, 3]}
    questions: {n: {top: month, k: 2}}
    outputs: most.csv
  first:
    by: [month]
    budget: {delta: 1e-7}
    questions: {n: {mode: carrier}}
    outputs: first.csv
"""
    assert run(HEAD + releases).exit_code == 0
    often, top_months, first = (pl.read_csv(f"{name}.csv") for name in ("often", "most", "first"))
    assert often.columns == ["carrier", "n", "low", "high"]
    assert often["carrier"].to_list() == ["AA", "UA"]
    assert top_months.columns == ["carrier", "month", "n", "low", "high", "note"]
    assert top_months["carrier"].to_list() == ["AA", "AA", "UA", "UA"]
    assert first.select("month", "carrier").rows() == [(1, "AA"), (2, "AA")]
    assert spent() == dfp.Budget(epsilon=3.0, delta=2e-7)
    mixed = releases.replace("{n: {mode: carrier}}", "{n: {mode: carrier}, rows: {count: '*'}}")
    assert "is a release of its own" in run(HEAD + mixed).stderr


def test_the_note_beside_an_output(run):
    """The note says what was asked, charged and promised; nothing of the data is in it."""
    run(HEAD + DELAYS)
    note = json.loads(Path("delays.csv.provenance.json").read_text())
    (charge,) = dfp.Ledger("budget.db").history().to_dict("records")
    assert note["charged"] == {"epsilon": 1.0, "delta": 1e-7}
    assert note["asked"] == {
        "source": "flights.parquet",
        "questions": {"delay": "mean('delay', bounds=(-60.0, 240.0))"},
        "by": ["carrier"],
        "keys": None,
        "unit": "one row",
        "interval": 0.95,
    }
    assert (note["dataset"], note["version"], note["dfprivacy"]) == (
        "flights",
        "1",
        charge["dfprivacy"],
    )
    assert note["time"] == charge["time"].isoformat(timespec="microseconds")
    assert note["promise"] == (
        "This release is differentially private with epsilon 1, delta 1e-7 for adding or removing "
        "one row; other releases about the dataset 'flights' add to that, and its ledger adds "
        "them up."
    )
    assert set(note) == {
        "release", "output", "asked", "charged", "dataset", "version", "time", "dfprivacy",
        "description", "parameters", "promise",
    }  # fmt: skip
    assert "AA" not in json.dumps(note)


def test_the_note_does_not_depend_on_the_data(run):
    """Two tables that differ in everything have the same notes, but for the time."""
    run(HEAD + DELAYS)
    notes = [json.loads(p.read_text()) for p in sorted(Path().glob("*.json"))]
    assert len(notes) == 3
    pl.read_parquet("flights.parquet")[:0].write_parquet("flights.parquet")
    for name in ("budget.db", "budget.db-head"):
        Path(name).unlink()
    dfp.Ledger("budget.db", epsilon=100, delta=1e-6, remember=True)
    assert run(HEAD + DELAYS).exit_code == 0
    others = [json.loads(p.read_text()) for p in sorted(Path().glob("*.json"))]
    for note, other in zip(notes, others, strict=True):
        assert note | {"time": None} == other | {"time": None}


SOURCES = {
    "file: flights.csv": ROWS,
    "file: days/*.parquet": ROWS,
    "folder: days": ROWS,
    "{table: flights, database: flights.duckdb}": ROWS,
    "{table: main.early, database: flights.duckdb}": 1000,
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources(run, source):
    """Files, folders, patterns, tables and views are read; all rows of them count."""
    text = source if source.startswith("{") else f"{{{source}}}"
    release = """\
  counts:
    questions: {rows: {count: "*"}, typical: {median: delay}}
    outputs: [counts.csv]
"""
    head = HEAD.replace("{file: flights.parquet}", text).replace("epsilon: 1", "epsilon: 100")
    assert run(head + release).exit_code == 0
    table = pl.read_csv("counts.csv")
    assert table.columns == ["name", "value", "low", "high", "note"]
    assert table["name"].to_list() == ["rows", "typical"]
    assert table["value"][0] == pytest.approx(SOURCES[source], abs=1)  # false alarm below 1e-20
    assert table["low"].is_null().to_list() == [False, True]


def test_hive_directories_are_read_on_request(run):
    """`hive: true` reads files at any depth, with keys of directories, as a release of its own."""
    for day in ("01", "02"):
        Path(f"parts/day={day}").mkdir(parents=True)
        Path(f"parts/day={day}/a.parquet").write_bytes(Path("flights.parquet").read_bytes())
    Path("parts/b.parquet").write_bytes(Path("flights.parquet").read_bytes())
    release = """\
  NAME:
    source: {folder: parts, hive: FLAG}
    questions: {rows: {count: "*"}}
    outputs: NAME.csv
"""
    flags = {"flat": "false", "deep": "true"}
    texts = [release.replace("NAME", name).replace("FLAG", flags[name]) for name in flags]
    head = HEAD.replace("epsilon: 1", "epsilon: 40")
    assert run(head + texts[0]).exit_code == 0
    result = run(head + texts[1])
    assert (result.exit_code, "directories of different keys" in result.output) == (1, True)
    Path("parts/b.parquet").unlink()
    assert run(head + texts[1]).exit_code == 0
    rows = {name: pl.read_csv(f"{name}.csv")["value"][0] for name in flags}
    assert rows == pytest.approx({"flat": ROWS, "deep": 2 * ROWS}, abs=2)  # below 1e-30


def test_tables_of_two_files_are_two_releases(run):
    """Also where table and file read as one text: "a" in "b in c" and "a in b" in "c"."""
    release = """\
  NAME:
    source: {table: TABLE, database: FILE}
    questions: {rows: {count: "*"}}
    outputs: NAME.csv
"""
    texts = []
    for name, table, file in (("one", "a", "b in c.duckdb"), ("two", "a in b", "c.duckdb")):
        with duckdb.connect(file) as connection:
            connection.execute(f'CREATE TABLE "{table}" (x INTEGER)')
        texts.append(release.replace("NAME", name).replace("TABLE", table).replace("FILE", file))
    assert run(HEAD + "".join(texts)).exit_code == 0
    assert spent().epsilon == 2


@pytest.mark.parametrize(
    "source", ["database: flights.duckdb", "tables: {flights: flights.parquet}"]
)
def test_queries(run, source):
    """A statement of dfp.sql over a DuckDB file or files, with a parameter, is a release too."""
    text = f"""\
parameters: {{who: text}}
budget: {{ledger: budget.db, dataset: flights, version: "1", epsilon: 50}}
releases:
  counts:
    source:
      query: SELECT month, dp_count(*) AS n FROM flights WHERE carrier = ${{who}} GROUP BY month
      {source}
    keys: [1, 2, 3]
    outputs: [counts.csv]
"""
    assert run(text, "--set", "who=AA").exit_code == 0
    rows = pl.read_csv("counts.csv").rows()
    assert [month for month, _ in rows] == [1, 2, 3]
    assert [n for _, n in rows] == pytest.approx([1000, 1000, 0], abs=2)  # below 1e-40
    assert run(text, "--set", "who=AA").stdout.endswith("nothing spent\n")
    assert run(text, "--set", "who=UA").stdout.endswith("; spent epsilon 50\n")


OWNED = """\
budget: {ledger: budget.db, dataset: flights, version: "1", epsilon: 50}
unit: {max_rows: 3, max_groups: 1}
releases:
  counts:
    source:
      query: >-
        SELECT name, avg(delay) AS delay, count(*) AS n FROM flights JOIN users USING (user)
        JOIN airlines USING (carrier) WHERE member GROUP BY name
      PLACE
      schema: SCHEMA
    keys: [American, United]
    intervals: true
    outputs: [counts.csv]
"""
SCHEMA = """\
unit: users.user
links: {flights.user: users.user}
public: [airlines]
bounds: {flights.delay: [-60, 240]}
"""


@pytest.mark.parametrize("source", ["database: flights.duckdb", "tables: FILES"])
def test_queries_over_several_tables(run, source):
    """A query with a schema costs what `dfp.sql` charges, however the schema is written."""
    users = pl.DataFrame({"user": range(ROWS // 3), "member": [True, False] * (ROWS // 6)})
    users.write_parquet("users.parquet")
    Path("airlines.csv").write_text("carrier,name\nAA,American\nUA,United\n")
    with duckdb.connect("flights.duckdb") as connection:
        connection.execute("CREATE TABLE users AS FROM 'users.parquet'")
        connection.execute("CREATE TABLE airlines AS FROM 'airlines.csv'")
    files = "{flights: flights.parquet, users: users.parquet, airlines: airlines.csv}"
    text = OWNED.replace("PLACE", source.replace("FILES", files))
    Path("schema.yml").write_text(SCHEMA)
    inline = "".join(f"\n        {line}" for line in SCHEMA.splitlines())
    first = run(text.replace("SCHEMA", inline))
    assert (first.exit_code, first.stderr) == (0, "")
    rows = pl.read_csv("counts.csv")
    assert rows.columns == [
        "name", "delay", "delay_low", "delay_high", "delay_note", "n", "n_low", "n_high",
    ]  # fmt: skip
    truth = {"American": (10, 1001), "United": (-40, 500)}
    for name, delay, low, high, _, n, *_ in rows.rows():
        assert (delay, n) == pytest.approx(truth[name], abs=3)  # false alarm below 1e-15
        assert low < delay < high
    request = json.loads(Path("counts.csv.provenance.json").read_text())["asked"]
    assert request["schema"].startswith("Schema(unit='users.user'")
    (charge,) = dfp.Ledger("budget.db").history().to_dict("records")
    query = request["query"]
    with duckdb.connect("flights.duckdb") as connection:
        ledger = dfp.Ledger("own.db", epsilon=100)
        dfp.sql(
            query, con=connection, schema="schema.yml", max_rows=3, max_groups=1, epsilon=50,
            keys=["American", "United"], ledger=ledger, dataset="flights", intervals=True,
        )  # fmt: skip
    (other,) = ledger.history().to_dict("records")
    same = ("epsilon", "delta", "question")
    assert [charge[name] for name in same] == [other[name] for name in same]
    assert run(text.replace("SCHEMA", "schema.yml")).stdout.endswith("nothing spent\n")
    Path("schema.yml").write_text(SCHEMA.replace("240", "241"))
    assert run(text.replace("SCHEMA", "schema.yml")).stdout.endswith("; spent epsilon 50\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("links: {flights.user: users.user}", "", "bounds or matches: the schema does not link it"),
        ("users.user", "users.person", "no column 'person'"),
        ("flights.delay: ", "flights.delays: ", "no column 'delays'"),
    ],
)
def test_a_schema_that_does_not_fit(run, old, new, message):
    """A schema that names what is not there ends a run before anything is spent."""
    with duckdb.connect("flights.duckdb") as connection:
        connection.execute(
            "CREATE TABLE users AS SELECT i AS user, true AS member FROM range(9) r(i)"
        )
        connection.execute("CREATE TABLE airlines AS SELECT 'AA' AS carrier, 'American' AS name")
    Path("schema.yml").write_text(SCHEMA.replace(old, new))
    text = OWNED.replace("PLACE", "database: flights.duckdb").replace("SCHEMA", "schema.yml")
    result = run(text)
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", " ")
    assert spent().epsilon == 0


def test_check_and_explain_spend_nothing(run):
    """--explain shows charge and errors, and what was paid before; --check too spends nothing."""
    explained = run(HEAD + DELAYS, "--explain")
    price, *page = explained.stdout.splitlines()
    assert price == "delays: epsilon 1, delta 1e-7 of flights in budget.db"
    assert any("Half-width at 95%" in line for line in page)
    run(HEAD + DELAYS, "--check")
    assert spent() == dfp.Budget(epsilon=0.0)
    assert not Path("delays.csv").exists()
    assert run(HEAD + DELAYS, "--quiet").output == ""
    again = run(HEAD + DELAYS, "--explain", "--quiet")
    assert again.stdout.endswith(" of flights in budget.db, paid before\n")


def test_a_release_that_is_asked_for_twice(run):
    """Two releases that ask the same are one: charged once, with one answer."""
    same = DELAYS.replace("delays", "again").replace("de lays", "other")
    result = run(HEAD.replace("epsilon: 1", "epsilon: 60") + DELAYS + same)
    assert result.stdout.splitlines()[1].endswith("; paid before, nothing spent")
    assert spent().epsilon == 60
    assert Path("delays.csv").read_bytes() == Path("again.csv").read_bytes()


def test_paths_are_relative_to_the_description(run, tmp_path, monkeypatch):
    """A scheduler may start the command anywhere."""
    run(HEAD + DELAYS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = command("run", "../release.yml")
    assert again.stdout.endswith("nothing spent\n")
    assert list(Path().iterdir()) == []


def test_a_target_in_place_of_a_loss(run):
    """A release that names a half-width spends what `explain` finds for it, once."""
    head = HEAD.replace("epsilon: 1}", "epsilon: {within: 2%, size: 2000}}")
    result = run(head + DELAYS)
    flights = dfp.frame("flights.parquet").group_by("carrier")
    plan = flights.explain(dfp.mean("delay", (-60, 240)), within="2%", size=2000, delta=1e-7)
    assert f"spent epsilon {plan.epsilon:g}, delta 1e-7" in result.stdout
    assert spent() == dfp.Budget(epsilon=plan.epsilon, delta=1e-7)
    assert run(head + DELAYS).stdout.endswith("; paid before, nothing spent\n")
    other = DELAYS.replace("{delta: 1e-7}", "{delta: 1e-7, epsilon: {within: -1}}")
    assert "within must be a half-width" in run(HEAD + other).stderr


def test_periods_and_analysts(run):
    """A run is charged to the account of its period, and to its analyst's part, all together."""
    ledger = dfp.Ledger("accounts.db", epsilon=1, remember=True, strict=True)
    ledger.announce("flights", periods="month")
    ledger.allow("ann", "flights", epsilon=0.75)
    named = "ledger: accounts.db, dataset: flights, period: 2024-01, analyst: ann"
    head = HEAD.replace("ledger: budget.db, dataset: flights", named).replace(": 1}", ": 0.5}")
    question = "    questions: {n: {count: '*'}}\n"
    two = "".join(f"  {name}:\n{question}    outputs: [{name}.csv]\n" for name in ("a", "b"))
    two = two.replace("b:\n", "b:\n    interval: 0.9\n", 1)
    refused = run(head + two)
    assert (refused.exit_code, "what 'ann' may spend" in refused.stderr) == (3, True)
    single = two.split("  b:")[0]
    assert run(head + single).exit_code == 0
    assert run(head + single).stdout.endswith("; paid before, nothing spent\n")
    assert ledger.spent("flights", period="2024-01", analyst="ann").epsilon == 0.5
    note = json.loads(Path("a.csv.provenance.json").read_text())
    assert "of the rows of the period 2024-01 alone" in note["promise"]
    other = run(head.replace("2024-01", "2024-1") + single)
    assert "release.yml:2: budget.period: a period of the data is named" in other.stderr


def test_a_delta_at_the_top_is_for_secret_keys(run):
    """Releases without groups or with listed keys spend none of it, nor one of their own."""
    head = HEAD.replace("epsilon: 1}", "epsilon: 1, delta: 1e-7}")
    question = "questions: {n: {count: '*'}}"
    plain = f"  a:\n    {question}\n    outputs: [a.csv]\n"
    public = f"  b:\n    by: carrier\n    keys: [AA]\n    {question}\n    outputs: [b.csv]\n"
    result = run(head + plain + public + DELAYS.replace("    budget: {delta: 1e-7}\n", ""))
    assert result.exit_code == 0, result.stderr
    assert spent() == dfp.Budget(epsilon=3, delta=1e-7)
    with_delta = plain.replace("a:\n", "a:\n    budget: {delta: 1e-7}\n", 1)
    assert run(head + with_delta).stdout.endswith("paid before, nothing spent\n")


DESCRIBED = """\
  delays:
    budget: {delta: 1e-7}
    bounds: {delay: [-60, 240]}
    questions: {columns: {describe: "*", exclude: [user], top: 2}}
    outputs: [delays.csv]
"""


def test_a_description_of_all_columns_is_a_release(run):
    """It has one row a column, is charged as named, and once; another bound is another release."""
    assert run(HEAD + DESCRIBED).exit_code == 0
    table = pl.read_csv("delays.csv")
    assert {"carrier", "delay"} <= set(table["column"])
    assert "user" not in table["column"]
    assert spent() == dfp.Budget(epsilon=1.0, delta=1e-7)
    assert run(HEAD + DESCRIBED).stdout.endswith("; paid before, nothing spent\n")
    assert run(HEAD + DESCRIBED.replace("240", "241")).exit_code == 0
    assert spent().epsilon == 2
    wrong = DESCRIBED.replace("    budget", "    by: carrier\n    budget")
    assert run(HEAD + wrong).exit_code == 2


LINE = """\
  line:
    bounds: {delay: [-60, 240], user: [0, 1000], month: [0, 12]}
    questions: {line: {regression: delay, xs: [user, month]}}
    outputs: [line.csv]
"""


def test_a_line_of_several_columns_is_a_release(run):
    """It has one row a term, by group one row a group, and finds bounds that are missing."""
    assert run(HEAD + LINE).exit_code == 0
    assert pl.read_csv("line.csv")["term"].to_list() == ["intercept", "user", "month"]
    assert spent() == dfp.Budget(epsilon=1.0)
    assert run(HEAD + LINE).stdout.endswith("; paid before, nothing spent\n")
    assert run(HEAD + LINE.replace("month: [0", "x: [0")).exit_code == 0
    assert spent().epsilon == 2
    grouped = LINE.replace("    bounds", "    by: month\n    keys: [1, 2]\n    bounds")
    assert run(HEAD + grouped.replace("xs: [user, month]", "xs: [user]")).exit_code == 0
    assert pl.read_csv("line.csv").columns[:3] == ["month", "intercept", "intercept_low"]
    assert spent().epsilon == 3


def test_dates_of_a_description_bound_dates(run):
    """Bounds of a release, or of a question, that are dates are those of its dates."""
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 12, 31), eager=True)
    pl.DataFrame({"day": days}).write_parquet("many.parquet")
    ends = "[2024-06-01, 2024-06-02]"
    result = run(
        HEAD.replace("flights.parquet", "many.parquet")
        + f"""\
  one:
    questions: {{day: {{median: day, bounds: {ends}}}}}
    outputs: [one.csv]
  two:
    bounds: {{day: {ends}}}
    questions: {{day: {{median: day}}}}
    outputs: [two.csv]
"""
    )
    assert (result.exit_code, result.stderr) == (0, "")
    for name in ("one.csv", "two.csv"):
        assert "2024-06-0" in Path(name).read_text()
