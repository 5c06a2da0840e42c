import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp

BOUNDS = (0, 100)
ASKED = {
    "count": lambda p: p.count(epsilon=0.1),
    "sum": lambda p: p.sum("x", bounds=BOUNDS, epsilon=0.1),
    "mean": lambda p: p.mean("x", bounds=BOUNDS, epsilon=0.1),
    "var": lambda p: p.var("x", bounds=BOUNDS, epsilon=0.1),
    "std": lambda p: p.std("x", bounds=BOUNDS, epsilon=0.1),
    "agg": lambda p: p.agg(dfp.mean("x", BOUNDS), rows=dfp.count(), epsilon=0.1),
    "keys": lambda p: p.group_by("g", keys=["a", "c"]).mean("x", bounds=BOUNDS, epsilon=0.1),
    "groups": lambda p: p.group_by("g").mean("x", bounds=BOUNDS, epsilon=0.1, delta=1e-8),
}


def watch_rows(frame, seen):
    """Return rows that say when the engine has read them."""

    def read(rows):
        seen()
        return rows

    lazy = pl.from_pandas(frame).lazy()
    return lazy.map_batches(read, schema=lazy.collect_schema())


@pytest.mark.parametrize("failure", [OSError(5, "no bytes"), NotImplementedError(), None])
def test_a_release_that_fails_stays_charged(frame, ledger, stored, monkeypatch, failure):
    """When the random source fails, nothing comes out and the charge is not paid back."""

    def broken(size):
        if failure is None:
            return b""
        raise failure

    monkeypatch.setattr("os.urandom", broken)
    for number in (1, 2):
        with pytest.raises(dfp.errors.EntropyError):
            frame.dp(ledger=ledger, dataset="flights").count(epsilon=0.25)
        assert stored(ledger) == [("flights", 250_000_000, 0)] * number


def test_a_spent_budget_refuses_before_the_engine_runs(frame, ledger):
    """A release that cannot be paid for is not computed."""
    passes = []
    private = dfp.frame(watch_rows(frame, lambda: passes.append(1)))
    with pytest.raises(dfp.BudgetExceededError):
        private(ledger=ledger, dataset="flights").count(epsilon=2)
    assert passes == []
    private(ledger=ledger, dataset="flights").count(epsilon=1)
    assert passes


class Growing(float):
    """A number that is 0.1 when it is asked first, and a thousand million from then on."""

    readings = 0

    def __float__(self):
        self.readings += 1
        return 0.1 if self.readings == 1 else 1e9


SPENT = {
    "count": lambda p, epsilon: p.count(epsilon=epsilon),
    "terms": lambda p, epsilon: p(epsilon=epsilon).agg(dfp.mean("x", BOUNDS), dfp.median("x")),
    "groups": lambda p, epsilon: p.group_by("g").mean("x", BOUNDS, epsilon=epsilon, delta=1e-8),
    "limits": lambda p, epsilon: p(unit="g").sum("x", BOUNDS, epsilon=epsilon),
    "histogram": lambda p, epsilon: p.histogram("x", 5, epsilon=epsilon),
    "describe": lambda p, epsilon: p.describe(["x"], epsilon=epsilon),
    "local": lambda p, epsilon: p.local.gaussian_mean("x", sigma=1, limit=8, epsilon=epsilon),
    "shuffle": lambda p, epsilon: p.shuffle.mean("x", BOUNDS, epsilon=epsilon, delta=1e-8),
}


@pytest.mark.parametrize("question", SPENT)
def test_a_number_is_read_once(frame, ledger, question):
    """The loss charged and the loss spent come of one reading of a number, whatever its class."""
    epsilon = Growing(0.1)
    SPENT[question](frame.dp(ledger=ledger, dataset="flights"), epsilon)
    assert epsilon.readings == 1
    assert ledger.spent("flights").epsilon == 0.1


def test_numbers_of_a_statement_and_of_limits_are_read_once(frame, ledger):
    """Numbers of a statement, and of a question for limits, are read once too."""
    terms = {"ledger": ledger, "dataset": "flights"}
    dfp.sql("SELECT dp_sum(x, 0, 9), dp_count(*) FROM t", t=frame, epsilon=Growing(0.1), **terms)
    dfp.suggest_limits(frame, unit="g", epsilon=Growing(0.1), **terms)
    assert ledger.spent("flights").epsilon == 0.2


def test_series(frame, ledger):
    """A series is charged like a frame."""
    frame["x"].dp(ledger=ledger, dataset="flights", note="series").mean(BOUNDS, epsilon=0.25)
    assert ledger.remaining("flights").epsilon == 0.75
    assert ledger.history()["note"].tolist() == ["series"]
    with pytest.raises(dfp.errors.InvalidLedgerError):
        frame["x"].dp(ledger=ledger)


rows = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.floats())), max_size=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=rows, question=st.sampled_from(sorted(ASKED)))
def test_the_charge_never_depends_on_the_data(tmp_path_factory, fast_disk, stored, data, question):
    """A table, its neighbor, an empty table and one of NULLs: the same charge, the same text."""
    tables = [data, data[:-1], [], [(None, None)] * 5]
    ledger = dfp.Ledger(tmp_path_factory.mktemp("t") / "b.db", epsilon=1, delta=1e-6)
    for index, table in enumerate(tables):
        frame = pl.DataFrame(
            {"g": [g for g, _ in table], "x": [x for _, x in table]},
            schema={"g": pl.String, "x": pl.Float64},
        )
        ASKED[question](frame.dp(ledger=ledger, dataset=f"d{index}"))
    assert len({charge[1:] for charge in stored(ledger)}) == 1
    assert len(set(ledger.history()["question"])) == 1


def test_a_refusal_never_depends_on_the_data(tmp_path):
    """The message of a refusal is the same for any table."""
    ledger, messages = dfp.Ledger(tmp_path / "b.db", epsilon=0.05), set()
    for values in ([], [1.0], [None], [1.0] * 1000):
        table = pl.DataFrame({"x": values, "g": ["a"] * len(values)}, schema_overrides={"x": float})
        with pytest.raises(dfp.BudgetExceededError) as refused:
            ASKED["mean"](table.dp(ledger=ledger, dataset="d"))
        messages.add(str(refused.value))
    assert len(messages) == 1


def test_a_block_charges_every_release(frame, ledger):
    """Inside the block every release is charged, outside none; terms may name what is charged."""
    private = frame.dp(epsilon=0.125)
    with dfp.spending(ledger, dataset="flights", note="block") as same:
        assert same is ledger
        private.count()
        private.group_by("g", keys=["a"]).count()
        frame["x"].dp.count(epsilon=0.125)
        frame.dp(dataset="trains", note="own").count(epsilon=0.5)
        inside = frame.dp(epsilon=0.5)
    inside.count()
    private.count()
    assert ledger.remaining("flights").epsilon == 0.625
    assert ledger.remaining("trains").epsilon == 0.5
    assert ledger.history()["note"].tolist() == ["block"] * 3 + ["own"]


def test_a_block_without_a_dataset(frame, ledger):
    """A block may leave the dataset to the terms, and then they must name it."""
    with dfp.spending(ledger):
        frame.dp(dataset="flights").count(epsilon=0.5)
        with pytest.raises(dfp.errors.InvalidLedgerError, match="no dataset was named"):
            frame.dp.count(epsilon=0.5)
    assert ledger.remaining("flights").epsilon == 0.5


def test_nested_blocks(frame, ledger, tmp_path):
    """The inner block counts, and the outer one again after it, errors or not."""
    inner = dfp.Ledger(tmp_path / "inner.db", epsilon=1)
    with dfp.spending(ledger, dataset="outer"):
        with dfp.spending(inner, dataset="inner"):
            frame.dp.count(epsilon=0.25)
        with pytest.raises(dfp.BudgetExceededError), dfp.spending(inner, dataset="inner"):
            frame.dp.count(epsilon=2)
        frame.dp.count(epsilon=0.5)
        frame.dp(ledger=inner, dataset="terms").count(epsilon=0.75)
        with pytest.raises(dfp.errors.InvalidLedgerError):
            frame.dp(ledger=inner)
    assert inner.history()["dataset"].tolist() == ["inner", "terms"]
    assert ledger.history()["dataset"].tolist() == ["outer"]


@pytest.mark.parametrize(
    "terms",
    [
        {"ledger": "budget.db", "dataset": "d"},
        {"ledger": 1, "dataset": "d"},
        {"dataset": "d"},
        {"note": "n"},
        {"dataset": " "},
    ],
)
def test_terms_that_do_not_go_together(frame, terms):
    """A ledger, a dataset and a note are checked when they are named."""
    with pytest.raises(dfp.errors.InvalidLedgerError):
        frame.dp(**terms)


@pytest.mark.parametrize("block", [{"dataset": ""}, {"dataset": "d", "note": 7}])
def test_wrong_blocks(ledger, block):
    """A block checks its arguments at its start."""
    with pytest.raises(dfp.errors.InvalidLedgerError), dfp.spending(ledger, **block):
        pytest.fail("the block ran")
    with pytest.raises(dfp.errors.InvalidLedgerError), dfp.spending("budget.db", dataset="d"):
        pytest.fail("the block ran")


def test_without_a_ledger_nothing_changes(frame, tmp_path, monkeypatch):
    """A call without a ledger writes nothing anywhere."""
    monkeypatch.chdir(tmp_path)
    assert frame.dp.count(epsilon=0.5).epsilon == 0.5
    assert list(tmp_path.iterdir()) == []
