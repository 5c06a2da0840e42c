"""Huang et al.'s mean of vectors in the local model."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp

RANDOM = np.random.default_rng(21)


def test_a_mean_of_vectors_is_found():
    """Far from the origin the error is about the noise of the last round (false alarms < 1e-9).

    The chi-square of 4 degrees of freedom stays below 50 with probability 1 - 4e-10. Noise may
    hide that all rows are near the center: in fewer than one run of fifty, in all of four in fewer
    than one of a million.
    """
    center = np.array([30.0, -20.0, 5.0])
    values = RANDOM.normal(center, 1.0, (60_000, 3))
    answers = [all_rounds(values) for _ in range(4)]
    for answer in answers:
        assert ((answer.mean - center) ** 2).sum() < 50 * answer.std_error**2 + 0.05
        assert 30_000 < answer.reports < 45_000
    assert min(answer.clip for answer in answers) < 40


def all_rounds(values):
    """Return the mean of vectors that a protocol finds, handed on as JSON."""
    plan = dfp.local.mean_vector(users=len(values), dimensions=3, rho=2, radius=100)
    while plan.round < plan.rounds:
        plan = dfp.local.Protocol.from_json(plan.to_json())
        plan = plan.aggregate(plan.reports(values)).next_round()
    return plan.aggregate(plan.reports(values)).estimate()


SECOND = {"center": [0.5, -0.5, 0.0, 1.0]}
THIRD = {**SECOND, "clip": 2.0}
FORGED = [
    (1, {"radius": 0.0}),
    (1, {"radius": -1.0}),
    (1, {"radius": 1e-200}),
    (1, {"radius": 1e200}),
    (1, {"radius": 1}),
    (1, {"dimensions": True}),
    (1, {"users": 1000.0}),
    (2, {"center": [0.0, 0.0]}),
    (2, {"center": [0.0, 0.0, 0.0, 1.5]}),
    (2, {"center": [0.0, 0.0, 0.0, True]}),
    (3, {**SECOND, "clip": 0.0}),
    (3, {**SECOND, "clip": -1.0}),
    (3, {**SECOND, "clip": 1e-290}),
    (3, {**SECOND, "clip": 2.1}),
    (3, {"radius": 1e-200, "center": [1e-200] * 4, "clip": 1e-290}),
]
KINDS = {
    1: {"kind": "coordinate", "part": 0, "height": 10},
    2: {"kind": "length", "part": 1, "height": 10},
    3: {"kind": "whole", "part": 2},
}


def publish_round(round_, change):
    """Return the JSON of a round whose plan and queries were changed together."""
    protocol = dfp.local.mean_vector(users=1000, dimensions=3, rho=1e-5, radius=1.0, campaign="c")
    written = json.loads(protocol.to_json())
    written["round"], written["plan"] = round_, {**written["plan"], **change}
    plan = written["plan"]
    ask = {"campaign": "c", "dimensions": 3, **KINDS[round_]}
    ask |= {"reach": plan["radius"] * round_} if round_ < 3 else {"clip": plan["clip"]}
    ask |= {"center": plan["center"]} if round_ > 1 else {}
    return json.dumps({**written, "asks": [ask]})


@pytest.mark.parametrize(("round_", "change"), FORGED)
def test_a_plan_that_no_round_leads_to_is_refused(round_, change):
    """Owners read no protocol whose radius, center or clip planning and reports can't give."""
    for good in ((1, {}), (2, SECOND), (3, THIRD)):
        assert dfp.local.Protocol.from_json(publish_round(*good)).round == good[0]
    with pytest.raises(dfp.errors.InvalidProtocolError):
        dfp.local.Protocol.from_json(publish_round(round_, change))


@pytest.mark.parametrize("rho", ["1/1000000000000", "100000"])
def test_a_loss_beyond_reach_is_refused_in_every_round(rho):
    """A loss that planning would refuse is not read in the last round either."""
    for good in ((1, {}), (2, SECOND), (3, THIRD)):
        written = {**json.loads(publish_round(*good)), "rho": rho}
        with pytest.raises(dfp.errors.InvalidProtocolError):
            dfp.local.Protocol.from_json(json.dumps(written))


@pytest.mark.parametrize("radius", [2.0**-300, 1.0, 2.0**300])
@pytest.mark.parametrize("leaf", [2.0**-10, 1.0])
def test_whatever_a_vector_holds_its_owner_reports(radius, leaf):
    """At every radius and clip allowed, no vector warns or is refused; all reports look alike."""
    change = {"radius": radius, "center": [radius, -radius, radius, 0.0], "clip": 2 * radius * leaf}
    plan = dfp.local.Protocol.from_json(publish_round(3, change))
    odd = [
        [1e308, -1e308, 0],
        [np.inf, -np.inf, 1],
        [5e-324, 0, 0],
        [np.nan, 1, 1],
        [3.0, 4.0, 5.0],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reports = plan.reports(odd * 200)
        usual = plan.reports(np.zeros((1000, 3)))
    assert reports.schema == usual.schema
    assert reports.column("user").equals(usual.column("user"))
    assert plan.aggregate(reports).reports == len(reports)


def test_a_huge_vector_moves_an_answer_no_farther_than_a_clipped_one():
    """A vector beyond the clip counts as one of that length: in its direction, as far as 1e300."""
    values, huge_values = np.tile([3.0, 4.0, 0.0], (2, 20_000, 1))
    huge_values[:5000] *= 1e299
    plan = dfp.local.mean_vector(users=20_000, dimensions=3, rho=200, radius=100)
    while plan.round < plan.rounds:
        plan = plan.aggregate(plan.reports(values)).next_round()
    estimate, pulled = (
        plan.aggregate(plan.reports(rows)).estimate() for rows in (values, huge_values)
    )
    assert np.linalg.norm(estimate.mean - [3, 4, 0]) < 0.5
    assert np.linalg.norm(pulled.mean - estimate.mean) <= estimate.clip / 2 + 0.5


@pytest.mark.parametrize("missing", [None, float("nan"), [None, 1, 2], np.full(3, np.nan)])
def test_owners_whose_vectors_are_missing_report(missing):
    """One owner, some and all of them make reports that carry nothing and look like others."""
    plan = dfp.local.mean_vector(users=9, dimensions=3, rho=2, radius=1.0)
    for protocol in list_rounds(plan):
        reports = protocol.reports([None] * 9)
        assert reports.schema == protocol.reports(np.ones((9, 3))).schema
        assert len(reports) == len(protocol.reports([[1, 2, 3]] + [None] * 8))
        alone = [protocol.report(missing, user=user) for user in range(9)]
        assert sum(report is not None for report in alone) == len(reports)


def test_no_report_of_a_vector_moves_an_answer_beyond_its_range():
    """A report with an entry that nobody can send, or without one, is left out and counted."""
    plan = dfp.local.mean_vector(users=200, dimensions=3, rho=2, radius=1.0)
    *_, protocol = list_rounds(plan)
    reports = protocol.reports(np.ones((200, 3)))
    column = reports.column("value")
    honest = protocol.aggregate(reports[1:])
    for entry in (-(2**63), 2**63 - 1, -(2**40), None):
        values = pa.array([[0, 0, 0, entry], *column[1:].to_pylist()], column.type)
        aggregate = protocol.aggregate(reports.set_column(3, "value", values))
        assert aggregate.rejected["malformed" if entry is None else "value"] == 1
        assert np.array_equal(aggregate.estimate().mean, honest.estimate().mean)


def list_rounds(protocol):
    """Return the rounds of a protocol to which everybody reports the same vector."""
    rounds = [protocol]
    while protocol.round < protocol.rounds:
        reports = protocol.reports(np.ones((protocol.users, 3)))
        protocol = protocol.aggregate(reports).next_round()
        rounds.append(protocol)
    return rounds
