"""Fixtures of the tests of partial statistics: rows, questions, and noise that is repeated."""

import hashlib
import math
from types import SimpleNamespace

import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy import papers
from tests.partial.secret_files import ASKED, FRAME

WHOLE = {
    "n": dfp.count(),
    "c": dfp.count("x"),
    "m": dfp.mean("x", (-60, 61.5)),
    "shifted": papers.ShiftedMean("x", (0, 100)),
    "independent": papers.IndependentMean("i", (-9, 9)),
    "s": dfp.sum("x", (-100, 3)),
    "v": dfp.var("x", (0, 100)),
    "d": dfp.std("i", (-9, 9)),
    "free mean": dfp.mean("x"),
    "free sum": dfp.sum("i"),
    "free var": dfp.var("x"),
    "subset": papers.SubsetMean("x"),
    "dick": papers.DickMean("i"),
    "inverse": dfp.center("x", 2),
    "median": dfp.median("x"),
    "other median": papers.InverseQuantile("i", 0.5),
    "q": dfp.quantile("i", 0.9),
    "qs": dfp.quantiles("x", [0.25, 0.5, 0.75]),
    "center": dfp.center("x", 1.5),
    "bounded center": dfp.center("x", 3, (0, 100)),
    "dick center": papers.DickCenter("i", 2),
}
LEAN = {name: WHOLE[name] for name in ("n", "m", "v", "free var", "median", "qs")}
"""Questions with every kind of table: sums, octaves with squares, values."""

SCHEMA = pa.schema(
    {"g": pa.string(), "h": pa.int64(), "x": pa.float64(), "i": pa.int64(), "u": pa.int64()}
)


def numbers(count, size, text):
    """Return numbers below `size` that follow from a text."""
    data = hashlib.shake_128(text.encode()).digest(4 * count)
    return [int.from_bytes(data[k : k + 4], "little") % size for k in range(0, 4 * count, 4)]


def rows(count, name="rows"):
    """Return rows with missing values, ends and groups of all sizes; a user has several."""
    odd = [None, float("nan"), float("inf"), -1e300, 0.0, -0.0, 5e-324]
    columns = [numbers(count, size, f"{name} {size}") for size in (10_000, 40, 7, 11, 97)]
    return [
        {
            "g": [None, "", "a", "a", "b", "\u00e9", "A"][g],
            "h": [None, -1, 2**40, 0, 0, 0, 0, 1, 1, 1, 1][h],
            "x": odd[o] if o < len(odd) else v / 64 - 60,
            "i": None if o == 39 else v % 23 - 11,
            "u": None if u == 96 else u,
        }
        for v, o, g, h, u in zip(*columns, strict=True)
    ]


def table(data):
    return pa.Table.from_pylist(list(data), SCHEMA)


class FiveDigits(float):
    """A number that equals others of the same first five digits."""

    def __eq__(self, other):
        return repr(self) == repr(other) or math.isclose(self, other, rel_tol=1e-4)

    __hash__ = None


def shown(answers):
    """Return all that a release shows, NaN as text; text has one type, whatever its engine's.

    Of a variance without bounds by group five digits: files hold finer bins, whose squares are not
    rounded as those of octaves are (docs/explanation/octaves.md, section 2).
    """
    if not isinstance(answers, pa.Table):
        return {name: repr(answer) for name, answer in answers.items()}
    has_squares = any(name.startswith("free var") for name in answers.column_names)
    text, schema, columns = {pa.large_string(): pa.string()}, [], []
    for field, column in zip(answers.schema, answers.columns, strict=True):
        schema.append((field.name, text.get(field.type, field.type)))
        is_rough = field.name.startswith("free var") or (
            has_squares and field.name in {"low", "high"}
        )
        show = FiveDigits if is_rough and pa.types.is_floating(field.type) else repr
        columns.append([None if value is None else show(value) for value in column.to_pylist()])
    return schema, columns


@pytest.fixture(scope="session")
def lab():
    """Return rows, tables and questions that all tests use."""
    return SimpleNamespace(asked=WHOLE, lean=LEAN, rows=rows, table=table, shown=shown)


@pytest.fixture
def make_file(tmp_path):
    """Return a function that makes a file of the same questions, with changes."""

    def make(name, frame=FRAME, **changes):
        return dfp.statistics(frame, tmp_path / name, **{**ASKED, "by": "g", **changes})

    return make
