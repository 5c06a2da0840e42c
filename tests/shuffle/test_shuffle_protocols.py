"""Protocols of the shuffle model: three parts that exchange tables, and their answers."""

import json
import os
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.numbered_bytes import NumberedBytes

RANDOM = np.random.default_rng(31)
VALUES = RANDOM.normal(50, 10, 3000)
COST = {"epsilon": 1, "delta": 1e-6}


def run(protocol, values):
    """Hand data from part to part, as JSON and tables."""
    while not protocol.finished:
        public = dfp.shuffle.Protocol.from_json(protocol.to_json())
        assert public == protocol
        halves = [public.messages(values[:1000]), public.messages(values[1000:])]
        protocol = protocol.analyze(dfp.shuffle.shuffle(dfp.shuffle.join_messages(halves)))
    return protocol.estimate()


def test_a_total_and_a_mean_are_found():
    """Answers lie within eleven standard errors (false alarms below 1e-6), and say their cost."""
    total = run(dfp.shuffle.total(users=3000, bounds=(0, 100), **COST), VALUES)
    assert abs(total - VALUES.sum()) < 11 * total.std_error
    assert (total.epsilon, total.delta) == (1, 1e-6)
    assert total.low < total < total.high
    mean = run(dfp.shuffle.mean(users=3000, bounds=(0, 100), **COST), VALUES)
    assert abs(mean - VALUES.mean()) < 11 * mean.std_error < 1


def test_answers_survive_a_pickle():
    """A copy of an answer knows all that the answer knows."""
    plan = dfp.shuffle.mean(users=3000, bounds=(0, 100), **COST)
    rank = dfp.shuffle.quantile(users=3000, q=0.5, bounds=(0, 100), resolution=2, **COST)
    for answer in (run(plan, VALUES), run(rank, VALUES)):
        copied = pickle.loads(pickle.dumps(answer))
        assert (float(copied), repr(copied)) == (float(answer), repr(answer))


def test_missing_values_count_as_documented():
    """NULL is 0 in a total, or the nearer bound, and the middle of the bounds in a mean.

    Of 60 steps all of these are one, so that nothing is rounded at random: the noise of a total
    is 33 scales below its bound, that of the mean more (false alarms below 1e-12).
    """
    nothing = [None] * 3000
    cost = {"epsilon": 30, "delta": 1e-6, "steps": 60}
    assert abs(run(dfp.shuffle.total(users=3000, bounds=(-9, 9), **cost), nothing)) < 20
    total = run(dfp.shuffle.total(users=3000, bounds=(5, 9), **cost), nothing)
    assert abs(total - 15_000) < 20
    assert abs(run(dfp.shuffle.mean(users=3000, bounds=(5, 9), **cost), nothing) - 7) < 0.1


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.99])
def test_a_quantile_is_found(q):
    """Ranks are right to the noise of twelve counts (20 scales each: false alarms below 1e-7)."""
    plan = dfp.shuffle.quantile(users=3000, q=q, bounds=(0, 100), **COST)
    answer = run(plan, VALUES)
    slack = 20 * float(plan.list_sums(1).noise.scale) + 10
    ordered = np.concatenate([np.zeros(1), np.sort(VALUES), np.full(1, 100.0)])
    low = ordered[max(0, int(q * 3000 - slack))]
    high = ordered[min(3001, int(q * 3000 + slack) + 1)]
    assert low - 0.1 <= answer <= high + 0.1
    assert answer.epsilon == 1


def test_a_mean_of_vectors_is_found():
    """Far from the origin the error is that of noise around the medians, clipped near the data.

    Noise may hide the last rows from the search for the clip, which then stays above the radius:
    in fewer than one run of ten, in all of six in fewer than one of a million.
    """
    center = np.array([30.0, -20.0, 5.0])
    values = RANDOM.normal(center, 1.0, (3000, 3))
    values[7, 1] = np.nan
    plan = dfp.shuffle.mean_vector(
        users=3000, dimensions=3, radius=100, resolution=8, epsilon=4, delta=1e-6
    )
    answers = [run(plan, values) for _ in range(6)]
    for answer in answers:
        assert np.linalg.norm(answer.mean - center) < 12 * answer.error + 0.2
    assert min(answer.clip for answer in answers) < 100


def test_unshuffled_or_missing_messages_are_told():
    """The analyzer refuses anything but the whole messages of all users, by their public number."""
    plan = dfp.shuffle.total(users=3000, bounds=(0, 100), **COST)
    messages = plan.messages(VALUES)
    words, number = messages["word"], len(messages)
    for wrong in (
        messages[1:],
        dfp.shuffle.join_messages([messages, messages]),
        messages.drop(["query"]),
        messages.append_column("word", words),
        messages.set_column(0, "query", pa.array([1] + [0] * (number - 1))),
        messages.set_column(0, "query", pa.array([None] + [0] * (number - 1))),
        messages.set_column(1, "word", pa.array([None, *words[1:].to_pylist()], pa.uint64())),
        messages.set_column(1, "word", words.cast(pa.float64(), safe=False)),
    ):
        with pytest.raises(dfp.errors.InvalidProtocolError, match="messages of all 3000 users"):
            plan.analyze(wrong)
    with pytest.raises(dfp.errors.InvalidProtocolError, match="round 1 of 1"):
        plan.estimate()
    done = plan.analyze(messages)
    for call in (lambda: done.messages(VALUES), lambda: done.analyze(messages)):
        with pytest.raises(dfp.errors.InvalidProtocolError, match="all rounds are done"):
            call()


PLANS = {
    "total": ({"bounds": (0, 100)}, {"steps": True}, {"lower": 100.0}, {"divisor": 0}),
    "quantile": ({"q": 0.5, "bounds": (0, 9)}, {"rounds_done": 99}, {"cell": 1}, {"height": 4000}),
    "mean_vector": (
        {"dimensions": 3, "radius": 5, "resolution": 4},
        {"radius": 0.0}, {"radius": 1e-320}, {"cells": [1]}, {"length": -1}, {"steps": 2**40},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANS)
def test_rounds_and_plans_that_there_are_not_are_refused(kind):
    """Users read no other text, and no round or plan that neither planning nor messages give."""
    arguments, *changes = PLANS[kind]
    plan = getattr(dfp.shuffle, kind)(users=3000, **arguments, **COST)
    written = json.loads(plan.to_json())
    assert dfp.shuffle.Protocol.from_json(json.dumps(written)) == plan
    tops = [{"format": "x"}, {"epsilon": "zero"}, {"plan": {"kind": "none"}}, {"more": 1}]
    tops += [{"round": value} for value in (0, -1, True, 1.0, plan.rounds + 2)]
    tops += [{"users": value} for value in (18, True, 3000.0)]
    for top in [*tops, *({"plan": {**written["plan"], **change}} for change in changes)]:
        with pytest.raises(dfp.errors.InvalidProtocolError, match="no protocol"):
            dfp.shuffle.Protocol.from_json(json.dumps({**written, **top}))


def test_no_vector_raises_or_warns():
    """Vectors of any numbers become integers of the grid in every round, without a word."""
    odd = [[np.inf, 1.0], [1e308, 1e308], [np.inf, -np.inf], [np.nan, 1.0], [1e200, 0.0]]
    plan = dfp.shuffle.mean_vector(users=1000, dimensions=2, radius=5, resolution=2, **COST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while not plan.finished:
            inputs = plan.plan.encode(np.array(odd), plan.round, os.urandom)
            assert inputs.min() >= 0
            assert inputs.max() <= plan.plan.precision(plan.round)
            plan = plan.analyze(dfp.shuffle.shuffle(plan.messages(odd * 200)))


def test_masked_values_are_missing():
    """From the same random bytes users send for a masked value what they send for NaN."""
    values, hidden = np.arange(200.0), np.arange(200) % 3 == 0
    masked, plain = np.ma.masked_array(values, mask=hidden), np.where(hidden, np.nan, values)
    plan = dfp.shuffle.mean(users=200, bounds=(0, 200), **COST)
    messages, expected = (
        plan.messages(column, entropy=NumberedBytes()) for column in (masked, plain)
    )
    assert messages.equals(expected)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"epsilon": 64, "delta": 2.0**-90}, dfp.errors.InvalidLossError),
        ({"users": 18}, dfp.errors.InvalidProtocolError),
        ({"users": 2**33, "steps": 2**30}, dfp.errors.InvalidProtocolError),
        ({"delta": None}, dfp.MissingDeltaError),
        ({"delta": 1e-60}, dfp.errors.InvalidLossError),
        ({"epsilon": 1e-5}, dfp.errors.InvalidLossError),
        ({"bounds": None}, dfp.errors.InvalidBoundsError),
        ({"bounds": (1, 1)}, dfp.errors.InvalidBoundsError),
        ({"steps": 0}, dfp.errors.InvalidProtocolError),
    ],
)
def test_bad_plans_are_refused(arguments, error):
    """Arguments that make no protocol are typed errors with a hint."""
    with pytest.raises(error) as caught:
        dfp.shuffle.total(**{"users": 3000, "bounds": (0, 1), **COST, **arguments})
    assert caught.value.hint


def test_frames_simulate():
    """`df.dp.shuffle` answers on a frame, and spends what it says."""
    frame = pd.DataFrame({"x": VALUES})
    private = frame.dp(delta=1e-6).shuffle
    assert abs(private.sum("x", (0, 100), epsilon=2) - VALUES.sum()) < 2000
    assert abs(private.mean("x", (0, 100)) - 50) < 5
    assert 30 < private.quantile("x", 0.5, (0, 100)) < 70
    assert frame.dp(rho=0.001, delta=1e-6).shuffle.mean("x", (0, 100), epsilon=2).epsilon == 2
    with pytest.raises(dfp.MissingDeltaError):
        frame.dp.shuffle.sum("x", (0, 100))
    with pytest.raises(dfp.MissingColumnError):
        private.sum("y", (0, 100))


def test_shuffling_beats_the_local_model():
    """At the same epsilon the error of a mean is far below that of local reports."""
    shuffled = run(dfp.shuffle.mean(users=3000, bounds=(0, 100), **COST), VALUES)
    local = dfp.local.GridLaplace(2**20, dfp.shuffle.mean(
        users=3000, bounds=(0, 100), **COST).epsilon)  # fmt: skip
    error = 100 * (local.noise.variance / 3000) ** 0.5 / 2**20
    assert shuffled.std_error < error / 20
