"""The last step of the four protocols: which reports count, and what they say about the mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.local.asks import Distance, Side
from dfprivacy.local.findings import Finding, MeanFinding, SideFinding
from dfprivacy.local.response import RandomisedResponse
from dfprivacy.local.tally import Tally

if TYPE_CHECKING:
    from dfprivacy.local.gaussian import GaussianPlan
    from dfprivacy.local.protocol import Protocol

ENOUGH = 0.9
"""A lattice of five such units either side holds values of a Gaussian of spread 1."""


def finding(plan: GaussianPlan, protocol: Protocol, tally: Tally, *, trusted: bool) -> Finding:
    """Return what the refining users have found around the coarse mean of a plan."""
    ask = protocol.asks[-1]
    if isinstance(ask, Side):
        return _side(plan, protocol, ask, tally, trusted=trusted)
    if isinstance(ask, Distance):
        return _distance(plan, ask, tally, trusted=trusted)
    raise TypeError(ask.kind)


def _side(
    plan: GaussianPlan, protocol: Protocol, ask: Side, tally: Tally, *, trusted: bool
) -> SideFinding:
    """Read the side of the point nearest to the coarse mean.

    Around one point the share above tells the mean wherever that point lies: the interval is
    right whether the coarse step was or not. A lattice needs the coarse step.
    """
    points, group = np.array(ask.points), 0
    if ask.spacing:
        points = nearest(points, ask.spacing, plan.point or 0.0)
        group = int(np.argmin(np.abs(points - (plan.point or 0.0))))
    alone = not ask.spacing
    return SideFinding(
        reports=int(tally.reports[group]),
        point=float(points[group]),
        limit=plan.limit,
        trusted=trusted or alone,
        beta=0.0 if alone else plan.beta,
        present=plan.present,
        above=int(tally.counts[group, 1]),
        sigma=plan.sigma or 1.0,
        law=RandomisedResponse(2, protocol.loss.pure()),
        spacing=ask.spacing,
    )


def _distance(plan: GaussianPlan, ask: Distance, tally: Tally, *, trusted: bool) -> MeanFinding:
    """Read the average distance: from the coarse mean, or from the lattice of the spread found."""
    point, group = plan.point or 0.0, 0
    if ask.lattice:
        each = len(ask.points) // len(plan.levels)
        first = lattice_level(plan) * each
        points = nearest(np.array(ask.points[first : first + each]), ask.widths[first], point)
        group = first + int(np.argmin(np.abs(points - point)))
        point = float(points[group - first])
    total, squares = (float(each) for each in tally.counts[group])
    return MeanFinding(
        reports=int(tally.reports[group]),
        point=point,
        limit=plan.limit,
        trusted=trusted,
        beta=plan.beta,
        present=plan.present,
        total=total,
        squares=squares,
        width=ask.widths[group],
        steps=ask.steps,
    )


def nearest(points: np.ndarray, spacing: float, to: float) -> np.ndarray:
    """Return the point of each lattice that is nearest to a number."""
    return points + spacing * np.rint((to - points) / spacing)


def lattice_level(plan: GaussianPlan) -> int:
    """Return the number of the lowest level whose lattice is wide enough for the spread found."""
    wide = [math.ldexp(1.0, level) >= ENOUGH * (plan.spread or 1.0) for level in plan.levels]
    return wide.index(True) if True in wide else len(wide) - 1
