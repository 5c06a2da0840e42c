"""Clients that Debian ships: pgjdbc, which DBeaver, Metabase and Tableau use, and R with dplyr.

The packages are libpostgresql-jdbc-java with any JDK, r-cran-rpostgresql and r-cran-dbplyr.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import PASSWORD

HERE = Path(__file__).parent
DRIVER = Path("/usr/share/java/postgresql.jar")


def run_client(*command):
    """Run a client, and return what it prints by the first word of each line."""
    words = list(map(str, command))
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    answers: dict[str, list[str]] = {}
    for line in ran.stdout.splitlines():
        name, _, text = line.partition(" ")
        answers.setdefault(name, []).append(text.strip())
    return answers, ran.stderr


@pytest.mark.battery
def test_pgjdbc(port):
    """Tables, columns, a statement executed eight times, pages of rows, a refusal, a login."""
    if shutil.which("java") is None or not DRIVER.exists():
        pytest.skip("pgjdbc is not installed")
    answers, errors = run_client("java", "-cp", DRIVER, HERE / "Jdbc.java", port, PASSWORD)
    assert answers["tables"] == ["null,main,flights,TABLE,"], errors
    assert [column.split(",")[3] for column in answers["columns"][0].split()] == [
        "plane",
        "carrier",
        "month",
        "delay",
        "day",
        "departure",
    ]
    assert len(set(answers["counted"])) == 1
    assert len(answers["counted"]) == 8
    assert abs(int(answers["counted"][0].rstrip(",")) - 4833) < 10
    assert answers["fetched"] == ["84"]  # days of 2,000 hours
    assert answers["refused"][0].startswith("42601 ERROR: column")
    assert answers["valid"] == ["true"]
    assert answers["login"] == ["28P01"]


def test_r_and_dplyr(port):
    """Tables and columns, SQL, a pipeline of dplyr, a preview and a refusal."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    answers, errors = run_client("Rscript", HERE / "client.R", port, PASSWORD)
    assert answers["tables"] == ["flights"], errors
    assert answers["fields"] == ["carrier day delay departure month plane"]
    assert answers["counted"] == ["AA DL UA 10000 10000 10000"]
    assert answers["dplyr"][0].startswith("AA ")
    assert answers["preview"] == ["3"]
    assert answers["refused"] == ["TRUE"]
    assert "rows are not shown" in errors
