"""The plan: which questions share a vector, and how epsilon is shared by what is left."""

from fractions import Fraction

import pytest

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.plan import plan_release

B = (0, 10)


def plan(grouped=True, **questions):
    return plan_release(questions, grouped=grouped)


def test_questions_about_one_column_share_one_vector():
    """Count, mean, variance and deviation of a column cost one vector, that of the variance."""
    shared = plan(n=dfp.count("x"), m=dfp.mean("x", B), v=dfp.var("x", B), s=dfp.std("x", B))
    assert len(shared.queries) == 1
    assert shared.queries[0].source.moments == 2
    assert [answer.query for answer in shared.answers] == [0, 0, 0, 0]


def test_a_sum_from_zero_comes_with_the_mean():
    """With bounds that start at 0 a grouped sum is the first coordinate of the mean's vector."""
    both = plan(m=dfp.mean("x", B), s=dfp.sum("x", B))
    assert len(both.queries) == 1


@pytest.mark.parametrize(
    "other",
    [
        dfp.mean("y", B),
        dfp.mean("x", (0, 11)),
        dfp.mean("x", B, method="shifted"),
        dfp.sum("x", (-1, 10)),
        dfp.count(),
    ],
)
def test_other_questions_take_a_share(other):
    """Another column, other bounds, another method, a sum or a count of rows halve the loss."""
    both = plan(a=dfp.mean("x", B), b=other)
    assert len(both.queries) == 2
    (noise, _) = both.noises(Epsilon(Fraction(1)))
    assert noise.scale == 2 * both.queries[0].l1


def test_shares_add_up_to_the_loss():
    """The scales of k vectors are those of epsilon / k, the variances those of rho / k."""
    three = plan(a=dfp.mean("x", B), b=dfp.sum("x", (-1, 10)), c=dfp.count())
    epsilon = [Fraction(q.l1) / n.scale for q, n in zip(three.queries, _pure(three), strict=True)]
    assert sum(epsilon) == Fraction(3, 4)
    rho = [
        Fraction(q.l2_squared) / (2 * n.sigma_squared)
        for q, n in zip(three.queries, three.noises(Rho(Fraction(3, 4))), strict=True)
    ]
    assert sum(rho) == Fraction(3, 4)


def _pure(release):
    return release.noises(Epsilon(Fraction(3, 4)))


def test_the_same_question_twice_is_asked_once():
    """Equal questions under two names read one vector."""
    twice = plan(a=dfp.sum("x", B), b=dfp.sum("x", B))
    assert len(twice.queries) == 1


def test_groups_are_counted_by_a_plain_count_if_there_is_one():
    """A count of rows decides over keys before any other vector does."""
    assert plan(a=dfp.mean("x", B), b=dfp.count()).counting()[0] == 1
    assert plan(a=dfp.sum("x", (-1, 1)), b=dfp.mean("x", B)).counting()[0] == 0


def test_a_whole_table_sum_spends_nothing_on_a_count():
    """Without groups a sum is one coordinate; by group it can be counted."""
    assert plan(grouped=False, a=dfp.sum("x", (-1, 2))).queries[0].count is None
    assert plan(grouped=True, a=dfp.sum("x", (-1, 2))).queries[0].count is not None


def test_a_plan_needs_bounds_and_questions():
    """No question, or a question without bounds, is an error before any data is read."""
    with pytest.raises(dfp.InvalidQuestionError):
        plan()
    with pytest.raises(dfp.MissingBoundsError):
        plan(a=dfp.mean("x"))
