"""Selections take runs of any shape, and without runs or random bytes there is no choice."""

import copy
import itertools
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy.errors import EntropyError, InvalidLossError, InvalidQuestionError
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.race import BLOCK, Runs, blocks
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip, uniform_below
from tests.noise.exact_references import TOP
from tests.noise.race_references import RATE, Played
from tests.noise.selection_laws import MECHANISMS, both, repeated, runs_of

# Blocks and shapes


@both
def test_all_weight_on_the_least_loss(mechanism):
    """At a huge rate each group's own least loss wins, wherever blocks are cut."""
    random = np.random.default_rng()
    sizes = [*random.integers(1, 50, 3000).tolist(), 3 * BLOCK + 5, 1, 2, BLOCK, *[1] * BLOCK, 7]
    starts = np.cumsum([0, *sizes])[:-1]
    total = sum(sizes)
    losses = np.concatenate([random.permutation(size) for size in sizes])
    runs = Runs(starts, np.arange(total), np.ones(total, np.int64), losses)
    least = np.flatnonzero(losses == 0)
    assert mechanism(Fraction(2**500)).select(runs).tolist() == least.tolist()


def test_blocks_cover_all_groups_once():
    """Blocks are whole groups, in order, without gap or overlap."""
    random = np.random.default_rng(3)
    for sizes in (
        [1],
        [BLOCK],
        [1, 3 * BLOCK],
        [BLOCK, BLOCK],
        [3 * BLOCK, 1, 1],
        [1, 3 * BLOCK, 1],
    ):
        for extra in ([], random.integers(1, 9, 20_000).tolist()):
            counts = [*sizes, *extra]
            starts = np.cumsum([0, *counts])[:-1]
            found = list(blocks(starts, sum(counts)))
            assert [found[0][0].start, found[0][1].start] == [0, 0]
            assert [found[-1][0].stop, found[-1][1].stop] == [len(counts), sum(counts)]
            for (groups, runs), (later, more) in itertools.pairwise(found):
                assert groups.stop == later.start
                assert runs.stop == more.start == starts[later.start]
                assert runs.stop - runs.start < BLOCK + max(counts)


@both
def test_shapes(mechanism):
    """No group, one candidate, and the ends of int64."""
    nothing = np.empty(0, np.int64)
    assert mechanism(1).select(Runs(nothing, nothing, nothing, nothing)).shape == (0,)
    last, least = 2**63 - 1, -(2**63)
    runs = runs_of([(last, 1, 2**53 - 1)], [(least, 1, 0)], [(last - 2**61, 2**61 + 1, 3)])
    chosen = mechanism(Fraction(1)).select(runs)
    assert chosen.dtype == np.int64
    assert chosen[:2].tolist() == [last, least]
    assert chosen[2] >= last - 2**61


@pytest.mark.parametrize(
    "change",
    [
        {"group_starts": np.array([1])},
        {"group_starts": np.array([0, 0])},
        {"group_starts": np.array([0, 2])},
        {"group_starts": np.array([], np.int64)},
        {"group_starts": np.array([0.0])},
        {"first": np.array([2**63 - 1, 0])},
        {"first": np.array([0])},
        {"first": [0, 5]},
        {"length": np.array([0, 1])},
        {"length": np.array([1, 2**62])},
        {"length": np.array([1, 2], np.int32)},
        {"loss": np.array([-1, 0])},
        {"loss": np.array([0, 2**53])},
        {"loss": np.array([[0, 1]])},
    ],
    ids=str,
)
def test_other_arrays_are_refused(change):
    """Arrays that are not runs are refused, with one message whatever they hold."""
    columns = {
        "group_starts": np.array([0]),
        "first": np.array([0, 5]),
        "length": np.array([5, 5]),
        "loss": np.array([1, 0]),
    }
    Runs(**columns)
    with pytest.raises(InvalidQuestionError) as caught:
        Runs(**{**columns, **change})
    assert caught.value.message == "these arrays are not runs of candidates"


@both
def test_other_parameters_are_refused(mechanism):
    """Rates, losses and sensitivities are exact and in range, or an InvalidLossError."""
    for rate in (0, -1, 0.5, True, None, "1", Fraction(1, 2**501), 2**501):
        with pytest.raises(InvalidLossError):
            mechanism(rate)
    for value, sensitivity in ((0, 1), (-1, 1), (0.1, 1), (1, 0), (1, 1.0), (1, True), (1, -2)):
        for build in (mechanism.for_epsilon, mechanism.for_rho):
            with pytest.raises(InvalidLossError):
                build(value, sensitivity)


def test_secrets_do_not_show():
    """Nothing of the runs is in their repr, and the laws are plain values."""
    runs = runs_of([(123456, 789, 4242)], [(5, 1, 0)])
    assert repr(runs) == str(runs) == f"{runs}" == "Runs(secret)"
    for mechanism in MECHANISMS:
        law = mechanism(Fraction(1, 3))
        assert repr(law) == f"{mechanism.__name__}(rate=Fraction(1, 3))"
        assert pickle.loads(pickle.dumps(law)) == copy.deepcopy(law) == law
        assert vars(law) == {"rate": Fraction(1, 3)}
    assert ExponentialMechanism(1) != PermuteAndFlip(1)


@pytest.mark.parametrize("length", [3, 7, 10**6, 2**61 + 1, 2**62 - 1])
def test_words_beyond_the_last_multiple_are_refused(length):
    """A word below the largest multiple of the length is taken modulo it; others are replaced."""
    limit = TOP // length * length
    for word in (0, length - 1, length, limit - 1):
        assert uniform_below(np.array([length]), Played([word])).tolist() == [word % length]
    for word in {limit, TOP - 1}:
        assert uniform_below(np.array([length]), Played([word, 5])).tolist() == [5 % length]


# Random bytes


@both
def test_failing_sources_give_no_choice(mechanism, monkeypatch):
    """A source that fails, at once or late, or gives too little, is an EntropyError."""
    runs = repeated([(0, 3, 1), (3, 5, 0)], 30_000)
    with pytest.raises(EntropyError):
        mechanism(RATE).select(runs, lambda size: system_entropy(size)[:-1])
    for good in range(8):
        calls = iter(range(good))

        def source(size, calls=calls):
            if next(calls, None) is None:
                raise EntropyError("no more")
            return system_entropy(size)

        with pytest.raises(EntropyError):
            mechanism(RATE).select(runs, source)

    def failing(size):
        raise OSError("no entropy")

    monkeypatch.setattr(os, "urandom", failing)
    with pytest.raises(EntropyError):
        mechanism(RATE).select(runs)


@both
def test_stuck_sources_are_errors(mechanism):
    """The same bytes for ever tie two equal runs for ever: an EntropyError, not an endless loop."""
    for source in (bytes, lambda size: b"\xff" * size, Played([])):
        with pytest.raises(EntropyError):
            mechanism(RATE).select(runs_of([(0, 3, 1), (3, 3, 1)]), source)
    with pytest.raises(EntropyError):
        uniform_below(np.array([3]), lambda size: b"\xff" * size)


@both
def test_every_call_draws_afresh(mechanism):
    """Choices among 2**61 candidates never coincide (probability below 1e-9), call after call."""
    runs = repeated([(0, 2**61, 0)], 10_000)
    law = mechanism(RATE)
    chosen = np.concatenate([law.select(runs), law.select(runs), copy.copy(law).select(runs)])
    assert len(np.unique(chosen)) == len(chosen)
