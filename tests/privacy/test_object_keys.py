"""Keys of pandas columns that go as ranks: what is grouped, shown and matched, row by row."""

import datetime as dt
import decimal
import enum
import re
import uuid
from collections import Counter
from decimal import Decimal
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp


def objects(values):
    series = pd.Series([None] * len(values), dtype=object)
    for row, value in enumerate(values):
        series.iat[row] = value
    return series


def released(keys, public_keys=None):
    grouped = pd.DataFrame({"g": keys}).dp.group_by("g", keys=public_keys)
    table = grouped.count(epsilon=1e12, delta=None if public_keys else 0.5)
    return list(zip(table["g"].tolist(), table["count"].tolist(), strict=True))


def look(key):
    """Return the parts of a key that a caller sees."""
    zone = getattr(key, "tzinfo", None)
    elements = key.tolist() if isinstance(key, np.ndarray | pd.Series) else None
    items = [look(item) for item in key] if isinstance(key, tuple) else None
    return repr((type(key), key, getattr(key, "unit", None), type(zone), zone, elements, items))


def distance(left, right):
    first, other = (Counter({look(key): n for key, n in side}) for side in (left, right))
    return sum(abs(first[key] - other[key]) for key in first.keys() | other.keys())


ESCAPED = r"'\ud800'"
"""A lone surrogate as `repr` writes it."""


@pytest.mark.parametrize("dtype", [object, "string[python]"])
@pytest.mark.parametrize("more", [[], [None], ["b"]])
def test_text_without_utf8_is_not_its_repr(dtype, more):
    """A lone surrogate and the text of its `repr` are two groups, whatever else is there."""
    texts = ["\ud800"] * 20 + [ESCAPED] * 30
    counts = dict(released(pd.Series(texts + more, dtype=dtype)))
    assert (counts["\ud800"], counts[ESCAPED]) == (20, 30)


class Zone(dt.tzinfo):
    """A zone that looks like UTC."""

    def utcoffset(self, _):
        return dt.timedelta(0)

    def dst(self, _):
        return dt.timedelta(0)

    def tzname(self, _):
        return "UTC"

    def __repr__(self):
        return repr(dt.UTC)

    __str__ = tzname


MANY = np.arange(2000)
OTHER = np.where(MANY == 1000, -5, MANY)
TIME, STEP = pd.Timestamp("2020-01-01 12:00"), pd.Timedelta(1, "s")
ALIKE = {
    "decimals": (Decimal("1.0"), Decimal("1.00")),
    "zeros": (-0.0, 0.0),
    "numbers within tuples": ((1, True), (1, 1)),
    "texts": (np.str_("a"), "a"),
    "text enumeration": (enum.StrEnum("Text", {"A": "a"}).A, "a"),
    "units of times": (TIME.as_unit("s"), TIME.as_unit("ns")),
    "units of differences": (STEP.as_unit("ms"), STEP.as_unit("ns")),
    "units within tuples": ((TIME.as_unit("s"), 1), (TIME.as_unit("ns"), 1)),
    "units within intervals": tuple(
        pd.Interval(TIME.as_unit(unit), (TIME + STEP).as_unit(unit)) for unit in ("s", "ns")
    ),
    "zones": tuple(dt.datetime(2020, 1, 1, tzinfo=zone) for zone in (Zone(), dt.UTC)),
    "long arrays": (OTHER, MANY),
    "long series": (pd.Series(OTHER), pd.Series(MANY)),
    "arrays of two types": (MANY.astype("i4"), MANY),
    "arrays within tuples": ((OTHER,), (MANY,)),
    "elements of two types": tuple(
        np.array([0] * 1000 + [element] + [0] * 1000, dtype=object) for element in (True, 1)
    ),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_one_object_does_not_name_the_group_of_another(kind):
    """Objects that are equal, or the same to `repr`: one row moves one count by one."""
    odd, usual = ALIKE[kind]
    columns = [objects([*first, *[usual] * 50]) for first in ([], [odd])]
    assert distance(*map(released, columns)) <= 1


AGAIN = TIME.normalize().to_pydatetime().replace(fold=1)
MORE = {
    "folds": (pd.Timestamp(AGAIN), TIME.normalize(), lambda o: o.fold),
    "folds within tuples": (
        (pd.Timestamp(AGAIN),),
        (TIME.normalize(),),
        lambda o: o[0].fold,
    ),
    "origins": (
        uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe),
        uuid.UUID(int=1),
        lambda o: o.is_safe,
    ),
    "origins within tuples": (
        (uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe),),
        (uuid.UUID(int=1),),
        lambda o: o[0].is_safe,
    ),
}


@pytest.mark.parametrize("kind", MORE)
def test_one_object_lends_nothing_that_it_does_not_show_to_others(kind):
    """The object of a large group shows what it did after a row with another one is added."""
    odd, usual, shown = MORE[kind]
    columns = [objects([*first, *[usual] * 50]) for first in ([], [odd])]
    seen = [
        {repr(shown(key)) for key, count in released(column) if count >= 50} for column in columns
    ]
    assert seen[0] == seen[1] == {repr(shown(usual))}


def test_times_fold_as_their_instants_do():
    """Both times of an hour that comes twice are kept, each with its own fold."""
    twice = [pd.Timestamp(f"2020-10-25 0{hour}:30Z").tz_convert("Europe/Rome") for hour in (0, 1)]
    groups = released(objects(twice * 20))
    assert sorted((key.fold, key.isoformat(), count) for key, count in groups) == [
        (fold, time.isoformat(), 20) for fold, time in enumerate(twice)
    ]


def test_a_uuid_is_the_same_key_whatever_made_it():
    """A public UUID counts rows whatever is known of how they were made."""
    rows = [uuid.UUID(int=1, is_safe=origin) for origin in uuid.SafeUUID]
    assert released(objects(rows), [uuid.UUID(int=1)]) == [(uuid.UUID(int=1), 3)]


def test_times_of_objects_are_matched_in_any_unit():
    """A public time or difference is the same key in any unit; nanoseconds are kept."""
    fine = TIME.as_unit("ns") + pd.Timedelta(1, "ns")
    rows = objects([TIME.as_unit("s"), TIME.as_unit("ns"), STEP.as_unit("ns"), fine])
    groups = released(rows, [TIME.as_unit("ms"), STEP.as_unit("s"), fine])
    assert sorted(groups, key=str) == sorted([(TIME, 2), (STEP, 1), (fine, 1)], key=str)


class Failing(dt.tzinfo):
    """A zone that fails by an error of its own."""

    def utcoffset(self, _):
        raise RuntimeError


def build_unnamed():
    """Return a member of an enumeration whose name refuses to be hashed, by any error."""
    member = enum.Enum("Tone", ["HIGH", "LOW"]).LOW
    member.__dict__["_name_"] = type("Name", (str,), {"__hash__": Failing().utcoffset})("OTHER")
    return member


class Shade(enum.Enum):
    RED, BLUE = 1, 2

    def __repr__(self):
        raise ValueError

    __eq__ = __hash__ = __str__ = __repr__


class Refusing:
    """An object that refuses to be shown, compared, hashed or converted."""

    def __init__(self, number=0):
        self.number = number

    def _refuse(self, *_):
        raise ValueError(self.number)

    __repr__ = __str__ = __eq__ = __ne__ = __hash__ = __bool__ = __float__ = __int__ = _refuse


class Whole(int):
    def __repr__(self):
        raise ValueError

    __str__ = __int__ = __index__ = __add__ = __eq__ = __hash__ = __repr__


class Words(str):
    def __repr__(self):
        raise ValueError

    __str__ = __eq__ = __hash__ = encode = __repr__


class Meta(type):
    def __hash__(cls):
        raise ValueError

    __eq__ = __hash__
    __repr__ = __hash__


class Classless(metaclass=Meta):
    pass


def nest_values(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def in_tuples(depth):
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


CYCLE = [1]
CYCLE.append(CYCLE)
PLAIN = {
    "integers of many digits": (10**5000, 10**5000),
    "integers of a class": (Whole(7), 7),
    "texts of a class": (Words("w"), "w"),
    "differences of numpy": (np.timedelta64(1, "D"), STEP * 86400),
    "times of numpy": (np.datetime64("2020-01-01T12"), TIME),
    "members": (Shade.RED, Shade.RED),
    "tuples": ((1, ("a", None, float("nan"))), (1, ("a", None, None))),
    "decimals": (decimal.Decimal("1.50"), decimal.Decimal("1.50")),
    "bytes": (b"a", b"a"),
    "wide floats": (np.clongdouble(1), 1 + 0j),
}
OTHERS = {
    "refusing": Refusing,
    "mocks": lambda: mock.Mock(spec=str),
    "mocks of numbers": lambda: mock.MagicMock(spec=decimal.Decimal),
    "lists": lambda: [1],
    "deep lists": lambda: nest_values(2000),
    "deep tuples": lambda: in_tuples(2000),
    "tuples of objects": lambda: (1, Refusing()),
    "lists that hold themselves": lambda: CYCLE,
    "dictionaries": lambda: {"a": 1},
    "sets": lambda: {1},
    "arrays": lambda: np.arange(2),
    "series": lambda: pd.Series([1]),
    "patterns": lambda: re.compile("a"),
    "offsets": lambda: pd.offsets.MonthEnd(1),
    "times of an own zone": lambda: dt.datetime(2020, 1, 1, tzinfo=Zone()),
    "times of a zone without an offset": lambda: dt.datetime(2020, 1, 1, tzinfo=dt.tzinfo()),
    "times of a zone that fails": lambda: dt.time(1, tzinfo=Failing()),
    "objects of an own metaclass": Classless,
    "tuples of these": lambda: (1, Classless()),
    "members without a name": build_unnamed,
    "months of numpy": lambda: np.timedelta64(1, "M"),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_values_are_keys(kind):
    """A value of a plain type is shown as plain as it is, whatever its class defines."""
    value, shown = PLAIN[kind]
    ((key, count), *others) = released(objects([value] * 30))
    assert (type(key), key) == (type(shown), shown)
    assert (count, others) == (30, [])


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("usual", ["a", 1])
def test_what_is_no_plain_value_is_missing(kind, usual):
    """Objects of all other classes are one group, that of missing keys, and nobody's is shown."""
    column = objects([OTHERS[kind]() for _ in range(30)] + [usual] * 20 + [None] * 10)
    assert {str(key): count for key, count in released(column)} == {"None": 40, str(usual): 20}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_plain_value_is_no_public_key(kind):
    """A public key of another class is refused, with rows or without."""
    for rows in ([], ["a"]):
        with pytest.raises(dfp.DPError):
            released(objects(rows), ["a", OTHERS[kind]()])


MISSING = [None, float("nan"), pd.NA, pd.NaT, Decimal("NaN"), np.float32("nan")]
TEXTS = ["b", "a", Words("a"), "\uffff", "\U00010000", "", np.str_("b"), *MISSING]


@pytest.mark.parametrize("other", [1, 2.5, b"a", dt.date(2020, 1, 1), "\ud800", (1, "a")])
@pytest.mark.parametrize("unit", [None, "u"])
@pytest.mark.parametrize("public_keys", [None, ["a", None, "c"]])
def test_one_object_that_is_no_text_changes_nothing_for_texts(other, unit, public_keys):
    """Columns of text have the groups, order and counts of columns of any objects."""
    frame = pd.DataFrame({"g": objects([*TEXTS, *TEXTS]), "u": objects([*range(20), *"cdefgh"])})
    more = pd.concat([frame, pd.DataFrame({"g": objects([other]), "u": ["z"]})], ignore_index=True)

    def ask(rows):
        view = rows.dp if unit is None else rows.dp(unit=unit, max_rows=1, max_groups=1)
        rest = {"delta": 0.5} if public_keys is None else {}
        table = view.group_by("g", keys=public_keys).count(epsilon=1e12, **rest)
        groups = [(look(key), count) for key, count in zip(table["g"], table["count"], strict=True)]
        return groups, float(view.count("g", epsilon=1e12)), table.dtypes["g"]

    (groups, count, dtype), (more_groups, with_other, same_dtype) = ask(frame), ask(more)
    texts = [group for group in more_groups if group[0] in dict(groups)]
    assert texts == groups
    assert len(more_groups) <= len(groups) + 1
    assert count <= with_other <= count + 1
    assert dtype == same_dtype == "object"


def zone_column(unit, zone):
    return lambda numbers: (
        pd.Series(np.array(numbers, dtype="i8").view(f"M8[{unit}]"))
        .dt.tz_localize("UTC")
        .astype(f"datetime64[{unit}, {zone}]")
    )


def arrow(kind):
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    dtype = pd.ArrowDtype(kind)
    return lambda numbers: pd.Series(pd.array(pa.array(numbers, width).cast(kind), dtype=dtype))


FAR = {
    "seconds of a zone": (zone_column("s", "Europe/Rome"), 2**44),
    "milliseconds of a zone": (zone_column("ms", "UTC"), 2**60),
    "nanoseconds of a zone": (zone_column("ns", "UTC"), 2**62),
    "seconds of Arrow": (arrow(pa.timestamp("s", "UTC")), -(2**44)),
    "milliseconds of Arrow": (arrow(pa.timestamp("ms", "Europe/Rome")), 2**60),
    "times of day": (arrow(pa.time32("s")), 86399),
}


@pytest.mark.parametrize("kind", FAR)
def test_one_far_time_fails_no_release(kind):
    """A time beyond what the engine counts moves neither keys nor units of others, nor fails."""
    make, far_number = FAR[kind]
    columns = [make([0] * 50 + more) for more in ([], [far_number])]
    shown = [released(column) for column in columns]
    assert shown[0] == shown[1]
    assert pd.DataFrame({"g": columns[0]}).dp.group_by("g").count(delta=0.5)["g"].dtype == (
        columns[0].dtype
    )
    assert [released(column, [shown[0][0][0]]) for column in columns] == [shown[0]] * 2
    units = [pd.DataFrame({"u": column}).dp(unit="u", max_rows=60) for column in columns]
    assert [round(unit.count(epsilon=1e9)) for unit in units] == [50, 51]


NOON = pd.Timestamp(2020, 1, 1, 12).to_pydatetime()
HELD = {
    "differences": (pd.Series([dt.timedelta(1)], dtype="timedelta64[s]"), dt.timedelta(1)),
    "arrow differences": (
        pd.Series([dt.timedelta(1)], dtype=pd.ArrowDtype(pa.duration("s"))),
        dt.timedelta(1),
    ),
    "periods": (pd.Series([pd.Period("2020-01")]), pd.Period("2020-01")),
    "category of times": (pd.Series([NOON]).astype("category"), NOON),
    "category of floats": (pd.Series([1.0]).astype("category"), 1),
    "category of short floats": (pd.Series([0.1], dtype="float32").astype("category"), 0.1),
    "category of integers": (pd.Series([1]).astype("category"), 1.0),
    "category of differences": (pd.Series([STEP]).astype("category"), dt.timedelta(seconds=1)),
    "complex": (pd.Series([1j]), np.complex128(1j)),
    "half floats": (pd.Series([0.1], dtype="float16"), 0.1),
    "swapped integers": (pd.Series([7], dtype=">i4"), 7.0),
    "sparse integers": (pd.Series([7], dtype="Sparse[int64]"), 7.0),
    "intervals": (pd.Series([pd.Interval(0.0, 5.0)]), pd.Interval(0, 5)),
}


@pytest.mark.parametrize("kind", HELD)
def test_a_public_key_is_matched_as_its_dtype_holds_it(kind):
    """A public key counts the rows that have its value, in whatever type it is written."""
    keys, public_key = HELD[kind]
    counts = [count for _, count in released(keys.repeat(20), [public_key, None])]
    assert counts == [20, 0]


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("key", ["1 day", True, b"x", dt.date(2020, 1, 1), 1.5 + 2**-60j])
def test_a_public_key_of_another_kind_is_refused(kind, key):
    """A key that no value of the declared dtype equals is refused, with rows or without."""
    keys, _ = HELD[kind]
    if kind == "complex" and isinstance(key, complex):
        pytest.skip("a complex number is one of its keys")
    for rows in (keys, keys.iloc[:0]):
        with pytest.raises(dfp.errors.InvalidKeysError):
            released(rows, [key])


SPELLINGS = {
    "1.1": ["1.1", "1.10", "11E-1", "0.110E+1"],
    "-200": ["-200", "-2E+2", "-200.000"],
    "0": ["0", "-0", "0.00", "0E+900", "-0E-900"],
    "Infinity": ["Infinity"],
    "-Infinity": ["-Infinity"],
    "1E+999999999999999999": ["1E+999999999999999999"],
    "1E-999999999999999999": ["1E-999999999999999999"],
}


@pytest.mark.parametrize("reverse", [False, True])
def test_decimals_are_told_apart_by_value(reverse):
    """However a decimal is written, and whichever comes first, it is one key in one form."""
    texts = [text for spellings in SPELLINGS.values() for text in spellings for _ in range(20)]
    cells = [decimal.Decimal(text) for text in (reversed(texts) if reverse else texts)]
    cells += [decimal.Decimal("NaN"), decimal.Decimal("sNaN"), None] * 10
    sizes = {text: 20 * len(spellings) for text, spellings in SPELLINGS.items()}
    shown = {str(key): count for key, count in released(objects(cells)) if not pd.isna(key)}
    assert shown == sizes
    public_keys = [decimal.Decimal(spellings[-1]) for spellings in SPELLINGS.values()]
    assert [count for _, count in released(objects(cells), public_keys)] == [*sizes.values()]
    frame = pd.DataFrame({"g": objects(cells)}).dp
    assert frame.nunique("g", epsilon=1e9) == len(SPELLINGS)
    share = frame.share("g", decimal.Decimal("1.100"), epsilon=1e9)
    assert share == pytest.approx(80 / sum(sizes.values()))
