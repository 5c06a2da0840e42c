import os
import subprocess
import sys

import pytest

import dfprivacy as dfp
from tests.command_line import command

pytest.importorskip("airflow", reason="its own step of .ci/run installs apache-airflow")

TEST = """
from datetime import UTC, datetime
from airflow_dag import private_delays
run = private_delays().test(logical_date=datetime(2024, 1, 31, tzinfo=UTC))
assert str(run.state) == "success", run.state
"""
OLD = TEST.replace("logical_date", "execution_date")  # Airflow 2


def test_the_dag(folder):
    """The recipe's DAG runs with dag.test(); the same release by hand is repeated for nothing."""
    from airflow import __version__  # noqa: PLC0415 only where airflow is installed

    env = {
        **os.environ,
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "PYTHONPATH": str(folder),
    }
    python = [sys.executable, "-c"]
    migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(migrate, env=env, check=True, capture_output=True)
    text = OLD if __version__.startswith("2.") else TEST
    done = subprocess.run([*python, text], env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    by_hand = command("run", "release.yml", "--set", "date=2024-01-31")
    assert by_hand.stdout.endswith("; paid before, nothing spent\n")
    assert (
        (folder / "delays-2024-01-31.csv")
        .read_text()
        .startswith("carrier,delay,low,high,note,count")
    )
    assert dfp.Ledger(folder / "budget.db").spent("flights") == dfp.Budget(epsilon=0.1)
