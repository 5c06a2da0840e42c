"""A merge pays for what units can do over all files, is charged once, and can be repeated."""

from fractions import Fraction

import polars as pl
import pytest

import dfprivacy as dfp
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.partial.merging import Pooled, files_of
from dfprivacy.statistics.linear import MeasuredSums


def day(own):
    return pl.DataFrame({"u": list(range(200)), "g": ["a", "b"] * 100, "x": [float(own)] * 200})


@pytest.fixture
def made(tmp_path):
    """Return a function that makes three files of the same 200 users."""

    def make(*questions, **given):
        asked = questions or (dfp.mean("x", (0, 8)),)
        return [
            dfp.statistics(day(k), tmp_path / f"{k}.parquet", *asked, **given) for k in (3, 1, 2)
        ]

    return make


USER = {"unit": "u", "max_rows": 2}
K = 2**30


@pytest.mark.parametrize(
    ("given", "terms", "times"),
    [
        ({}, {}, 1),
        (USER, {}, 2 * 3),
        (USER, {"parts_per_unit": 3}, 2 * 3),
        (USER, {"parts_per_unit": 2}, 2 * 2),
        (USER, {"parts_per_unit": 1}, 2),
        (USER, {"parts_per_unit": 365}, 2 * 3),
    ],
)
def test_the_noise_is_for_all_files(made, given, terms, times):
    """The noise is that of one row times the rows of a unit in all files; a row is in one file."""
    paths = made(**given)
    pure = dfp.merge(paths, epsilon=0.5, **terms)["x"]
    assert pure.mechanism == DiscreteLaplace(Fraction(2 * K * times))
    gaussian = dfp.merge(paths, rho=0.5, **terms)["x"]
    assert gaussian.mechanism == DiscreteGaussian(Fraction(K * K * times**2))


def test_by_group_the_noise_grows_with_the_groups(made, monkeypatch):
    """With G groups and R rows in each of p files, a row gets 1/(p R G), and delta is over p G."""
    seen = []
    answer = MeasuredSums.answer

    def spy(self, loss, rule):
        seen.append((loss, rule))
        return answer(self, loss, rule)

    monkeypatch.setattr(MeasuredSums, "answer", spy)
    paths = made(by="g", max_groups=2, **USER)
    dfp.merge(paths, epsilon=1, delta=1e-3)
    loss, rule = seen[0]
    assert loss.value == Fraction(1, 3 * 2 * 2)
    assert (rule.delta, rule.rows) == (Fraction(1, 1000) / (3 * 2), 3 * 2)


@pytest.mark.parametrize("promise", [0, -1, 1.5, "1", True, float("nan")])
def test_a_promise_is_a_whole_number(made, promise):
    """What is no whole number from 1 on is refused before anything is drawn."""
    with pytest.raises(dfp.InvalidUnitError, match="whole number from 1 on"):
        dfp.merge(made(**USER), parts_per_unit=promise)


def test_rows_make_no_promise(made):
    """Where a row is the unit, there is nothing to promise."""
    with pytest.raises(dfp.InvalidUnitError, match="name no unit"):
        dfp.merge(made(), parts_per_unit=1)


def test_one_unit_moves_no_more_than_was_paid_for(tmp_path):
    """A user with rows in every file moves the sums by at most parts * R * K in each group."""
    asked = {"m": dfp.mean("x", (0, 8)), "q": dfp.median("x")}
    given = {"by": "g", "unit": "u", "max_rows": 2, "max_groups": 1}
    tables = []
    for name, keep in (("all", pl.lit(True)), ("less", pl.col("u") != 7)):
        paths = []
        for k in range(3):
            rows = pl.concat([day(k), day(8).filter(pl.col("u") == 7)] * 2).filter(keep)
            path = tmp_path / f"{name}{k}.parquet"
            paths.append(dfp.statistics(rows, path, **asked, **given))
        tables.append(files_of(paths).tables())
    one, other = tables
    moved = abs(one.sums["sum_0_0"] - other.sums["sum_0_0"])
    assert moved.tolist() == [0, 3 * 2]
    first = abs(one.sums["sum_0_1"] - other.sums["sum_0_1"])
    assert all(first <= 3 * 2 * K)
    assert int(one.bins[0].rows.sum() - other.bins[0].rows.sum()) == 3 * 2


@pytest.fixture
def ledger(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", epsilon=2, delta=1e-3, remember=True)


def test_a_merge_is_charged_once(made, ledger):
    """Making files costs nothing; merging charges what it names, with what was added up."""
    with dfp.spending(ledger, dataset="days"):
        paths = made(by="g", max_groups=2, **USER)
    assert ledger.datasets() == []
    dfp.merge(paths, epsilon=0.5, delta=1e-4, ledger=ledger, dataset="days", note="report")
    assert ledger.remaining("days") == dfp.Budget(epsilon=1.5, delta=9e-4)
    (row,) = ledger.history("days").to_dict("records")
    assert row["question"] == (
        "mean('x', bounds=(0.0, 8.0)) by 'g'; unit='u', max_rows=2, max_groups=2; "
        "from 3 files, parts_per_unit=3"
    )


def test_no_budget_no_release(made, ledger, monkeypatch):
    """A merge beyond the budget is refused before tables are read; so is a broken file unpaid."""
    paths = made()
    account = {"ledger": ledger, "dataset": "days"}
    dfp.merge(paths, epsilon=1.5, **account)
    monkeypatch.setattr(Pooled, "tables", lambda self: pytest.fail("was read"))
    with pytest.raises(dfp.BudgetExceededError):
        dfp.merge(paths, epsilon=1, **account)
    monkeypatch.undo()
    whole = paths[0].read_bytes()
    middle = whole.find(b"\x28\xb5\x2f\xfd")  # where a compressed page begins
    paths[0].write_bytes(whole[: middle + 6] + b"\xff" + whole[middle + 7 :])
    with pytest.raises(dfp.StatisticsFileError):
        dfp.merge(paths, epsilon=0.1, **account)
    assert ledger.spent("days") == dfp.Budget(epsilon=1.5)


@pytest.mark.parametrize("given", [{}, {"by": "g"}])
def test_the_same_files_get_the_same_answer(made, ledger, given):
    """With a version, the same files in any order are answered alike and paid for once."""
    paths = made(dfp.mean("x", (0, 8)), dfp.median("x"), **given)
    delta = {"delta": 1e-4} if given else {}
    terms = {"epsilon": 0.3, **delta, "ledger": ledger, "dataset": "days", "version": "1"}
    first = dfp.merge(paths, **terms)
    again = dfp.merge(paths[::-1], **terms)
    values = [repr(own.to_pydict() if given else own) for own in (first, again)]
    assert values[0] == values[1].replace(", remembered", "")
    assert ledger.spent("days").epsilon == 0.3
    fewer = dfp.merge(paths[:2], **terms)
    assert ledger.spent("days").epsilon == 0.6
    assert len(fewer) == len(first)


def test_files_made_anew_are_other_files(made, ledger, tmp_path):
    """Files of the same rows made again are paid for again: their ids differ."""
    terms = {"epsilon": 0.3, "ledger": ledger, "dataset": "days", "version": "1"}
    made()
    dfp.merge(f"{tmp_path}/*.parquet", **terms)
    for path in tmp_path.glob("*.parquet"):
        path.unlink()
    made()
    dfp.merge(f"{tmp_path}/*.parquet", **terms)
    assert ledger.spent("days").epsilon == 0.6


def test_secret_keys_need_a_delta(made):
    """Files by secret keys are not merged without a delta."""
    with pytest.raises(dfp.MissingDeltaError):
        dfp.merge(made(by="g"))
