"""`dfprivacy local`: two sides that exchange files only."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command

USERS = 20_000


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run commands in a folder of their own that holds minutes and names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    minutes = np.random.default_rng(3).normal(150.0, 20.0, USERS)
    frame = pl.DataFrame({"minutes": minutes, "who": [f"user {k}" for k in range(USERS)]})
    frame = frame.with_columns(minutes=pl.when(pl.int_range(USERS) % 50 > 0).then("minutes"))
    frame.write_parquet("owners.parquet")
    frame.write_ndjson("owners.jsonl")

    def invoke(*words):
        done = command("local", *words)
        assert done.exit_code == 0, done.output
        return done.output

    return invoke


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_survey_in_files(run, ending):
    """Plan, report, aggregate and estimate, twice over, end near the mean with its interval."""
    run("plan", "--users", str(USERS), "--epsilon", "3", "--sigma", "20", "--limit", "1000",
        "-o", "round1.json", "--named")  # fmt: skip
    for step in ("1", "2"):
        made = run("report", f"round{step}.json", f"owners.{ending}", "minutes", "--user", "who",
                   "-o", f"reports{step}.{ending}", "--journal", "journal")  # fmt: skip
        assert f"reports of round {step}" in made
        run("aggregate", f"round{step}.json", f"reports{step}.{ending}", "-o",
            f"sums{step}.parquet")  # fmt: skip
        if step == "1":
            assert "Round 2 of 2" in run("estimate", "sums1.parquet", "--next", "round2.json")
    answer = run("estimate", "sums2.parquet", "--interval", "0.99")
    assert answer.startswith("gaussian mean 1")
    assert 140 < float(answer.split()[2]) < 160
    assert "at 99%, epsilon=3 for each owner" in answer


def test_lines_that_are_no_reports_are_counted(run):
    """Broken lines, other JSON and reports with text are malformed; the rest counts."""
    run("plan", "--users", str(USERS), "--sigma", "20", "--rounds", "1", "-o", "p.json")
    run("report", "p.json", "owners.parquet", "minutes", "-o", "r.jsonl")
    with Path("r.jsonl").open("a") as file:
        file.write('{"protocol": 1\n[1, 2]\n"text"\n')
        file.write(json.dumps({"protocol": 1, "user": "x", "group": 0, "value": 1}) + "\n")
        file.write(json.dumps({"protocol": 1, "user": 1, "group": 0, "value": 1}) + "\n")
    said = run("aggregate", "p.json", "r.jsonl", "-o", "sums.parquet")
    assert f"{USERS} reports of round 1" in said
    assert "4 rejected: malformed" in said
    assert "1 rejected: protocol" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "none.json", "owners.parquet", "minutes", "-o", "r.jsonl"], "no file"),
        (["report", "owners.jsonl", "owners.parquet", "minutes", "-o", "r.jsonl"], "no protocol"),
        (["report", "p.json", "owners.parquet", "minutes", "-o", "r.txt"], "ends in '.txt'"),
        (["report", "p.json", "owners.parquet", "hours", "-o", "r.jsonl"], "no column"),
        (
            ["report", "p.json", "owners.jsonl", "minutes", "--where", "0 < 1", "-o", "r.jsonl"],
            "lines of JSON declare none",
        ),
        (["estimate", "owners.parquet"], "no aggregate"),
        (["estimate", "none.parquet"], "no file"),
        (["plan", "--users", "0", "-o", "q.json"], "number of users"),
    ],
)
def test_mistakes_are_messages(run, words, message):
    """A mistake is a message on stderr, exit code 2, and no file."""
    run("plan", "--users", str(USERS), "--sigma", "20", "-o", "p.json")
    done = command("local", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Hint:" in done.stderr


def test_documented_commands_run_in_order(run):
    """The commands of docs/local.md run one after the other, as they stand."""
    page = Path(__file__).parents[2] / "docs" / "local.md"
    lines = [each for each in page.read_text().splitlines() if each.startswith("dfprivacy local")]
    said = [run(*line.split()[2:]) for line in lines]
    assert len(said) == 7
    assert said[-1].startswith("gaussian mean")


def test_an_answer_needs_its_last_round(run):
    """After round 1 of 2 the answer is to publish round 2."""
    run("plan", "--users", str(USERS), "--sigma", "20", "-o", "p.json")
    run("report", "p.json", "owners.parquet", "minutes", "-o", "r.parquet")
    run("aggregate", "p.json", "r.parquet", "-o", "s.parquet")
    done = command("local", "estimate", "s.parquet")
    assert done.exit_code == 2
    assert "--next round2.json" in done.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_owners_whom_a_condition_leaves_out_report_a_missing_value(run, ending):
    """Every owner reports, whatever the condition says; the answer is about those it holds for."""
    shown = pl.read_parquet("owners.parquet").with_columns(plan=pl.int_range(USERS) % 5)
    shown = shown.with_columns(
        minutes=pl.when(pl.col("plan") == 0).then(400.0).otherwise("minutes")
    )
    shown.write_csv("plans.csv") if ending == "csv" else shown.write_parquet("plans.parquet")
    run("plan", "--users", str(USERS), "--epsilon", "8", "--sigma", "20", "--limit", "1000",
        "--rounds", "1", "-o", "p.json")  # fmt: skip
    words = ("report", "p.json", f"plans.{ending}", "minutes")
    made = run(*words, "--where", "CAST(plan AS INT) > 0", "-o", "asked.parquet")
    assert made.startswith(f"{USERS} reports")
    users = [pl.read_parquet("asked.parquet")[name] for name in ("user", "group")]
    run(*words, "-o", "all.parquet")
    every = pl.read_parquet("all.parquet")
    assert all(own.equals(every[own.name]) for own in users)
    run("aggregate", "p.json", "asked.parquet", "-o", "sums.parquet")
    assert 140 < float(run("estimate", "sums.parquet").split()[2]) < 160


def test_reports_that_can_not_be_written_are_not_made(run):
    """A place that can't be written, is read or is a ledger is told before a round is answered.

    A journal answers a round once: reports that were made and lost would cost a second time.
    """
    run("plan", "--users", str(USERS), "--sigma", "20", "-o", "p.json")
    values = Path("owners.parquet").read_bytes()
    dfp.Ledger("ledger.parquet", epsilon=1)
    made = ("local", "report", "p.json", "owners.parquet", "minutes", "--journal", "journal")
    for target in ("none/r.jsonl", "r.csv", "owners.parquet", "ledger.parquet"):
        done = command(*made, "-o", target)
        assert done.exit_code == 2
        assert "engine" not in done.stderr
    assert Path("owners.parquet").read_bytes() == values
    assert dfp.Ledger("ledger.parquet").spent("minutes") == dfp.Budget(epsilon=0)
    run(*made[1:], "-o", "r.jsonl")
    assert command("local", "aggregate", "p.json", "r.jsonl", "-o", "r.jsonl").exit_code == 2
    assert (
        command("local", "plan", "--users", "9", "--sigma", "1", "-o", "no/p.json").exit_code == 2
    )
