"""Charges are rounded up, count the contribution of a unit, and compose over releases."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import dp_accounting
import hypothesis.strategies as st
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from flint import arb, ctx, fmpq
from hypothesis import given
from scipy.stats import norm

import dfprivacy as dfp
from dfprivacy.accounting.charge import (
    MOST_UNITS,
    PER_ONE,
    PER_ONE_DELTA,
    Budget,
    Charge,
    Units,
    name_total,
)
from dfprivacy.accounting.composition import (
    Composition,
    approximate_epsilon,
    build_concentrated_law,
    epsilon_at_order,
    merge_levels,
    profile,
    responses_law,
    tight_total,
)
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho, read_delta, read_loss
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace

losses = st.floats(2**-59, 2**31, exclude_max=True)  # smaller ones are rounded up to 2**-60
deltas = st.floats(2**-900, 1, exclude_max=True)


@given(losses)
def test_a_float_is_the_decimal_that_it_prints(value):
    """Noise and charge use one number: the decimal that Python prints for the float."""
    assert read_loss(epsilon=value) == Epsilon(Fraction(repr(value)))
    assert float(read_loss(rho=value).value) == value
    assert read_loss(epsilon=np.float64(value)) == read_loss(epsilon=value)


@pytest.mark.parametrize(
    "value", [Fraction(1, 3), Decimal("0.1"), 7, np.int64(7), 2.0**60, 2.0**-60, np.float32(0.1)]
)
def test_exact_numbers_stay_exact(value):
    """Fractions, decimals and integers are taken as they are; both ends of the range are in it."""
    expected = Fraction(repr(float(value))) if isinstance(value, float | np.floating) else None
    exact = expected or Fraction(int(value) if isinstance(value, np.integer) else value)
    ends = Fraction(1, 2**60), Fraction(2**60)  # the decimals of these floats are beyond them
    assert read_loss(epsilon=value).value == min(max(exact, ends[0]), ends[1])


@pytest.mark.parametrize("value", [2.0**-1000, 0.1, 1e-300])
def test_deltas_are_decimals_too(value):
    """A delta is the decimal that Python prints, from the smallest one on."""
    assert read_delta(value) == Fraction(repr(value))


@given(losses, deltas)
def test_a_charge_is_rounded_up(value, delta):
    """A charge is never below the loss, less than a unit above it, and at least one unit."""
    units = Charge(read_loss(epsilon=value), read_delta(delta)).units("epsilon")
    for charged, lost, unit in (
        (units.loss, Fraction(repr(value)), Fraction(1, PER_ONE)),
        (units.delta, Fraction(repr(delta)), Fraction(1, PER_ONE_DELTA)),
    ):
        assert charged >= 1
        assert 0 <= charged * unit - lost < unit


@given(losses)
def test_a_pure_loss_costs_half_its_square_in_rho(value):
    """On a ledger in rho, epsilon costs epsilon^2/2, rounded up."""
    cost = Charge(read_loss(epsilon=value)).units("rho").loss
    assert 0 <= Fraction(cost, PER_ONE) - Fraction(repr(value)) ** 2 / 2 < Fraction(1, PER_ONE)


def test_rho_is_not_charged_to_epsilon():
    """No finite epsilon pays for a Gaussian release."""
    with pytest.raises(dfp.errors.InvalidLossError, match="the ledger counts epsilon"):
        Charge(Rho(Fraction(1))).units("epsilon")


@given(st.integers(1, MOST_UNITS), st.integers(0, PER_ONE_DELTA - 1))
def test_a_budget_is_not_above_its_units(loss, delta):
    """To ask for what a budget shows costs no more than the budget holds."""
    units = Units("epsilon", loss, delta)
    shown = units.budget()
    assert Fraction(repr(shown.epsilon)) * PER_ONE <= loss
    assert Fraction(repr(shown.delta)) * PER_ONE_DELTA <= delta


@given(st.floats(1e-9, 4e9), st.one_of(st.just(0.0), st.floats(1e-15, 0.5)))
def test_a_total_is_rounded_down(epsilon, delta):
    """A total is never above what the caller named."""
    total = name_total(epsilon, None, delta)
    assert 0 <= Fraction(repr(epsilon)) * PER_ONE - total.loss < 1
    assert 0 <= Fraction(repr(delta)) * PER_ONE_DELTA - total.delta < 1


WRONG = [0, -1, 1e-10, 5e9, float("nan"), float("inf"), True, "1", 1j, [1], object()]


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_wrong_totals(measure, value):
    """A total that is no number, or that can't be counted, is refused."""
    with pytest.raises(dfp.errors.InvalidLossError):
        name_total(**{"epsilon": None, "rho": None, "delta": None} | {measure: value})


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, float("nan"), True, "0", None])
def test_wrong_deltas(delta):
    """The delta of a total lies between 0 and 1, and never stands alone."""
    with pytest.raises(dfp.errors.InvalidLossError):
        name_total(None if delta is None else 1, None, 0.1 if delta is None else delta)


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: name_total(1, None, 1e-19), "is at least 1e-18, and 1e-19 is less"),
        (lambda: read_delta(1e-305), "at least 2[*][*]-1000, about 1e-301, and 1e-305 is less"),
        (lambda: read_delta(0), "between 0 and 1, not 0"),
        (lambda: name_total(1, 1, None), "both"),
    ],
)
def test_why_a_budget_can_not_be_had(make, why):
    """A delta that is too small says what the smallest is; a ledger counts one measure."""
    with pytest.raises(dfp.errors.InvalidLossError, match=why):
        make()


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=0.1), Budget(rho=0.5, delta=1e-9), Budget(epsilon=0.0, delta=0.25)]
)
def test_repr_can_be_pasted(budget):
    """A budget's repr makes the same budget."""
    assert eval(repr(budget)) == budget


LIMITS = list(itertools.product((1, 2, 3), (1, 2), (1, 2, 3)))


def placements(rows, groups, parts):
    """Yield what a unit can add to each group of all files: its limits hold in each file alone."""
    universe = groups * parts
    chosen = list(itertools.combinations(range(universe), groups))
    for files in itertools.product(chosen, repeat=parts):
        counts = [0] * universe
        for file in files:
            for group in file:
                counts[group] += rows
        yield tuple(counts)


@pytest.mark.parametrize(("rows", "groups", "parts"), LIMITS)
def test_no_placement_costs_more_than_the_loss(rows, groups, parts):
    """Wherever a unit has its rows, they cost at most what was asked, and some place costs it.

    One row costs e in each group; r rows of a group cost r e where losses are pure, and r^2 of it
    where they are zero-concentrated.
    """
    contribution = Contribution(rows, groups, parts)
    pure = contribution.row_loss(Epsilon(Fraction(1))).value
    concentrated = contribution.row_loss(Rho(Fraction(1))).value
    all_placements = set(placements(rows, groups, parts))
    assert max(sum(counts) * pure for counts in all_placements) == 1
    assert (
        max(sum(count * count for count in counts) * concentrated for counts in all_placements) == 1
    )


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(7)), DiscreteGaussian(Fraction(40))])
@pytest.mark.parametrize(("rows", "groups", "parts"), LIMITS)
def test_no_placement_shows_groups_more_often_than_delta(rows, groups, parts, noise):
    """Wherever a unit is alone, its groups are shown with probability at most delta in all."""
    delta = Fraction(1, 1000)
    threshold = Contribution(rows, groups, parts).key_rule(delta).threshold(noise, 1, 1)
    for counts in set(placements(rows, groups, parts)):
        shown = sum(noise.tail(threshold - count) for count in counts if count)
        assert shown <= delta


def test_one_file_is_no_file():
    """With parts=1 nothing changes; groups counted together are rows of one group."""
    assert Contribution(3, 2, 1) == Contribution(3, 2)
    rule = Contribution(3, 5, 4).key_rule(Fraction(1, 1000))
    assert (rule.delta, rule.rows) == (Fraction(1, 20_000), 12)  # each group of each file
    loss = Epsilon(Fraction(1))
    pooled = Contribution(3, 2, 5).pool()
    assert pooled.row_loss(loss) == Contribution(3, 2, 5).row_loss(loss)
    assert pooled.row_loss(Rho(Fraction(1))).value == Fraction(1, 30**2)


# What releases cost together


RHOS = st.fractions(Fraction(1, 10**9), 100, max_denominator=10**9)
DELTAS = st.integers(1, 18).flatmap(
    lambda n: st.fractions(Fraction(1, 10**n), Fraction(1, 2), max_denominator=10**18)
)


def ball(number):
    return arb(fmpq(number.numerator, number.denominator))


def formula(rho, delta, excess):
    """Evaluate epsilon at order 1 + excess, in balls."""
    order = ball(1 + excess)
    log = -ball(delta).log() - order.log()
    return order * ball(rho) + (ball(excess) / order).log() + log / ball(excess)


@given(RHOS, DELTAS, st.fractions(Fraction(1, 10**6), 10**9))
def test_an_order_is_rounded_up(rho, delta, excess):
    """The epsilon of a single order is certainly not below the formula, and hardly above it."""
    ctx.prec = 400
    above = ball(epsilon_at_order(rho, delta, excess)) - formula(rho, delta, excess)
    assert above > 0
    assert above < ball(Fraction(1, 10**20)) * (1 + ball(rho * (1 + excess)))


@given(RHOS, DELTAS)
def test_the_order_is_well_chosen(rho, delta):
    """No order of a fine grid gives less; Bun and Steinke's formula gives more."""
    epsilon = float(approximate_epsilon(rho, delta))
    r, log = float(rho), -math.log(delta)
    excess = np.geomspace(1e-9, 1e9, 400_000)
    grid = (1 + excess) * r - np.log1p(1 / excess) + (log - np.log1p(excess)) / excess
    assert epsilon <= max(0.0, grid.min()) * (1 + 1e-9) + 1e-12
    assert epsilon <= r + 2 * math.sqrt(r * log)


@given(RHOS, RHOS, DELTAS, DELTAS)
def test_more_rho_and_less_delta_never_give_less_epsilon(rho, other, delta, another):
    """Epsilon grows with rho and falls with delta, up to the search of the order."""
    low, high = sorted([rho, other])
    small, large = sorted([delta, another])
    slack = 1 + Fraction(1, 10**9)
    assert approximate_epsilon(low, delta) <= approximate_epsilon(high, delta) * slack
    assert approximate_epsilon(rho, large) <= approximate_epsilon(rho, small) * slack


def gaussian_delta(rho, epsilon):
    """Return the exact delta of a Gaussian mechanism that is rho-zCDP (Balle and Wang 2018)."""
    shift = math.sqrt(2 * rho)
    rest = math.exp(epsilon + norm.logcdf(-epsilon / shift - shift / 2))
    return norm.cdf(shift / 2 - epsilon / shift) - rest


@pytest.mark.parametrize("rho", [Fraction(1, 10**6), Fraction(1, 50), Fraction(1, 2), Fraction(8)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(1, 10**5), Fraction(1, 10)])
def test_a_gaussian_keeps_the_promise(rho, delta):
    """The Gaussian mechanism has no larger delta at the epsilon that is returned."""
    assert gaussian_delta(float(rho), float(approximate_epsilon(rho, delta))) <= delta


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 2), Fraction(5)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(1, 10**5)])
def test_dp_accounting_gets_the_same(rho, delta):
    """Over a grid of orders dp-accounting finds an epsilon as small, and none smaller."""
    accountant = RdpAccountant((1 + np.geomspace(1e-2, 1e3, 4000)).tolist())
    accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * rho)))
    theirs = accountant.get_epsilon(float(delta))
    assert theirs * 0.9999 <= float(approximate_epsilon(rho, delta)) <= theirs * (1 + 1e-12)


def test_nothing_spent_is_nothing_lost():
    """Without releases epsilon is 0, and so it is at a delta that covers everything."""
    assert approximate_epsilon(Fraction(0), Fraction(1, 10**9)) == 0
    assert approximate_epsilon(Fraction(1, 10**9), Fraction(1, 2)) == 0


def delta_of_law(law, cell, epsilon):
    losses = np.array(list(law.masses)) * cell
    masses = np.array(list(law.masses.values()))
    larger = losses > epsilon
    return law.infinite + np.dot(masses[larger], -np.expm1(epsilon - losses[larger]))


def delta_of_pair(upper, lower, epsilon):
    return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(upper, lower, strict=True))


def find_law(rho):
    reach = float(approximate_epsilon(Fraction(rho), Fraction(1, 2**60)))
    cell = 2.0 ** math.ceil(math.log2(reach / 2**17))
    return build_concentrated_law(rho, cell, reach), cell, reach


@pytest.mark.parametrize("rho", [1e-6, 0.005, 0.125, 0.5, 5.0])
def test_the_law_of_a_concentrated_release_dominates(rho):
    """At every epsilon, negative too, its delta is at least that of whatever is rho-zCDP.

    Gaussian noise, randomized response of epsilon^2/2 = rho, and an exponential mechanism of
    epsilon^2/8 = rho on two candidates; and it is near what the formula says.
    """
    law, cell, reach = find_law(rho)
    pure, bounded = math.sqrt(2 * rho), math.sqrt(8 * rho)
    shown = 1 / (1 + math.exp(-pure))
    pairs = [(shown, 1 - shown), (1 - shown, shown)]
    for tilt in (0.1, 0.5, 0.9):
        chance = 1 / (1 + math.exp(-bounded * (tilt - 1))), 1 / (1 + math.exp(-bounded * tilt))
        first, second = [(p, 1 - p) for p in chance]
        pairs += [first, second]
    for epsilon in np.linspace(-reach, reach, 401):
        bound = delta_of_law(law, cell, epsilon)
        mirrored = gaussian_delta(rho, abs(epsilon))
        gaussian = mirrored if epsilon >= 0 else -math.expm1(epsilon) + math.exp(epsilon) * mirrored
        exact = [gaussian] + [
            delta_of_pair(*pair, epsilon)
            for left, right in zip(pairs[::2], pairs[1::2], strict=True)
            for pair in ((left, right), (right, left))
        ]
        assert max(exact) <= bound * (1 + 1e-12) + 1e-15
    for epsilon in np.linspace(reach / 20, reach * 0.9, 50):
        best = profile(rho, np.array([epsilon, reach]))[0]
        assert delta_of_law(law, cell, epsilon) <= best * 1.01


@pytest.mark.parametrize("rho", [1e-9, 0.02, 2.0])
def test_the_law_is_a_distribution_and_symmetric(rho):
    """Probabilities add up to 1, and loss -l has exp(-l) times the probability of loss l."""
    law, cell, _ = find_law(rho)
    assert abs(sum(law.masses.values()) + law.infinite - 1) < 1e-9
    for position, mass in law.masses.items():
        mirrored = law.masses[-position] * math.exp(position * cell)
        assert mass == pytest.approx(mirrored, rel=1e-12, abs=1e-300)


DELTA = 1e-6


def pure(*losses):
    return Composition(tuple((Epsilon(Fraction(epsilon)), times) for epsilon, times in losses))


def optimal_delta(epsilon, times, total):
    """Return the exact delta of composed pure releases (Kairouz, Oh and Viswanath 2015)."""
    up, down = math.exp(epsilon), 1.0
    weights = [
        math.comb(times, k) * max(0.0, up ** (times - k) * down - math.exp(total) * up**k)
        for k in range(times + 1)
    ]
    return sum(weights) / (1 + up) ** times


@pytest.mark.parametrize(("epsilon", "times"), [("1/10", 10), ("1/100", 365), ("1/3", 40), (1, 9)])
@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-9])
def test_equal_releases_have_their_optimal_total(epsilon, times, delta):
    """Never below the optimal composition of that many pure releases, and hardly above it."""
    epsilon = Fraction(epsilon)
    total = tight_total(pure((epsilon, times)), delta).epsilon
    assert optimal_delta(float(epsilon), times, total) <= delta
    assert optimal_delta(float(epsilon), times, total * 0.99 - 1e-4) > delta


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 5)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_mixed_releases_are_covered(rho, delta):
    """Randomized responses and a Gaussian release together have no larger delta."""
    losses = ((Epsilon(Fraction(1, 4)), 12), (Epsilon(Fraction(1, 7)), 5), (Rho(rho), 1))
    composition = Composition(losses)
    total = tight_total(composition, delta).epsilon
    shift, exact = math.sqrt(2 * rho), 0.0
    for first in range(13):
        for second in range(6):
            weight = math.comb(12, first) * math.comb(5, second)
            weight /= (1 + math.exp(-1 / 4)) ** 12 * (1 + math.exp(-1 / 7)) ** 5
            loss = (2 * first - 12) / 4 + (2 * second - 5) / 7
            weight *= math.exp(-(12 - first) / 4 - (5 - second) / 7)
            left = total - loss
            rest = math.exp(left + norm.logcdf(-left / shift - shift / 2))
            exact += weight * (norm.cdf(shift / 2 - left / shift) - rest)
    assert exact <= delta
    assert total < composition.total(delta).epsilon


@pytest.mark.parametrize("spent", [Fraction(1, 10**7), Fraction(99, 10**8)])
def test_deltas_leave_less_for_the_composition(spent):
    """The delta that releases spent on keys is taken off before anything else."""
    losses = ((Epsilon(Fraction(1, 10)), 50),)
    total = tight_total(Composition(losses, spent), DELTA)
    assert total.delta == DELTA
    assert total.epsilon == tight_total(Composition(losses), Fraction(1, 10**6) - spent).epsilon
    assert total.epsilon > tight_total(Composition(losses), DELTA).epsilon


@pytest.mark.parametrize(
    "losses",
    [
        pure(*((Fraction(1, 20 + number), 1) for number in range(100))),
        pure((Fraction(1, 10**9), 10**6), (Fraction(1, 2), 1)),
        pure((300, 2)),
        pure((10**6, 1)),
        Composition(((Rho(Fraction(10**6)), 1),)),
        Composition(((Rho(Fraction(1, 10**15)), 3), (Epsilon(Fraction(1, 10)), 2))),
        pure((Fraction(1, 1000), 10**6)),
    ],
    ids=["100 epsilons", "tiny ones", "large", "huge", "huge rho", "tiny rho", "a million"],
)
@pytest.mark.parametrize("delta", [0.4, 1e-7, 1e-15])
def test_a_tight_total_is_never_above_the_plain_one(losses, delta):
    """Whatever the history is, there is a tight total, and it is at most the plain one."""
    tight = tight_total(losses, delta)
    assert 0 <= tight.epsilon <= losses.total(delta).epsilon


@given(st.integers(1, 300), st.integers(1, 50), st.floats(2**-12, 1))
def test_the_law_of_responses(times, cells, cell):
    """It is a distribution whose losses are symmetric: exp(-l) times as probable at -l as at l."""
    law = responses_law(cells, times, cell)
    assert abs(sum(law.masses.values()) + law.infinite - 1) < 1e-12
    for position, mass in law.masses.items():
        if -position in law.masses and mass > 1e-200:
            ratio = math.log(mass / law.masses[-position])
            assert ratio == pytest.approx(position * cell, rel=1e-9, abs=1e-9)


@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 9), min_size=20, max_size=200))
def test_levels_only_round_up(times):
    """Grouped into 32 levels, no release is lost and none gets a smaller epsilon."""
    levels = merge_levels(times)
    assert len(levels) <= 32
    assert sum(levels.values()) == sum(times.values())
    before, after = (np.repeat(sorted(c), [c[k] for k in sorted(c)]) for c in (times, levels))
    assert (after >= before).all()
