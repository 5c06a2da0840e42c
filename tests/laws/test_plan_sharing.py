"""Planning: what shares a vector, what shares epsilon."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.statistics.linear import vectors_of

B, C = (0, 10), (0, 20)


def plan(*questions, grouped=False):
    return vectors_of({f"q{i}": q for i, q in enumerate(questions)}, grouped=grouped)


@pytest.mark.parametrize(
    ("questions", "vectors"),
    [
        ([dfp.mean("x", B)], 1),
        ([dfp.mean("x", B), dfp.var("x", B), dfp.std("x", B), dfp.count("x")], 1),
        ([dfp.count("x"), dfp.mean("x", B)], 1),
        ([dfp.mean("x", B), dfp.mean("x", B)], 1),
        ([dfp.sum("x", B), dfp.sum("x", B)], 1),
        ([dfp.count(), dfp.count()], 1),
        ([dfp.mean("x", B), dfp.mean("x", C)], 2),
        ([dfp.mean("x", B), dfp.mean("y", B)], 2),
        ([dfp.mean("x", B), dfp.count("y")], 2),
        ([dfp.mean("x", B), dfp.count()], 2),
        ([dfp.mean("x", (-1, 9)), dfp.sum("x", (-1, 9))], 2),
        ([dfp.mean("x", B), dfp.mean("x", B, method="shifted")], 2),
        ([dfp.var("x", B), dfp.mean("x", C), dfp.count(), dfp.sum("y", B)], 4),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_one_vector_answers_what_it_can(questions, vectors, grouped):
    """One vector answers what it can.

    Moments of one column within the same bounds share a vector, equal questions share one, and
    nothing else does.
    """
    made = plan(*questions, grouped=grouped)
    assert len(made.linears) == vectors
    assert len(made.answers) == len(questions)
    assert {answer.vector for answer in made.answers} == set(range(vectors))


ANY = st.lists(
    st.sampled_from(
        [
            dfp.mean("x", B),
            dfp.var("x", B),
            dfp.std("y", C),
            dfp.sum("x", B),
            dfp.count(),
            dfp.count("x"),
            dfp.mean("x", B, method="independent"),
            dfp.mean("y", C, method="shifted"),
        ]
    ),
    min_size=1,
)


@given(ANY, st.booleans(), st.fractions(Fraction(1, 1000), 1000))
def test_the_vectors_together_cost_the_whole_loss(questions, grouped, loss):
    """At their sensitivities the noises of all vectors cost exactly epsilon, or rho."""
    made = plan(*questions, grouped=grouped)
    pure = zip(made.linears, made.noises(Epsilon(loss)), strict=True)
    assert sum(Fraction(query.l1) / noise.scale for query, noise in pure) == loss
    concentrated = zip(made.linears, made.noises(Rho(loss)), strict=True)
    assert sum(q.l2_squared / (2 * noise.sigma_squared) for q, noise in concentrated) == loss
