"""The engine of a run keeps to the limits of its options."""

from pathlib import Path

import duckdb
import pytest

from tests.frontends.described_delays import DELAYS, HEAD

TABLE = HEAD.replace("{file: flights.parquet}", "{table: flights, database: flights.duckdb}")


@pytest.mark.parametrize("head", [HEAD, TABLE])
def test_limits_reach_every_engine(run, monkeypatch, head):
    """Memory, threads and the folder of a run hold for files and databases; it leaves nothing."""
    configs, connect = [], duckdb.connect

    def connect_limited(*args, **kwargs):
        configs.append(kwargs.get("config", {}))
        return connect(*args, **kwargs)

    monkeypatch.setattr(duckdb, "connect", connect_limited)
    Path("spill").mkdir()
    named = ["--memory=300MB", "--threads=1", "--temporary=spill"]
    result = run(head + DELAYS, *named)
    assert result.exit_code == 0
    spilling = [config for config in configs if "spill" in str(config.get("temp_directory"))]
    assert spilling
    assert all(config["memory_limit"] == "300MB" and config["threads"] == 1 for config in spilling)
    assert list(Path("spill").iterdir()) == []
