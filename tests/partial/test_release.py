"""A merge pays for what units can do over all files, is charged once, and can be repeated."""

from fractions import Fraction

import polars as pl
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp


def day(value):
    return pl.DataFrame({"u": list(range(200)), "g": ["a", "b"] * 100, "x": [float(value)] * 200})


@pytest.fixture
def make_files(tmp_path):
    """Return a function that makes three files of the same 200 users."""

    def make(*questions, **options):
        statistics = questions or (dfp.mean("x", (0, 8)),)
        return [
            dfp.statistics(day(k), tmp_path / f"{k}.parquet", *statistics, **options)
            for k in (3, 1, 2)
        ]

    return make


USER = {"unit": "u", "max_rows": 2}
K = 2**30


@pytest.mark.parametrize(
    ("options", "terms", "times"),
    [
        ({}, {}, 1),
        (USER, {}, 2 * 3),
        (USER, {"parts_per_unit": 3}, 2 * 3),
        (USER, {"parts_per_unit": 2}, 2 * 2),
        (USER, {"parts_per_unit": 1}, 2),
        (USER, {"parts_per_unit": 365}, 2 * 3),
    ],
)
def test_the_noise_is_for_all_files(make_files, options, terms, times):
    """The noise is that of one row times the rows of a unit in all files; a row is in one file."""
    paths = make_files(dfp.mean("x", (0, 8), clipping=False), **options)
    pure = dfp.merge(paths, epsilon=0.5, **terms)["x"]
    assert pure.mechanism.scale == Fraction(2 * K * times)
    gaussian = dfp.merge(paths, rho=0.5, **terms)["x"]
    assert gaussian.mechanism.sigma_squared == Fraction(K * K * times**2)


@pytest.mark.parametrize("options", [{}, USER, {**USER, "by": "g", "max_groups": 1}], ids=str)
def test_a_file_of_files_answers_as_they_do(make_files, tmp_path, replayed, options):
    """Files added up into one have the answers and the noise of all, for units in each of them.

    A file beside one that holds its rows is refused.
    """
    paths = make_files(dfp.mean("x", (0, 8)), dfp.median("x"), **options)
    month = dfp.merge_files(paths[:2], tmp_path / "month.parquet")
    terms = {"epsilon": 5, "delta": 0.1} if "by" in options else {"epsilon": 5}
    expected, merged = (
        replayed(lambda p=p: dfp.merge(p, **terms)) for p in (paths, [month, paths[2]])
    )
    assert repr(merged) == repr(expected)
    with pytest.raises(dfp.errors.StatisticsFileError, match="holds its rows"):
        dfp.merge([month, paths[0]])
    with pytest.raises(dfp.errors.StatisticsFileError, match="already"):
        dfp.merge_files(paths, month)


def width(paths):
    table = dfp.merge(paths, epsilon=0.01)
    return table.column("high")[0].as_py() - table.column("low")[0].as_py()


def test_by_group_the_noise_grows_with_the_groups(make_files, tmp_path):
    """With G groups and R rows in each of p files, noise is p R G times that of one row."""
    by = {"by": "g", "keys": ["a", "b"]}
    (other := tmp_path / "rows").mkdir()
    alone = dfp.statistics(day(1), other / "1.parquet", dfp.sum("x", (-8, 8)), **by)
    paths = make_files(dfp.sum("x", (-8, 8)), **by, max_groups=2, **USER)
    assert width(paths) == pytest.approx(3 * 2 * 2 * width(alone), rel=0.01)


def test_delta_is_for_all_groups_of_a_unit_in_all_files(tmp_path):
    """Units alone in their groups, with rows in each of p files, are seen with probability delta.

    Of 4,000 at delta 1/20 more than 275 have a probability below 1e-7.
    """
    rows = pl.DataFrame({"u": [u for u in range(4000) for _ in range(4)]})
    rows = rows.with_columns(g=rows["u"] * 2 + pl.Series([0, 0, 1, 1] * 4000))
    terms = {"by": "g", "max_groups": 2, **USER}
    paths = [dfp.statistics(rows, tmp_path / f"{k}.parquet", dfp.count(), **terms) for k in "abc"]
    shown = dfp.merge(paths, epsilon=1, delta=0.05).column("g").to_numpy()
    assert len(set((shown // 2).tolist())) <= 275


@pytest.mark.parametrize("promise", [0, -1, 1.5, "1", True, float("nan")])
def test_a_promise_is_a_whole_number(make_files, promise):
    """A promise that is no whole number from 1 on is refused before anything is drawn."""
    with pytest.raises(dfp.errors.InvalidUnitError, match="whole number from 1 on"):
        dfp.merge(make_files(**USER), parts_per_unit=promise)


def test_rows_make_no_promise(make_files):
    """Where a row is the unit, there is nothing to promise."""
    with pytest.raises(dfp.errors.InvalidUnitError, match="name no unit"):
        dfp.merge(make_files(), parts_per_unit=1)


def test_one_unit_moves_no_more_than_was_paid_for(tmp_path):
    """A user with rows in every file moves counts by at most parts * R in one group."""
    options = {"by": "g", "keys": ["a", "b"], "unit": "u", "max_rows": 2, "max_groups": 1}
    results = []
    for name, keep in (("all", pl.lit(True)), ("less", pl.col("u") != 7)):
        paths = []
        for k in range(3):
            rows = pl.concat([day(k), day(8).filter(pl.col("u") == 7)] * 2).filter(keep)
            path = tmp_path / f"{name}{k}.parquet"
            paths.append(dfp.statistics(rows, path, dfp.mean("x", (0, 8)), **options))
        table = dfp.merge(paths, epsilon=1e9)
        count, mean = (table.column(column).to_numpy() for column in ("count", "x"))
        results.append((count, count * mean))
    (count, total), (less, rest) = results
    assert (count - less).tolist() == [0, 3 * 2]
    assert 0 <= total[1] - rest[1] <= 3 * 2 * 8 + 1e-3
    assert abs(total[0] - rest[0]) < 1e-3


@pytest.fixture
def ledger(tmp_path):
    return dfp.Ledger(tmp_path / "budget.db", epsilon=2, delta=1e-3, remember=True)


def test_a_merge_is_charged_once(make_files, ledger):
    """Making files costs nothing; merging charges what it names, with what was added up."""
    with dfp.spending(ledger, dataset="days"):
        paths = make_files(by="g", max_groups=2, **USER)
    assert ledger.datasets() == []
    dfp.merge(paths, epsilon=0.5, delta=1e-4, ledger=ledger, dataset="days", note="report")
    assert ledger.remaining("days") == dfp.Budget(epsilon=1.5, delta=9e-4)
    (row,) = ledger.history("days").to_dict("records")
    assert row["question"] == (
        "mean('x', bounds=(0.0, 8.0)) by 'g'; unit='u', max_rows=2, max_groups=2; "
        "from 3 files, parts_per_unit=3"
    )


def test_no_budget_no_release(make_files, ledger, monkeypatch):
    """A merge beyond the budget is refused before tables are read; so is a broken file unpaid."""
    paths = make_files()
    account = {"ledger": ledger, "dataset": "days"}
    dfp.merge(paths, epsilon=1.5, **account)
    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", lambda *_: pytest.fail("was read"))
    with pytest.raises(dfp.BudgetExceededError):
        dfp.merge(paths, epsilon=1, **account)
    monkeypatch.undo()
    content = paths[0].read_bytes()
    middle = content.find(b"\x28\xb5\x2f\xfd")  # where a compressed page begins
    paths[0].write_bytes(content[: middle + 6] + b"\xff" + content[middle + 7 :])
    with pytest.raises(dfp.errors.StatisticsFileError):
        dfp.merge(paths, epsilon=0.1, **account)
    assert ledger.spent("days") == dfp.Budget(epsilon=1.5)


@pytest.mark.parametrize("options", [{}, {"by": "g"}])
def test_the_same_files_get_the_same_answer(make_files, ledger, options):
    """With a version, the same files in any order are answered alike and paid for once."""
    paths = make_files(dfp.mean("x", (0, 8)), dfp.median("x"), **options)
    delta = {"delta": 1e-4} if options else {}
    terms = {"epsilon": 0.3, **delta, "ledger": ledger, "dataset": "days", "version": "1"}
    first = dfp.merge(paths, **terms)
    again = dfp.merge(paths[::-1], **terms)
    values = [repr(answer.to_pydict() if options else answer) for answer in (first, again)]
    assert values[0] == values[1].replace(", remembered", "")
    assert ledger.spent("days").epsilon == 0.3
    fewer = dfp.merge(paths[:2], **terms)
    assert ledger.spent("days").epsilon == 0.6
    assert len(fewer) == len(first)


def test_files_made_anew_are_other_files(make_files, ledger, tmp_path):
    """Files of the same rows made again are paid for again: their ids differ."""
    terms = {"epsilon": 0.3, "ledger": ledger, "dataset": "days", "version": "1"}
    make_files()
    dfp.merge(f"{tmp_path}/*.parquet", **terms)
    for path in tmp_path.glob("*.parquet"):
        path.unlink()
    make_files()
    dfp.merge(f"{tmp_path}/*.parquet", **terms)
    assert ledger.spent("days").epsilon == 0.6


def test_secret_keys_need_a_delta(make_files):
    """Files by secret keys are not merged without a delta."""
    with pytest.raises(dfp.MissingDeltaError):
        dfp.merge(make_files(by="g"))
