"""Limits of a unit are checked before anything is read, and can be suggested."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.limits import limit_losses, limits_charge
from dfprivacy.statistics import Quantile
from tests.privacy.unit_tables import FRAMES, table


@pytest.mark.parametrize(
    "terms",
    [
        {"unit": "u"},
        {"unit": "u", "max_rows": 0},
        {"unit": "u", "max_rows": 2.5},
        {"unit": "u", "max_rows": 2**20 + 1},
        {"unit": "u", "max_rows": True},
        {"max_rows": 3},
        {"max_groups": 3},
        {"unit": "u", "max_rows": 1, "max_groups": 0},
        {"unit": "u", "max_rows": 1},
    ],
)
def test_limits_that_are_missing_or_wrong_are_refused(terms):
    """A unit needs whole limits, and secret keys need max_groups: an error before anything."""
    frame = dfp.frame(pa.table({"u": [1], "g": ["a"]}))
    with pytest.raises(dfp.InvalidUnitError, match="Hint"):
        frame(**terms, delta=1e-6).group_by("g").count()


def test_a_unit_that_is_no_column_is_refused():
    """A unit is a column of the frame."""
    with pytest.raises(dfp.MissingColumnError, match="'user'"):
        dfp.frame(pa.table({"u": [1]}))(unit="user", max_rows=1).count()


@pytest.mark.parametrize("name", FRAMES)
def test_suggested_limits_hold_for_nearly_all_units(engines, name):
    """The limits of a table in which most units have 3 rows in 2 groups each are 3 and 2."""
    rows = [{"u": u, "g": g, "x": 1.0, "i": i} for u in range(600) for g in "ab" for i in range(3)]
    heavy = [{"u": 1000, "g": str(i), "x": 1.0, "i": i} for i in range(90)]
    frame = engines[name](table(rows + heavy))
    assert dfp.suggest_limits(frame, unit="u", by="g", epsilon=20) == dfp.Unit("u", 3, 2)
    assert dfp.suggest_limits(frame, unit="u", epsilon=20) == dfp.Unit("u", 6)


def test_too_few_units_have_the_smallest_limits():
    """Where nothing can be told of the units, limits are 1, and no error says so."""
    frame = pa.table({"u": pa.array([], pa.int64()), "g": pa.array([], pa.string())})
    found = {dfp.suggest_limits(frame, unit="u", by="g", epsilon=0.1) for _ in range(5)}
    assert dfp.Unit("u", 1, 1) in found


@pytest.mark.parametrize("by", [[], ["g"]])
def test_what_the_limits_spend_is_the_charge(by):
    """Limits that are found share the loss: two have a half each, and one has it all."""
    charge = limits_charge(Quantile("u", 0.9), by, 0.7, None)
    losses = limit_losses(charge, by)
    assert list(losses) == (["max_rows", "max_groups"] if by else ["max_rows"])
    assert sum(loss.value for loss in losses.values()) == charge.loss.value
