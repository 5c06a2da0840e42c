import stat
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dfprivacy as dfp
from benchmarks.watching import spilled_mib
from dfprivacy.engine.embedded import close_connection, embedded, embedded_connection
from dfprivacy.engine.options import engine_options


def settings(connection):
    query = "SELECT current_setting('memory_limit'), current_setting('threads')"
    return connection.sql(query).fetchall()[0]


def test_limits_reach_the_engine(spills):
    """Memory, threads and place are those of the innermost block, and only inside it."""
    with dfp.Engine(memory="256MiB", threads=1):
        with embedded() as connection:
            assert settings(connection) == ("256.0 MiB", 1)
            assert len(list(spills.iterdir())) == 1
        with dfp.Engine(memory="128 MiB"), embedded() as connection:
            assert settings(connection)[0] == "128.0 MiB"
        assert engine_options() == dfp.Engine(memory="256MiB", threads=1)
    assert engine_options() == dfp.Engine()


def test_a_block_ends_with_an_error():
    """A block that fails ends as any other."""
    with pytest.raises(ZeroDivisionError), dfp.Engine(threads=1):
        raise ZeroDivisionError
    assert engine_options() == dfp.Engine()


def test_one_engine_for_several_blocks():
    """The value holds no state: it may be entered twice, inside itself too."""
    engine = dfp.Engine(threads=1)
    with engine, engine:
        assert engine_options() is engine
    assert eval(repr(engine), {"Engine": dfp.Engine}) == engine


@pytest.mark.parametrize(
    "given",
    [
        {"memory": 5}, {"memory": "5"}, {"memory": "0GB"}, {"memory": "-1GB"}, {"memory": "1 PB"},
        {"memory": "1GB; DROP"}, {"threads": 0}, {"threads": 1.5}, {"threads": True},
        {"threads": "2"}, {"threads": 5000}, {"temporary": "/no/such/place"}, {"temporary": 3},
    ],
)  # fmt: skip
def test_limits_that_cannot_be(given):
    """A limit that can't be is refused when it is named."""
    with pytest.raises(dfp.InvalidEngineError):
        dfp.Engine(**given)


def test_spill_directories_are_private_and_go(spills):
    """A connection's directory is entered by this user alone, and gone when it is closed."""
    connection = embedded_connection()
    (folder,) = spills.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "rows").write_text("raw rows")
    close_connection(connection)
    close_connection(connection)
    assert list(spills.iterdir()) == []


def test_a_forgotten_connection_leaves_nothing(spills):
    """A connection that is dropped without being closed takes its directory with it."""
    connection = embedded_connection()
    assert len(list(spills.iterdir())) == 1
    del connection
    assert list(spills.iterdir()) == []


def test_nothing_is_left_by_releases_and_errors(spills, many_rows, tmp_path, monkeypatch):
    """Whether a call releases, refuses or fails, it leaves nothing: not in the folder it runs in.

    Without a directory of its own an in-memory DuckDB spills into `.tmp` there.
    """
    monkeypatch.chdir(tmp_path)
    before = sorted(Path.cwd().iterdir())
    dfp.frame(many_rows).count()
    pd.DataFrame({"x": [1.0]}).dp.mean("x")
    with pytest.raises(dfp.MissingColumnError):
        dfp.frame(many_rows).mean("none", (0, 1))
    with pytest.raises(dfp.EngineError) as caught, dfp.Engine(memory="1MB", threads=1):
        dfp.frame(many_rows).group_by("g").median("x", delta=1e-6)
    assert "withheld" in str(caught.value)
    assert list(spills.iterdir()) == []
    assert sorted(Path.cwd().iterdir()) == before


def test_what_exceeds_memory_gives_the_same(spills, many_rows, ask):
    """A release is the same under a limit that groups and values exceed, so that they spill."""
    found, most = [], []
    for memory in ("50MB", None):
        with (
            dfp.Engine(memory=memory, threads=1, temporary=str(spills)),
            spilled_mib(str(spills), every=0.005) as spilled,
        ):
            found.append(ask.replayed(many_rows, _median_by_group))
        most.append(max(spilled))
    assert found[0].equals(found[1])
    assert most[0] > 1 > most[1]


def _median_by_group(frame):
    return frame.group_by("g", keys=range(50)).median("x", epsilon=9)


class KernelWithoutWidgets:
    """A connection as in Jupyter without ipywidgets, where DuckDB has no progress bar."""

    def execute(self, statement):
        raise duckdb.InvalidInputException(f"Could not change the progress bar: {statement}")


def test_jupyter_without_widgets_gets_a_connection(monkeypatch):
    """Where DuckDB has no progress bar to turn off, that is no reason to fail."""
    kernel = KernelWithoutWidgets()
    monkeypatch.setattr(duckdb, "connect", lambda **_: kernel)
    assert embedded_connection() is kernel


def test_the_progress_bar_is_off():
    """Elsewhere the bar is off, or is not printed: a long pass prints nothing."""
    found = embedded_connection().execute(
        "SELECT current_setting('enable_progress_bar') "
        "AND current_setting('enable_progress_bar_print')"
    )
    assert found.fetchone() == (False,)
