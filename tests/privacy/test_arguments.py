"""Every argument is either in range or refused by name, before a random byte is drawn."""

import math
import os
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dfp
from tests.privacy.refused_arguments import ASKS, FRAME, SECRET, require_refusal

BAD_BOUNDS = [
    (1, 0),
    (0, 0),
    (0.0, -0.0),
    (0, math.nan),
    (math.nan, 1),
    (0, math.inf),
    (-math.inf, 0),
    (-1.7e308, 1.7e308),
    (0, 5e-324),
    (1, 1 + 2**-1010),
    (0, 10**400),
    (0, "1"),
    (None, 1),
    (0, None),
    (True, 2),
    (0, 1j),
    (0, Decimal("NaN")),
    (0, 1, 2),
    (0,),
    (),
    "01",
    1,
    {0, 1},
    {0: 1, 1: 2},
    np.array([0, 1]),
    pd.Series([0, float(SECRET)]),
    (FRAME["x"].min(), FRAME["x"]),
    (FRAME["x"], FRAME["x"]),
    (0, pl.col("x")),
    range(2),
    lambda: (0, 1),
]


@pytest.mark.parametrize("ask", ["sum", "std"])
@pytest.mark.parametrize("bounds", BAD_BOUNDS, ids=lambda b: str(b)[:24].replace("\n", " "))
def test_bounds_out_of_range_are_refused(ask, bounds, entropy_calls):
    """Bounds that are no pair of finite numbers, lower below upper, are InvalidBoundsError."""
    require_refusal(
        lambda: getattr(FRAME.dp, ask)("x", bounds), entropy_calls, dfp.errors.InvalidBoundsError
    )
    require_refusal(
        lambda: getattr(FRAME.dp(bounds={"x": bounds}), ask)("x"),
        entropy_calls,
        dfp.errors.InvalidBoundsError,
    )


NO_COLUMNS = [["x"], {"x": 1}, ("x", "g"), 1, 1.5, pl.col("x"), FRAME["x"], FRAME, lambda: 1, "z"]


@pytest.mark.parametrize(
    ("ask", "level"),
    [
        (ask, level)
        for ask in ("count", "mean", "var", "sum")
        for level in (5e-324, 1e-17, Decimal("0." + "9" * 40), Fraction(2**80 - 1, 2**80))
    ],
)
def test_a_level_next_to_zero_or_one_is_refused_or_works(ask, level, entropy_calls):
    """Every level strictly between 0 and 1 gives an interval, or is refused before the noise."""
    try:
        estimate = ASKS[ask](FRAME.dp, interval=level)
    except dfp.errors.InvalidQuestionError:
        assert entropy_calls == []
    else:
        assert estimate.low <= estimate.high


CELLS = pl.DataFrame(
    {"g": ["a", "b"] * 50, "h": [1, 2] * 50, "x": [float(SECRET)] * 100, "s": [["a"]] * 100}
).with_columns(note="g", intercept="x", v=pl.concat_list("x"), w=pl.concat_arr("x", "x"))
POWERS = [1, 0.5, 65, Fraction(10**30 + 1, 10**30), Decimal("1.00000000000000000001"), "2"]
LEVELS = [-0.1, 1.1, Fraction(10**7 + 1, 10**7), math.nan, math.inf, True, "0.5", None]
LIMITS = [{"max_rows": 0}, {"max_rows": 2.5}, {"max_rows": 2**20 + 1}, {"max_rows": True}]
LIMITS += [{"max_groups": 0}, {"max_rows": 1, "max_groups": 0}]
VECTORS = [{"method": "best"}, {"neighbors": "swap"}, {"deviations": "cauchy"}, {"interval": 1.0}]
VECTORS += [{"p": 0.5}, {"p": "2"}, {"dimension": 2}, {"columns": []}, {"columns": ["x", "x"]}]
VECTORS += [{"columns": "w", "dimension": 3}, {"columns": "v"}]
VECTORS += [{"columns": "v", "dimension": size} for size in (0, 2**21)]
VECTORS += [
    {"columns": "v", "universe": 3, **terms}
    for terms in ({"dimension": 3}, {"method": "shifted"}, {"method": "recentered"})
]
WITHIN = {"h": (0, 9), "x": (0, 9), "c": (0, 1), "g": (0, 1), "intercept": (0, 1)}
FAR = {"h": (0, 1e300), "x": (0, 1e-300)}
LINES = [("h", []), ("h", ["x", "x"]), ("h", ["x", "h"]), ("h", [f"x{n}" for n in range(21)])]
LINES += [("h", ["c"]), ("h", ["g"]), (["h"], ["x"]), ("h", ["intercept"])]


def vector(columns=["x", "h"], **terms):  # noqa: B006 nothing changes it
    """Return a case of a mean of vectors."""
    arguments = {"rho": 1, "radius": 5, **terms}
    return None, lambda d: d.mean_vector(columns, **arguments)


NO_LEVELS = [0, 1, -0.5, 1.5, math.nan, math.inf, True, "0.9", pd.NA, [0.9], FRAME["x"], lambda: 1]
NO_FRAMES = [None, 1, [1, 2], {"x": [1]}, np.zeros(3), "absent.csv", "x.xlsx", object()]
TWICE = dfp.mean("x", (0, 1)), dfp.mean("x", (0, 2))
SHADOWED = {"low": dfp.count(), "b": dfp.sum("x", (0, 1)), "low_low": dfp.count()}
OTHER_MODELS = [
    lambda d: d.shuffle.sum("x", (0, 1)),
    lambda d: d.shuffle.explain.mean("x", (0, 1)),
    lambda d: d.shuffle.quantile("x", 0.5, (0, 1)),
    lambda d: d.local.gaussian_mean("x", sigma=10),
    lambda d: d.local.explain.gaussian_mean("x", sigma=10),
]
IMPOSSIBLE = {
    dfp.errors.InvalidQuestionError: [
        *(
            ("level", lambda d, ask=ask, level=level: ask(d, interval=level))
            for ask in ASKS.values()
            for level in NO_LEVELS
        ),
        (None, lambda d: d.agg(*TWICE)),
        (None, lambda d: d.group_by("h", keys=[1]).agg(h=dfp.count())),
        (None, lambda d: d.group_by("h", keys=[1]).agg(**SHADOWED)),
        (None, lambda d: d.explain()),
        (None, lambda d: d.group_by("g").explain("x")),
        (None, lambda d: d.group_by("g").explain(g=dfp.count())),
        *(("unit", lambda d, ask=ask: ask(d(unit="g", max_rows=1))) for ask in OTHER_MODELS),
        ("unit", lambda d: vector()[1](d(unit="g", max_rows=1))),
        ("unit", lambda d: vector()[1](d(unit="g", max_rows=1).group_by("h", keys=[1]))),
        ("group", lambda _: vector(neighbors="replace", delta=0.1)[1](CELLS.dp.group_by("g"))),
        *(("must be a text", lambda d, c=c: d.share("x", c)) for c in (None, math.nan, [1])),
        *(("above 1, up to 64", lambda d, p=p: d.center("x", p, bounds=(0, 1))) for p in POWERS),
        *(("from 0 to 1", lambda d, q=q: d.quantile("x", q)) for q in LEVELS),
        *(("from 0 to 1", lambda d, q=q: d.quantiles("x", [0, q])) for q in LEVELS),
        ("step", lambda d: d.median("x", step=1)),
        ("step", lambda d: d.median("x", (0, 9), step=0)),
        ("step", lambda d: d.median("x", (0, 9), step=-1)),
        ("step", lambda d: d.median("x", (0.2, 0.8), step=1)),
        ("step", lambda d: d.median("x", (0, 9), step=1e-300)),
        ("no interval of the population", lambda d: d.median("x", ends=True, population=True)),
        *(("whole number", lambda d, k=k: d.top("g", k)) for k in (0, None, 1.5)),
        ("name of a column", lambda d: d.group_by("note").mode("g")),
        ("two different columns", lambda d: d.crosstab("g", "g")),
        ("totals can't be read off", lambda d: d.pivot("g", "h", "x", "median", margins=True)),
        ("totals can't be read off", lambda d: d.pivot("g", "h", "x", "nunique", margins=True)),
        ("do not add up", lambda d: d.pivot("g", "h", "x", bounds=(0, 10), rounded="integer")),
        ("no such aggregate", lambda d: d.crosstab("g", "h", "x", "harmonic")),
        ("counts rows", lambda d: d.crosstab("g", "h", aggregate="mean")),
        ("no column", lambda d: d.describe(columns=[])),
        ("columns", lambda d: d.describe(columns="x")),
        ("declared types", lambda d: d.describe(numbers=["g"])),
        ("top", lambda d: d.describe(top=0)),
        ("population", lambda d: d.describe(population=True)),
        ("from 0 to 1", lambda d: d.describe(quantiles=(2,))),
        ("describe", lambda d: d.group_by("g").explain.describe(rho=1)),
        *((None, lambda d, q=q: d.agg(q)) for q in (1, "x", dfp.count, FRAME, None, pl.col("x"))),
        (None, lambda d: d.agg()),
        *(vector(**terms) for terms in VECTORS),
    ],
    (dfp.errors.InvalidQuestionError, dfp.MissingColumnError): [
        *(
            (None, lambda d, ask=ask, column=column: getattr(d, ask)(column, (0, 1)))
            for ask in ("sum", "mean", "var")
            for column in NO_COLUMNS
        ),
        *((None, lambda d, column=column: d.count(column)) for column in NO_COLUMNS),
        *((None, lambda d, c=c: d.group_by("g", c).count()) for c in [*NO_COLUMNS, "g", None]),
        *((None, lambda d, by=by: d.group_by(*by).count()) for by in ([], [["g", "g"]])),
    ],
    dfp.DPError: [
        *((None, lambda d, line=line: d.regression(*line, WITHIN)) for line in LINES),
        (None, lambda d: d.regression("h", ["x"], WITHIN, population=True)),
        *(
            (None, lambda d, bounds=bounds: d.regression("h", ["x"], bounds))
            for bounds in (FAR, {**WITHIN, "x": (3, 1)}, [(0, 1), (0, 1)])
        ),
    ],
    dfp.errors.UnknownArgumentError: [
        (None, lambda d: d.subset_mean("x", (0, 1))),
        (None, lambda d: d.dick_mean("x", (0, 1))),
        ("shifted_mean", lambda d: d.mean("x", (0, 1), method="shifted")),
        ("independent_mean", lambda d: d["x"].mean((0, 1), method="independent")),
        ("subset_mean", lambda d: d.group_by("g").mean("x", method="subset")),
        ("dick_mean", lambda _: dfp.mean("x", method="dick")),
        ("center with p=2", lambda d: d.explain.mean("x", method="inverse")),
        ("inverse_quantile", lambda d: d.median("x", method="inverse")),
        ("dick_center", lambda _: dfp.center("x", 2, method="dick")),
        (r"'epsilon'[^$]*rho=0\.5", lambda d: d.mean_vector(["x"], radius=100, epsilon=1)),
    ],
    dfp.MissingColumnError: [
        ("'y'", lambda d: d.describe(columns=["y"])),
        ("'y'", lambda d: d.describe(exclude=["y"])),
        ("'user'", lambda d: d(unit="user", max_rows=1).count()),
        vector(["x", "z"]),
    ],
    dfp.MissingDeltaError: [
        ("secret", lambda _: CELLS.dp.value_counts("g")),
        ("secret", lambda _: CELLS.dp.crosstab("g", "h")),
        ("secret", lambda _: CELLS.dp.describe()),
        ("secret", lambda _: CELLS.dp.group_by("g").count(rho=1)),
        ("secret", lambda _: vector()[1](CELLS.dp.group_by("g"))),
        ("secret", lambda _: CELLS.dp.group_by("g").explain.mean("x", (0, 1))),
        ("secret", lambda _: CELLS.dp.group_by("g").explain.histogram("x", 3)),
    ],
    dfp.errors.InvalidKeysError: [
        ("public together", lambda d: d.group_by("h").value_counts("g", ["a"])),
        ("keys", lambda d: d.crosstab("g", "h", keys={"g": ["a"]})),
        ("not listed", lambda d: d.value_counts("g", other=True)),
        ("not listed", lambda d: d.value_counts("g", [None], other=True)),
        ("public key does not fit", lambda d: d.value_counts("h", ["x"], other=True)),
    ],
    dfp.MissingBoundsError: [
        ("bounds", lambda d: d.pivot("g", "h", "x", margins=True)),
        ("bounds", lambda d: d.shifted_mean("x")),
        ("bounds", lambda d: d.independent_mean("x")),
    ],
    dfp.errors.InvalidBoundsError: [
        ("too large or too small", lambda d: d.cov("x", "h", (0, 1e-200), (0, 1e-200))),
        *(vector(radius=radius) for radius in (None, 0, math.inf, "5", True)),
        (None, lambda d: d.group_by("g").explain.mean("x", (1, 0))),
    ],
    dfp.UnsupportedDtypeError: [
        ("'s'", lambda d: d.nunique("s")),
        ("'g'", lambda d: d.sum("g", (0, 1))),
        vector(["x", "g"]),
        vector("x"),
        vector("v", universe=3),
    ],
    dfp.errors.UnsupportedFrameError: [
        *((None, lambda _, frame=frame: dfp.frame(frame).count()) for frame in NO_FRAMES),
        ("read_all", lambda _: vector()[1](dfp.frame(CELLS.to_arrow().to_reader()))),
    ],
    dfp.errors.InvalidLedgerError: [("replace", vector(neighbors="replace")[1])],
    dfp.errors.InvalidLossError: [
        ("epsilon and rho", lambda d: d.describe(epsilon=1, rho=1)),
        ("epsilon and rho", lambda d: d.count(epsilon=1, rho=1)),
        *(vector(rho=rho) for rho in (0, -1, math.nan, None)),
        *(("rho", lambda d, ask=ask: ask(d(rho=0.001))) for ask in OTHER_MODELS),
        (None, lambda d: d.group_by("g").explain.mean("x", (0, 1), epsilon=-1)),
        (None, lambda d: d.group_by("g").explain.mean_vector(["x"], radius=1)),
    ],
    dfp.errors.InvalidUnitError: [
        ("no unit", lambda d: d(max_rows=3).group_by("g").count()),
        ("no unit", lambda d: d(max_groups=3).group_by("g").count()),
        *(("max_", lambda d, a=a: d(unit="h", **a).group_by("g").count()) for a in LIMITS),
    ],
}
"""Calls that are refused, by the class of their error, each after words of its message."""


@pytest.mark.sample(99)
@pytest.mark.parametrize("make", [pl.DataFrame.lazy, pl.DataFrame.to_arrow])
@pytest.mark.parametrize(
    ("error", "message", "call"),
    [(error, *case) for error, cases in IMPOSSIBLE.items() for case in cases],
)
def test_what_can_not_be_is_refused(error, message, call, make, tmp_path, entropy_calls):
    """A question, a table or a unit that can't be is refused before a row is read or paid for."""
    ledger = dfp.Ledger(tmp_path / "budget.db", rho=9, delta=0.1)
    private = dfp.frame(make(CELLS))(delta=1e-6, ledger=ledger, dataset="d")
    entropy_calls.clear()
    require_refusal(lambda: call(private), entropy_calls, error, message)
    assert ledger.datasets() == []


@pytest.mark.parametrize("calls", range(3))
def test_a_failing_random_source_releases_nothing(calls, monkeypatch):
    """When the operating system gives no random bytes, or too few, nothing is released."""
    true = os.urandom

    def fail(size):
        raise OSError(size)

    questions = list(ASKS.values()) if calls == 0 else [lambda private: private.mean("x")]
    for source in (fail, lambda size: b"\0" * (size - 1), lambda size: b""):
        for ask in questions:
            left = iter(range(calls))

            def give(size, source=source, left=left):
                return source(size) if next(left, None) is None else true(size)

            monkeypatch.setattr(os, "urandom", give)
            with pytest.raises(dfp.errors.EntropyError):
                ask(FRAME.dp)
