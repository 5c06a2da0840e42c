"""Answers without bounds: one row costs what was paid, and no group lends another its bounds."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy.estimators import octave_bounds
from dfprivacy.noise.exceedances import Exceedances
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.release import answers
from dfprivacy.statistics import octaves
from tests.privacy.unbounded_questions import ASKED, frame


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
