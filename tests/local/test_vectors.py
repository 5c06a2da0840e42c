"""Haar trees, rotations and Huang et al.'s mean of vectors in the local model."""

import json
import warnings
from fractions import Fraction

import numpy as np
import pytest

import dfprivacy as dfp
from dfprivacy.local.rounds import RADIUS, Whole
from dfprivacy.local.transforms import (
    HaarTree,
    hadamard,
    increasing,
    quantile_of,
    rotated,
    unrotated,
)
from dfprivacy.local.vectors import VectorPlan

RANDOM = np.random.default_rng(21)


@pytest.mark.parametrize("height", [1, 2, 3, 5])
def test_a_tree_is_unbiased(height):
    """Expected counts of reports give back the exact shares of all leaves.

    Every user is counted in every group with the exact probabilities of the reports.
    """
    tree, law = HaarTree(height), dfp.local.RandomisedResponse(2, Fraction(1))
    leaves = RANDOM.integers(0, 2**height, 40)
    counts = np.zeros((tree.groups, 2))
    for group in range(tree.groups):
        sides = tree.sides((leaves + 0.5) / 2**height, np.full(40, group))
        for side in (0, 1):
            counts[group, side] += float(law.truth) * (sides == side).sum()
            counts[group, 1 - side] += float(law.other) * (sides == side).sum()
    shares = tree.shares(counts, law)
    assert np.allclose(shares, np.bincount(leaves, minlength=2**height) / 40, atol=1e-12)


def test_quantiles_of_exact_shares_are_exact():
    """The quantile of a known histogram lies in the leaf that holds it."""
    shares = np.array([0.1, 0.0, 0.4, 0.3, 0.0, 0.0, 0.2, 0.0])
    for q in (0.05, 0.3, 0.5, 0.79, 0.81, 0.95):
        leaf = int(np.searchsorted(np.cumsum(shares), q))
        assert leaf <= 8 * quantile_of(shares, q) <= leaf + 1


def test_pooling_gives_the_nearest_increasing_numbers():
    """The result increases, keeps the total, and is no farther away than others that increase."""
    for _ in range(50):
        values = RANDOM.normal(size=12)
        found = increasing(values)
        assert (np.diff(found) >= -1e-12).all()
        assert found.sum() == pytest.approx(values.sum())
        for _ in range(20):
            other = np.sort(RANDOM.normal(size=12))
            assert ((found - values) ** 2).sum() <= ((other - values) ** 2).sum() + 1e-9


@pytest.mark.parametrize("dimensions", [1, 2, 3, 8, 13])
def test_rotation_keeps_lengths_and_turns_back(dimensions):
    """A public rotation is orthogonal."""
    vectors = RANDOM.normal(size=(20, dimensions))
    turned = rotated(vectors, "campaign")
    assert np.allclose(turned @ turned.T, vectors @ vectors.T)
    assert np.allclose(unrotated(turned[3], "campaign", dimensions), vectors[3])
    matrix = hadamard(np.eye(turned.shape[1]))
    assert np.array_equal(matrix @ matrix.T, turned.shape[1] * np.eye(turned.shape[1]))


def test_vectors_are_clipped_in_exact_integers():
    """Whatever a vector holds, its report's input has length RADIUS at most, and is kept if short.

    The randomiser drops longer ones; none is dropped.
    """
    query = Whole(2, "c", 3, (0.0, 0.0, 0.0, 0.0), 5.0)
    vectors = RANDOM.normal(size=(500, 3)) * 10.0 ** RANDOM.integers(-3, 90, (500, 1))
    inputs = query.encode(vectors, np.zeros(500, np.int64))
    exact = [sum(int(x) ** 2 for x in row) for row in inputs]
    assert max(exact) <= RADIUS**2
    assert min(e for e, v in zip(exact, vectors, strict=True) if np.linalg.norm(v) > 5) > 0
    short = np.linalg.norm(vectors, axis=1) < 4.9
    back = inputs[short] * 5.0 / RADIUS
    assert np.allclose(back, rotated(vectors[short], "c"), atol=5e-5)


def test_a_mean_of_vectors_is_found():
    """Far from the origin the error is about the noise of the last round (false alarms < 1e-9).

    The chi-square of 4 degrees of freedom stays below 50 with probability 1 - 4e-10. Noise may
    hide that all rows are near the centre: in fewer than one run of fifty, in all of four in fewer
    than one of a million.
    """
    centre = np.array([30.0, -20.0, 5.0])
    values = RANDOM.normal(centre, 1.0, (60_000, 3))
    answers = [all_rounds(values) for _ in range(4)]
    for found in answers:
        assert ((found.mean - centre) ** 2).sum() < 50 * found.std_error**2 + 0.05
        assert 30_000 < found.reports < 45_000
    assert min(found.clip for found in answers) < 40


def all_rounds(values):
    """Return the mean of vectors that a protocol finds, handed on as JSON."""
    plan = dfp.local.mean_vector(users=len(values), dimensions=3, rho=2, radius=100)
    while plan.round < plan.rounds:
        plan = dfp.local.Protocol.from_json(plan.to_json())
        plan = plan.aggregate(plan.reports(values)).next_round()
    return plan.aggregate(plan.reports(values)).estimate()


def test_everybody_is_asked_once_and_missing_vectors_look_alike():
    """Three rounds query all users once; vectors with a missing coordinate report all the same."""
    values = RANDOM.normal(size=(3000, 2))
    plan, seen = dfp.local.mean_vector(users=3000, dimensions=2, rho=2, radius=10), []
    while True:
        reports = plan.reports(values)
        missing = plan.reports([[1.0, None], None, [1.0, 2.0, 3.0]] * 1000)
        assert missing.schema == reports.schema
        assert missing.column("user").equals(reports.column("user"))
        assert plan.aggregate(missing).reports == len(missing)
        seen += reports.column("user").to_pylist()
        if plan.round == plan.rounds:
            break
        plan = plan.aggregate(reports).next_round()
    assert sorted(seen) == list(range(3000))
    assert set(plan.report([1.0, 2.0], seen[-1])) == {"protocol", "user", "group", "value"}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"dimensions": 0}, dfp.InvalidProtocolError),
        ({"resolution": 30}, dfp.InvalidProtocolError),
        ({"radius": 0}, dfp.InvalidBoundsError),
        ({"rho": -1}, dfp.InvalidLossError),
    ],
)
def test_bad_plans_are_refused(given, error):
    """Arguments that make no protocol are typed errors."""
    with pytest.raises(error):
        dfp.local.mean_vector(**{"users": 100, "dimensions": 2, "rho": 1, "radius": 1, **given})


SECOND = {"centre": [0.5, -0.5, 0.0, 1.0]}
THIRD = {**SECOND, "clip": 2.0}
FORGED = [
    (1, {"radius": 0.0}),
    (1, {"radius": -1.0}),
    (1, {"radius": 1e-200}),
    (1, {"radius": 1e200}),
    (1, {"radius": 1}),
    (1, {"dimensions": True}),
    (1, {"users": 1000.0}),
    (2, {"centre": [0.0, 0.0]}),
    (2, {"centre": [0.0, 0.0, 0.0, 1.5]}),
    (2, {"centre": [0.0, 0.0, 0.0, True]}),
    (3, {**SECOND, "clip": 0.0}),
    (3, {**SECOND, "clip": -1.0}),
    (3, {**SECOND, "clip": 1e-290}),
    (3, {**SECOND, "clip": 2.1}),
    (3, {"radius": 1e-200, "centre": [1e-200] * 4, "clip": 1e-290}),
]


def published(round_, change):
    """Return the JSON of a round whose plan and queries were changed together."""
    own = dfp.local.mean_vector(users=1000, dimensions=3, rho=1e-5, radius=1.0, campaign="c")
    written = json.loads(own.to_json())
    written["round"], written["plan"] = round_, {**written["plan"], **change}
    plan = {**written["plan"], "dimensions": 3, "centre": tuple(change.get("centre", ())) or None}
    bare = object.__new__(VectorPlan)
    bare.__dict__.update({name: each for name, each in plan.items() if name != "kind"})
    written["asks"] = [query.to_json() for query in bare.queries(round_)]
    return json.dumps(written)


@pytest.mark.parametrize(("round_", "change"), FORGED)
def test_a_plan_that_no_round_leads_to_is_refused(round_, change):
    """Owners read no protocol whose radius, centre or clip planning and reports can't give."""
    for good in ((1, {}), (2, SECOND), (3, THIRD)):
        assert dfp.local.Protocol.from_json(published(*good)).round == good[0]
    with pytest.raises(dfp.InvalidProtocolError):
        dfp.local.Protocol.from_json(published(round_, change))


@pytest.mark.parametrize("rho", ["1/1000000000000", "100000"])
def test_a_loss_beyond_reach_is_refused_in_every_round(rho):
    """What planning would refuse is not read in the last round either."""
    for good in ((1, {}), (2, SECOND), (3, THIRD)):
        written = {**json.loads(published(*good)), "rho": rho}
        with pytest.raises(dfp.InvalidProtocolError):
            dfp.local.Protocol.from_json(json.dumps(written))


@pytest.mark.parametrize("radius", [2.0**-300, 1.0, 2.0**300])
@pytest.mark.parametrize("leaf", [2.0**-10, 1.0])
def test_all_that_the_last_round_takes_lies_in_the_ball(radius, leaf):
    """At every radius and clip allowed, no vector warns, and none is longer than the ball."""
    values = np.array([[1e308, -1e308], [np.inf, -np.inf], [5e-324, 0], [np.nan, 1], [3.0, 4.0]])
    plan = VectorPlan("c", 1000, 2, radius, 10, (radius, -radius), 2 * radius * leaf)
    query, groups = plan.queries(3)[0], np.zeros(5, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inputs = query.encode(np.clip(values, -radius, radius), groups)
    assert max(sum(int(x) ** 2 for x in row) for row in inputs) <= RADIUS**2
