"""The command that measures this package beside others, on our own engines with tiny tables."""

import ast
import json
import math
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.peers import command, session
from benchmarks.peers.code_size import code_size, region
from benchmarks.peers.data import DATASETS, timing_file, truth
from benchmarks.peers.jobs import BOUNDS, Extent, ScoreJob, TimeJob, time_jobs
from benchmarks.peers.registry import PEERS, chosen
from benchmarks.peers.run import Outcome, measure
from benchmarks.peers.scores import Score, pool_ratios, score
from benchmarks.peers.session import prepare_all, score_all, time_all, time_run
from benchmarks.peers.store import Store
from benchmarks.peers.tables import Notes, fastest_plain, time_cell, time_table, verdict

pytestmark = pytest.mark.slow

TINY = Extent(
    rows=(2_000,), runs=1, releases=20, our_releases=20, score_seconds=60.0, everything=False
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two engines, timed and scored once for all tests."""
    folder = tmp_path_factory.mktemp("peers")
    peers = chosen("plain_duckdb,ours_duckdb")
    store = Store.opened(folder / "peers.json", resume=False)
    environments = prepare_all(peers, folder, store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "datasets", lambda: {"uniform": DATASETS["uniform"]})
        patch.setattr("benchmarks.peers.jobs.SCORED", ((100, 1.0),))
        patch.setattr("benchmarks.peers.jobs.ALSO_SCORED", ())
        patch.setattr("benchmarks.peers.jobs.GROUPS", {"1,000,000 groups": "g6"})
        time_all(peers, environments, TINY, store, folder)
        score_all(peers, environments, TINY, store, folder)
    return store


def test_every_measurement_of_our_engines_succeeds(measured):
    """A question to our own engines and the plain ones has a time, or an error that is a number."""
    status = {name: record["status"] for name, record in measured.measured.items()}
    assert len(status) == 3
    assert set(status.values()) == {"ok"}
    assert all(
        math.isfinite(record["mse"]) for record in measured.measured.values() if "mse" in record
    )


def test_tables_show_every_time(measured):
    """The table holds one line a peer and the ratio to the fastest plain engine."""
    table = time_table(measured, "1,000,000 groups", 2_000, Notes())
    plain, ours = (line.split(" | ") for line in table[2:])
    assert plain[0] == "| plain DuckDB"
    assert ours[0] == "| dfprivacy, DuckDB"
    assert plain[2] == "1.00 |"
    fastest = fastest_plain(measured, "mean", "1,000,000 groups", 2_000)
    mine = measured.measured["time/ours_duckdb/mean/1,000,000 groups/2000"]["seconds"]
    shown = float(ours[2].rstrip(" |").replace(",", ""))
    assert shown == pytest.approx(mine / fastest, abs=0.51)


def test_results_survive_the_process(measured):
    """A measurement is in the file, and is not made again when a run goes on."""
    again = Store.opened(measured.file, resume=True)
    assert again.measured == measured.measured
    peers = chosen("plain_duckdb,ours_duckdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.peers.jobs.GROUPS", {"1,000,000 groups": "g6"})
        assert all(again.has(job) for _, job in time_jobs(peers, TINY))
        other = Extent(rows=(2_000,), runs=2, everything=False)
        assert not any(again.has(job) for _, job in time_jobs(peers, other))


def test_report_is_written_by_the_command(measured, tmp_path):
    """`--only report` writes the tables and the page from the file of results alone."""
    (tmp_path / "peers.json").write_text(measured.file.read_text())
    results, docs = str(tmp_path), str(tmp_path / "docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "find_spec", lambda name: None)  # no charts: matplotlib is optional
        assert command.main(["--only", "report", "--output", results, "--docs", docs]) == 0
    text = (tmp_path / "peers.md").read_text()
    assert f"load average {min(find_load(measured)):g} to {max(find_load(measured)):g}" in text
    assert "### 2,000 rows, 1,000,000 groups" in text
    assert "](../peers.md)" in (tmp_path / "docs" / "peers.md").read_text()


def find_load(store):
    return [record["load"] for name, record in store.measured.items() if name.startswith("time/")]


def test_what_failed_is_tried_again(tmp_path):
    """A run that goes on keeps what was too slow, and asks again where there was an error."""
    store = Store(tmp_path / "peers.json")
    store.keep(job(10), {"status": "slow"})
    store.keep(job(100), {"status": "failed"})
    assert (store.has(job(10)), store.has(job(100))) == (True, False)


def job(rows, **changes):
    terms = {"peer": "google_pydp", "work": "mean", "groups": "whole table", "rows": rows}
    return TimeJob(**{**terms, "runs": 3, "seconds": 60.0, "mib": 8192, **changes})


def test_what_is_too_much_is_not_tried_on_more_rows(tmp_path):
    """A size above one that was slow, too large or failed is recorded as skipped."""
    store = Store(tmp_path / "peers.json", machine={"cores": 2})
    extent = Extent(rows=(10, 100, 1000))
    store.keep(job(10), {"status": "ok", "seconds": 1.0})
    assert session.too_much(job(100), extent, store) is None
    store.keep(job(100), {"status": "slow"})
    assert session.too_much(job(1000), extent, store) == 100


@pytest.mark.parametrize(
    ("record", "cell"),
    [
        ({"status": "ok", "seconds": 1.2345}, "1.23"),
        ({"status": "slow", "loading": 1.0}, "> 60 s"),
        ({"status": "memory"}, "> 8 GiB"),
        ({"status": "skipped", "after": 100}, "-<sup>1</sup>"),
        ({"status": "failed", "trouble": "no Java"}, "-<sup>1</sup>"),
    ],
)
def test_a_cell_without_a_time_says_why(tmp_path, record, cell):
    """Every end of a measurement has its own text in a table, with a note where one is needed."""
    store = Store(tmp_path / "peers.json", environments={"google_pydp": {"trouble": None}})
    store.keep(job(10), record)
    plain = job(10, peer="plain_polars")
    store.keep(plain, {"status": "ok", "seconds": 1.0})
    notes = Notes()
    peer = chosen("google_pydp")[0]
    assert time_cell(store, peer, "mean", "whole table", 10, notes) == cell
    assert len(notes.texts) == cell.count("<sup>")


def test_a_process_that_takes_too_long_is_ended(tmp_path):
    """A script that says nothing within the limit is slow, and is gone afterwards."""
    script = tmp_path / "sleeper.py"
    script.write_text("import json, time\nprint(json.dumps({'event': 'ready', 'seconds': 0}))\n")
    with script.open("a") as more:
        more.write("import sys\nsys.stdout.flush()\ntime.sleep(600)\n")
    outcome = measure(sys.executable, script, {}, limit=3.0, mib=8192, folder=tmp_path)
    assert outcome.status == "slow"
    assert outcome.of("ready")


def test_a_process_that_takes_too_much_memory_is_ended(tmp_path):
    """A script over the limit of memory is ended with that status."""
    script = tmp_path / "hoarder.py"
    script.write_text("import time\nheld = bytearray(200 * 2**20)\ntime.sleep(600)\n")
    outcome = measure(sys.executable, script, {}, limit=60.0, mib=100, folder=tmp_path)
    assert (outcome.status, outcome.of("ready")) == ("memory", [])


def test_a_process_that_fails_says_why(tmp_path):
    """The last error of a script is what the table's note shows."""
    script = tmp_path / "broken.py"
    script.write_text("raise RuntimeError('no such engine')\n")
    outcome = measure(sys.executable, script, {}, limit=60.0, mib=8192, folder=tmp_path)
    assert (outcome.status, outcome.trouble) == ("failed", "RuntimeError: no such engine")


def test_a_run_that_was_ended_after_an_answer_keeps_the_answer():
    """One answer in time is a time, even when the next one was not."""
    run = {"event": "run", "seconds": 2.0, "groups": None, "peak_mib": 10.0}
    assert time_run(Outcome("slow", [run]))["seconds"] == 2.0
    assert "seconds" not in time_run(Outcome("slow", []))


def test_scores_are_mean_squared_errors():
    """A score is the mean of squared errors; a ratio carries both standard errors."""
    actual = score([1.0, 3.0, math.nan], 2.0)
    assert actual == Score(1.0, 0.0, 2)
    ratio, error = Score(1.0, 0.1, 100).ratio_to(Score(2.0, 0.2, 100))
    assert (ratio, error) == (0.5, pytest.approx(0.5 * math.sqrt(0.02)))
    assert pool_ratios([(0.5, 0.05), (2.0, 0.2)]) == (1.0, pytest.approx(math.sqrt(0.02) / 2))


def test_a_target_is_met_only_beyond_the_noise():
    """All settings together meet or miss the target by three standard errors, or leave it open."""
    assert verdict([(0.5, 0.01), (0.52, 0.01)]) == "met"
    assert verdict([(0.5, 0.1), (0.52, 0.1)]) == "undecided"
    assert verdict([(0.6, 0.01), (0.62, 0.01)]) == "missed"


@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_keep_their_bounds(name):
    """A data set is the same every time, within its bounds, and not a constant."""
    dataset = DATASETS[name]
    points = dataset.points(1000)
    assert np.array_equal(points, dataset.points(1000))
    assert points.min() >= dataset.bounds[0]
    assert points.max() <= dataset.bounds[1]
    assert points.std() > 0
    assert truth("median", points) == np.median(points)


def test_timing_tables_are_what_they_say(tmp_path):
    """The made-up table has its rows, its groups, and values within the bounds."""
    table = pq.read_table(timing_file(50_000, tmp_path))
    x = table["x"].to_numpy()
    assert table.num_rows == len(set(table["user"].to_pylist())) == 50_000
    assert len(set(table["g3"].to_pylist())) == 1_000
    assert BOUNDS[0] <= x.min() < -55
    assert 235 < x.max() <= BOUNDS[1]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.script)
def test_scripts_stand_alone(peer):
    """A peer's script imports nothing of this project but the protocol, and never shadows one."""
    tree = ast.parse(peer.file.read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names |= {alias.name for node in plain for alias in node.names}
    roots = {name.split(".")[0] for name in names}
    assert "benchmarks" not in roots
    assert peer.ours or not roots & {"dfprivacy", "sql_udfs", "ours"}
    assert not roots & {other.script for other in PEERS}


@pytest.mark.parametrize(
    "peer", [peer for peer in PEERS if not peer.plain], ids=lambda peer: peer.script
)
def test_every_concept_is_shown_by_the_marked_code(peer):
    """Every counted concept can be pointed at in the region, once each."""
    code = region(peer)
    assert code
    assert [name for name, word in peer.concepts.items() if word not in code] == []
    assert len(set(peer.concepts.values())) == len(peer.concepts)
    assert code_size(peer).statements >= 2


def test_a_scoring_job_asks_for_the_same_terms_from_everyone():
    """Bounds, epsilon and delta come from the job, never from a script."""
    terms = ("ours_duckdb", "mean", "uniform", 100, 0.5, 10, 1.0, 8192)
    question = ScoreJob(*terms).question("points.json", (0.0, 1.0))
    assert (question["epsilon"], question["lower"], question["upper"]) == (0.5, 0.0, 1.0)
    assert json.dumps(question)
