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
"""Candidate limits, 1, 2, 3, 4, 6, 8, 12 ...: each is also the end of a bin of sizes."""

SHARES = {"rows": Fraction(1, 2), "groups": Fraction(2, 5), "number": Fraction(1, 10)}
"""Fractions of the loss of the three noisy numbers by group; otherwise the rows get all of it."""

FALSE = 1e-4
"""Largest probability that a size counts as held by units although no unit has it."""

SPREAD = 1 / 20
"""Assumed deviation between units, in widths of the bounds, if their values are unknown."""

LEAST_SPREAD = 1 / 200
"""Smallest assumed deviation between units if their values are known, except for noise."""

TINY = 1e-300
"""Smallest square of an error, and smallest number of rows."""

SURE = 2
"""Standard deviations of its noise that a measured bias must exceed to count."""

MIDDLE = 1 / 4
"""Fraction of the larger bound that a value is assumed to be if bounds are to be found."""


SIZES: Floats = np.sqrt(np.append(1, CANDIDATES[:-1] + 1) * CANDIDATES)
"""The size that stands for each bin: the geometric mean of its ends."""


@dataclass(frozen=True)
class Exact:
    """Exact histograms of units by rows in a group and by number of groups. Secret.

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
    """Noisy histograms, from the smallest size to the largest that units are seen to have.

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
    terms = []
    for question in questions:
        bounds = bounds_of(getattr(question, "bounds", None))
        if isinstance(question, Mean | Sum) and bounds is not None:
            terms.append(OnGrid(question.column, grid_from_lower(bounds)))
    if len(set(terms)) != 1:
        return Source(())
    return Source(terms[0].columns, (terms[0],))


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
    bins, weights = len(CANDIDATES), sizes.held if with_values else sizes.units
    rows, groups = (np.zeros(bins, dtype=np.int64) for _ in range(2))
    bin_of_size = _bin(sizes.rows)
    np.add.at(rows, bin_of_size, weights)
    np.add.at(groups, _bin(sizes.groups), sizes.units)
    if not with_values:
        return Exact(rows, groups, None, number)
    means = np.zeros((3, bins), dtype=np.int64)
    first, second = sizes.firsts, sizes.seconds
    coordinates = (UNIT_MEAN * weights - 2 * first + second, 2 * first - 2 * second, second)
    for row, coordinate in zip(means, coordinates, strict=True):
        np.add.at(row, bin_of_size, coordinate)
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
    size_kept = _seen(rows, noise.quantile(FALSE / len(rows), 3) / UNIT_MEAN)
    rows, parts = rows[:size_kept], parts[:, :size_kept]
    units = max(float(rows.sum()), 1.0)
    first, second = parts[1].sum() / 2 + parts[2].sum(), parts[2].sum()
    spread = math.sqrt(min(max(second / units - (first / units) ** 2, LEAST_SPREAD**2), 1 / 4))
    return Found(rows, groups, number, parts[1] / 2 + parts[2], 1.25 * variance, spread)


def _losses(
    loss: Epsilon | Rho, *, grouped: bool, listed: int | None = None
) -> dict[str, Epsilon | Rho]:
    """Return the loss of each noisy number: those that are of no use leave theirs to the others."""
    names = ["rows"] if not grouped else list(SHARES) if listed is None else ["rows", "groups"]
    total = sum((SHARES[name] for name in names), start=Fraction(0))
    return {name: loss.share(SHARES[name] / total) for name in names}


def finding_draws(
    loss: Epsilon | Rho, *, grouped: bool, listed: int | None = None
) -> list[tuple[Epsilon | Rho, str]]:
    """Return the noisy numbers that limits are found from, each with its loss."""
    words = {
        "rows": "how many rows units have in a group",
        "groups": "how many groups units are in",
        "number": "the number of groups",
    }
    losses = _losses(loss, grouped=grouped, listed=listed)
    return [(loss_of_number, words[name]) for name, loss_of_number in losses.items()]


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
    histograms: Found,
    questions: Sequence[object],
    loss: Epsilon | Rho,
    *,
    rows: int | None = None,
    groups: int | None = None,
) -> tuple[int, int]:
    """Return limits with which the questions' errors are least; given ones stay."""
    limits = CANDIDATES[: len(histograms.rows)] if rows is None else np.asarray([rows])
    group_limits = CANDIDATES[: len(histograms.groups)] if groups is None else np.asarray([groups])
    part = loss.share(Fraction(1, len(questions)))
    errors = [
        forecast_errors(histograms, question, part, limits, group_limits) for question in questions
    ]
    logarithms = np.sum([np.log(np.maximum(error, TINY)) for error in errors], axis=0)
    best, best_group = np.unravel_index(int(np.argmin(logarithms)), logarithms.shape)
    return int(limits[best]), int(group_limits[best_group])


def forecast_errors(
    histograms: Found,
    question: object,
    loss: Epsilon | Rho,
    limits: Integers,
    group_limits: Integers,
) -> Floats:
    """Return the mean squared error of an answer, for each limit of rows and of groups."""
    sizes, of_groups = SIZES[: len(histograms.groups)], np.maximum(histograms.groups, 0)
    every = np.concatenate([group_limits, [LARGEST_LIMIT]])
    in_groups = np.minimum(sizes, every[:, None]) @ of_groups / max(of_groups.sum(), 1.0)
    in_groups = np.maximum(in_groups, TINY)
    noise = _deviations(loss, limits, group_limits)
    ends = np.concatenate([limits, [LARGEST_LIMIT]])
    capped = np.minimum(SIZES[: len(histograms.rows)], ends[:, None])
    if isinstance(question, NUnique):  # a value is lost where all units that have it leave it out
        capped = np.ones_like(capped)
    if isinstance(question, Count | NUnique | Sum):
        return _of_sums(histograms, question, (ends, capped), in_groups, noise)
    return _of_means(histograms, capped, in_groups, noise)


def _deviations(loss: Epsilon | Rho, rows: Integers, groups: Integers) -> Floats:
    """Return the standard deviation of a count's noise, for each limit of rows and of groups."""
    of_row = [
        [float(Contribution(int(r), int(g)).row_loss(loss).value) for g in groups] for r in rows
    ]
    if isinstance(loss, Epsilon):
        return np.asarray(math.sqrt(2) / np.asarray(of_row))
    return np.asarray(1 / np.sqrt(2 * np.asarray(of_row)))


def _of_means(histograms: Found, capped: Floats, in_groups: Floats, noise: Floats) -> Floats:
    """Return errors of what is divided by the number of rows, in widths of the bounds.

    Noise of a mean in the middle of its bounds; bias by units that count for less than their rows,
    as measured; and as much at random as the weights of units in a group change. `capped` is what a
    unit of each size counts as, and `in_groups` in how many groups one is, for each limit; at last
    without limit.
    """
    total = np.maximum(capped @ histograms.rows, 1.0)
    in_group = total[:-1, None] * in_groups[:-1] / histograms.number
    error = noise**2 / 2 / np.maximum(in_group, TINY) ** 2
    weights = capped / total[:, None]
    weight_change = weights[:-1] - weights[-1]
    units = np.maximum(histograms.rows, 0)
    if histograms.firsts is not None:
        bias, unsure = (
            weight_change @ histograms.firsts,
            (weight_change**2).sum(axis=1) * histograms.variance,
        )
        error = error + np.maximum(bias**2 - SURE**2 * unsure, 0)[:, None]
    units_in_group = (
        max(float(units.sum()), 1.0) * in_groups / histograms.number
    )  # units in a group
    left_out = 1 / np.maximum(units_in_group[:-1], 1.0) - 1 / np.maximum(units_in_group[-1], 1.0)
    at_random = (weight_change**2 @ units)[:, None] * histograms.number / in_groups[:-1]
    if histograms.firsts is not None and histograms.number <= 1 and len(histograms.groups) == 1:
        return np.asarray(error)  # the bias of the whole frame has been measured
    return np.asarray(error + histograms.spread**2 * (at_random + left_out))


def _of_sums(
    histograms: Found,
    question: object,
    bounding: tuple[Integers, Floats],
    in_groups: Floats,
    noise: Floats,
) -> Floats:
    """Return errors of what adds up, in values of the larger bound: noise, and all left out."""
    bounds, (limits, capped) = bounds_of(getattr(question, "bounds", None)), bounding
    if isinstance(question, Sum) and histograms.firsts is not None and bounds is not None:
        added = _totals(histograms, bounds, limits) @ histograms.rows
    else:
        added = capped @ (
            histograms.rows * MIDDLE if isinstance(question, Sum) else histograms.rows
        )
    every = added[:, None] * in_groups / histograms.number
    return np.asarray(noise**2 + (every[-1, -1] - every[:-1, :-1]) ** 2)


def _totals(histograms: Found, bounds: Bounds, limits: Integers) -> Floats:
    """Return the addend of a unit of each size to a sum in larger bounds: clipped to each limit."""
    assert histograms.firsts is not None  # noqa: S101 looked at
    means = np.clip(histograms.firsts / np.maximum(histograms.rows, 1.0), 0, 1)
    means_range = np.clip([means - histograms.spread, means + histograms.spread], 0, 1)
    size = max(abs(bounds.lower), abs(bounds.upper))
    values = SIZES[: len(histograms.rows)] * (bounds.lower + bounds.width * means_range) / size
    ends = np.array([bounds.lower, bounds.upper]) / size
    lower, upper = ends[:, None, None, None] * limits[:, None, None]
    clipped: Floats = np.clip(values, lower, upper).mean(axis=1)
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
        limited = draw_limits(plan, sizes)
    account = PrepaidAccount(plan.account, plan.charge.question)
    return frame, replace(limited, account=account)


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
