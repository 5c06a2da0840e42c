"""Record on a data set, replay on its neighbour: nothing but the noisy numbers may tell them apart.

The idea is Re:cord-play's (arXiv 2602.17454): the one mechanism writes down what it was given on D
and what it answered; on the neighbour it gives the same answers again, so that any difference left
in the output is a leak, and what it was given may differ by the declared sensitivity only.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from fractions import Fraction

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.statistics import linear

ASKED = [
    {"n": dfp.count()},
    {"n": dfp.count("x")},
    {"m": dfp.mean("x", (-60, 61.5))},
    {"m": dfp.mean("x", (0, 100), method="shifted")},
    {"m": dfp.mean("x", (100, 101), method="independent")},
    {"s": dfp.sum("x", (-100, 3))},
    {"s": dfp.sum("x", (100, 101))},
    {"s": dfp.sum("i", (-7, -3))},
    {"v": dfp.var("x", (0, 100))},
    {"d": dfp.std("i", (-9, 9)), "n": dfp.count("i"), "m": dfp.mean("i", (-9, 9))},
    {"v": dfp.var("x", (0, 1)), "s": dfp.sum("x", (-1, 1)), "n": dfp.count(), "t": dfp.count("g")},
]
LOSSES = [{"epsilon": 1}, {"epsilon": 0.1}, {"epsilon": 3}, {"rho": 0.5}]
GROUPS = [
    {"by": ()},
    {"by": ("g",), "keys": ["a", "b", "zz", None]},
    {"by": ("h",), "keys": [0, 1, 7]},
    {"by": ("g",), "delta": 0.3},
    {"by": ("g", "h"), "delta": 1e-3},
]


class Tape:
    """What the mechanism was given, and the answers to repeat."""

    def __init__(self, answers=None):
        self.answers, self.calls = answers, []

    def add_noise(self, statistics, queries, noises):
        noisy = self.answers or ADD_NOISE(statistics, queries, noises)
        self.calls.append((statistics, queries, noises, noisy))
        return noisy


ADD_NOISE = linear.add_noise


def released(frame, asked, loss, group, tape):
    """Run a release with the mechanism on tape; return everything an observer sees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "add_noise", tape.add_noise)
        private = dfp.frame(frame)
        if not group["by"]:
            answers = private.agg(**asked, **loss)
            return {n: (float(a), a.low, a.high, a.std_error, repr(a)) for n, a in answers.items()}
        grouped = private.group_by(*group["by"], keys=group.get("keys"))
        return shown(grouped.agg(**asked, **loss, delta=group.get("delta")))


def shown(result):
    """Return schema and content of any kind of frame."""
    if hasattr(result, "collect"):
        result = result.collect()
    if hasattr(result, "dtypes") and hasattr(result, "index"):
        return str(result.dtypes), str(result.index), result.to_csv()
    table = result.to_arrow_table() if hasattr(result, "to_arrow_table") else pa.table(result)
    return str(table.schema), table.to_pydict()


def by_group(call):
    """Return the exact vectors of each query, by group key."""
    statistics, queries, _, _ = call
    keys = [tuple(row.values()) for row in statistics.key_table().to_pylist()]
    keys = keys if statistics.keys else [()]
    vectors = [statistics.coordinates(query) for query in queries]
    return [
        {key: [int(v) for v in vector[:, i]] for i, key in enumerate(keys)} for vector in vectors
    ]


def spent(call, other):
    """How much of the loss the difference of two recorded inputs costs, by the noise in use."""
    total = Fraction(0)
    sides = zip(by_group(call), by_group(other), call[1], call[2], strict=True)
    for left, right, query, noise in sides:
        zeros = [0] * len(query.matrix)
        gaps = [
            a - b
            for key in left.keys() | right.keys()
            for a, b in zip(left.get(key, zeros), right.get(key, zeros), strict=True)
        ]
        l1, l2 = sum(map(abs, gaps)), sum(gap * gap for gap in gaps)
        assert l1 <= query.l1
        assert l2 <= query.l2_squared
        laplace = isinstance(noise, DiscreteLaplace)
        total += Fraction(l1) / noise.scale if laplace else Fraction(l2) / (2 * noise.sigma_squared)
    return total


def check_pair(frame, neighbour, asked, loss, group):
    recorded = Tape()
    first = released(frame, asked, loss, group, recorded)
    replayed = Tape(recorded.calls[0][3])
    second = released(neighbour, asked, loss, group, replayed)
    assert first == second
    assert len(recorded.calls) == len(replayed.calls) == 1
    (_, queries, noises, _), (_, again, same, _) = recorded.calls[0], replayed.calls[0]
    assert queries == again
    assert noises == same
    given_loss = Fraction(str(next(iter(loss.values()))))
    assert spent(recorded.calls[0], replayed.calls[0]) <= given_loss
    if group.get("keys"):
        assert recorded.calls[0][0].key_table().equals(replayed.calls[0][0].key_table())


def neighbours(data, rows):
    drawn = data.draw(st.lists(rows, min_size=1, max_size=8))
    out = data.draw(st.integers(0, len(drawn) - 1))
    return drawn, drawn[:out] + drawn[out + 1 :]


def replay(data, engine, rows, table_of):
    frames = [engine(table_of(side)) for side in neighbours(data, rows)]
    if data.draw(st.booleans()):
        frames.reverse()
    check_pair(
        *frames,
        data.draw(st.sampled_from(ASKED)),
        data.draw(st.sampled_from(LOSSES)),
        data.draw(st.sampled_from(GROUPS)),
    )


@settings(max_examples=12)
@given(data=st.data())
def test_one_row_costs_no_more_than_was_asked(data, engine, rows, table_of):
    """One row costs no more than was asked.

    With the noisy numbers frozen, neighbours give the same output, bit for bit, and what the
    mechanism was given differs by at most epsilon (or rho) in units of its own noise.
    """
    replay(data, engine, rows, table_of)


@pytest.mark.slow
@settings(max_examples=700)
@given(data=st.data())
def test_one_row_costs_no_more_than_was_asked_at_length(data, engine, rows, table_of):
    """The same law for 5,000 pairs of neighbours and more."""
    replay(data, engine, rows, table_of)


@settings(max_examples=60)
@given(data=st.data())
def test_shares_of_a_release_add_up_to_its_loss(data, rows, table_of):
    """Shares of a release add up to its loss.

    The noises of all queries of a release together cost exactly what was asked, at their
    declared sensitivities: nothing is wasted and nothing is free.
    """
    tape, loss = Tape(), data.draw(st.sampled_from(LOSSES))
    asked = data.draw(st.sampled_from(ASKED))
    released(table_of([data.draw(rows)]), asked, loss, GROUPS[0], tape)
    cost = Fraction(0)
    for query, noise in zip(tape.calls[0][1], tape.calls[0][2], strict=True):
        laplace = isinstance(noise, DiscreteLaplace)
        cost += (
            Fraction(query.l1) / noise.scale
            if laplace
            else Fraction(query.l2_squared) / (2 * noise.sigma_squared)
        )
    kind = Epsilon if "epsilon" in loss else Rho
    assert kind(cost) == kind(Fraction(str(next(iter(loss.values())))))


@settings(max_examples=8)
@given(data=st.data())
def test_nothing_is_said_but_the_result(data, engine, rows, table_of):
    """A release prints nothing, logs nothing and warns of nothing, whatever the rows hold."""
    frame = engine(table_of(neighbours(data, rows)[0]))
    asked, group = data.draw(st.sampled_from(ASKED)), data.draw(st.sampled_from(GROUPS))
    said, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            released(frame, asked, {"epsilon": 1}, group, Tape())
    finally:
        logging.getLogger().removeHandler(handler)
    assert (said.getvalue(), log.getvalue(), warned) == ("", "", [])
