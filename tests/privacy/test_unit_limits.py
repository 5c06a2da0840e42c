"""Limits of a unit: checked before anything is read, suggested, or found by the release itself.

One charge, one promise.
"""

import datetime as dt
import re

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from benchmarks.releases import replayed
from benchmarks.replay import Tape
from dfprivacy.noise.recording import record_draws
from tests.frame_types import make_database, to_polars
from tests.privacy.unit_tables import FRAMES, table


@pytest.fixture(autouse=True)
def _the_same_bytes():
    """Noise is the same in every run: in one call of 5,000 a size counts that no unit has."""
    with replayed("limits"):
        yield


@pytest.mark.parametrize("name", FRAMES)
def test_suggested_limits_hold_for_nearly_all_units(engines, name):
    """The limits of a table in which most units have 3 rows in 2 groups each are 3 and 2."""
    rows = [{"u": u, "g": g, "x": 1.0, "i": i} for u in range(600) for g in "ab" for i in range(3)]
    heavy = [{"u": 1000, "g": str(i), "x": 1.0, "i": i} for i in range(90)]
    frame = engines[name](table(rows + heavy))
    assert dfp.suggest_limits(frame, unit="u", by="g", epsilon=20) == dfp.Unit("u", 3, 2)
    limits = dfp.suggest_limits(frame, unit="u", epsilon=20, spending=0.05)
    assert limits == dfp.Unit("u", 6)


def test_too_few_units_have_the_smallest_limits():
    """Where nothing can be told of the units, limits are 1, and no error says so."""
    frame = pa.table({"u": pa.array([], pa.int64()), "g": pa.array([], pa.string())})
    limits = {dfp.suggest_limits(frame, unit="u", by="g", epsilon=0.1) for _ in range(5)}
    assert dfp.Unit("u", 1, 1) in limits


def build_units(sizes, values):
    """Return a frame of units that have so many rows of one value each."""
    users = np.repeat(np.arange(len(sizes)), sizes)
    return pl.DataFrame({"u": users, "x": np.repeat(values, sizes)})


SIZES = np.tile([1, 2, 4, 300], 2500)


def test_a_mean_of_units_that_are_alike_counts_few_of_their_rows():
    """Where large units are like the others, high limits only cost noise."""
    frame = build_units(SIZES, np.repeat([20.0, 80.0], 5000)[np.arange(10_000) * 7919 % 10_000])
    limits = dfp.suggest_limits(frame, unit="u", question=dfp.mean("x", (0, 100)))
    assert limits.max_rows < 100
    assert dfp.suggest_limits(frame, unit="u").max_rows > 200  # of a count


def test_a_mean_of_units_that_differ_by_size_counts_most_of_their_rows():
    """Where large units have other values, scaling them down is a bias above the noise."""
    frame = build_units(SIZES, np.where(SIZES > 4, 90.0, 10.0))
    question = dfp.mean("x", (0, 100))
    assert dfp.suggest_limits(frame, unit="u", question=question).max_rows >= 100


def test_limits_of_sums_grow_with_what_they_may_spend():
    """A count leaves out more where its noise is larger."""
    frame = build_units(np.arange(1, 3000), np.ones(2999))
    small, large = (
        dfp.suggest_limits(frame, unit="u", question=dfp.count(), epsilon=5, spending=spending)
        for spending in (1e-4, 10)
    )
    assert small.max_rows < 1000 < large.max_rows


@pytest.mark.parametrize("name", FRAMES)
def test_limits_for_a_question_are_found_in_every_engine(engines, name):
    """Units of 3 rows in 2 groups each have these limits for a mean, a sum and a count."""
    rows = [
        {"u": u, "g": g, "x": u % 9, "i": 0} for u in range(900) for g in "ab" for i in range(3)
    ]
    frame = engines[name](table(rows))
    for question in (dfp.sum("x", (0, 8)), dfp.count()):
        limits = dfp.suggest_limits(frame, unit="u", by="g", question=question, epsilon=20)
        assert limits == dfp.Unit("u", 3, 2)
    mean = dfp.mean("x", (0, 8))
    limits = dfp.suggest_limits(frame, unit="u", by="g", question=mean, rho=20)
    assert limits.max_rows <= 3
    assert limits.max_groups == 2


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"question": "x"}, dfp.errors.InvalidQuestionError),
        ({"question": dfp.count(), "spending": 0}, dfp.errors.InvalidLossError),
        ({"question": dfp.mean("y", (0, 1))}, dfp.MissingColumnError),
    ],
)
def test_what_limits_are_for_is_checked_before_anything_is_charged(tmp_path, terms, error):
    """A question that can't be asked is refused, and the ledger pays nothing."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=1)
    frame = pl.DataFrame({"u": [1], "x": [1.0]})
    with pytest.raises(error, match="Hint"):
        dfp.suggest_limits(frame, unit="u", **terms, ledger=ledger, dataset="d")
    assert ledger.remaining("d").epsilon == 1


# Limits that a release finds itself


PLACES = [(u, g) for u in range(900) for g in "ab" for _ in range(3)]
ROWS = [{"u": u, "g": g, "x": u % 9, "i": 0} for u, g in PLACES]


@pytest.mark.parametrize("name", FRAMES)
def test_a_release_answers_within_the_limits_that_it_has_found(engines, name):
    """Units of 3 rows in 2 groups each: all of them count, whole and by group."""
    private = dfp.frame(engines[name](table(ROWS)))(unit="u", epsilon=1e5, delta=1e-9)
    counted = private.count()
    assert (int(counted), counted.limits, counted.epsilon) == (5400, dfp.Unit("u", 6), 1e5)
    assert private(max_rows=2).count().limits is None
    by_group = private.group_by("g")
    for counts in (by_group.count(), private(max_rows=3).group_by("g").count()):
        assert to_polars(counts)["count"].to_list() == [2700, 2700]
    sums = private.group_by("g", keys=["a", "b", "c"]).sum("x", (0, 8))
    assert [round(x / 100) for x in to_polars(sums)["x"].to_list()] == [108, 108, 0]


def test_a_reader_is_read_once_for_all_passes():
    """Rows that can be read once only are kept for the passes over units and within limits."""
    counted = dfp.frame(table(ROWS).to_reader())(unit="u", epsilon=1e5).count()
    assert int(counted) == 5400
    query = "SELECT dp_count(*) AS n FROM t"
    release = dfp.sql(query, t=table(ROWS).to_reader(), unit="u", epsilon=1e5)
    assert release["n"][0].as_py() == 5400


def test_what_is_found_costs_nothing_on_top(tmp_path):
    """The ledger pays the loss that was named, once; a refusal pays nothing."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=1e-5)
    frame = pl.from_arrow(table(ROWS))
    private = frame.dp(unit="u", epsilon=1, delta=1e-6, ledger=ledger, dataset="d")
    private.group_by("g").agg(dfp.mean("x", (0, 8)), dfp.median("i"))
    assert ledger.remaining("d") == dfp.Budget(epsilon=9, delta=9e-6)
    with pytest.raises(dfp.UnsupportedDtypeError):
        private.mean("g", (0, 8))
    assert ledger.remaining("d").epsilon == 9
    assert "limits found" in ledger.history("d")["question"][0]


def test_a_recalled_release_is_the_same_again(tmp_path):
    """A ledger that remembers answers gives the one within the limits that were found, for free."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, remember=True)
    private = pl.from_arrow(table(ROWS)).dp(unit="u", ledger=ledger, dataset="d", version="1")
    first, second = (private.mean("x", (0, 8)) for _ in range(2))
    assert float(first) == float(second)
    assert ledger.remaining("d").epsilon == 9
    assert private(max_rows=1, epsilon=0.875).mean("x", (0, 8)) != first


def test_the_number_of_units_needs_no_limits():
    """Nunique of the unit's own column spends nothing on limits: a unit is one row."""
    frame = pl.from_arrow(table(ROWS))
    assert frame.dp(unit="u").explain.nunique("u").draws[0].epsilon == 1


def test_different_values_are_counted_within_a_limit_of_their_own():
    """All six rows of each unit may hold different values: none is left out."""
    frame = pl.from_arrow(table(ROWS))
    counted = frame.dp(unit="u", epsilon=50).nunique("x")
    assert (int(counted), counted.limits.max_rows) == (9, 6)


def find_sizes(table):
    """Return the exact sizes to which noise is added first, for the limits of a mean by group."""
    tape = Tape()
    with record_draws(tape):
        table.dp(unit="u").group_by("g", keys=list("012345678")).mean("x", (0, 8))
    return tape.draws[0].inputs["exact"]


def test_sizes_follow_from_the_rows_and_not_from_their_order():
    """Means of units at the edge of a step fall into the same one in whichever order rows come.

    A unit more changes the order in which engines hand out the entries of all other units.
    """
    values = np.random.default_rng(3).integers(0, 9, (60_000, 27))
    values = values[values.sum(axis=1) % 27 == 0]
    owners, places = np.divmod(np.arange(values.size), 27)
    columns = {"u": owners, "g": (places // 3).astype(str), "x": values.ravel() / 1.0}
    orders = (slice(None), slice(None, None, -1), np.argsort(values.ravel(), kind="stable"))
    first, *others = (
        find_sizes(pl.DataFrame({name: column[order] for name, column in columns.items()}))
        for order in orders
    )
    assert first.sum() > len(values)
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("keys", [list(range(12)), None])
def test_limits_let_units_count_in_all_groups_that_they_fill(keys):
    """Each unit has some rows in each of twelve groups: few of them are missing from a count.

    Noise exceeds a tenth below 1e-6. So rarely does noise choose limits that leave out a tenth.
    """
    units, groups = np.divmod(np.arange(20_000 * 12), 12)
    sizes = np.random.default_rng(1).geometric(0.1, len(units))
    frame = pl.DataFrame({"u": np.repeat(units, sizes), "g": np.repeat(groups, sizes)})
    private = frame.dp(unit="u", epsilon=1, delta=None if keys else 1e-7)
    counts = private.group_by("g", keys=keys).count()
    assert counts.height == 12
    assert all(180_000 < count < 220_000 for count in counts["count"])


def test_the_number_of_units_has_the_noise_of_one_row_each():
    """Beside a count of rows, units keep the limit of one row; the count has a larger one."""
    frame = build_units(np.full(4000, 80), np.ones(4000))
    answers = frame.dp(unit="u", epsilon=1).agg(n=dfp.count(), k=dfp.nunique("u"))
    rows, units = answers["n"], answers["k"]
    assert rows.low <= 320_000 <= rows.high
    assert rows.limits.max_rows >= 80
    assert abs(units - 4000) < 40
    assert units.std_error < 5
    limited_answers = frame.dp(unit="u", max_rows=1000, epsilon=1).agg(
        n=dfp.count(), k=dfp.nunique("u")
    )
    assert limited_answers["k"].std_error < 5


def test_a_sum_without_bounds_counts_rows_as_a_count_does():
    """Rows left out of a sum are no bias of a mean: nearly all rows of alike units count."""
    frame = build_units([6] * 4000, np.linspace(0, 1, 4000) ** 2).with_columns(g=0)
    private = frame.dp(unit="u", epsilon=1).group_by("g", keys=[0])
    questions = {"s": dfp.sum("x"), "m": dfp.mean("x"), "n": dfp.count("x")}
    for names in (["s"], ["s", "m"], ["m", "n"]):
        table = private.agg(**{name: questions[name] for name in names})
        name = names[-1] if "n" in names else "s"
        truth = 24_000 if name == "n" else frame["x"].sum()
        assert abs(table[name][0] / truth - 1) < 0.2, names


TAIL = np.minimum((np.random.default_rng(1).pareto(1.1, 3000) + 1), 5000).astype(int)
CLIFF = np.append(np.tile(np.arange(1, 7), 833), np.full(15, 12))
MIXED = np.where(np.arange(2000) % 20, 1, 40)
SPREAD = np.random.default_rng(1).lognormal(1.3, 1.1, 8000).astype(int) + 1
PANEL = np.full(300, 9)
PRICES = np.clip(np.random.default_rng(1).lognormal(3.5, 1, SPREAD.sum()), 0, 2000)
COUNT, MEAN, SUM = dfp.count(), dfp.mean("x", (0, 100)), dfp.sum("x", (0, 100))
CASES = {
    "a heavy tail": (TAIL, np.linspace(0, 100, 3000), [COUNT], 0, 5, 0),
    "a mean of a heavy tail": (TAIL, np.linspace(0, 100, 3000), [MEAN], 0, 1, 0),
    "a cliff": (CLIFF, np.full(len(CLIFF), 40.0), [COUNT, SUM], 0, 60, 17),
    "a cliff by group": (CLIFF, np.full(len(CLIFF), 40.0), [COUNT, SUM], 2, 30, 17),
    "a mean of a cliff": (CLIFF, np.where(CLIFF > 6, 95.0, 40.0), [MEAN], 0, 60, 17),
    "a mean of a cliff by group": (CLIFF, np.where(CLIFF > 6, 95.0, 40.0), [MEAN], 2, 30, 17),
    "one unit in twenty": (MIXED, np.where(MIXED > 1, 80.0, 50.0), [MEAN], 2, 20, 12),
    "totals in six bins": (MIXED, np.arange(2000) // 20 % 7, [dfp.sum("x", (0, 7))], 0, 20, 10),
    "totals with a thin tail": (SPREAD, PRICES, [dfp.sum("x", (0, 2000))], 0, 40, 14),
    "a panel": (PANEL, np.random.default_rng(9).random(2700), [dfp.sum("x")], 9, 25, 36),
}
"""Rows of each unit, values of units or of rows, questions, groups, releases, and how many of all
intervals may miss the truth without a note: the noise misses one in 20, and more below 1e-7."""


@pytest.mark.parametrize("case", CASES)
def test_intervals_of_units_hold_or_have_a_note(case):
    """Where some units are larger than limits, intervals hold the truth of all rows, or say so."""
    sizes, values, questions, groups, releases, misses = CASES[case]
    unit = np.repeat(np.arange(len(sizes)), sizes)
    values = values if len(values) == len(unit) else values[unit]
    position = np.arange(len(unit)) if case == "a panel" else unit
    frame = pl.DataFrame({"u": unit, "x": values, "g": position % (groups or 1)})
    private = frame.dp(unit="u", epsilon=5 if case == "a panel" else 1)
    private = private.group_by("g", keys=range(groups)) if groups else private
    for question in questions:
        truth = pl.len() if question is COUNT else getattr(pl.col("x"), question.kind)()
        truths = frame.group_by("g").agg(a=truth).sort("g")["a"].to_list()
        silent = 0
        for _ in range(releases):
            released = private.agg(a=question)
            rows = released.select("low", "high", "note").rows() if groups else [
                (released["a"].low, released["a"].high, released["a"].note)
            ]  # fmt: skip
            silent += sum(
                not note and not low <= true <= high
                for true, (low, high, note) in zip(truths, rows, strict=True)
            )
        assert silent <= misses


_KEYS, _TEXT = [0, 1, 2], "SELECT g, dp_count(*) AS n FROM t GROUP BY g HAVING dp_count(*) > 9"
_DAYS = dt.date(2024, 1, 1), dt.date(2025, 1, 1)


@pytest.mark.parametrize(
    ("word", "columns", "ask"),
    [
        ("rows", ["note"], lambda t: t.value_counts("g", keys=_KEYS)),
        ("other values", ["note"], lambda t: t.value_counts("g", keys=_KEYS, other=True)[3:]),
        ("selected", ["note"], lambda t: t.top("g", 2, delta=1e-6)),
        ("selected", ["note"], lambda t: t.mode("g", delta=1e-6)),
        ("rows", ["note"], lambda t: t.group_by("g", keys=_KEYS).count()),
        ("rank", ["note"], lambda t: t.group_by("g", keys=_KEYS).median("x", (0, 9), epsilon=0.1)),
        ("rows", ["note"], lambda t: t.group_by("g", keys=_KEYS).median("day", _DAYS)),
        ("rows", ["lower_note", "upper_note"], lambda t: t.group_by("g", keys=_KEYS).bounds("x")),
        ("rows", ["note"], lambda t: t.regression("x", ["y"], {"x": (0, 9), "y": (0, 9)})),
    ],
)
def test_every_table_has_a_note_on_rows_that_limits_leave_out(word, columns, ask):
    """Each row of an answer says how many of all rows count, behind the notes that it had."""
    released = ask(dfp.frame(_heavy())(unit="u"))
    for column in columns:
        notes = released[column].to_list()
        assert notes
        assert all(word in note and note.endswith("of all rows count") for note in notes)


@pytest.mark.parametrize("word", ["count", "mean"])
def test_a_statement_has_a_column_of_notes_on_limits_that_it_may_find(word):
    """With intervals a count has the note of a sum; limits that are known make no column."""
    text = _TEXT.replace("dp_count(*) AS", "dp_mean(x, 0, 9) AS") if word == "mean" else _TEXT
    terms = {"keys": _KEYS, "intervals": True, "epsilon": 1}
    released = dfp.sql(text, t=_heavy(), unit="u", **terms)
    assert all("of all rows count" in note for note in released["n_note"])
    rolled = dfp.sql(_TEXT.replace("BY g", "BY ROLLUP(g)"), t=_heavy(), unit="u", **terms)
    assert rolled["g"].null_count() == 1
    assert all("of all rows count" in note for note in rolled["n_note"])
    limited = dfp.sql(_TEXT, t=_heavy(), unit="u", max_rows=2, **terms)
    assert limited.columns == ["g", "n", "n_low", "n_high"]


def test_shares_that_noise_leaves_open_are_no_numbers():
    """Where noise hides the sizes of units the share that counts is unknown.

    One row of five is never called about 100 %.
    """
    frame = pl.DataFrame({"u": [i % 300 for i in range(1500)], "x": 1.0, "g": "a"})
    private = frame.dp(unit="u", delta=1e-6)
    asks = {
        "mean": lambda **loss: repr(private.mean("x", (0, 2), **loss)),
        "count": lambda **loss: repr(private.count(**loss)),
        "groups": lambda **loss: repr(dfp.show(private.group_by("g").count(**loss))),
        "units": lambda **loss: repr(dfp.show(private.group_by("g").nunique("u", **loss))),
    }
    for name, ask in asks.items():
        texts = [ask(epsilon=0.005) for _ in range(20)]
        assert sum("an unknown share counts" in text for text in texts) > 10, name
        assert not any("max_rows=1: about 100 %" in text for text in texts), name
        assert not any("nan %" in text for text in texts), name
        assert "unknown" not in ask(epsilon=1000), name


def test_suspected_units_leave_the_share_open():
    """Where notes suspect units that hold most rows, no share is named as if there were none.

    More than 15 of 40 draws suspect them, but for a chance below 1e-10.
    """
    units = [*range(1000), *range(1000), *(list(range(100)) * 98)]
    private = pl.DataFrame({"u": units, "x": 0.5}).dp(unit="u")
    pages = [repr(private.mean("x", (0, 1), epsilon=0.5)) for _ in range(40)]
    assert sum("an unknown share counts" in page for page in pages) > 15


def test_suspected_units_have_the_rows_that_notes_say():
    """Units of 130 rows are said to have no more, but where noise alone makes others of 2 in 100.

    More than 8 of 30 notes have a chance below 1e-7.
    """
    units = [*(list(range(5000)) * 8), *(list(range(90)) * 122)]
    private = pl.DataFrame({"u": units, "x": 0.5}).dp(unit="u")
    notes = [str(private.mean("x", (0, 1), epsilon=0.5).note) for _ in range(30)]
    named = [int(size) for note in notes for size in re.findall(r"at least (\d+) rows", note)]
    assert named
    assert sum(size > 130 for size in named) <= 8


def test_no_share_is_named_that_noise_leaves_open():
    """The least share of the rows that counts, as texts name it, is one that does count.

    Noise alone makes it too large in one text in 20: in more than 12 of 40 below 1e-7.
    """
    sizes = np.append(np.tile(np.arange(1, 7), 833), np.full(15, 12))
    private = build_units(sizes, np.ones(len(sizes))).dp(unit="u", epsilon=1)
    too_large = 0
    for _ in range(40):
        answer = private.count()
        counted = np.minimum(sizes, answer.limits.max_rows).sum() / sizes.sum()
        named = re.search(r"at least about ([\d.]+) %", repr(answer))
        too_large += named is not None and float(named[1]) > 100 * counted + 0.05
    assert too_large <= 12


def test_limits_that_may_leave_out_nothing_say_so():
    """Where all rows count and noise can't tell, notes name the least share that may count.

    They say that noise shows no other: one unit of 10,000 rows stays hidden.
    """
    private = pl.DataFrame({"u": range(1000), "g": "a"}).dp(unit="u", delta=1e-6)
    heavy = pl.DataFrame({"u": [*range(1000), *([0] * 10_000)]}).dp(unit="u")
    pages = [repr(heavy.count(epsilon=1)) for _ in range(30)]
    hiding = [re.search(r"up to ([\d,]+) far larger units hide", page) for page in pages]
    assert sum(bool(hidden) and 35 < int(hidden[1]) < 50 for hidden in hiding) > 15
    table = private.group_by("g", keys=["a"]).count(epsilon=1)
    assert "and large units that noise hides." in repr(dfp.show(table))
    for ask in (lambda g: g.count(epsilon=0.5), lambda g: g.nunique("u", epsilon=0.5)):
        pages = [repr(dfp.show(ask(private.group_by("g")))) for _ in range(30)]
        assert sum(bool(re.search(r"(?<!at least )about [\d.]+ %", page)) for page in pages) <= 10
        assert sum("at least about" in page for page in pages) > 5  # three in four do


@pytest.mark.parametrize("kind", ["count", "median"])
def test_notes_on_large_units_name_no_share_that_is_open(kind):
    """At a loss that shows some units and hides others, notes say that the share is unknown."""
    sizes = np.minimum(np.random.default_rng(1).zipf(1.6, 3000), 2000)
    frame = pl.DataFrame({"u": np.repeat(np.arange(3000), sizes)}).with_columns(x=pl.col("u") % 9)
    private = frame.dp(unit="u")
    answers = [
        private.count(epsilon=0.1) if kind == "count" else private.median("x", (0, 9), epsilon=0.1)
        for _ in range(20)
    ]
    assert any("an unknown share of all rows count" in (answer.note or "") for answer in answers)


def test_a_date_has_the_note_that_a_number_has():
    """The median of dates of a whole frame says that large units are weighted down."""
    day = dfp.frame(_heavy())(unit="u").median("day", _DAYS)
    assert "weighted down" in day.note
    assert "weighted down" in repr(dfp.show(day))


@pytest.mark.parametrize("kind", ["crosstab", "pivot", "histogram"])
def test_tables_without_a_column_of_notes_show_and_log_them(kind, caplog):
    """Cells and bins share one note: below the table that is shown, and in the log."""
    rows = dfp.frame(_heavy())(unit="u")
    keys = {"g": _KEYS, "h": [0, 1]}
    released = {
        "crosstab": lambda: rows.crosstab("g", "h", keys=keys),
        "pivot": lambda: rows.pivot("g", "h", "x", "sum", bounds=(0, 9), keys=keys),
        "histogram": lambda: rows.histogram("x", [0, 4, 9]),
    }[kind]()
    assert repr(dfp.show(released)).count("leave out rows of large units") == 1
    assert caplog.text.count("leave out rows of large units") == 1


def _heavy():
    """Return rows of units with very different sizes, each in many groups."""
    rng = np.random.default_rng(1)
    weights = rng.lognormal(0, 1.1, 4000)
    units = rng.choice(4000, 30000, p=weights / weights.sum())
    values, groups = rng.integers(0, 9, len(units)), rng.integers(0, 40, len(units)) // 10
    days = np.datetime64("2024-03-01") + values.astype("m8[D]")
    columns = {"u": units, "g": groups, "h": units % 2, "day": days}
    return pl.DataFrame({**columns, "x": values * 1.0, "y": values % 5})


@pytest.mark.battery
@pytest.mark.parametrize("loss", [{"epsilon": 0.8}, {"rho": 0.8}], ids=str)
@pytest.mark.parametrize("keys", [None, [0, 1, 2]])
def test_noise_alone_rarely_makes_large_units(loss, keys):
    """One histogram in 50 suspects units that no row has: more than 17 of 100 below 1e-8.

    The limit is for rows and groups together.

    Such notes name no more rows than units have that stand out, nor more groups than are listed.
    """
    private = pl.DataFrame({"u": range(2000), "g": 0}).dp(unit="u", delta=None if keys else 1e-6)
    tables = [private.group_by("g", keys=keys).count(**loss) for _ in range(100)]
    notes = [note for table in tables if "note" in table.columns for note in table["note"][:1]]
    matches = [re.findall(r"at least ([\d,]+) (rows|groups)", note or "") for note in notes]
    assert sum(map(bool, matches)) <= 17 + 17  # of rows and of groups
    sizes = [(int(number.replace(",", "")), what) for pairs in matches for number, what in pairs]
    assert all(size < 200 if what == "rows" else size <= 3 or not keys for size, what in sizes)


@pytest.mark.parametrize("public", [9, 17])
def test_units_in_all_listed_groups_lose_none(public):
    """Each of 3,000 units has a row in each listed group: few releases say that rows are lost.

    Noise alone adds a note to one release in 20: to more than 15 of 20 below 1e-12.
    """
    units, groups = np.divmod(np.arange(3000 * public), public)
    frame = pl.DataFrame({"u": units, "g": groups}).dp(unit="u", epsilon=5)
    by_group = frame.group_by("g", keys=list(range(public)))
    counts = [by_group.count() for _ in range(20)]
    assert sum("note" in table.columns and table["note"].count() > 0 for table in counts) <= 15


class CountedGroups:
    """A recorder that makes the noisy number of groups what it is told."""

    def __init__(self, number):
        self.number = [number]

    def draw(self, mechanism, inputs, sample):
        """Draw as ever, but for the first number that stands by itself."""
        result = sample()
        if self.number and mechanism == "add_to" and inputs["exact"].size == 1:
            return np.full_like(result, self.number.pop())
        return result


@pytest.mark.parametrize("number", [-50, 3, 10**4, 10**9])
@pytest.mark.parametrize("units", [0, 2000])
@pytest.mark.parametrize("loss", [{"epsilon": 1 / 9}, {"epsilon": 1000}, {"rho": 10**6}], ids=str)
def test_any_noisy_number_of_groups_leaves_some_possible(number, units, loss):
    """Numbers below 1, and beyond all limits, end no release, and leave its answers numbers."""
    recorder = CountedGroups(number)
    frame = pl.DataFrame({"u": range(2000), "g": [0] * 2000}).head(units)
    with record_draws(recorder):
        counts = frame.dp(unit="u", delta=1e-6).group_by("g").count(**loss)
    assert not recorder.number
    assert counts.height == (units > 0)
    assert all(low <= count <= high for _, count, low, high, *_ in counts.rows())


def shop(units=3000):
    """Return rows of users who differ in size, of 40 products: few users have most rows."""
    generator = np.random.default_rng(7)
    users = np.repeat(np.arange(units), np.minimum(generator.zipf(1.8, units), 60))
    rows = len(users)
    pieces = np.minimum(generator.geometric(0.5, rows), 12).astype(float)
    prices = np.minimum(np.exp(generator.normal(3.2 - 0.15 * pieces, 0.6)), 250)
    products = np.minimum(generator.geometric(0.08, rows), 40)
    return pl.DataFrame({"u": users, "product": products, "pieces": pieces, "price": prices})


def test_found_limits_leave_groups_above_the_threshold():
    """Limits for secret keys are not so large that their own threshold hides every group."""
    private = shop().dp(unit="u", delta=1e-6, epsilon=1)
    assert all(len(private.top("product", 5)) == 5 for _ in range(10))
    counts = private.group_by("product").agg(n=dfp.nunique("u"))
    assert len(counts) > 5


def test_found_limits_leave_rows_for_bounds():
    """A sum without bounds, one of three answers, has limits within which bounds are found."""
    private = shop(6000).dp(unit="u", epsilon=1).group_by("product", keys=[1, 2, 3])
    for _ in range(5):
        answers = private.agg(s=dfp.sum("price"), m=dfp.mean("price"), n=dfp.count())
        assert answers["s_high"].is_finite().all()


@pytest.mark.parametrize(
    ("units", "bounds"), [(8000, ((0, 12), (0, 250))), (20_000, (None, None))], ids=str
)
def test_limits_of_correlations_are_small(units, bounds):
    """A correlation divides by the variances, so that its noise needs smaller limits.

    Half of the intervals are shorter than 1, of which 2 % are longer: five of nine once in 2e6.
    """
    (x, y), private = bounds, shop(units).dp(unit="u", epsilon=2)
    intervals = [private.corr("pieces", "price", x, y).interval() for _ in range(9)]
    assert np.median([high - low for low, high in intervals]) < 1


def test_counts_of_units_find_their_groups_beside_public_keys():
    """Users are each in one of 90 listed groups: one is found, and not 90 paid for."""
    frame = pl.DataFrame({"u": range(9000), "g": [i % 90 for i in range(9000)]})
    private = frame.dp(unit="u", epsilon=1)
    counts = private.group_by("g", keys=list(range(90))).nunique("u")
    assert (counts["high"] - counts["low"] < 40).all()
    alone = private.group_by("g", keys=[0]).nunique("u")
    assert (alone["high"] - alone["low"]).max() < 8


def test_limits_that_are_named_say_what_they_leave_out():
    """Each answer within limits that the caller names has a note, which costs nothing."""
    private = shop().dp(unit="u", max_rows=3, max_groups=2, epsilon=1, delta=1e-6)
    rows = "a unit with more than 3 rows"
    count, mean = private.count(), private.mean("price", (0, 250))
    assert count.note == mean.note == f"{rows} counts as 3"
    assert private.nunique("u").note is None
    text = f"{rows} in a group counts as 3, one in more than 2 groups counts in 2"
    assert text in repr(dfp.show(private.group_by("product").count()))
    one_group = shop().dp(unit="u", max_groups=1, epsilon=1, delta=1e-6).group_by("product")
    assert "a unit in more than 1 group counts in 1" in repr(dfp.show(one_group.nunique("u")))
    statement = "SELECT product, count(*) AS n FROM t GROUP BY product"
    con = make_database(t=shop())
    unit = {"unit": "u", "max_rows": 3, "max_groups": 2}
    assert text in repr(dfp.sql(statement, con=con, epsilon=1, delta=1e-6, **unit))


@pytest.mark.parametrize("rows", [[], [(1, 1, 1.0, None)], [(1, 1, None, None)] * 3], ids=len)
@pytest.mark.parametrize("limits", [{}, {"max_rows": 2, "max_groups": 1}], ids=["found", "named"])
def test_several_answers_about_no_rows_and_no_values(rows, limits):
    """Listed groups without rows or values are answered; no secret group of them is shown."""
    schema = {"u": pl.Int64, "g": pl.Int64, "x": pl.Float64, "y": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    bounds = (0, 9), (0, 9)
    questions = {"a": dfp.mean("x"), "b": dfp.mean("y"), "n": dfp.nunique("u"), "m": dfp.max("x")}
    questions |= {"c": dfp.corr("x", "y", *bounds), "r": dfp.ratio("x", "y", *bounds)}
    for keys, groups in ((None, 0), ([1, 2], 2)):
        private = frame.dp(unit="u", epsilon=1, delta=1e-9, **limits).group_by("g", keys=keys)
        assert len(private.agg(**questions)) == len(private.nunique("u")) == groups


@pytest.mark.parametrize(("units", "rows"), [(60_000, 1), (500, 400)])
def test_units_of_few_and_of_many_rows_count_within_the_same_limits(units, rows):
    """DuckDB's rows count alike whether they are fetched or added up by unit and group first."""
    entries = duckdb.sql(f"FROM range({units}) AS u(u), range(3) AS g(g), range({rows})")
    table = entries.project("u, g, 1.0 AS x")
    limited = dfp.frame(table)(unit="u", max_rows=2, max_groups=2).group_by("g", keys=[0, 1, 2])
    answers = to_polars(limited.agg(n=dfp.count(), x=dfp.sum("x", (0, 1)), epsilon=20))
    for name in ("n", "x"):  # noise of a scale below 1: an error of 100 has a chance below 1e-20
        assert answers[name].sum() == pytest.approx(units * 2 * min(rows, 2), abs=100)


def test_every_answer_names_the_limits_that_were_found():
    """Answers of a list, of several questions, and dates name their limits as a number does."""
    start, days = dt.date(2024, 1, 1), np.arange(20_000) % 300
    dates = [start + dt.timedelta(days=int(day)) for day in days]
    frame = pl.DataFrame({"u": days * 17, "x": days * 1.0, "day": dates})
    private = frame.dp(unit="u")
    answers = [
        *private.quantiles("x", [0.25, 0.75], epsilon=20),
        *private.agg(all=dfp.quantiles("x", [0.25, 0.75]), n=dfp.count(), epsilon=20).values(),
        private.median("day", epsilon=20),
    ]
    assert all(f"max_rows={answer.limits.max_rows}" in repr(answer) for answer in answers)
    assert "epsilon=20 for both, max_rows=" in repr(private.quantiles("x", [0.2, 0.8], epsilon=20))


def test_limits_are_not_far_beyond_the_largest_unit():
    """Where large units have other values, limits guard against some that noise hides, not all."""
    rng, ratios = np.random.default_rng(5), []
    for _ in range(12):
        sizes = np.sort(np.ceil(rng.lognormal(1, 1, 2000)).astype(int))
        frame = build_units(sizes, np.linspace(0.2, 0.8, 2000))
        answer = frame.dp(unit="u").mean("x", (0, 1), epsilon=1)
        ratios.append(answer.limits.max_rows / sizes.max())
    assert np.median(ratios) < 1
    assert max(ratios) < 3


def test_shares_leave_room_for_units_in_all_public_groups():
    """A named share leaves room for as many units in every group as the noise may hide.

    Less than two thirds have a note.
    """
    groups = [*range(12)]
    single = {"u": np.arange(1900), "g": np.arange(1900) % 12}
    frame = pl.DataFrame(single).vstack(
        pl.DataFrame({"u": np.repeat(np.arange(1900, 1980), 12), "g": groups * 80})
    )
    private = frame.dp(unit="u").group_by("g", keys=groups)
    for _ in range(20):
        page = repr(dfp.show(private.count(epsilon=1)))
        limit = int(re.search(r"max_groups=(\d+)", page)[1])
        counted = (1900 + 80 * limit) / len(frame)
        shares = [float(share) / 100 for share in re.findall(r"at least about ([\d.]+) %", page)]
        assert all(share <= counted for share in shares)
        assert "leave out rows of large units" in page


@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_share_of_rows_is_told_once(by):
    """Lines about limits do not repeat the share of the rows that a note beside them has."""
    rows = dfp.frame(_heavy())(unit="u")
    grouped = rows.group_by(*by, keys={"g": _KEYS}) if by else rows
    pages = [repr(dfp.show(grouped.median("x", (0, 9)))) for _ in range(3)]
    assert all("weighted down" in page for page in pages)
    assert not any("% counts" in page for page in pages)
