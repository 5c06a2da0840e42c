"""Planning: what shares a noisy vector, and how the loss is shared between vectors."""

from fractions import Fraction

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import dfprivacy as dfp
from dfprivacy import papers

B, C = (0, 10), (0, 20)
FRAME = pl.DataFrame({"g": ["a"], "x": [1.0], "y": [1.0]})


def plan(questions, *, grouped=False, **loss):
    private = FRAME.dp.group_by("g", keys=["a"]) if grouped else FRAME.dp
    return private.explain(**{f"q{i}": q for i, q in enumerate(questions)}, **loss)


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
        ([dfp.mean("x", (-1, 9)), dfp.sum("x", (-1, 9))], 1),
        ([dfp.sum("x", B), dfp.count("x"), dfp.var("x", B)], 1),
        ([dfp.mean("x", (-1, 9)), dfp.sum("x", (0, 9))], 2),
        ([dfp.mean("x", B), papers.ShiftedMean("x", B)], 2),
        ([dfp.var("x", B), dfp.mean("x", C), dfp.count(), dfp.sum("y", B)], 4),
        ([dfp.median("x", B, step=1), dfp.quantile("x", 0.9, B, step=1)], 1),
        ([dfp.median("x", B, step=1), dfp.median("x")], 2),
        ([dfp.corr("x", "y", B, C), dfp.cov("x", "y", B, C)], 1),
        ([dfp.corr("x", "y", B, C), dfp.cov("y", "x", C, B)], 2),
        ([ask("y", "x", B, C) for ask in (dfp.slope, dfp.intercept, dfp.r_squared)], 1),
    ],
)
def test_one_vector_answers_what_it_can(questions, vectors):
    """One vector answers what it can.

    Moments of one column within the same bounds share a vector, equal questions share one, and
    nothing else does.
    """
    for grouped in (False, True):
        shared_plan = plan(questions, grouped=grouped)
        assert len(shared_plan.draws) == vectors
        assert len(shared_plan.answers) == len(questions)
        assert {text for draw in shared_plan.draws for text in draw.questions} == {
            question.text for question in questions
        }


ANY = st.lists(
    st.sampled_from(
        [
            dfp.mean("x", B),
            dfp.var("x", B),
            dfp.std("y", C),
            dfp.sum("x", B),
            dfp.count(),
            dfp.count("x"),
            papers.IndependentMean("x", B),
            papers.ShiftedMean("y", C),
        ]
    ),
    min_size=1,
    max_size=9,
)


@given(ANY, st.booleans(), st.fractions(Fraction(1, 1000), 1000))
def test_the_vectors_together_cost_the_whole_loss(questions, grouped, loss):
    """The shares of all vectors add up to epsilon, or rho."""
    for measure in ("epsilon", "rho"):
        shared_plan = plan(questions, grouped=grouped, **{measure: loss})
        assert sum(getattr(draw, measure) for draw in shared_plan.draws) == pytest.approx(
            float(loss)
        )


SENSITIVITIES = {  # what a row moves in the L1 norm, and the square of that in the L2 norm
    dfp.count(): (1, 1),
    dfp.mean("x", (-5, 3)): (2**30, 2**60),
    dfp.mean("x", (-5, 3), clipping=False): (2**30, 2**60),
    papers.ShiftedMean("x", (-5, 3)): (2**31, 2**61),
    papers.IndependentMean("x", (-5, 3)): (10 * 2**27, 2 * 25 * 2**54),
    dfp.var("x", (-5, 3)): (2**30, 2**60),
    dfp.sum("x", (-5, 3)): (5 * 2**27, 25 * 2**54),
}


@pytest.mark.parametrize("question", SENSITIVITIES, ids=lambda question: question.text)
def test_the_scale_is_the_exact_fraction(question):
    """Scales are exact fractions of sensitivity and loss as it was written, and of its share.

    A twentieth counts what bounds clip, unless that is not asked for.
    """
    l1, l2_squared = SENSITIVITIES[question]
    watched = getattr(question, "clipping", False) and question.has_note
    for share, questions in ((1, [question]), (2, [question, dfp.count("y")])):
        pure, gaussian = (
            FRAME.dp.agg(**{f"q{i}": q for i, q in enumerate(questions)}, **loss)["q0"].mechanism
            for loss in ({"epsilon": 0.1}, {"rho": 0.125})
        )
        part = Fraction(19, 20) if watched else 1
        assert pure.scale == Fraction(l1 * 10 * share) / part
        assert gaussian.sigma_squared == Fraction(l2_squared * 4 * share) / part
