"""Protocols are data: all that an owner needs is published, and nobody answers twice."""

import functools
import json
import math
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dfp
from tests.numbered_bytes import NumberedBytes

VECTORS = {"users": 6000, "dimensions": 2, "rho": 2, "radius": 10}
PLANS = {
    "known, two rounds": {"sigma": 2.0, "limit": 64},
    "known, one round": {"sigma": 2.0, "limit": 64, "rounds": 1},
    "unknown, two rounds": {"sigma_bounds": (0.5, 8.0), "limit": 64},
    "unknown, one round": {"sigma_bounds": (0.5, 8.0), "limit": 64, "rounds": 1},
}


def plan_rounds(name, **more):
    return dfp.local.gaussian_mean(**{"users": 6000, "epsilon": 2, **PLANS[name], **more})


def vectors(**more):
    return dfp.local.mean_vector(**{**VECTORS, **more})


@pytest.fixture(params=[*PLANS, "vectors"])
def protocol(request):
    """One protocol after the other, in its first round."""
    return vectors() if request.param == "vectors" else plan_rounds(request.param)


def list_rounds(protocol):
    """Yield every round of a protocol."""
    yield protocol
    while protocol.round < protocol.rounds:
        protocol = protocol.aggregate(protocol.reports(list_values(protocol))).next_round()
        yield protocol


VALUES = np.random.default_rng(5).normal(10.0, 2.0, 6000)
PAIRS = np.random.default_rng(2).normal(3.0, 1.0, (6000, 2))


def list_values(protocol):
    """Return the values of the users of a protocol: a number each, or two."""
    return PAIRS if protocol.rounds == 3 else VALUES


def test_json_carries_everything(protocol):
    """A protocol read back is equal, has the same fingerprint and asks the same, in every round."""
    for stage in list_rounds(protocol):
        back = dfp.local.Protocol.from_json(stage.to_json())
        assert back == stage
        assert (back.fingerprint, back.queries) == (stage.fingerprint, stage.queries)


def test_a_changed_protocol_is_refused(protocol):
    """A protocol in which any published number was changed, or none at all, is not read."""
    written = json.loads(protocol.to_json())
    ask = written["asks"][0]
    ask |= {"levels": [9]} if "levels" in ask else {"height": 7}
    named = '{"format": "dfprivacy local 1"}'
    single_round = json.loads(plan_rounds("known, one round").to_json())
    parts = json.dumps({**single_round, "shares": ["1"]})  # and asks two parts
    for text in (json.dumps(written), parts, "{}", "[1]", "nonsense", named, "[" * 100_000):
        with pytest.raises(dfp.errors.InvalidProtocolError, match="no protocol"):
            dfp.local.Protocol.from_json(text)


def test_everybody_is_asked_exactly_once(protocol):
    """Over all rounds every user sends one message (sequential interactivity)."""
    reports = [
        stage.reports(list_values(stage)).column("user").to_numpy()
        for stage in list_rounds(protocol)
    ]
    assert sorted(np.concatenate(reports).tolist()) == list(range(6000))


def test_one_by_one_and_all_at_once_is_the_same_form(protocol):
    """`report` of each user and `reports` of all have the same users, groups and fields."""
    values = list_values(protocol)[:300].tolist()
    table = protocol.reports(values)
    single = [protocol.report(value, user) for user, value in enumerate(values)]
    rows = [row for row in single if row is not None]
    assert [set(row) for row in rows] == [set(table.column_names)] * len(rows)
    for name in ("protocol", "user", "group"):
        assert [row[name] for row in rows] == table.column(name).to_pylist()


def test_a_missing_value_looks_like_any_other(protocol):
    """NULL and NaN, or vectors that lack a coordinate, make reports of the same form."""
    for stage in list_rounds(protocol):
        nothing = [[1.0, None], None, [1.0, 2.0, 3.0]] if stage.rounds == 3 else [None, math.nan]
        missing = stage.reports(nothing * (6000 // len(nothing)))
        table = stage.reports(list_values(stage))
        assert missing.schema == table.schema
        for name in ("protocol", "user", "group"):
            assert missing.column(name).equals(table.column(name))
        assert stage.aggregate(missing).reports == len(missing)


class Deaf(np.ndarray):
    """An array that no operation of numpy reaches: each returns it as it is."""

    def __array_ufunc__(self, *_, **__):
        return self


@pytest.mark.parametrize("kind", ["masked", "another type"])
def test_an_array_of_any_type_is_reported_as_numpys_own(kind, protocol):
    """From the same random bytes a masked value is reported as NaN is, and any other as itself.

    Arithmetic leaves out what is under a mask: noise as well, and the value would be sent.
    """
    values = list_values(protocol)
    hidden = (np.arange(values.size).reshape(values.shape) % 5 == 0) & (kind == "masked")
    array = np.ma.masked_array(values, mask=hidden) if kind == "masked" else values.view(Deaf)
    plain = np.where(hidden, np.nan, values)
    for stage in list_rounds(protocol):
        reports, plain_reports = (
            stage.reports(data, entropy=NumberedBytes()) for data in (array, plain)
        )
        assert reports.equals(plain_reports)


@pytest.mark.parametrize("name", PLANS)
def test_a_masked_value_is_a_missing_one(name):
    """One owner's masked number is reported as None is, of the same random bytes."""
    reports = [
        plan_rounds(name, campaign="c").report(value, user, entropy=NumberedBytes())
        for user in range(20)
        for value in (np.ma.masked, None)
    ]
    assert reports[::2] == reports[1::2]


@pytest.mark.parametrize("named", [False, True])
def test_a_user_who_is_there_twice_is_refused(named):
    """One call makes one message a user at most."""
    protocol = plan_rounds("known, one round", named=named)
    users = ["ann", "bob", "ann"] if named else [3, 5, 3]
    with pytest.raises(dfp.errors.InvalidProtocolError, match="twice"):
        protocol.reports([1.0, 2.0, 3.0], users)
    assert len(protocol.reports([1.0, 2.0], users[:2])) == 2


def test_masked_users_are_refused(protocol):
    """Under a mask is no user, whatever number lies there."""
    users = np.ma.masked_array(np.arange(6000), mask=np.arange(6000) == 7)
    with pytest.raises(dfp.errors.InvalidProtocolError):
        protocol.reports(list_values(protocol), users)


def test_a_missing_digit_is_uniform():
    """Reports without a value are spread evenly over the digits (false alarms below 1e-9)."""
    protocol = plan_rounds("known, two rounds", users=40_000)
    table = protocol.reports([None] * 40_000)
    counts = np.bincount(table.column("value").to_numpy(), minlength=4)
    expected = len(table) / 4
    assert np.abs(counts - expected).max() < 6.5 * np.sqrt(expected)


def test_values_beyond_the_range_are_clipped():
    """A value beyond the limit, however far, is reported as the limit is."""
    protocol = plan_rounds("unknown, two rounds", epsilon=64)
    high = protocol.reports([1e300, float("inf"), 2.0**70] * 2000).column("value")
    assert high.equals(protocol.reports([64.0] * 6000).column("value"))
    low = protocol.reports([-1e300, -float("inf"), -(2.0**70)] * 2000).column("value")
    assert low.equals(protocol.reports([-64.0] * 6000).column("value"))


def test_users_of_another_kind_are_refused(protocol):
    """Indexes beyond the number of users, and names where indexes are meant, are errors."""
    for user in (-1, 6000, 1.5, "ann", None, True):
        with pytest.raises(dfp.errors.InvalidProtocolError, match="an index from 0 to 5999"):
            protocol.report(1.0, user)
    for users in ([0, 6000], [0.5, 1.5], ["a", "b"], [1]):
        with pytest.raises(dfp.errors.InvalidProtocolError, match="users of this protocol"):
            protocol.reports(list_values(protocol)[:2], users)


def test_named_users_report_under_a_number_of_their_own():
    """With names the same name has the same number in a campaign, and another one elsewhere."""
    protocol = plan_rounds("known, one round", named=True, campaign="first")
    numbers = protocol.reports([1.0, 2.0], ["ann", "bob"]).column("user").to_pylist()
    assert numbers[0] != numbers[1]
    assert protocol.report(1.0, "ann")["user"] == numbers[0]
    other = plan_rounds("known, one round", named=True, campaign="second")
    assert other.report(1.0, "ann")["user"] != numbers[0]
    with pytest.raises(dfp.errors.InvalidProtocolError, match="names"):
        protocol.reports([1.0])
    with pytest.raises(dfp.errors.InvalidProtocolError, match="a name"):
        protocol.report(1.0, 7)


def test_groups_are_even_and_campaigns_independent():
    """Parts and groups have the sizes they should, and two campaigns mix users afresh.

    Chi-square with 5 degrees of freedom stays below 60, but for a probability of 1e-9; so does the
    number of users of both campaigns' first round beyond 6.5 standard deviations.
    """
    tables = []
    for campaign in ("one", "two"):
        protocol = plan_rounds("known, two rounds", users=180_000, campaign=campaign)
        groups = protocol.reports([0.0] * 180_000)
        counts = np.bincount(groups.column("group").to_numpy())
        assert len(counts) == len(protocol.plan.levels) == 6
        assert abs(counts.sum() - 90_000) < 6.5 * 180_000**0.5 / 2
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 60
        tables.append(groups)
    both = np.intersect1d(*(table.column("user").to_numpy() for table in tables))
    assert abs(len(both) - 45_000) < 6.5 * (180_000 * 3 / 16) ** 0.5


@pytest.mark.parametrize("sigma", [1.0, 2.0, 1.999, 2.001, 0.3, 1000.0, 1e-5])
def test_levels_reach_from_sigma_to_the_limit(sigma):
    """The lowest level is floor(log2 sigma); the highest is the least that holds the limit."""
    plan = plan_rounds("known, two rounds", sigma=sigma, limit=2000 * sigma).plan
    assert 2.0**plan.low <= sigma < 2.0 ** (plan.low + 1)
    assert 2.0 ** (plan.high - 1) < 2000 * sigma <= 2.0**plan.high == plan.limit
    unknown = dfp.local.gaussian_mean(users=6000, sigma_bounds=(sigma, 9 * sigma)).plan
    assert (unknown.low, unknown.sigma) == (plan.low, None)
    assert unknown.limit >= 9 * sigma


NO_VECTORS = [
    ({"dimensions": 0}, dfp.errors.InvalidProtocolError),
    ({"resolution": 30}, dfp.errors.InvalidProtocolError),
    ({"radius": 0}, dfp.errors.InvalidBoundsError),
    ({"rho": -1}, dfp.errors.InvalidLossError),
]
BAD = [
    ({"users": 0}, dfp.errors.InvalidProtocolError),
    ({"users": 2.5}, dfp.errors.InvalidProtocolError),
    ({"users": 2**34}, dfp.errors.InvalidProtocolError),
    ({"rounds": 3}, dfp.errors.InvalidProtocolError),
    ({"campaign": ""}, dfp.errors.InvalidProtocolError),
    ({"sigma": 0.0}, dfp.errors.InvalidBoundsError),
    ({"sigma": float("nan")}, dfp.errors.InvalidBoundsError),
    ({"limit": -1.0}, dfp.errors.InvalidBoundsError),
    ({"limit": 2.0**80}, dfp.errors.InvalidBoundsError),
    ({"sigma_bounds": (1.0, 2.0)}, dfp.errors.InvalidBoundsError),
    ({"beta": 0}, dfp.errors.InvalidProtocolError),
    ({"beta": 1.5}, dfp.errors.InvalidProtocolError),
    ({"epsilon": 0}, dfp.errors.InvalidLossError),
    ({"epsilon": 1e-4}, dfp.errors.InvalidLossError),
    ({"epsilon": 100}, dfp.errors.InvalidLossError),
]


@pytest.mark.parametrize(
    ("make", "arguments", "error"),
    [
        *((functools.partial(plan_rounds, "known, two rounds"), *case) for case in BAD),
        *((vectors, *case) for case in NO_VECTORS),
    ],
)
def test_bad_plans_are_refused(make, arguments, error):
    """Arguments that make no protocol are typed errors with a hint."""
    with pytest.raises(error) as caught:
        make(**arguments)
    assert caught.value.hint


def test_steps_come_in_order(protocol):
    """There is no answer before the last round, no round after it, and none from other reports."""
    for stage in list_rounds(protocol):
        aggregate = stage.aggregate(stage.reports(list_values(stage)))
        if stage.round < stage.rounds:
            with pytest.raises(dfp.errors.InvalidProtocolError, match=f"round {stage.round} of "):
                aggregate.estimate()
        else:
            assert aggregate.estimate().reports > 0
            with pytest.raises(dfp.errors.InvalidProtocolError, match="last"):
                aggregate.next_round()
        other = plan_rounds("known, two rounds").aggregate()
        with pytest.raises(dfp.errors.InvalidProtocolError, match="another protocol"):
            stage.estimate(other)


def test_no_protocol_asks_a_part_again():
    """Rounds that there are not, and parts that overlap, are refused.

    Each of these texts would ask users of an earlier round for a second message.
    """
    protocol = plan_rounds("known, two rounds", campaign="c")
    second = protocol.aggregate(protocol.reports(VALUES)).next_round()
    vector_protocol = vectors()
    forged = [
        (second, {"round": 3}, {}),
        (second, {"round": 2}, {"rounds": 1}),
        (second, {"round": 3}, {"rounds": 3}),
        (vector_protocol, {"round": 4}, {}),
        (vector_protocol, {"round": 4}, {"rounds": 4}),
    ]
    for source, top, plan in forged:
        written = json.loads(source.to_json())
        text = json.dumps({**written, **top, "plan": {**written["plan"], **plan}})
        with pytest.raises(dfp.errors.InvalidProtocolError):
            dfp.local.Protocol.from_json(text)
    overlapping = json.loads(vector_protocol.to_json())
    overlapping["shares"] = ["1", "-1/2", "1/2"]
    with pytest.raises(dfp.errors.InvalidProtocolError):
        dfp.local.Protocol.from_json(json.dumps(overlapping))


@pytest.mark.parametrize("change", [{"round": True}, {"round": 1.0}, {"users": 6e3}, {"named": 0}])
def test_a_round_has_one_spelling(change):
    """JSON that says the same in other types is not read: it would be a round of another name."""
    protocol = plan_rounds("known, one round", campaign="c")
    with pytest.raises(dfp.errors.InvalidProtocolError):
        dfp.local.Protocol.from_json(json.dumps({**json.loads(protocol.to_json()), **change}))
    with pytest.raises(dfp.errors.InvalidProtocolError):
        replace(protocol, **change)


def test_every_plan_says_what_its_fields_are():
    """A field of any plan, of either model, that is of another type is refused when it is read."""
    users = {"users": 600, "epsilon": 1}
    shuffled = {**users, "delta": 1e-6}
    for protocol in (
        dfp.local.gaussian_mean(**users),
        dfp.local.mean_vector(users=600, dimensions=2, rho=1, radius=9),
        dfp.shuffle.mean(bounds=(0, 9), **shuffled),
        dfp.shuffle.quantile(q=0.5, bounds=(0, 9), **shuffled),
        dfp.shuffle.mean_vector(dimensions=2, radius=9, **shuffled),
    ):
        written = json.loads(protocol.to_json())
        for name in written["plan"]:
            value = written["plan"][name]
            spelled = [f"{value}", float(value)] if type(value) is int else []
            for other in ([["1"]], {"a": 1}, True, [1, "1"], *spelled):
                text = json.dumps({**written, "plan": {**written["plan"], name: other}})
                with pytest.raises(dfp.errors.InvalidProtocolError):
                    type(protocol).from_json(text)
        if "campaign" in written:
            with pytest.raises(dfp.errors.InvalidProtocolError):
                type(protocol).from_json(json.dumps({**written, "campaign": 7}))


UNLIKELY = [10**400, -(10**400), Fraction(10**400), 1e308, -math.inf, Decimal("sNaN"), None, pd.NA]
UNLIKELY += [pd.NaT, math.nan, np.ma.masked, True, np.float16(1), np.array(3.0), Decimal("1e999")]


@pytest.mark.parametrize("value", UNLIKELY, ids=str)
def test_no_value_raises_or_warns(value):
    """A number of any size and spelling makes a report, and a missing one, without a word."""
    protocol = plan_rounds("unknown, one round")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(protocol.report(value, 7)) == {"protocol", "user", "group", "value"}
        assert len(protocol.reports([*VALUES[1:].tolist(), value])) == 6000


@pytest.mark.parametrize("value", ["3", b"3", 1j, object(), {}, np.timedelta64(3, "D")])
def test_what_is_no_number_is_told_by_its_type(value):
    """One value of another type is refused by its type; among numbers it is a missing one."""
    protocol = plan_rounds("unknown, one round")
    with pytest.raises(dfp.UnsupportedDtypeError, match=f"type {type(value).__name__}"):
        protocol.report(value, 7)
    assert len(protocol.reports([*VALUES[1:].tolist(), value])) == 6000
    for column in (pd.DataFrame({"x": VALUES}), None, 5, np.array(5)):
        with pytest.raises(dfp.UnsupportedDtypeError, match="holds no numbers"):
            protocol.reports(column)
