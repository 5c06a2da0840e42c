import duckdb

from dfprivacy.engine.embedded import embedded_connection


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
