"""Convert Python objects to plain values by total functions, each by its exact type and itself.

Equal objects can be of different kinds, which stay apart (1, 1.0 and True), and an object of
somebody's class can do anything when it is compared, hashed or shown. So a value is told apart by
a mark, its kind and a form of it that is made of texts and numbers. Nothing that a class of the
caller's defines is ever called. What is of no known type, or does not convert, is missing, whatever
else is in the column.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import EnumMeta
from fractions import Fraction
from typing import Any, NamedTuple, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

Codes = npt.NDArray[np.int64]
Mark = tuple[str, Any]


class Plain(NamedTuple):
    """A value as it is grouped by, and as it is shown."""

    mark: Mark
    shown: object


_MISSING: Mark = ("", "")
_LEVELS = 4  # of tuples within tuples
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def plain(value: object, levels: int = _LEVELS) -> Plain | None:
    """Return a value as a plain one; None where it is missing, of no known type, or unfit."""
    kind = type(value)
    try:
        if kind is tuple:
            return _tuple(cast("tuple[Any, ...]", value), levels)
        if kind is pd.Interval:
            return _interval(value, levels)
        convert = _KNOWN.get(id(kind))
        if convert is not None:
            return convert(value)
        if type(kind) is EnumMeta and not issubclass(kind, str | int | float):
            return _member(value)
        return next(
            (convert_base(value) for base, convert_base in _BASES if issubclass(kind, base)), None
        )
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 whatever it is, it is decided by the value alone
        return None


def is_missing(value: object) -> bool:
    """Return True for None, NaN, NaT, NA and signaling NaN, by their exact types."""
    kind = type(value)
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if kind is Decimal:
        return cast("Decimal", value).is_nan()
    if issubclass(kind, float) or issubclass(kind, np.inexact) or kind is complex:
        return plain(value) is None
    return any(kind is time_type for time_type in _TIMES) and bool(np.isnat(cast("Any", value)))


_TIMES = (np.datetime64, np.timedelta64)


def _text(value: Any) -> Plain:
    text = str.__str__(value)
    return Plain(("str", text), text)


def _convert_integer(value: Any) -> Plain:
    number = int.__int__(value)
    return Plain(("int", number), number)


def _float(value: Any) -> Plain | None:
    number = float(value) + 0.0
    return None if number != number else Plain(("float", number), number)  # noqa: PLR0124 only NaN


def _complex(value: Any) -> Plain | None:
    number = complex(value)
    parts = (number.real + 0.0, number.imag + 0.0)
    if any(part != part for part in parts):  # noqa: PLR0124 only NaN differs from itself
        return None
    return Plain(("complex", parts), complex(*parts))


def _fraction(value: Fraction) -> Plain:
    fraction = Fraction(int.__int__(value.numerator), int.__int__(value.denominator))
    return Plain((_name(Fraction), (fraction, fraction.denominator)), fraction)


def _decimal(value: Decimal) -> Plain | None:
    """Return a decimal by its value, however it is written: 1.1 and 1.10 are one key.

    Digits and exponent are compared, which takes no time however large the exponent is.
    """
    if value.is_nan():
        return None
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):  # the name of an infinity
        return Plain((_name(Decimal), value), value)
    used = len("".join(map(str, digits)).rstrip("0"))
    if not used:
        return Plain((_name(Decimal), Decimal(0)), Decimal(0))
    exponent += len(digits) - used
    shortest = Decimal((sign, digits[:used], exponent))
    is_short = 0 < exponent <= _MOST_ZEROS
    number = Decimal((sign, (*digits[:used], *[0] * exponent), 0)) if is_short else shortest
    return Plain((_name(Decimal), shortest), number)


_MOST_ZEROS = 30
"""Decimals of more zeros at their end are shown with an exponent."""


def _uuid(value: UUID) -> Plain:
    uuid = UUID(int=int.__int__(value.int))
    return Plain((_name(UUID), uuid.int), uuid)


def _date(value: dt.date) -> Plain:
    return Plain((_name(dt.date), value.isoformat()), value)


def _datetime(value: dt.datetime) -> Plain:
    zone = _zone(value.tzinfo)  # first: methods of the zone are called only if it is known
    plain_time = value
    if value.fold:
        first = value.replace(fold=0)
        plain_time = value if zone and first.utcoffset() != value.utcoffset() else first
    form = (plain_time.isoformat(), plain_time.fold, zone)
    return Plain((_name(dt.datetime), form), plain_time)


def _time(value: dt.time) -> Plain:
    zone, plain_time = _zone(value.tzinfo), value.replace(fold=0)
    return Plain((_name(dt.time), (plain_time.isoformat(), zone)), plain_time)


def _difference(value: dt.timedelta) -> Plain:
    return Plain((_name(dt.timedelta), (value.days, value.seconds, value.microseconds)), value)


def _zone(zone: dt.tzinfo | None) -> str:
    """Return the identity of a time zone; only zones of the standard library are supported."""
    if zone is None:
        return ""
    if type(zone) is dt.timezone:
        return f"{zone.utcoffset(None)} {zone.tzname(None)}"
    if type(zone) is ZoneInfo and type(zone.key) is str:
        return zone.key
    raise ValueError(_UNKNOWN_ZONE)


_UNKNOWN_ZONE = "a time zone of another class"


def _timestamp(value: Any) -> Plain:
    """Return a time of pandas in microseconds, or nanoseconds if it has some; in its own if far."""
    zone = _zone(value.tzinfo)
    instant = int(value.asm8.view("i8")) * _NANOSECONDS[value.unit]
    timestamp = _in_unit(value, value.nanosecond)
    if timestamp.fold:
        plain_ = pd.Timestamp(timestamp.to_datetime64())
        timestamp = (
            plain_.tz_localize("UTC").tz_convert(timestamp.tzinfo) if timestamp.tzinfo else plain_
        )
    return Plain((_name(pd.Timestamp), (instant, zone)), timestamp)


def _timedelta(value: Any) -> Plain:
    length = int(value.asm8.view("i8")) * _NANOSECONDS[value.unit]
    return Plain((_name(pd.Timedelta), length), _in_unit(value, value.nanoseconds))


def _in_unit(value: Any, nanoseconds: int) -> Any:
    try:
        return value.as_unit("ns" if nanoseconds else "us")
    except (OverflowError, ValueError):
        return value


def _interval(value: Any, levels: int) -> Plain | None:
    ends = [plain(end, levels - 1) for end in (value.left, value.right)] if levels else [None]
    if any(end is None for end in ends):
        return None
    left, right = cast("list[Plain]", ends)
    closed = str.__str__(value.closed)
    interval = pd.Interval(cast("Any", left.shown), cast("Any", right.shown), cast("Any", closed))
    return Plain((_name(pd.Interval), (left.mark, right.mark, closed)), interval)


def _tuple(value: tuple[Any, ...], levels: int) -> Plain | None:
    marks, shown = [], []
    for element in value if levels else ():
        item = Plain(_MISSING, None) if is_missing(element) else plain(element, levels - 1)
        if item is None:
            return None
        marks.append(item.mark)
        shown.append(item.shown)
    return Plain(("tuple", tuple(marks)), tuple(shown)) if levels else None


def _member(value: Any) -> Plain | None:
    """Return a member of an enumeration, told by its class and name."""
    kind: Any = type(value)
    name = str.__str__(object.__getattribute__(value, "__dict__")["_name_"])
    if vars(kind)["_member_map_"][name] is not value:
        return None
    return Plain((_name(kind), name), value)


def _name(kind: type) -> str:
    return f"{str.__str__(kind.__qualname__)} of {str.__str__(kind.__module__)}"


_BASES: tuple[tuple[type, Callable[[Any], Plain | None]], ...] = (
    (str, _text),
    (int, _convert_integer),
    (float, lambda value: _float(float.__float__(value))),
)
"""Plain types whose own conversion no subclass can change."""

_CONVERTERS: dict[type, Callable[[Any], Plain | None]] = {
    bool: lambda value: Plain(("bool", value), value),
    np.bool_: lambda value: Plain(("bool", bool(value)), bool(value)),
    str: _text,
    np.str_: _text,
    int: _convert_integer,
    float: _float,
    complex: _complex,
    bytes: lambda value: Plain(("bytes", value), value),
    np.bytes_: lambda value: Plain(("bytes", bytes(value)), bytes(value)),
    Decimal: _decimal,
    Fraction: _fraction,
    UUID: _uuid,
    dt.date: _date,
    dt.datetime: _datetime,
    dt.time: _time,
    dt.timedelta: _difference,
    pd.Timestamp: _timestamp,
    pd.Timedelta: _timedelta,
    pd.Period: lambda value: Plain(
        (_name(pd.Period), (str.__str__(value.freqstr), int(value.ordinal))), value
    ),
    np.datetime64: lambda value: None if np.isnat(value) else _timestamp(pd.Timestamp(value)),
    np.timedelta64: lambda value: None if np.isnat(value) else _timedelta(pd.Timedelta(value)),
}
_CONVERTERS |= {
    np.dtype(code).type: lambda value: _convert_integer(int(value)) for code in "bhilqBHILQ"
}
_CONVERTERS |= {np.dtype(code).type: _float for code in "efdg"}
_CONVERTERS |= {np.dtype(code).type: _complex for code in "FDG"}
_KNOWN = {id(kind): converter for kind, converter in _CONVERTERS.items()}
"""By identity: the hash and the equality of a class are what its own class says."""


def encode_values(
    values: npt.NDArray[Any], public_keys: Sequence[object], *, ordered: bool = False
) -> tuple[Codes, list[object], list[int | None]]:
    """Return each value's code (-1 for missing), the values coded, and the listed keys' codes.

    The values are those given and the public keys together, sorted by kind and value, so that the
    order of groups does not depend on the order of rows; `ordered` ones keep their order.
    """
    codes, distinct = _distinct(values)
    public = [plain(value) for value in public_keys]
    by_mark = dict([*distinct, *(value_of for value_of in public if value_of is not None)])
    marks = list(by_mark) if ordered else sorted(by_mark)
    rank = {mark: code for code, mark in enumerate(marks)}
    ranks = np.array([*(rank[value_of.mark] for value_of in distinct), -1], dtype=np.int64)
    listed_codes = [None if value_of is None else rank[value_of.mark] for value_of in public]
    return ranks[codes], [by_mark[mark] for mark in marks], listed_codes


def _distinct(values: npt.NDArray[Any]) -> tuple[Codes, list[Plain]]:
    """Return the place of each row's value among the distinct ones, -1 for missing, and these."""
    if set(map(id, map(type, values))) <= _DATES:  # a float could be a date
        with suppress(pa.ArrowException):
            dates: Any = pa.array(values, pa.date32(), from_pandas=True).dictionary_encode()
            codes = dates.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return np.asarray(codes, np.int64), list(map(_date, dates.dictionary.to_pylist()))
    first: dict[Mark, int] = {}
    values_found: list[Plain] = []
    codes = np.full(len(values), -1, dtype=np.int64)
    for row, value in enumerate(values):
        plain_value = plain(value)
        if plain_value is not None:
            codes[row] = first.setdefault(plain_value.mark, len(first))
            if len(first) > len(values_found):
                values_found.append(plain_value)
    return codes, values_found


_DATES = {id(kind) for kind in (type(None), type(pd.NA), type(pd.NaT), dt.date)}


def mark_value(value: object) -> Mark:
    """Return the mark of a value: equal values have equal marks, and so have missing ones."""
    plain_value = plain(value)
    return _MISSING if plain_value is None else plain_value.mark


def mark_bytes(mark: Mark) -> bytes:
    """Return a mark as bytes, different ones for different marks; those of text are its UTF-8.

    What is no text starts with a byte that no text has.
    """
    kind, form = mark
    if kind == "str":
        return str(form).encode("utf-8", "surrogatepass")
    return b"\xff" + _spell_value(mark).encode("utf-8", "surrogatepass")


def mark_unit(value: object) -> bytes:
    """Return the mark of a unit as bytes: 7, 7.0, Decimal(7) and "7" are one unit.

    Equal numbers have equal marks, which are the text of their shortest decimal form.
    """
    plain_value = plain(value)
    if plain_value is None:
        return mark_bytes(_MISSING)
    number = _to_decimal(plain_value.shown)
    decimal = None if number is None else _decimal(number)
    return mark_bytes(plain_value.mark) if decimal is None else str(decimal.shown).encode()


def _to_decimal(value: object) -> Decimal | None:
    """Return the decimal that equals a plain number; None for other values."""
    if type(value) is complex and not value.imag:
        value = value.real
    if type(value) in {bool, int, float, Decimal}:
        return Decimal(cast("float", value))
    if type(value) is not Fraction or 10 ** (places := value.denominator.bit_length()) % (
        value.denominator
    ):
        return None
    digits = Decimal(value.numerator * 10**places // value.denominator).as_tuple()
    return Decimal((digits.sign, digits.digits, -places))


def _spell_value(form: object) -> str:
    """Return a form as text; of an integer its hexadecimal digits, which may be any number."""
    if isinstance(form, tuple):
        return f"({', '.join(map(_spell_value, form))})"
    if type(form) is int:
        return format(form, "x")
    if isinstance(form, Fraction):
        return f"{form.numerator:x}/{form.denominator:x}"
    return repr(form)
