"""The plans that a protocol can follow, by the name that its JSON carries."""

from __future__ import annotations

from dfprivacy.local.gaussian import GaussianPlan
from dfprivacy.local.plan import Plan
from dfprivacy.local.vectors import VectorPlan

PLANS: dict[str, type[Plan]] = {plan.kind: plan for plan in (GaussianPlan, VectorPlan)}
