"""All measurements of a run, one after the other, each kept as soon as it is made."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.peers.data import datasets, points_file, timing_file, truth
from benchmarks.peers.environments import Environment, prepare
from benchmarks.peers.jobs import Extent, ScoreJob, TimeJob, score_jobs, time_jobs
from benchmarks.peers.registry import Peer
from benchmarks.peers.run import Outcome, measure
from benchmarks.peers.scores import score
from benchmarks.peers.store import Store


def prepare_all(peers: tuple[Peer, ...], folder: Path, store: Store) -> dict[str, Environment]:
    """Return every peer's environment; what could not be made is kept with its reason."""
    environments = {}
    for peer in peers:
        environments[peer.script] = prepare(peer, folder)
        record = store.environments.setdefault(peer.script, {})
        record["trouble"] = environments[peer.script].trouble
        say(f"environment {peer.script}: {environments[peer.script].trouble or 'ready'}")
    store.write()
    return environments


def time_all(
    peers: tuple[Peer, ...],
    environments: dict[str, Environment],
    extent: Extent,
    store: Store,
    data: Path,
) -> None:
    """Time every question; a size is skipped where a smaller one was too much already."""
    for peer, job in time_jobs(peers, extent):
        python = environments[peer.script].python
        if python is None or store.has(job):
            continue
        earlier = too_much(job, extent, store)
        if earlier is not None:
            store.keep(job, {"status": "skipped", "after": earlier})
            continue
        question = job.question(str(timing_file(job.rows, data)))
        outcome = run(python, peer, question, job)
        _remember_versions(outcome, peer, store)
        store.keep(job, time_run(outcome))
        say(f"{job.name}: {outcome.status} {time_run(outcome).get('seconds', '')}")


def score_all(
    peers: tuple[Peer, ...],
    environments: dict[str, Environment],
    extent: Extent,
    store: Store,
    data: Path,
) -> None:
    """Score every data set that is there."""
    available = datasets()
    for peer, job in score_jobs(peers, extent, tuple(available)):
        python = environments[peer.script].python
        if python is None or store.has(job):
            continue
        dataset = available[job.dataset]
        file = points_file(job.dataset, job.rows, data)
        outcome = run(python, peer, job.question(str(file), dataset.bounds), job)
        _remember_versions(outcome, peer, store)
        store.keep(job, score_answers(outcome, truth(job.work, dataset.points(job.rows))))
        say(f"{job.name}: {store.measured[job.name]}")


def run(python: str, peer: Peer, question: dict[str, Any], job: TimeJob | ScoreJob) -> Outcome:
    """Run one job in a folder of its own that is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        limit = job.seconds if isinstance(job, TimeJob) else 4 * job.seconds
        path = Path(folder)
        return measure(python, peer.file, question, limit=limit, mib=job.mib, folder=path)


def too_much(job: TimeJob, extent: Extent, store: Store) -> int | None:
    """Return the smaller number of rows that was slow or large already."""
    for rows in extent.rows:
        bad = ("slow", "memory", "failed")
        if rows < job.rows and store.status(replace(job, rows=rows).name) in bad:
            return rows
    return None


def time_run(outcome: Outcome) -> dict[str, Any]:
    """Return the best run and the peak memory; a run that was ended early is a slow one."""
    runs, ready = outcome.of("run"), outcome.of("ready")
    result: dict[str, Any] = {"status": outcome.status, "peak_mib": round(outcome.peak_mib)}
    if outcome.trouble:
        result["trouble"] = outcome.trouble
    if ready:
        result["loading"] = round(ready[0]["seconds"], 3)
        result["loaded_mib"] = round(ready[0]["peak_mib"])
    if runs and outcome.status in ("ok", "slow"):
        result["status"] = "ok"
        result["seconds"] = min(line["seconds"] for line in runs)
        result["cpu"] = min((line["cpu"] for line in runs if "cpu" in line), default=None)
        result["all_seconds"] = [round(line["seconds"], 6) for line in runs]
        result["groups"] = runs[-1]["groups"]
    return result


def score_answers(outcome: Outcome, true: float) -> dict[str, Any]:
    """Return the error of all answers that came in time."""
    answers = [value for line in outcome.of("released") for value in line["values"]]
    if len(answers) < 2:
        return {"status": outcome.status, "trouble": outcome.trouble}
    figures = asdict(score(answers, true))
    return {"status": "ok", "truth": true, "made": len(answers), **figures}


def _remember_versions(outcome: Outcome, peer: Peer, store: Store) -> None:
    for line in outcome.of("versions"):
        store.environments.setdefault(peer.script, {})["versions"] = line["versions"]


def say(text: str) -> None:
    """Write a line of progress to standard error."""
    sys.stderr.write(text + "\n")
