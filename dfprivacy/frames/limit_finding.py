"""Find the limits of a privacy unit with which a question has the least error that is forecast.

A noisy histogram of the rows that units have, one of the groups that they are in, and a noisy
number of groups say what each pair of limits would leave out and how much noise it would cost.
Where the question has bounds, the first one adds up the units' own means too, so that what is left
out is known to be high or low. Proof and rule: docs/how-to/users.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Contribution, Epsilon, Rho
from dfprivacy.accounting.spending import PrepaidAccount
from dfprivacy.engine.adopt import Adopted, rereadable
from dfprivacy.engine.run import guarded
from dfprivacy.engine.units import UNIT_MEAN, UnitSizes, groups_of_units, unit_sizes
from dfprivacy.frames.measuring import measure_plan, named_columns, read
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.bounds import Bounds, bounds_of
from dfprivacy.measurement.grid import grid_from_lower
from dfprivacy.measurement.linear import OnGrid, Source
from dfprivacy.noise.additive import add_to
from dfprivacy.release.pipeline import charged, check_charge
from dfprivacy.release.plan import Plan
from dfprivacy.release.terms import LARGEST_LIMIT, Unit
from dfprivacy.statistics import Count, Mean, NUnique, Sum

CANDIDATES = np.unique([(2 + half) * 2**power // 2 for power in range(21) for half in (0, 1)])
CANDIDATES = CANDIDATES[CANDIDATES <= LARGEST_LIMIT]
"""The limits to choose from, 1, 2, 3, 4, 6, 8, 12 ...: each is also the end of a bin of sizes."""

SHARES = {"rows": Fraction(1, 2), "groups": Fraction(2, 5), "number": Fraction(1, 10)}
"""What the three noisy numbers spend of the loss by group; the rows have all of it without."""

FALSE = 1e-4
"""How probable it is at most that a size counts as held by units although no unit has it."""

SPREAD = 1 / 20
"""How far units are taken to differ, in widths of the bounds, where their values are not known."""

LEAST_SPREAD = 1 / 200
"""The least that they are taken to differ where their values are known, but for noise."""

TINY = 1e-300
"""The least square of an error, and the least number of rows."""

SURE = 2
"""How many standard deviations of its noise a measured bias must exceed to count."""

MIDDLE = 1 / 4
"""What a value is taken to be of the larger bound in a sum whose bounds are to be found."""


SIZES: Floats = np.sqrt(np.append(1, CANDIDATES[:-1] + 1) * CANDIDATES)
"""The size that stands for each bin: the geometric mean of its ends."""


@dataclass(frozen=True)
class Exact:
    """How many units have so many rows in a group, and are in so many groups: exact and secret.

    `means` has, for each bin of rows, the three Bernstein coordinates of the units' means, which
    add up to `UNIT_MEAN` for each unit; None where values are not asked for. `number` counts the
    groups that are left where each unit keeps one of its own.
    """

    rows: Integers
    groups: Integers
    means: Integers | None
    number: int


@dataclass(frozen=True)
class Found:
    """The noisy histograms, from the smallest size to the largest that units are seen to have.

    `firsts` are sums of the units' means, from 0 at the lower bound to 1 at the upper, and
    `variance` that of their noise; `spread` is how far the means are apart.
    """

    rows: Floats
    groups: Floats
    number: float
    firsts: Floats | None = None
    variance: float = 0.0
    spread: float = SPREAD


def valued(questions: Sequence[object]) -> Source:
    """Return the source of the means of units; of rows alone without bounds of one column."""
    found = []
    for own in questions:
        bounds = bounds_of(getattr(own, "bounds", None))
        if isinstance(own, Mean | Sum) and bounds is not None:
            found.append(OnGrid(own.column, grid_from_lower(bounds)))
    if len(set(found)) != 1:
        return Source(())
    return Source(found[0].columns, (found[0],))


def measured_sizes(
    adopted: Adopted, labels: Sequence[Hashable], questions: Sequence[object]
) -> Exact:
    """Run the exact passes: one over units, and where keys are secret one over a group of each."""
    source = valued(questions)
    sizes = unit_sizes(adopted, labels, source)
    secret = bool(labels) and not any(adopted.listed)
    number = groups_of_units(adopted, labels) if secret else 1
    return exact_histograms(sizes, number, with_values=bool(source.terms))


def exact_histograms(sizes: UnitSizes, number: int, *, with_values: bool) -> Exact:
    """Sort units into bins by the rows and by the number of their groups.

    Adding or removing a unit moves one bin of each histogram by 1, or its three coordinates, which
    are not negative, by `UNIT_MEAN` in all.
    """
    bins, held = len(CANDIDATES), sizes.held if with_values else sizes.units
    rows, groups = (np.zeros(bins, dtype=np.int64) for _ in range(2))
    place = _bin(sizes.rows)
    np.add.at(rows, place, held)
    np.add.at(groups, _bin(sizes.groups), sizes.units)
    if not with_values:
        return Exact(rows, groups, None, number)
    means = np.zeros((3, bins), dtype=np.int64)
    first, second = sizes.firsts, sizes.seconds
    own = (UNIT_MEAN * held - 2 * first + second, 2 * first - 2 * second, second)
    for row, coordinate in zip(means, own, strict=True):
        np.add.at(row, place, coordinate)
    return Exact(rows, groups, means, number)


def _bin(sizes: Integers) -> Integers:
    return np.minimum(np.searchsorted(CANDIDATES, sizes), len(CANDIDATES) - 1)


def found_sizes(
    exact: Exact, loss: Epsilon | Rho, *, grouped: bool, listed: int | None = None
) -> Found:
    """Draw the histograms' noise: a unit moves each by a constant in L1."""
    losses = _losses(loss, grouped=grouped, listed=listed)
    groups, number = np.ones(1), float(listed or 1)
    if grouped:
        groups, _ = _histogram(exact.groups, losses["groups"])
    if "number" in losses:
        counted = add_to(np.asarray([exact.number]), losses["number"].noise(1, 1))
        number = max(float(counted[0]), 1.0)
    if exact.means is None:
        rows, _ = _histogram(exact.rows, losses["rows"])
        return Found(rows, groups, number)
    noise = losses["rows"].noise(UNIT_MEAN, UNIT_MEAN**2)
    parts = add_to(exact.means, noise).astype(np.float64) / UNIT_MEAN
    rows, variance = parts.sum(axis=0), noise.variance / UNIT_MEAN**2
    kept = _seen(rows, noise.quantile(FALSE / len(rows), 3) / UNIT_MEAN)
    rows, parts = rows[:kept], parts[:, :kept]
    units = max(float(rows.sum()), 1.0)
    first, second = parts[1].sum() / 2 + parts[2].sum(), parts[2].sum()
    spread = math.sqrt(min(max(second / units - (first / units) ** 2, LEAST_SPREAD**2), 1 / 4))
    return Found(rows, groups, number, parts[1] / 2 + parts[2], 1.25 * variance, spread)


def _losses(
    loss: Epsilon | Rho, *, grouped: bool, listed: int | None = None
) -> dict[str, Epsilon | Rho]:
    """Return the loss of each noisy number: those that are of no use leave theirs to the others."""
    names = ["rows"] if not grouped else list(SHARES) if listed is None else ["rows", "groups"]
    whole = sum((SHARES[name] for name in names), start=Fraction(0))
    return {name: loss.share(SHARES[name] / whole) for name in names}


def finding_draws(
    loss: Epsilon | Rho, *, grouped: bool, listed: int | None = None
) -> list[tuple[Epsilon | Rho, str]]:
    """Return what limits are found from, each with its loss."""
    words = {
        "rows": "how many rows units have in a group",
        "groups": "how many groups units are in",
        "number": "the number of groups",
    }
    losses = _losses(loss, grouped=grouped, listed=listed)
    return [(own, words[name]) for name, own in losses.items()]


def _histogram(exact: Integers, loss: Epsilon | Rho) -> tuple[Floats, float]:
    """Return a noisy histogram of units up to the last bin that is seen, and its variance."""
    noise = loss.noise(1, 1)
    noisy = add_to(exact, noise).astype(np.float64)
    return noisy[: _seen(noisy, noise.quantile(FALSE / len(noisy)))], noise.variance


def _seen(counts: Floats, threshold: float) -> int:
    """Return how many bins there are up to the last one that units are certain to be in."""
    above = np.flatnonzero(counts > threshold)
    return int(above[-1]) + 1 if len(above) else 1


def best_limits(
    found: Found,
    questions: Sequence[object],
    loss: Epsilon | Rho,
    *,
    rows: int | None = None,
    groups: int | None = None,
) -> tuple[int, int]:
    """Return limits with which the questions' errors are least; given ones stay."""
    limits = CANDIDATES[: len(found.rows)] if rows is None else np.asarray([rows])
    places = CANDIDATES[: len(found.groups)] if groups is None else np.asarray([groups])
    part = loss.share(Fraction(1, len(questions)))
    errors = [forecast_errors(found, own, part, limits, places) for own in questions]
    logarithms = np.sum([np.log(np.maximum(own, TINY)) for own in errors], axis=0)
    best, apart = np.unravel_index(int(np.argmin(logarithms)), logarithms.shape)
    return int(limits[best]), int(places[apart])


def forecast_errors(
    found: Found, question: object, loss: Epsilon | Rho, limits: Integers, places: Integers
) -> Floats:
    """Return the mean squared error of an answer, for each limit of rows and of groups."""
    apart, of_groups = SIZES[: len(found.groups)], np.maximum(found.groups, 0)
    every = np.concatenate([places, [LARGEST_LIMIT]])
    in_groups = np.minimum(apart, every[:, None]) @ of_groups / max(of_groups.sum(), 1.0)
    in_groups = np.maximum(in_groups, TINY)
    noise = _deviations(loss, limits, places)
    ends = np.concatenate([limits, [LARGEST_LIMIT]])
    kept = np.minimum(SIZES[: len(found.rows)], ends[:, None])
    if isinstance(question, NUnique):  # a value is lost where all units that have it leave it out
        kept = np.ones_like(kept)
    if isinstance(question, Count | NUnique | Sum):
        return _of_sums(found, question, (ends, kept), in_groups, noise)
    return _of_means(found, kept, in_groups, noise)


def _deviations(loss: Epsilon | Rho, rows: Integers, groups: Integers) -> Floats:
    """Return the standard deviation of a count's noise, for each limit of rows and of groups."""
    of_row = [
        [float(Contribution(int(r), int(g)).row_loss(loss).value) for g in groups] for r in rows
    ]
    if isinstance(loss, Epsilon):
        return np.asarray(math.sqrt(2) / np.asarray(of_row))
    return np.asarray(1 / np.sqrt(2 * np.asarray(of_row)))


def _of_means(found: Found, kept: Floats, in_groups: Floats, noise: Floats) -> Floats:
    """Return errors of what is divided by the number of rows, in widths of the bounds.

    Noise of a mean in the middle of its bounds; bias by units that count for less than their rows,
    as measured; and as much at random as the weights of units in a group change. `kept` is what a
    unit of each size counts as, and `in_groups` in how many groups one is, for each limit; at last
    without limit.
    """
    total = np.maximum(kept @ found.rows, 1.0)
    in_group = total[:-1, None] * in_groups[:-1] / found.number
    error = noise**2 / 2 / np.maximum(in_group, TINY) ** 2
    weights = kept / total[:, None]
    moved = weights[:-1] - weights[-1]
    units = np.maximum(found.rows, 0)
    if found.firsts is not None:
        bias, unsure = moved @ found.firsts, (moved**2).sum(axis=1) * found.variance
        error = error + np.maximum(bias**2 - SURE**2 * unsure, 0)[:, None]
    each = max(float(units.sum()), 1.0) * in_groups / found.number  # units in a group
    left_out = 1 / np.maximum(each[:-1], 1.0) - 1 / np.maximum(each[-1], 1.0)
    at_random = (moved**2 @ units)[:, None] * found.number / in_groups[:-1]
    if found.firsts is not None and found.number <= 1 and len(found.groups) == 1:
        return np.asarray(error)  # the bias of the whole frame has been measured
    return np.asarray(error + found.spread**2 * (at_random + left_out))


def _of_sums(
    found: Found,
    question: object,
    bounding: tuple[Integers, Floats],
    in_groups: Floats,
    noise: Floats,
) -> Floats:
    """Return errors of what adds up, in values of the larger bound: noise, and all left out."""
    bounds, (limits, kept) = bounds_of(getattr(question, "bounds", None)), bounding
    if isinstance(question, Sum) and found.firsts is not None and bounds is not None:
        added = _totals(found, bounds, limits) @ found.rows
    else:
        added = kept @ (found.rows * MIDDLE if isinstance(question, Sum) else found.rows)
    every = added[:, None] * in_groups / found.number
    return np.asarray(noise**2 + (every[-1, -1] - every[:-1, :-1]) ** 2)


def _totals(found: Found, bounds: Bounds, limits: Integers) -> Floats:
    """Return what a unit of each size adds to a sum in larger bounds: clipped to each limit."""
    assert found.firsts is not None  # noqa: S101 looked at
    means = np.clip(found.firsts / np.maximum(found.rows, 1.0), 0, 1)
    far = np.clip([means - found.spread, means + found.spread], 0, 1)
    size = max(abs(bounds.lower), abs(bounds.upper))
    values = SIZES[: len(found.rows)] * (bounds.lower + bounds.width * far) / size
    ends = np.array([bounds.lower, bounds.upper]) / size
    least, most = ends[:, None, None, None] * limits[:, None, None]
    clipped: Floats = np.clip(values, least, most).mean(axis=1)
    return clipped


def find_limits(frame: object, plan: Plan) -> tuple[object, Plan]:
    """Find the limits of a unit where a plan has none, and return the plan of the rest.

    The charge of the whole release is paid here, before anything is drawn. The plan is measured
    within the smallest limits before that, so that types which it refuses cost nothing.
    """
    if plan.search is None or plan.account.remembered(plan.mark) is not None:
        return frame, plan
    check_charge(plan)
    frame = guarded(lambda: rereadable(frame))
    sizes = measure_sizes_and_types(frame, plan)
    with charged(plan):
        settled = draw_limits(plan, sizes)
    account = PrepaidAccount(plan.account, plan.charge.question)
    return frame, replace(settled, account=account)


def measure_sizes_and_types(frame: object, plan: Plan) -> Exact:
    """Return the sizes of units, and refuse what could not be measured within any limits."""
    assert plan.search is not None  # noqa: S101 the caller has looked
    questions = list(plan.questions.values())
    values = dict.fromkeys(valued(questions).columns, True)
    columns = named_columns(plan.by, plan.keys, values, Unit(plan.search.unit.column, 1))
    _, sizes = read(frame, columns, lambda adopted: measured_sizes(adopted, plan.by, questions))
    unit = plan.unit and replace(plan.unit, max_groups=None)
    measure_plan(frame, replace(plan, unit=unit))
    return sizes


def draw_limits(plan: Plan, sizes: Exact) -> Plan:
    """Return a plan within limits that noisy sizes of units suggest."""
    search = plan.search
    assert search is not None  # noqa: S101 the caller has looked
    public_groups = None if plan.keys is None else len(plan.keys.rows)
    noisy = found_sizes(sizes, search.loss, grouped=bool(plan.by), listed=public_groups)
    unit, questions = search.unit, list(plan.questions.values())
    rows, groups = best_limits(
        noisy,
        questions,
        search.rest,
        rows=None if unit.rows else unit.max_rows,
        groups=unit.max_groups,
    )
    limited = search.settle(Unit(unit.column, rows, groups if plan.by else None))
    return replace(
        plan,
        unit=limited.unit,
        rule=limited.rule,
        parts=limited.parts,
        row_losses=limited.row_losses,
        search=None,
        finds_limits=True,
    )
