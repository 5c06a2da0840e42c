"""Releases that can be repeated: their fingerprints, and their bytes."""

import datetime as dt
import enum
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

import dfprivacy as dfp
from dfprivacy.accounting.memory import canonical, fingerprint, read_released_table, release_bytes

plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4),
    st.binary(max_size=4), st.fractions(), st.decimals(), st.dates(),
    st.datetimes(), st.timedeltas(),
)  # fmt: skip
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def type_values(value):
    """Pair values with their types: 1, 1.0 and True are three values, and so are two zeros."""
    if isinstance(value, dict):
        return dict, frozenset((key, type_values(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(map(type_values, value))
    return type(value), repr(value)


@given(values, values)
def test_one_text_for_one_value(first, second):
    """Two values have the same canonical text if and only if they are the same, types included."""
    assert (canonical(first) == canonical(second)) == (type_values(first) == type_values(second))


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_texts_do_not_run_together(first, second):
    """Where one text ends and the next begins can be told, whatever is in them."""
    assert (canonical(first) == canonical(second)) == (first == second)
    assert canonical([canonical(first)]) != canonical([first])


REQUEST = {
    "dataset": "flights",
    "version": "2026-11-20",
    "question": "mean('delay', bounds=(0.0, 60.0)) by 'carrier'",
    "terms": {"epsilon": Fraction(1, 2), "delta": Fraction(1, 10**7), "level": 0.95, "keys": None},
}


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "Flights"},
        {"version": "2026-11-21"},
        {"question": "mean('delay', bounds=(0.0, 61.0)) by 'carrier'"},
        {"terms": REQUEST["terms"] | {"epsilon": Fraction(1)}},
        {"terms": REQUEST["terms"] | {"delta": None}},
        {"terms": REQUEST["terms"] | {"keys": (("AA",), ("UA",))}},
        {"terms": REQUEST["terms"] | {"more": None}},
        {"terms": {}},
    ],
)
def test_every_change_counts(change):
    """Another dataset, version, question or term is another release."""
    assert fingerprint(**REQUEST) != fingerprint(**REQUEST | change)
    assert len(fingerprint(**REQUEST)) == 32


def test_the_order_of_terms_and_of_sets_does_not_count():
    """Terms are named, so that their order means nothing; that of lists does."""
    turned = OrderedDict(reversed(REQUEST["terms"].items()))
    assert fingerprint(**REQUEST | {"terms": turned}) == fingerprint(**REQUEST)
    assert canonical({1, "a"}) == canonical(frozenset(["a", 1]))
    assert canonical([1, 2]) != canonical([2, 1])


def test_fingerprints_are_the_same_for_ever():
    """A file written today is read tomorrow: the canonical text is part of the format."""
    text = (
        b"list 5:int 1:2,str 1:d,str 1:v,str 7:count(),"
        b"mapping 2:str 4:keys,list 2:str 2:AA,none 0:,,str 7:epsilon,Fraction 3:1/2,,,"
    )
    terms = {"epsilon": Fraction(1, 2), "keys": ("AA", None)}
    assert fingerprint("d", "v", "count()", terms) == hashlib.sha256(text).digest()


@dataclass(frozen=True)
class Limits:
    rows: int


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, True), (1, 1.0), (1, "1"), (1, np.int64(1)), ("a", b"a"), (0.5, Decimal("0.5")),
        (pd.Timestamp(1, unit="ns"), pd.Timestamp(2, unit="ns")),
        (np.datetime64(1, "ns"), np.datetime64(2, "ns")), (pd.NaT, None), (float("nan"), None),
        (dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)), ((), None),
        (dfp.Bounds(0, 1), (0.0, 1.0)),
        (Limits(1), Limits(2)), (Limits(1), dfp.Bounds(0, 1)), (dfp.count(), dfp.count("x")),
    ],
)  # fmt: skip
def test_what_looks_alike_is_told_apart(first, second):
    """Keys and terms of different types, and of the least difference, are different terms."""
    assert canonical(first) != canonical(second)
    assert canonical(first) == canonical(first)


@pytest.mark.parametrize("term", [object(), pd.NA, len, 1j, iter([])])
def test_what_has_no_text_is_refused(term):
    """An object of an unknown type can't be remembered: its text could be the same for two."""
    with pytest.raises(dfp.errors.InvalidLedgerError, match="can't be remembered"):
        fingerprint("d", "v", "count()", {"keys": [term]})


def derive_value(base, value, text):
    """Return a value of a type that is derived from its own, and writes itself as it likes."""
    methods = {"__str__": lambda _: text, "__repr__": lambda _: text, "isoformat": lambda _: text}
    return type("Derived", (base,), methods)(value)


@pytest.mark.parametrize("base", [str, int, float, bytes, Fraction, Decimal, np.float64, np.str_])
def test_a_derived_type_writes_nothing_of_its_own(base):
    """A value of a derived type is what its base holds, whatever it says it is."""
    plain = [base(value) for value in ((b"1", b"2") if base is bytes else (1, 2))]
    assert [canonical(derive_value(base, value, "x")) for value in plain] == list(
        map(canonical, plain)
    )
    assert canonical(plain[0]) != canonical(plain[1])


def test_an_enumeration_is_its_value():
    """Members of one name and two values are two keys: what is released has the value."""
    first, second = (enum.Enum("Key", {"A": value}, type=str).A for value in "ab")
    assert canonical(first) == canonical("a") != canonical(second)
    assert canonical(enum.IntEnum("Key", {"A": 1}).A) == canonical(1)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({}), pa.table({"a": pa.array([], pa.string())}), pa.table({"a": pa.nulls(2)}),
        pa.table({"a": pa.array(["x", None]).dictionary_encode()}),
        pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), ["x", "y"])}),
        pa.table({"a": pa.array([1, None], pa.decimal128(5, 2)), "b": [True, None]}),
        pa.table({"a": pd.to_datetime(["2026-11-20", None]), "b": [b"x", None]}),
        pa.table({"a": pa.chunked_array([[1], [2, None], []]), "": [0.1, float("nan"), -0.0]}),
    ],
)  # fmt: skip
def test_bytes_and_back(table):
    """A table comes back with its names, types, NULLs and the bits of its values."""
    again = read_released_table(release_bytes(table))
    assert again.schema.equals(table.schema.remove_metadata())
    assert repr(again.to_pylist()) == repr(table.to_pylist())
