"""A ledger that remembers gives the same answer again, in every front end, and charges once."""

from __future__ import annotations

import pytest

import dfprivacy as dfp
from dfprivacy.remembered import frame_table

ASKED = {
    "count": lambda p: p.count(epsilon=0.25),
    "mean": lambda p: p.mean("x", (0, 100), epsilon=0.25),
    "median": lambda p: p.median("x", epsilon=0.25),
    "quantiles": lambda p: p.quantiles("x", [0.1, 0.9], epsilon=0.25),
    "bounds": lambda p: p.bounds("x", epsilon=0.25),
    "several": lambda p: p.agg(dfp.mean("x", (0, 9)), n=dfp.count(), epsilon=0.25),
    "histogram": lambda p: p.histogram("x", [0, 50, 100], epsilon=0.25),
    "by group": lambda p: p.group_by("g").mean("x", (0, 100), epsilon=0.25),
    "median by group": lambda p: p.group_by("g", "i").median("x", epsilon=0.25),
    "listed": lambda p: p.group_by("g", keys=["a", "zz"]).sum("x", (0, 9), epsilon=0.25),
}


@pytest.fixture
def memory(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=1e-3, remember=True)


@pytest.fixture
def data(table_of):
    rows = [{"g": "ab"[i % 2], "h": i % 3, "x": float(i % 100), "i": i % 2} for i in range(2000)]
    return table_of(rows)


def shown(answer):
    """Return everything a caller can see of an answer, but for the word that it is remembered."""
    if isinstance(answer, dict):
        return {name: shown(own) for name, own in answer.items()}
    if isinstance(answer, list | tuple):
        return [shown(own) for own in answer]
    if isinstance(answer, float):
        ends = [getattr(answer, name, None) for name in ("low", "high", "std_error", "epsilon")]
        return float(answer), *ends, repr(answer).removesuffix(", remembered")
    return type(answer), frame_table(answer).to_pydict()


@pytest.mark.parametrize("name", ["pandas", "polars", "polars lazy", "arrow", "duckdb", "parquet"])
@pytest.mark.parametrize("asked", ASKED)
def test_the_same_request_gets_the_same_answer(engines, memory, data, name, asked):
    """Asked twice about one version, a release is made and charged once."""
    private = dfp.frame(engines[name](data))(ledger=memory, dataset="d", version="1", delta=1e-6)
    first, again = ASKED[asked](private), ASKED[asked](private)
    assert shown(first) == shown(again)
    assert memory.spent("d").epsilon == 0.25


def test_another_request_is_another_release(memory, data):
    """Another version, form, level, unit or loss is charged by itself."""
    private = dfp.frame(data)(ledger=memory, dataset="d", version="1", delta=1e-6)
    for other in (
        private,
        private(version="2"),
        private(interval=0.9),
        private(unit="i", max_rows=2),
        private(unit="i", max_rows=3),
    ):
        other.mean("x", (0, 100), epsilon=0.25)
    private.mean("x", (0, 100), epsilon=0.5)
    private.agg(other=dfp.mean("x", (0, 100)), epsilon=0.25)
    dfp.sql(
        "SELECT dp_mean(x, 0, 100) AS x FROM d", d=data, epsilon=0.25,
        ledger=memory, dataset="d", version="1",
    )  # fmt: skip
    assert memory.spent("d").epsilon == 5 * 0.25 + 0.5 + 2 * 0.25


def test_a_statement_is_remembered(memory, data):
    """dfp.sql gives the same rows again, and charges once."""
    query = "SELECT g, dp_mean(x, 0, 100) AS m FROM d GROUP BY g HAVING dp_keep(1e-6)"
    terms = {"ledger": memory, "dataset": "d", "version": "1"}
    first, again = (dfp.sql(query, d=data, epsilon=0.25, **terms) for _ in range(2))
    assert first.equals(again)
    assert memory.spent("d") == dfp.Budget(epsilon=0.25, delta=1e-6)
    dfp.sql(query.replace("GROUP", "WHERE x > 3 GROUP"), d=data, epsilon=0.25, **terms)
    assert memory.spent("d") == dfp.Budget(epsilon=0.5, delta=2e-6)


def test_a_remembered_number_knows_one_interval(memory, data):
    """The level that was asked for comes out again; another is refused with a hint."""
    private = dfp.frame(data)(ledger=memory, dataset="d", version="1", interval=0.9)
    first, again = private.count(epsilon=0.25), private.count(epsilon=0.25)
    assert again.interval(0.9) == again.interval() == first.interval(0.9)
    with pytest.raises(dfp.InvalidQuestionError, match=r"interval\(0\.9\)"):
        again.interval(0.99)


def test_an_exhausted_budget_still_repeats(tmp_path, data):
    """What was released comes out again when nothing is left; what was not is refused."""
    memory = dfp.Ledger(tmp_path / "small.db", epsilon=0.25, remember=True)
    private = dfp.frame(data)(ledger=memory, dataset="d", version="1")
    first = private.count(epsilon=0.25)
    assert float(private.count(epsilon=0.25)) == float(first)
    with pytest.raises(dfp.BudgetExceededError):
        private.count("x", epsilon=0.25)
