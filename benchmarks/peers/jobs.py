"""List the jobs to measure: the question, the number of rows, and the number of groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.peers.registry import WORKS, Peer

BOUNDS = (-60.0, 240.0)
GROUPS = {"whole table": None, "1,000 groups": "g3", "1,000,000 groups": "g6"}
NUMBER_OF_GROUPS = {None: 1, "g3": 1_000, "g6": 1_000_000}
EPSILON, DELTA = 1.0, 1e-6


def time_name(peer: str, work: str, groups: str, rows: int) -> str:
    """Return the name of a timing."""
    return f"time/{peer}/{work}/{groups}/{rows}"


@dataclass(frozen=True)
class TimeJob:
    """One question about a made-up table, to be timed."""

    peer: str
    work: str
    groups: str
    rows: int
    runs: int
    seconds: float
    mib: int

    @property
    def name(self) -> str:
        return time_name(self.peer, self.work, self.groups, self.rows)

    def question(self, file: str) -> dict[str, Any]:
        """Return the question as the script reads it."""
        key = GROUPS[self.groups]
        lower, upper = BOUNDS
        return {
            "kind": "time", "file": file, "work": self.work, "key": key, "lower": lower,
            "upper": upper, "epsilon": EPSILON, "delta": DELTA, "rows": self.rows,
            "groups": NUMBER_OF_GROUPS[key], "runs": self.runs, "seconds": self.seconds,
        }  # fmt: skip


@dataclass(frozen=True)
class ScoreJob:
    """Many private answers to one question about one small data set, to be scored."""

    peer: str
    work: str
    dataset: str
    rows: int
    epsilon: float
    releases: int
    seconds: float
    mib: int

    @property
    def name(self) -> str:
        return f"score/{self.peer}/{self.work}/{self.dataset}/{self.rows}/{self.epsilon:g}"

    def question(self, file: str, bounds: tuple[float, float]) -> dict[str, Any]:
        """Return the question as the script reads it."""
        return {
            "kind": "score", "points": file, "work": self.work, "key": None, "lower": bounds[0],
            "upper": bounds[1], "epsilon": self.epsilon, "delta": DELTA, "rows": self.rows,
            "groups": 1, "releases": self.releases, "seconds": self.seconds,
        }  # fmt: skip


@dataclass(frozen=True)
class Extent:
    """How much a run measures."""

    rows: tuple[int, ...]
    runs: int = 3
    seconds: float = 60.0
    mib: int = 8192
    releases: int = 2500
    our_releases: int = 20_000
    score_seconds: float = 60.0
    everything: bool = True

    def works(self, groups: str) -> tuple[str, ...]:
        """Return the questions timed by that many groups."""
        return WORKS if self.everything or groups == "1,000 groups" else ("mean",)


QUICK = Extent(
    rows=(100_000, 1_000_000), seconds=20.0, releases=1000, our_releases=5000, score_seconds=5.0,
    everything=False,
)  # fmt: skip
USUAL = Extent(rows=(100_000, 1_000_000, 10_000_000))
FULL = Extent(rows=(100_000, 1_000_000, 10_000_000, 20_000_000), score_seconds=240.0)

SCORED = tuple((rows, epsilon) for rows in (1_000, 10_000) for epsilon in (0.1, 1.0))
ALSO_SCORED = ("count", "sum", "median")


def time_jobs(peers: tuple[Peer, ...], extent: Extent) -> Iterator[tuple[Peer, TimeJob]]:
    """Yield every timing, small tables first: what is too slow there is not tried on large ones."""
    for rows in extent.rows:
        for groups in GROUPS:
            for work in extent.works(groups):
                for peer in peers:
                    if work not in peer.cannot:
                        limits = (extent.runs, extent.seconds, extent.mib)
                        yield peer, TimeJob(peer.script, work, groups, rows, *limits)


def score_jobs(
    peers: tuple[Peer, ...], extent: Extent, datasets: tuple[str, ...]
) -> Iterator[tuple[Peer, ScoreJob]]:
    """Yield every scoring: the mean on all data sets, the rest on the first with 10,000 rows."""
    for peer in peers:
        if not peer.scored:
            continue
        releases = extent.our_releases if peer.ours else extent.releases
        for dataset in datasets:
            for rows, epsilon in SCORED:
                limits = (releases, extent.score_seconds, extent.mib)
                yield peer, ScoreJob(peer.script, "mean", dataset, rows, epsilon, *limits)
        for work in ALSO_SCORED:
            if work not in peer.cannot:
                limits = (min(releases, 300), extent.score_seconds, extent.mib)
                yield peer, ScoreJob(peer.script, work, datasets[0], 10_000, 1.0, *limits)


def job_facts(job: TimeJob | ScoreJob) -> dict[str, Any]:
    """Return a job as what the file of results remembers of it."""
    return asdict(job)
