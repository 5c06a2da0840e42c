"""The documentation names every statistic."""

import re
import runpy
from pathlib import Path

import duckdb
import pytest

import sql_udfs
from dfprivacy.statistics import STATISTICS

BUILT_IN = [
    statistic for statistic in STATISTICS.values() if "dfprivacy.statistics" in statistic.__module__
]
ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"


def test_the_reference_is_that_of_the_registry():
    """A statistic that is added, renamed or gone changes the reference."""
    script = runpy.run_path(str(SITE / "reference_page.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["write_page"]()


@pytest.mark.parametrize("name", [statistic.kind for statistic in BUILT_IN])
def test_pages_name_every_statistic(name):
    """README and the pages of frames and of the command line name each built-in statistic."""
    pages = ("README.md", "docs/how-to/frames.md", "docs/reference/command-line.md")
    for page in pages:
        assert re.search(rf"\b{name}\b", (ROOT / page).read_text(encoding="utf-8")), page


def test_pages_name_every_function():
    """The page of SQL functions and the help of `sql_udfs` name each built-in function."""
    connection = duckdb.connect()
    sql_udfs.register(connection)
    names = connection.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    functions = {name.removesuffix("_interval") for (name,) in names if name.startswith("dp_")}
    of_papers = {
        f"dp_{kind}" for kind in STATISTICS.keys() - {statistic.kind for statistic in BUILT_IN}
    }
    assert {"dp_mean", "dp_regr_r2", "dp_keep"} <= functions
    page = (ROOT / "docs/how-to/sql.md").read_text(encoding="utf-8")
    for text in (page, sql_udfs.__doc__):
        assert functions - of_papers <= set(re.findall(r"\bdp_\w+", text))
