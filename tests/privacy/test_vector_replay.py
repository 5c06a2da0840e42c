"""Means of vectors on tape: what one row changes costs no more than rho, and shows nowhere else.

Every draw of noise is recorded on a data set with what was given to it, and repeated on its
neighbour. Then all that is left must be equal, and what the mechanisms were given may differ by no
more than the noise pays for: the sum over all draws of (L2 distance)^2 / (2 sigma^2) is the rho
that was really spent. Under add-remove the last row is left out, so that public coins (signs,
buckets) fall for the other rows as they did; under replace any row is replaced.
"""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy.frames import vector_release
from dfprivacy.measurement.vectors import Buffers, ItemRows, incomplete, vector_grid
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.laws import KeyRule
from dfprivacy.noise.selection import ExponentialMechanism
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators import private_quantiles, vector_means
from dfprivacy.statistics.estimators.private_quantiles import CHOOSERS, RELATIONS, Mechanics
from dfprivacy.statistics.estimators.vector_means import (
    ClippedMean,
    PlanItems,
    PlanMean,
    ShiftedMean,
)

SELECT = ExponentialMechanism.select
MODULES = (vector_means, private_quantiles)


class Tape:
    """What the mechanisms were given, and the answers to repeat."""

    def __init__(self, answers=None):
        self.answers = None if answers is None else iter(answers)
        self.calls = []

    def add_to(self, exact, noise, _entropy=system_entropy):
        noisy = add_to(exact, noise) if self.answers is None else next(self.answers)
        self.calls.append((np.array(exact), noise, noisy))
        return noisy.copy()

    def selecting(self):
        def select(mechanism, runs, entropy=system_entropy):
            return self.select(mechanism, runs, entropy)

        return select

    def select(self, mechanism, runs, _entropy=system_entropy):
        chosen = SELECT(mechanism, runs) if self.answers is None else next(self.answers)
        assert (runs.length == 1).all()
        self.calls.append((runs.loss.reshape(len(runs.group_starts), -1), mechanism, chosen))
        return chosen.copy()


@contextmanager
def on(tape):
    """Put every mechanism on tape."""
    patches = [mock.patch.object(module, "add_to", tape.add_to) for module in MODULES]
    patches.append(mock.patch.object(ExponentialMechanism, "select", tape.selecting()))
    for patch in patches:
        patch.start()
    try:
        with permit("a test"):
            yield
    finally:
        for patch in patches:
            patch.stop()


def counting_bytes():
    """Return a byte source that gives the same bytes to every run."""
    draws = np.random.default_rng(11)
    return draws.bytes


def run(passes, blocks):
    buffers = Buffers()
    try:
        table = next(passes)
        while True:
            for block in blocks:
                table.add(block, buffers)
            table = next(passes)
    except StopIteration as done:
        return done.value


METHODS = {
    "clipped": ClippedMean,
    "shifted": ShiftedMean,
    "shifted, one pass": lambda g, rho, how: ShiftedMean(g, rho, how, (6,), 7, 2),
    "plan": PlanMean,
    "plan, l1": lambda g, rho, how: PlanMean(g, rho, how, Fraction(1)),
    "plan, generic": lambda g, rho, how: PlanMean(g, rho, how, Fraction(3), "generic"),
}


def mean_on(tape, x, method, relation, quantiles, rho):
    grid = vector_grid(x.shape[1], 8.0)
    whole = grid.integers(x, np.empty(x.shape))
    bad = incomplete(whole)
    if relation == "replace":
        whole[bad] = 0.0
    rows = whole if relation == "replace" else whole[~bad]
    blocks = [rows[first : first + 5] for first in range(0, len(rows), 5)]
    how = Mechanics(RELATIONS[relation], CHOOSERS[quantiles], counting_bytes())
    with on(tape):
        return run(METHODS[method](grid, rho, how).passes(), blocks)


def shown(mean):
    """Return everything that a caller can see of a mean."""
    low, high = mean.interval(0.9)
    arrays = (mean.value(), low, high, mean.standard_error(), mean.centre, mean.scale)
    return [array.tolist() for array in arrays] + [mean.rows, mean.threshold, mean.noise]


def spent(recorded, replayed):
    """Return the rho that the difference between two recordings has cost."""
    assert len(recorded.calls) == len(replayed.calls)
    total = Fraction(0)
    for (left, law, _), (right, same, _) in zip(recorded.calls, replayed.calls, strict=True):
        assert law == same
        assert left.shape == right.shape
        if isinstance(law, ExponentialMechanism):  # bounded range: 2 * rate * gap for each choice
            gaps = np.abs(left - right).max(axis=1).tolist()
            total += sum((2 * law.rate * gap) ** 2 / 8 for gap in gaps)
        else:
            gap = [int(a) - int(b) for a, b in zip(left.flat, right.flat, strict=True)]
            total += Fraction(sum(g * g for g in gap)) / (2 * law.sigma_squared)
    return total


VALUES = st.one_of(
    st.floats(-9, 9), st.sampled_from([0.0, 8.0, -8.0, np.inf, -np.inf, np.nan, 1e300, 5e-324])
)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=12)
@given(data=st.data())
def test_dense_means_cost_rho(method, relation, data):
    """A row more, or another one in its place, costs at most rho; nothing else shows it."""
    dimension = data.draw(st.sampled_from([1, 2, 3, 5]))
    rows = st.lists(VALUES, min_size=dimension, max_size=dimension)
    x = np.array(data.draw(st.lists(rows, min_size=1, max_size=14)), float)
    rho = data.draw(st.sampled_from([Fraction(1, 2), Fraction(50), Fraction(10**9)]))
    if relation == "replace":
        other = x.copy()
        other[data.draw(st.integers(0, len(x) - 1))] = data.draw(rows)
    else:
        other = x[:-1]
    recorded = Tape()
    first = mean_on(recorded, x, method, relation, "search", rho)
    replayed = Tape(answer for *_, answer in recorded.calls)
    second = mean_on(replayed, other, method, relation, "search", rho)
    assert shown(first) == shown(second)
    assert spent(recorded, replayed) <= rho


@pytest.mark.parametrize("method", ["shifted, one pass", "plan"])
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=4)
@given(data=st.data())
def test_means_by_selection_cost_rho(method, relation, data):
    """With the exponential mechanism for quantiles the same holds, by bounded range."""
    rows = st.lists(st.floats(-9, 9), min_size=2, max_size=2)
    x = np.array(data.draw(st.lists(rows, min_size=2, max_size=9)), float)
    other = x[:-1]
    if relation == "replace":
        other = np.concatenate([x[:-1], [data.draw(rows)]])
    recorded = Tape()
    first = mean_on(recorded, x, method, relation, "selection", Fraction(2))
    replayed = Tape(answer for *_, answer in recorded.calls)
    second = mean_on(replayed, other, method, relation, "selection", Fraction(2))
    assert shown(first) == shown(second)
    assert spent(recorded, replayed) <= 2


SETS = st.sets(st.integers(0, 6), max_size=7)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("p", [None, Fraction(1), Fraction(2)])
@settings(max_examples=25)
@given(data=st.data())
def test_item_means_cost_rho(relation, p, data):
    """A set more, or another one in its place, costs at most rho; full sets are the worst."""
    sets = data.draw(st.lists(SETS, min_size=1, max_size=12))
    sets[-1] = data.draw(st.sampled_from([set(range(7)), set(), sets[-1]]))
    other = sets[:-1] + ([data.draw(SETS)] if relation == "replace" else [])

    def mean(tape, part):
        row = np.repeat(np.arange(len(part)), [len(own) for own in part])
        item = np.array([i for own in part for i in sorted(own)], np.int64)
        how = Mechanics(RELATIONS[relation], CHOOSERS["search"], counting_bytes())
        with on(tape):
            return run(PlanItems(7, Fraction(3), how, p).passes(), [ItemRows(len(part), row, item)])

    recorded = Tape()
    first = mean(recorded, sets)
    replayed = Tape(answer for *_, answer in recorded.calls)
    second = mean(replayed, other)
    assert shown(first) == shown(second)
    assert spent(recorded, replayed) <= 3


def test_the_tape_sees_an_overspent_budget():
    """Accounting with half of a sum's sensitivity is found out: the test has power."""
    x = np.array([[8.0, 8.0]] * 3)

    class Careless(type(RELATIONS["add-remove"])):
        sum_factor = Fraction(1, 4)

    with mock.patch.dict(RELATIONS, {"add-remove": Careless()}):
        recorded = Tape()
        mean_on(recorded, x, "clipped", "add-remove", "search", Fraction(10**9))
        replayed = Tape(answer for *_, answer in recorded.calls)
        mean_on(replayed, x[:-1], "clipped", "add-remove", "search", Fraction(10**9))
    assert spent(recorded, replayed) > 10**9


@pytest.mark.parametrize("keys", [["a", "b", "zz"], None])
def test_groups_pay_for_their_own_rows(keys):
    """By group, a row more changes the draws of its own group alone, within rho."""
    frame = pl.DataFrame(
        {"g": ["a"] * 4 + ["b"] * 5, "x": [1.0, 2, 3, 4, 5, 6, 7, 8, 9], "y": [0.5] * 9}
    )
    groups = []

    def released(part, tape):
        counts = []

        def add_noise(statistics, queries, noises):
            noisy = vector_release_add_noise(statistics, queries, noises)
            counts.append((statistics, noises[0]))
            if groups:
                return groups[0]
            groups.append(noisy)
            return noisy

        with (
            on(tape),
            mock.patch.object(vector_release, "add_noise", add_noise),
            mock.patch.object(KeyRule, "least", return_value=-(10**9)),
        ):
            private = part.dp.group_by("g", keys=keys)
            terms = {"rho": 4, "radius": 20, "delta": None if keys else 0.01}
            result = private.mean_vector(["x", "y"], method="clipped", **terms)
        return result, counts

    vector_release_add_noise = vector_release.add_noise
    recorded = Tape()
    first, before = released(frame, recorded)
    replayed = Tape(answer for *_, answer in recorded.calls)
    second, after = released(frame[:-1], replayed)
    assert first.equals(second)
    (left, noise), (right, _) = before[0], after[0]
    rows = [s.table.column("sum_0_0").to_pylist() for s in (left, right)]
    assert sum(abs(a - b) for a, b in zip(*rows, strict=True)) == 1
    assert spent(recorded, replayed) + 1 / (2 * noise.sigma_squared) <= 4


def test_the_public_way_spends_what_it_says():
    """`mean_vector` charges a ledger its rho, and its draws cost no more."""
    frame = pl.DataFrame({"x": np.linspace(-5, 5, 40), "y": np.linspace(0, 1, 40)})
    signs = mock.patch(
        "dfprivacy.statistics.estimators.vector_means.random_signs", lambda size, _: np.ones(size)
    )
    recorded = Tape()
    with signs, on(recorded):
        first = frame.dp.mean_vector(["x", "y"], rho=0.5, radius=10)
    replayed = Tape(answer for *_, answer in recorded.calls)
    with signs, on(replayed):
        second = frame[:-1].dp.mean_vector(["x", "y"], rho=0.5, radius=10)
    assert repr(first) == repr(second)
    assert isinstance(first, dfp.VectorEstimate)
    assert 0 < spent(recorded, replayed) <= Fraction(1, 2)
