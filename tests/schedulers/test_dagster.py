import importlib

import pytest

import dfprivacy as dfp

dg = pytest.importorskip("dagster", reason="its own step of .ci/run installs dagster")


@pytest.mark.filterwarnings("ignore")  # dagster's own, of many kinds
def test_the_asset(folder):
    """The recipe releases a day, a second time for nothing, and fails for a day without data."""
    asset = importlib.import_module("dagster_asset").private_delays
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            done = dg.materialize([asset], partition_key="2024-01-31", instance=instance)
            assert done.success
        failed = dg.materialize(
            [asset], partition_key="2024-02-01", instance=instance, raise_on_error=False
        )
    assert not failed.success
    assert (
        (folder / "delays-2024-01-31.csv")
        .read_text()
        .startswith("carrier,delay,low,high,note,count")
    )
    assert dfp.Ledger(folder / "budget.db").spent("flights") == dfp.Budget(epsilon=0.1)
