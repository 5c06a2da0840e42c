"""The engine of a run keeps to the limits of its description and of its options."""

from pathlib import Path

import duckdb
import pytest

from tests.frontends.described_delays import DELAYS, HEAD, spent

TABLE = HEAD.replace("{file: flights.parquet}", "{table: flights, database: flights.duckdb}")
ENGINE = "engine: {memory: 300MB, threads: 1, temporary: spill}\n"


@pytest.mark.parametrize("head", [HEAD, TABLE])
@pytest.mark.parametrize("is_described", [False, True])
def test_limits_reach_every_engine(run, monkeypatch, head, is_described):
    """Memory, threads and the folder of a run hold for files and databases; it leaves nothing."""
    configs, connect = [], duckdb.connect

    def connected(*args, **kwargs):
        configs.append(kwargs.get("config", {}))
        return connect(*args, **kwargs)

    monkeypatch.setattr(duckdb, "connect", connected)
    Path("spill").mkdir()
    named = ["--memory=300MB", "--threads=1", "--temporary=spill"]
    result = run(ENGINE + head + DELAYS) if is_described else run(head + DELAYS, *named)
    assert result.exit_code == 0
    spilling = [config for config in configs if "spill" in str(config.get("temp_directory"))]
    assert spilling
    assert all(config["memory_limit"] == "300MB" and config["threads"] == 1 for config in spilling)
    assert list(Path("spill").iterdir()) == []


def test_options_go_before_the_description(run):
    """An option replaces the field of its name; the release is the same, and paid once."""
    Path("spill").mkdir()
    assert run(ENGINE + HEAD + DELAYS).exit_code == 0
    assert run(ENGINE + HEAD + DELAYS, "--threads=2").exit_code == 0
    assert run(HEAD + DELAYS).exit_code == 0
    assert spent().epsilon == 1


@pytest.mark.parametrize(
    "wrong", ["{threads: 0}", "{memory: much}", "{temporary: no}", "{cores: 2}"]
)
def test_wrong_limits(run, wrong):
    """Limits that can't be kept are faults of the description, with their line."""
    result = run(f"engine: {wrong}\n{HEAD}{DELAYS}")
    assert result.exit_code == 2
    assert result.stderr.startswith("release.yml:1: engine")
