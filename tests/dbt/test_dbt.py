import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

import dfprivacy as dfp

pytest.importorskip("dbt.adapters.duckdb", reason="its own step of .ci/run installs dbt-duckdb")

EXAMPLE = Path(__file__).parents[2] / "examples" / "dbt_flights"
PRIVATE = "{{ config(materialized='private') }} select dp_count() as n from {{ ref('flights') }}"
JOINED = f"{PRIVATE} a join {{{{ ref('flights') }}}} b using (carrier)"
PLAIN = "select dp_count() as n from {{ ref('flights') }}"
MISSPELT = PRIVATE.replace("'private'", "'private', meta={'dfprivacy': {'epsilom': 1}}")
SECRET = f"{PRIVATE} group by carrier"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Copy the example project into a folder of its own, and make the ledger as it says."""
    folder = tmp_path_factory.mktemp("dbt") / "flights"
    shutil.copytree(EXAMPLE, folder)
    profile = (folder / "profiles.yml").read_text()
    (command,) = [line[2:] for line in profile.splitlines() if line.startswith("# dfprivacy")]
    program = Path(sys.executable).with_name("dfprivacy")
    subprocess.run([str(program), *command.split()[1:]], cwd=folder, check=True)
    return folder


def dbt(folder, *args):
    """Run dbt in a folder, as a user would."""
    command = [str(Path(sys.executable).with_name("dbt")), *args]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "DBT_PROFILES_DIR": str(folder), "NO_COLOR": "1"},
        check=False,
    )


def rows(folder, table):
    with duckdb.connect(str(folder / "flights.duckdb"), read_only=True) as connection:
        return connection.sql(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def test_the_example_builds(project):
    """`dbt build` makes plain and private models; each build charges the private ones alone.

    What is released with a version is remembered: it is charged once, and the same.
    """
    first = dbt(project, "build")
    assert first.returncode == 0, first.stdout
    ledger = dfp.Ledger(project / "budget.db")
    assert ledger.spent("flights") == dfp.Budget(epsilon=1.0, delta=1e-7)
    private = rows(project, "private_delays")
    assert [row[0] for row in private] == ["AA", "UA"]  # ZZ flew three times
    assert rows(project, "late_carriers") == [(n, round(d)) for n, d, _ in private if d > 0]
    remembered = rows(project, "remembered_delays")
    second = dbt(project, "build")
    assert second.returncode == 0, second.stdout
    assert ledger.spent("flights") == dfp.Budget(epsilon=1.5, delta=2e-7)
    assert rows(project, "private_delays") != private
    assert rows(project, "remembered_delays") == remembered
    assert set(ledger.history()["note"]) == {"dbt build"}


def test_previews_cost_nothing(project):
    """`dbt show` reads the table of a built private model; before the build it releases nothing."""
    ledger = dfp.Ledger(project / "budget.db")
    assert dbt(project, "build").returncode == 0
    spent = ledger.spent("flights")
    shown = dbt(project, "show", "--select", "private_delays", "--limit", "1")
    assert shown.returncode == 0, shown.stdout
    assert "AA" in shown.stdout
    assert "UA" not in shown.stdout
    plain = dbt(project, "show", "--select", "late_carriers")
    assert plain.returncode == 0, plain.stdout
    model = project / "models" / "unbuilt.sql"
    model.write_text(PRIVATE)
    refused = dbt(project, "show", "--select", "unbuilt")
    assert refused.returncode != 0
    assert "a preview releases nothing" in refused.stdout
    model.unlink()
    assert ledger.spent("flights") == spent


def test_what_is_refused(project):
    """A refused statement fails its model and charges nothing; other models have no functions."""
    spent = dfp.Ledger(project / "budget.db").spent("flights")
    texts = {"joined": JOINED, "plain": PLAIN, "misspelt": MISSPELT, "secret": SECRET}
    for name, text in texts.items():
        (project / "models" / f"{name}.sql").write_text(text)
    done = dbt(project, "run", "--select", *texts)
    assert done.returncode == 1
    assert "RefusedStatementError: a join" in done.stdout
    assert "InvalidLedgerError: the dbt plugin sql_udfs.dbt has no option 'epsilom'" in done.stdout
    assert "MissingDeltaError: group keys are secret" in done.stdout
    assert "Hint: write HAVING dp_keep(1e-6)" in done.stdout
    assert "dp_count does not exist" in done.stdout
    assert "ERROR=4" in done.stdout
    assert dfp.Ledger(project / "budget.db").spent("flights") == spent
    for name in texts:
        (project / "models" / f"{name}.sql").unlink()


def test_a_view_becomes_a_private_table_between_its_hooks(project):
    """A private model takes the place of a view of its name; hooks run before and after it."""
    model = project / "models" / "counted.sql"
    model.write_text("{{ config(materialized='view') }} select 1 as n")
    assert dbt(project, "run", "--select", "counted").returncode == 0
    hooks = "pre_hook='create table early (a int)', post_hook='create table late (a int)'"
    terms = "meta={'dfprivacy': {'unit': 'carrier', 'max_rows': 2, 'epsilon': 0.25}}"
    model.write_text(PRIVATE.replace("'private'", f"'private', {hooks}, {terms}"))
    before = dfp.Ledger(project / "budget.db").spent("flights").epsilon
    done = dbt(project, "run", "--select", "counted")
    assert done.returncode == 0, done.stdout
    assert dfp.Ledger(project / "budget.db").spent("flights").epsilon == before + 0.25
    ((counted,),) = rows(project, "counted")
    assert counted < 1000  # three carriers with two rows each, not 30,000
    assert rows(project, "early") == rows(project, "late") == []
    model.unlink()


def test_models_join_the_tables_of_a_schema(project):
    """A schema says whose the rows of several models are: a private model joins them."""
    carriers = project / "models" / "carriers.sql"
    carriers.write_text("select distinct carrier, 'name of ' || carrier as name from flights")
    joined = project / "models" / "joined.sql"
    terms = {"schema": {"rows": "flights", "public": ["carriers"]}, "delta": 1e-7, "epsilon": 0.25}
    joined.write_text(
        f"{{{{ config(materialized='private', meta={{'dfprivacy': {terms}}}) }}}} "
        "select name, count(*) as n from {{ ref('flights') }} join {{ ref('carriers') }} "
        "using (carrier) group by name"
    )
    done = dbt(project, "run", "--select", "carriers", "joined")
    assert done.returncode == 0, done.stdout
    assert rows(project, "joined")[0][0].startswith("name of ")
    carriers.unlink()
    joined.unlink()


def test_options():
    """The plugin needs a ledger and a dataset, and knows no other options than it says."""
    from sql_udfs.dbt import Plugin  # noqa: PLC0415 only where dbt is installed

    for config, what in (
        ({"dataset": "flights"}, "lacks 'ledger'"),
        ({"ledger": "budget.db"}, "lacks 'dataset'"),
        ({"ledger": "b.db", "dataset": "f", "epsilom": 1}, "has no option 'epsilom'"),
    ):
        with pytest.raises(dfp.errors.InvalidLedgerError, match=what):
            Plugin("dfprivacy", config)
    required = {"ledger": "no.db", "dataset": "flights"}
    settings = {"memory_limit": "1GB"}  # dbt hands the profile's settings to every plugin
    for config, profile in ((required, {}), (required | settings, settings)):
        with pytest.raises(dfp.errors.LedgerFileError, match="does not exist"):
            Plugin("dfprivacy", config, SimpleNamespace(settings=profile))
