import stat
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dfprivacy as dfp
from benchmarks.watching import spilled_mib
from tests.engine.conftest import TABLE, count_during, failing
from tests.wrapped import Wrapped


@pytest.fixture
def settings(opened):
    """Return a function that reads the settings of a release's database: memory and threads."""

    def open_options():
        failing()
        opened.clear()
        dfp.frame(TABLE).count()
        ((_, config),) = opened
        return config.get("memory_limit"), config.get("threads")

    return open_options


def test_limits_reach_the_engine(settings):
    """Memory and threads are those of the innermost block, and only inside it."""
    with dfp.Engine(memory="256MiB", threads=1):
        assert settings() == ("256MiB", 1)
        with dfp.Engine(memory="128 MiB"):
            assert settings()[0] == "128 MiB"
        assert settings() == ("256MiB", 1)
    assert settings() == (None, None)


def test_a_block_ends_with_an_error(settings):
    """A block that fails ends as any other."""
    with pytest.raises(ZeroDivisionError), dfp.Engine(threads=1):
        raise ZeroDivisionError
    assert settings() == (None, None)


def test_one_engine_for_several_blocks(settings):
    """The value holds no state: it may be entered twice, inside itself too."""
    engine = dfp.Engine(threads=1)
    with engine, engine:
        assert settings() == (None, 1)
    assert settings() == (None, None)
    assert eval(repr(engine), {"Engine": dfp.Engine}) == engine


@pytest.mark.parametrize(
    "arguments",
    [
        {"memory": 5}, {"memory": "5"}, {"memory": "0GB"}, {"memory": "-1GB"}, {"memory": "1 PB"},
        {"memory": "1GB; DROP"}, {"threads": 0}, {"threads": 1.5}, {"threads": True},
        {"threads": "2"}, {"threads": 5000}, {"temporary": "/no/such/place"}, {"temporary": 3},
    ],
)  # fmt: skip
def test_limits_that_cannot_be(arguments):
    """A limit that can't be is refused when it is named."""
    with pytest.raises(dfp.errors.InvalidEngineError):
        dfp.Engine(**arguments)


def test_spill_directories_are_private_and_go(spills):
    """A release's directory is entered by this user alone, and gone when it has ended."""
    modes = []

    def leave_rows():
        for folder in spills.iterdir():
            (folder / "rows").write_text("raw rows")
            modes.append(stat.S_IMODE(folder.stat().st_mode))

    count_during(leave_rows)
    assert modes == [0o700]
    assert list(spills.iterdir()) == []


def test_nothing_is_left_by_releases_and_errors(spills, many_rows, tmp_path, monkeypatch):
    """A call that releases, refuses or fails leaves nothing: not in the folder it runs in.

    Without a directory of its own an in-memory DuckDB spills into `.tmp` there.
    """
    monkeypatch.chdir(tmp_path)
    before = sorted(Path.cwd().iterdir())
    dfp.frame(many_rows).count()
    pd.DataFrame({"x": [1.0]}).dp.mean("x")
    with pytest.raises(dfp.MissingColumnError):
        dfp.frame(many_rows).mean("none", (0, 1))
    with pytest.raises(dfp.errors.EngineMemoryError) as caught, dfp.Engine(memory="1MB", threads=1):
        dfp.frame(many_rows).group_by("g").median("x", delta=1e-6)
    assert "limited to 1MB" in str(caught.value)
    assert list(spills.iterdir()) == []
    assert sorted(Path.cwd().iterdir()) == before


def test_what_exceeds_memory_gives_the_same(spills, many_rows, replayed):
    """A release is the same under a limit that groups and values exceed, so that they spill."""
    releases, peaks = [], []
    for memory in ("50MB", None):
        with (
            dfp.Engine(memory=memory, threads=1, temporary=str(spills)),
            spilled_mib(str(spills), every=0.005) as spilled,
        ):
            releases.append(replayed(lambda: _median_by_group(dfp.frame(many_rows))))
        peaks.append(max(spilled))
    assert releases[0].equals(releases[1])
    assert peaks[0] > 1 > peaks[1]


def _median_by_group(frame):
    return frame.group_by("g", keys=range(50)).median("x", epsilon=90)


class KernelWithoutWidgets(Wrapped):
    """A connection as in Jupyter without ipywidgets, where DuckDB has no progress bar."""

    def cursor(self):
        return KernelWithoutWidgets(self.connection.cursor())

    def execute(self, statement, *arguments):
        if "progress_bar" in statement:
            raise duckdb.InvalidInputException(f"Could not change the progress bar: {statement}")
        return self.connection.execute(statement, *arguments)


def test_jupyter_without_widgets_gets_a_connection(opened, monkeypatch):
    """Where DuckDB has no progress bar to turn off, that is no reason to fail."""
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda **terms: KernelWithoutWidgets(connect(**terms)))
    assert round(dfp.frame(TABLE).count(epsilon=1e9)) == 9
    assert len(opened) == 1


def test_the_progress_bar_is_off(many_rows, capfd):
    """A long pass prints nothing by itself, on either stream."""
    dfp.frame(many_rows).group_by("g").median("x", delta=1e-6)
    assert capfd.readouterr() == ("", "")


def test_a_result_of_the_callers_own_that_is_not_fetched(tmp_path):
    """DuckDB runs nothing beside it: the error says so, and nothing is charged."""
    con, ledger = duckdb.connect(), dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    con.execute("CREATE TABLE t AS SELECT range AS x FROM range(9)")
    private = dfp.frame(con.table("t"))(ledger=ledger, dataset="t")
    con.execute("FROM t").fetchone()
    with pytest.raises(dfp.EngineError, match="not fetched to its end"):
        private.count(epsilon=1)
    con.fetchall()
    assert private.count(epsilon=1) > -100
