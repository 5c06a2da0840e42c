"""Answers without bounds: what one row, or a group of one row, can't change."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import duckdb
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy import answers, histogram
from dfprivacy.estimators import octave_bounds
from dfprivacy.mechanisms import entropy
from dfprivacy.mechanisms.exceedances import Exceedances
from dfprivacy.mechanisms.keys import threshold
from dfprivacy.mechanisms.noise import DiscreteLaplace
from dfprivacy.parts import octaves

ASKED = {
    "mean": {"x": dfp.mean("x")},
    "sum": {"x": dfp.sum("x")},
    "var": {"x": dfp.var("x")},
    "std and count": {"x": dfp.std("x"), "n": dfp.count("x")},
    "several": {"m": dfp.mean("x"), "s": dfp.sum("x"), "v": dfp.var("x"), "n": dfp.count()},
    "two columns": {"m": dfp.mean("x"), "i": dfp.mean("i"), "n": dfp.count("i")},
    "bounds": {"b": dfp.mean("x", (0, 1)), "x": dfp.sum("x")},
}
ROWS = [
    [], [None], [math.nan], [0.0], [-0.0], [5e-324], [1e300], [math.inf], [-math.inf], [-7.5],
    [1.0, 2.0], [1.0] * 50, [0.0] * 50, [-3.0] * 50, [None] * 50, [1e300, -1e300] * 30,
    [*[1.0] * 100, 1e9], [2.0**53 + 1] * 60, [*[2.0**k for k in range(60)]] * 40,
]  # fmt: skip


def frame(values, groups="a"):
    """Return rows of one group, or of several named groups."""
    named = {groups: values} if isinstance(groups, str) else dict(zip(groups, values, strict=True))
    g = [name for name, own in named.items() for _ in own]
    x = [value for own in named.values() for value in own]
    integers = [None if v is None or v != v else int(max(min(v, 2**62), -(2**62))) for v in x]
    return pl.DataFrame(
        {"g": g, "x": x, "i": integers}, schema={"g": pl.String, "x": pl.Float64, "i": pl.Int64}
    )


KINDS = {
    "polars": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "arrow": lambda table: table.to_arrow(),
}


def outcome(work):
    """Return the schema of a released frame, or the kinds of released numbers, or the error."""
    try:
        result = work()
    except Exception as error:
        return type(error).__name__, str(error)
    if isinstance(result, dict):
        return {name: type(answer).__name__ for name, answer in result.items()}
    return str(result.dtypes if isinstance(result, pd.DataFrame) else result.schema)


def outcomes(kind, ask, lists):
    """Return every outcome of one question: of whole frames, of public and of secret groups."""
    whole, public, secret = set(), set(), set()
    for rows, loss in itertools.product(lists, ({"epsilon": 2}, {"rho": 1})):
        private = dfp.frame(KINDS[kind](frame(rows)))
        listed, hidden = private.group_by("g", keys=["a", "b"]), private.group_by("g")
        more = {**loss, "delta": 0.4}
        whole.add(str(outcome(lambda p=private, t=loss: p.agg(**ASKED[ask], **t))))
        public.add(str(outcome(lambda g=listed, t=loss: g.agg(**ASKED[ask], **t))))
        secret.add(str(outcome(lambda g=hidden, t=more: g.agg(**ASKED[ask], **t))))
    return whole, public, secret


FEW = [[], [None], [-7.5], [1.0, 2.0], [math.inf] * 50, [*[1.0] * 100, 1e9]]


@pytest.mark.parametrize(
    ("kind", "ask"),
    [*(("polars", ask) for ask in ASKED), ("arrow", "bounds")],
)
def test_any_rows_have_one_outcome(kind, ask):
    """Empty, missing, constant, infinite and ordinary columns end the same way: type for type."""
    found = outcomes(kind, ask, FEW)
    assert [len(kinds) for kinds in found] == [1, 1, 1]
    assert "Error" not in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ask", ASKED)
def test_any_rows_have_one_outcome_at_length(kind, ask):
    """The same for more columns: zeros, subnormals, huge, mixed, and all magnitudes at once."""
    found = outcomes(kind, ask, ROWS)
    assert [len(kinds) for kinds in found] == [1, 1, 1]
    assert "Error" not in str(found)


@pytest.mark.parametrize("spread", [0, 30])
def test_a_count_is_an_integer_however_many_bounds_there_are(spread):
    """The count's dtype is that of an integer, with no group, one pair of bounds, or many."""
    groups = [[2.0 ** (spread * k)] * 40 for k in range(3)]
    for rows, names in ((groups, "abc"), (groups[:1], "a"), ([[]], "a")):
        grouped = frame(rows, list(names)).dp.group_by("g")
        released = grouped.agg(dfp.mean("x"), n=dfp.count("x"), epsilon=9, delta=1e-3)
        assert released.schema["n"] == pl.Int64


@pytest.mark.parametrize("ask", ["mean", "sum", "var", "std"])
def test_few_rows_are_unknown(ask):
    """Of one row or none nothing is said: not a number, anywhere, and no bounds."""
    for rows in ([], [5.0], [None], [1e300]):
        answer = getattr(frame(rows).dp, ask)("x", epsilon=0.1)
        if answer.bounds is None:  # noise alone finds bounds once in a thousand calls
            assert math.isnan(answer)
            assert (answer.low, answer.high) == (-math.inf, math.inf)
    found = [frame([5.0]).dp.mean("x", epsilon=0.1).bounds for _ in range(20)]
    assert found.count(None) >= 15  # five of twenty: below 1e-9


class Tape:
    """Both mechanisms of an octave part: what they were given, and answers to repeat."""

    def __init__(self, patch, replayed=None):
        self.replayed, self.tables, self.sums, self.found, self.noisy = replayed, [], [], [], []
        self.true = octave_bounds.exceedances, octaves.add_noise
        patch.setattr(octave_bounds, "exceedances", self.exceedances)
        patch.setattr(octaves, "add_noise", self.add_noise)

    def exceedances(self, table, epsilon, heights, entropy):
        self.tables.append((table, epsilon))
        repeated = self.replayed.found[len(self.found)] if self.replayed else None
        self.found.append(repeated or self.true[0](table, epsilon, heights, entropy))
        return self.found[-1]

    def add_noise(self, statistics, queries, noises):
        self.sums.append((statistics, queries, noises))
        repeated = self.replayed.noisy[len(self.noisy)] if self.replayed else None
        self.noisy.append(repeated or self.true[1](statistics, queries, noises))
        return self.noisy[-1]


def counts_by_place(table):
    places = zip(table.group.tolist(), table.bins.tolist(), strict=True)
    return dict(zip(places, table.rows.tolist(), strict=True))


def spent(one, other):
    """Return what two recorded inputs cost together, in units of the noise that was drawn."""
    total = Fraction(0)
    for (table, epsilon), (twin, _) in zip(one.tables, other.tables, strict=True):
        left, right = counts_by_place(table), counts_by_place(twin)
        places = left.keys() | right.keys()
        total += epsilon * sum(abs(left.get(p, 0) - right.get(p, 0)) for p in places)
    for (statistics, queries, noises), (twin, again, same) in zip(
        one.sums, other.sums, strict=True
    ):
        assert (queries, noises) == (again, same)
        for query, noise in zip(queries, noises, strict=True):
            assert isinstance(noise, DiscreteLaplace)
            gaps = np.abs(statistics.coordinates(query) - twin.coordinates(query)).sum(axis=0)
            assert max(gaps, default=0) <= query.l1
            total += Fraction(int(gaps.sum())) / noise.scale
    return total


@settings(max_examples=15)
@given(data=st.data())
def test_one_row_costs_no_more_than_epsilon(data, rows, table_of):
    """One row costs no more than epsilon.

    With the noisy numbers frozen, neighbours give the same frame, bit for bit, and what both
    mechanisms were given differs by at most epsilon in units of their own noise.
    """
    many = [{"g": g, "h": 0, "x": x, "i": 3} for g, x in (("a", 3.0), ("b", -700.0))] * 40
    drawn = many + data.draw(st.lists(rows, min_size=1, max_size=8))
    out = data.draw(st.integers(0, len(drawn) - 1))
    sides = [table_of(drawn), table_of(drawn[:out] + drawn[out + 1 :])]
    if data.draw(st.booleans()):
        sides.reverse()
    asked = ASKED[data.draw(st.sampled_from(["mean", "sum", "var", "std and count"]))]
    epsilon = data.draw(st.sampled_from([1, 3]))
    tapes, shown = [], []
    for side in sides:
        with pytest.MonkeyPatch.context() as patch:
            tapes.append(Tape(patch, tapes[0] if tapes else None))
            grouped = dfp.frame(side).group_by("g", keys=["a", "b", "zz", None])
            shown.append(str(grouped.agg(**asked, epsilon=epsilon).to_pydict()))
    assert shown[0] == shown[1]
    assert spent(*tapes) <= epsilon


@pytest.mark.parametrize("rows", [2, 400])
def test_the_shares_add_up_to_epsilon(rows):
    """A row in one octave costs exactly epsilon for a mean, with bounds found and without."""
    with pytest.MonkeyPatch.context() as patch:
        one = Tape(patch)
        dfp.frame(frame([3.0] * rows)).mean("x", epsilon=1)
    with pytest.MonkeyPatch.context() as patch:
        other = Tape(patch, one)
        dfp.frame(frame([3.0] * (rows + 1))).mean("x", epsilon=1)
    assert spent(one, other) == 1


def stage_one(heights):
    """Return a replacement of the noisy histogram: chosen heights of groups, by their key."""

    def found(table, epsilon, least, entropy):
        names = table.keys.column(0).to_pylist()
        chosen = sorted((names.index(g), b, h) for g, b, h in heights if g in names)
        columns = [np.array(c) for c in zip(*chosen, strict=True)]
        return Exceedances(columns[0], columns[1], columns[2].astype(float))

    return found


@pytest.mark.parametrize("others", [1, 2, 5])
@pytest.mark.parametrize("ask", ["mean", "sum", "var", "std and count", "several"])
def test_a_group_that_is_not_shown_lends_no_bounds(ask, others, monkeypatch):
    """A group that is not shown lends no bounds.

    Even where stage one finds bounds for groups of one row, what is said of groups without bounds
    is the same with them as without them; groups that are shown do lend theirs.
    """
    heights = [("a", 130, 99.0), *((f"one {k}", 160 + k, 99.0) for k in range(5))]
    monkeypatch.setattr(octave_bounds, "exceedances", stage_one(heights))
    shown = []
    for extra, copies in ((0, 0), (others, 1), (others, 30)):
        named = {"a": [5.0] * 40, "no bounds": [3.0, 6.0] * 30}
        named |= {f"one {k}": [2.0 ** (33 + k)] * copies for k in range(extra)}
        grouped = frame(list(named.values()), list(named)).dp.group_by("g")
        released = grouped.agg(**ASKED[ask], epsilon=2**59, delta=1e-9)
        shown.append(released.filter(pl.col("g") == "no bounds").to_dicts())
        assert set(released["g"]) == {"a", "no bounds"} | (set(named) if copies > 1 else set())
    assert shown[0] == shown[1]
    assert shown[0] != shown[2]


@pytest.mark.parametrize(
    ("asked", "selections"),
    [
        ({"m": dfp.mean("x")}, 1),
        ({"m": dfp.mean("x"), "n": dfp.count("x")}, 1),
        ({"m": dfp.mean("x"), "n": dfp.count()}, 2),
        ({"m": dfp.mean("x"), "i": dfp.mean("i")}, 2),
        ({"m": dfp.mean("x"), "i": dfp.sum("i"), "n": dfp.count()}, 3),
        ({"m": dfp.mean("x", (0, 9)), "n": dfp.count()}, 1),
    ],
)
def test_all_selections_of_groups_share_one_delta(asked, selections, monkeypatch):
    """All selections of groups share one delta.

    Each noisy count that decides which groups are shown, or which lend their bounds, has its part
    of delta; the parts of the counts that judge one group add up to no more than delta.
    """
    judged = []
    true = answers.CountPiece.kept

    def kept(self, rule):
        judged.append((self.vector, self.groups.tolist(), rule.delta))
        return true(self, rule)

    monkeypatch.setattr(answers.CountPiece, "kept", kept)
    delta = Fraction(1, 4)
    rows = [[5.0] * 60, [1.0], [0.1, 3.0]]
    frame(rows, list("abc")).dp.group_by("g").agg(**asked, epsilon=3, delta=0.25)
    vectors = {id(vector): (groups, each) for vector, groups, each in judged}
    for group in range(3):
        parts = [each for groups, each in vectors.values() if group in groups]
        assert sum(parts) <= delta
        assert set(parts) == {delta / selections}


def replayed(patch, seed=1):
    """Make the operating system's random bytes the same for every release that follows."""
    generator = np.random.default_rng(seed)
    patch.setattr(entropy, "os", SimpleNamespace(urandom=generator.bytes))


@pytest.mark.parametrize("ask", ["mean", "sum", "var", "std"])
def test_a_larger_unit_changes_the_scale_only(ask):
    """With the same random bytes, data 2**20 times as large have answers as much larger."""
    values = np.random.default_rng(3).normal(40, 30, 500)
    results = []
    for factor in (1.0, 2.0**20):
        for kind in KINDS.values():
            with pytest.MonkeyPatch.context() as patch:
                replayed(patch)
                private = dfp.frame(kind(frame((values * factor).tolist())))
                answer = getattr(private, ask)("x", epsilon=1)
                scale = factor**2 if ask == "var" else factor
                bounds = (answer.bounds.lower / factor, answer.bounds.upper / factor)
                results.append((answer / scale, answer.low / scale, answer.high / scale, *bounds))
    assert len(set(results)) == 1


def test_the_order_of_rows_changes_nothing():
    """With the same random bytes, the same rows in another order give the same numbers."""
    values = [*np.random.default_rng(4).normal(0, 9, 300).tolist(), 1e9, 5e-324, 0.0]
    found = set()
    for rows in (values, values[::-1], sorted(values)):
        with pytest.MonkeyPatch.context() as patch:
            replayed(patch)
            found.add(str(frame(rows).dp.agg(**ASKED["std and count"], epsilon=1)))
    assert len(found) == 1


def test_a_failing_source_releases_nothing(monkeypatch):
    """Wherever the operating system gives out, the call ends in `EntropyError`."""
    true = entropy.os.urandom
    for limit in range(5):
        calls = itertools.count()

        def failing(size, calls=calls, limit=limit):
            return true(size) if next(calls) < limit else true(size)[:-1]

        monkeypatch.setattr(entropy, "os", SimpleNamespace(urandom=failing))
        with pytest.raises(dfp.EntropyError):
            frame([3.0] * 99).dp.mean("x")


@pytest.mark.parametrize("kind", KINDS)
def test_a_histogram_counts_each_value_where_it_is(kind):
    """A histogram counts each value where it is.

    A bin has its lower edge, the last has both; what is beyond the edges, NULL and NaN are in
    none, and infinities neither.
    """
    values = [0.0, -0.0, 4.0, 7.99, 8.0, 16.0, 16.1, -1e-300, math.inf, -math.inf, math.nan, None]
    private = dfp.frame(KINDS[kind](frame(values)))
    found = pl.DataFrame(private.histogram("x", bins=[0, 4, 8, 16], epsilon=1e12))
    assert found.columns == ["lower", "upper", "count", "low", "high"]
    assert found.select("lower", "upper", "count").rows() == [(0, 4, 2), (4, 8, 2), (8, 16, 2)]
    assert (found["low"] == found["count"]).all()


def test_a_histogram_finds_its_edges():
    """Found edges are equal bins between octave edges, and hold what lies between them."""
    values = np.random.default_rng(5).uniform(33, 120, 5000)
    found = frame(values.tolist()).dp.histogram("x", bins=12, epsilon=1e9)
    assert found["lower"].to_list() == np.linspace(32, 128, 13)[:-1].tolist()
    assert found["upper"].to_list() == np.linspace(32, 128, 13)[1:].tolist()
    assert found["count"].sum() == 5000


def test_a_histogram_of_nobody_has_edges_too():
    """Without rows the edges are public ones, and the schema is that of any other histogram."""
    few, many = (frame(rows).dp.histogram("x", bins=4, epsilon=0.1) for rows in ([], [5.0] * 999))
    assert few.schema == many.schema
    assert len(few) == len(many) == 4


@pytest.mark.parametrize("bins", [1, 4, 100])
def test_a_histogram_shows_a_group_by_one_of_its_bins(bins, monkeypatch):
    """A secret group is shown from the count on that one row reaches with delta / bins at most."""
    monkeypatch.setattr(histogram, "add_to", lambda exact, noise: exact)
    delta = Fraction(1, 1000)
    least = threshold(DiscreteLaplace(Fraction(1)), 1, 1, delta / bins)
    assert Fraction(math.exp(-(least - 2))) / 2 > delta / bins / 4  # not far too cautious
    named = {"shown": [0.5] * least, "below": [0.5] * (least - 1), "one": [0.5]}
    named["spread"] = [0.5 + k % bins for k in range(least if bins > 1 else 1)]
    private = frame(list(named.values()), list(named)).dp.group_by("g")
    edges = [float(k) for k in range(bins + 1)]
    found = private.histogram("x", bins=edges, epsilon=1, delta=0.001)
    assert found["g"].unique().to_list() == ["shown"]
    assert len(found) == bins


def test_a_histogram_by_group_has_the_same_bins_for_all():
    """By group every group has all bins, sorted by key; absent public groups are counted too."""
    private = frame([[1.0] * 9, [], [3.0] * 4], list("abc")).dp
    found = private.group_by("g", keys=["c", "b", "a"]).histogram("x", bins=[0, 2, 4], epsilon=1e12)
    assert found["g"].to_list() == ["a", "a", "b", "b", "c", "c"]
    assert found["count"].to_list() == [9, 0, 0, 0, 0, 4]


INTEGERS = {
    "integers beyond 2**53": ("BIGINT", [2**62 + 1, 2**62 - 1] * 40),
    "unsigned": ("UBIGINT", [2**64 - 1] * 80),
    "booleans": ("BOOLEAN", [True, True, False, True] * 20),
    "decimals": ("DECIMAL(18, 3)", [Fraction(7, 4), Fraction(5, 4)] * 40),
}


@pytest.mark.parametrize("kind", INTEGERS)
def test_other_numbers_have_the_mean_of_their_values(kind):
    """Large integers, booleans and decimals have their mean, to 22 bits and the grid."""
    declared, values = INTEGERS[kind]
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (x {declared})")
    texts = ", ".join(f"({float(v) if isinstance(v, Fraction) else v})" for v in values)
    connection.execute(f"INSERT INTO t VALUES {texts}")
    mean = dfp.frame(connection.table("t")).mean("x", epsilon=2**50)
    exact = sum(map(Fraction, values)) / len(values)
    assert mean == pytest.approx(float(exact), rel=2**-20)


def test_linear_answers_are_not_touched():
    """A question with bounds beside one without is answered by its own part, in its own bounds."""
    asked = {"m": dfp.mean("x", (0, 4)), "x": dfp.mean("x")}
    found = frame([5.0] * 400).dp.agg(**asked, epsilon=1e9)
    assert [found["m"].bounds.upper, found["x"].bounds.upper] == [4.0, 8.0]
    assert [float(found["m"]), float(found["x"])] == pytest.approx([4.0, 5.0])
