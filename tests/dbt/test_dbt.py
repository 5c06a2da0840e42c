import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp

pytest.importorskip("dbt.adapters.duckdb", reason="its own step of .ci/run installs dbt-duckdb")

EXAMPLE = Path(__file__).parents[2] / "examples" / "dbt_flights"
JOINED = (
    "select dp_count() as n from {{ ref('flights') }} a join {{ ref('flights') }} b using (carrier)"
)
VIEW = "{{ config(materialized='view') }} select dp_count() as n from {{ ref('flights') }}"
OF_VIEW = "select n from {{ ref('counted') }}"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Copy the example project beside its ledger, into a folder of its own."""
    folder = tmp_path_factory.mktemp("dbt") / "flights"
    shutil.copytree(EXAMPLE, folder)
    dfp.Ledger(folder / "budget.db", epsilon=10, delta=1e-5, remember=True)
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
    """`dbt build` makes plain and private models; each build charges dp_* calls, and only those.

    What a Python model releases with a version is remembered: it is charged once, and the same.
    """
    first = dbt(project, "build")
    assert first.returncode == 0, first.stdout
    ledger = dfp.Ledger(project / "budget.db")
    assert ledger.spent("flights") == dfp.Budget(epsilon=2.0, delta=1e-7)
    private = rows(project, "private_delays")
    assert [row[0] for row in private] == ["AA", "UA"]  # ZZ flew three times
    assert rows(project, "late_carriers") == [(n, round(d)) for n, d, _ in private if d > 0]
    kept = rows(project, "remembered_delays")
    second = dbt(project, "build")
    assert second.returncode == 0, second.stdout
    assert ledger.spent("flights") == dfp.Budget(epsilon=3.5, delta=2e-7)
    assert rows(project, "private_delays") != private
    assert rows(project, "remembered_delays") == kept
    assert set(ledger.history()["note"].dropna()) == {"dbt build"}


def test_what_is_refused(project):
    """A join below a dp_ call, and a view that holds one, fail their models and charge nothing."""
    spent = dfp.Ledger(project / "budget.db").spent("flights")
    for name, text in {"joined": JOINED, "counted": VIEW, "of_view": OF_VIEW}.items():
        (project / "models" / f"{name}.sql").write_text(text)
    done = dbt(project, "run", "--select", "joined", "counted", "of_view")
    assert done.returncode == 1
    assert "RefusedStatementError: a join" in done.stdout
    assert "ERROR creating sql table model main.joined" in done.stdout
    assert "ERROR creating sql table model main.of_view" in done.stdout
    assert dfp.Ledger(project / "budget.db").spent("flights") == spent
    for name in ("joined", "counted", "of_view"):
        (project / "models" / f"{name}.sql").unlink()


def test_options():
    """The plugin needs a ledger and a dataset, and knows no other options than it says."""
    from sql_udfs.dbt import Plugin  # noqa: PLC0415 only where dbt is installed

    for config, what in (
        ({"dataset": "flights"}, "lacks 'ledger'"),
        ({"ledger": "budget.db"}, "lacks 'dataset'"),
        ({"ledger": "b.db", "dataset": "f", "epsilom": 1}, "has no option 'epsilom'"),
    ):
        with pytest.raises(dfp.InvalidLedgerError, match=what):
            Plugin("dfprivacy", config)
    with pytest.raises(dfp.LedgerFileError, match="does not exist"):
        Plugin("dfprivacy", {"ledger": "no.db", "dataset": "flights"})
