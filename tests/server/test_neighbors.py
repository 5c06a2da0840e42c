"""Workers and their clients: the answers about neighboring tables, with the same noise."""

import itertools
import random

import duckdb
import pytest

from benchmarks.replay import Meter
from benchmarks.replay_cases import CHANGES, DELTA, GROUPS, UNITS, Case, Places, write_statement
from benchmarks.replay_cases import is_possible as is_case_possible
from benchmarks.replay_questions import QUESTIONS
from dfprivacy.accounting.memory import release_bytes
from dfprivacy.server import encoding
from dfprivacy.server.policy import Policy
from dfprivacy.server.workers import DatasetReader, describe_error


def serve_release(case, places, table, ledger, dataset):
    """Ask the worker of a server, and return all that its client reads, or its error."""
    if case.source == "parquet":
        source = {"t": places.parquet(table)}
    else:
        source = places.path("folder") / "rows.duckdb"  # plans name it
        source.parent.mkdir()
        with duckdb.connect(str(source)) as connection:
            connection.register("rows", table)
            connection.execute("CREATE TABLE t AS FROM rows ORDER BY k NULLS LAST")
    epsilon = float(case.loss.split()[1])
    statement = {"epsilon": epsilon, "max_epsilon": 100}
    statement |= {"delta": DELTA} if case.keys == "secret" else {}
    terms = {"source": source, "version": "1", "budget": {"epsilon": 1e6}, "statement": statement}
    policy = Policy.model_validate(
        {"ledger": ledger.path, "datasets": {dataset: terms | UNITS[case.unit]}, "analysts": {}}
    )
    ledger.allow("ann", dataset, epsilon=1e6, delta=0.1)
    reader, replies = DatasetReader(dataset, policy), []
    for kind in ("explain", "describe", "release", "release"):
        try:
            answer = reader.answer(kind, write_statement(case), (), {"intervals": True}, "ann")
        except Exception as error:
            safe = describe_error(error)
            replies.append((safe.code, safe.message, safe.hint))
            continue
        rows = [encoding.encode_rows(answer.table, [form]) for form in (0, 1)]
        content = (rows, release_bytes(answer.table), answer.notice, answer.price)
        replies.append(answer.table.schema if kind == "describe" else content)  # its rows are noise
    return str(replies).replace(dataset, "dataset")


class ServerCase(Case):
    """A pair of neighboring releases of servers."""

    def _release(self, places, table):
        return lambda ledger, dataset: serve_release(self, places, table, ledger, dataset)


def choose_cases(seed):
    """Yield cases of all dimensions at random."""
    generator = random.Random(seed)
    choices = {
        "question": [*QUESTIONS],
        "entry": ["sql"],
        "source": ["duckdb", "parquet"],
        "unit": [*UNITS],
        "keys": ["whole", "secret", "secret"],
        "loss": ["epsilon 1", "epsilon 30"],
        "shape": ["spread", "far", "zeros", "tails"],
        "change": [*CHANGES],
        "groups": ["mixed", "mixed", *GROUPS],
    }
    for number in itertools.count():
        values = {name: generator.choice(options) for name, options in choices.items()}
        is_mixed = values["groups"] == "mixed"
        if not is_mixed and (
            values["keys"] == "whole" or values["change"] in {"new key", "lone row"}
        ):
            continue
        if is_case_possible(values):
            yield ServerCase(**values, seed=number)


@pytest.mark.parametrize("size", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_a_client_reads_the_same_of_neighboring_tables(size, tmp_path):
    """With the same noise, rows, types, notices, prices, plans and errors are the same.

    The loss is at most the charge. An answer that is asked again is that of the ledger. A group of
    one unit is shown with a probability of 1e-10 at most.
    """
    meter, places = Meter(tmp_path), Places(tmp_path)
    for case in itertools.islice(choose_cases(size), size):
        larger, smaller = case.releases(places)
        pair = meter.compare(larger, smaller, case.measure, lost_groups=case.lost_groups)
        assert not pair.fault, case
        assert pair.ratio <= 1, case
        assert pair.draws, case
