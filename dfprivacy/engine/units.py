"""One privacy unit's rows are bounded before they are added up: a function of its own rows alone.

A unit counts in at most so many groups, and in one group as so many rows at most. Sums are first
added up by unit and group and then scaled down; values that are counted by bin are thinned out
evenly. Which groups stay follows the engine's own hash of unit and keys, so that it looks like
chance and comes out the same each time. Proof: docs/users.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import polars as pl

from dfprivacy.engine.spark_terms import with_place
from dfprivacy.measurement.linear import Product, Source
from dfprivacy.measurement.sums import sum_name
from dfprivacy.unit import Unit

UNIT = "unit"
_PLACE, _ONE, _NUMBER, _EVERY = "place", "one", "number", "every"
_HALF = 2**32
_PLACES = 2**52


@dataclass(frozen=True)
class UnitColumn:
    """The column of the units, and the limits of what each contributes: `groups` None for all.

    `coded` are the places of the group keys that go as codes, which depend on what else is in
    their columns. A unit's groups are chosen by the marks of these keys, `mark_name`, instead.
    """

    name: str
    label: Hashable
    rows: int
    groups: int | None
    coded: Sequence[int] = ()

    @property
    def marks(self) -> list[str]:
        """The names of the columns of marks."""
        return [mark_name(place) for place in self.coded]

    def entries(self, names: Sequence[str]) -> list[str]:
        """Return what tells entries apart: the unit, the group keys, and their marks with them."""
        return [UNIT, *names, *self.marks]

    def placed(self, names: Sequence[str]) -> list[str]:
        """Return what is hashed: the unit, and each key or its mark."""
        keys = enumerate(names)
        return [UNIT, *(mark_name(i) if i in self.coded else name for i, name in keys)]


def mark_name(place: int) -> str:
    """Return the name of the column with the marks of a group key that goes as a code."""
    return f"mark_{place}"


def unit_column(unit: Unit | None, name: str, coded: Sequence[int] = ()) -> UnitColumn | None:
    """Return the column of the units of a frame, under its name there."""
    if unit is None:
        return None
    return UnitColumn(name, unit.column, unit.max_rows, unit.max_groups, coded)


def within_groups(
    frame: nw.LazyFrame[Any], names: Sequence[str], unit: UnitColumn, *apart: str
) -> nw.LazyFrame[Any]:
    """Return the entries of at most so many groups a unit.

    An entry belongs to one unit and group; `apart` names what tells the entries of both apart. The
    groups are those with the least hash of unit and keys; keys of the same hash come in their own
    order.
    """
    if unit.groups is None or not names:
        return frame
    placed = _placed(frame, unit.placed(names))
    first = nw.lit(1, nw.Int64).alias(_ONE)
    order = (nw.col(_PLACE) // _HALF).alias(_PLACE)
    entries = placed.with_columns(first, order)
    if apart:
        number = nw.col(_ONE).cum_sum().over(UNIT, *names, order_by=apart)
        entries = entries.with_columns((number == 1).cast(nw.Int64).alias(_ONE))
    number = nw.col(_ONE).cum_sum().over(UNIT, order_by=[_PLACE, *names, *apart])
    return entries.with_columns(number.alias(_NUMBER)).filter(nw.col(_NUMBER) <= unit.groups)


def scaled(frame: nw.LazyFrame[Any], sources: Sequence[Source], rows: int) -> nw.LazyFrame[Any]:
    """Return the sums of each unit and group, those of more than `rows` rows scaled down to that.

    All are whole numbers, rounded down and kept where the partition of unity wants them: the
    coordinates of every linear vector are what `rows` rows could have added.
    """
    less = frame.with_columns(
        *(sum_ for i, own in enumerate(sources) for sum_ in _scaled(i, own, rows))
    )
    tied = [sum_ for i, own in enumerate(sources) for sum_ in _tied(i, own)]
    return less.with_columns(*tied) if tied else less


def _scaled(index: int, source: Source, rows: int) -> list[nw.Expr]:
    held = nw.col(sum_name(index))
    few = held <= rows
    counted = nw.when(few).then(held).otherwise(nw.lit(rows, nw.Int64))
    expressions = [counted.alias(sum_name(index))]
    for place, term in enumerate(source.terms, start=1):
        total = nw.col(sum_name(index, place))
        share = _share(total, held, rows).clip(term.least * rows, term.most * rows)
        scaled_ = nw.when(few).then(total).otherwise(share)
        expressions.append(scaled_.alias(sum_name(index, place)))
    return expressions


def _share(total: nw.Expr, held: nw.Expr, rows: int) -> nw.Expr:
    """Return total * rows / held as a whole number, by the same float operations everywhere.

    Engines work it out for units of few rows too, and must not fail on them.
    """
    share = total.cast(nw.Float64) * float(rows) / held.clip(rows, None).cast(nw.Float64)
    return share.floor().cast(nw.Int64)


def _tied(index: int, source: Source) -> Iterator[nw.Expr]:
    """Yield sums of products between what the sums of their factors allow.

    Scaling rounds all of them down, so that a coordinate like K rows - 2 first + second could be
    below zero by one.
    """
    for place, term in enumerate(source.terms, start=1):
        if not isinstance(term, Product) or not term.tied:
            continue
        if not {term.left, term.right} <= set(source.terms):
            continue
        sums: dict[Any, Any] = {
            own: nw.col(sum_name(index, at)) for at, own in enumerate(source.terms, start=1)
        }
        inside = sums[term]
        least, mosts = term.ends(nw.col(sum_name(index)), sums[term.left], sums[term.right])
        inside = nw.when(inside < least).then(least).otherwise(inside)
        for most in mosts:
            inside = nw.when(inside > most).then(most).otherwise(inside)
        yield inside.alias(sum_name(index, place))


def thinned(
    frame: nw.LazyFrame[Any], names: Sequence[str], value: str, counted: str, unit: UnitColumn
) -> nw.LazyFrame[Any]:
    """Return how many of a unit's rows with each value count: `unit.rows` in one group at most.

    The unit's values in a group are lined up in their order, and every (n / rows)-th counts, from a
    start that the hash of unit and keys has set: each row counts with probability rows / n. The
    numbers of rows before and after an entry, scaled, end at whole numbers, so that they add up to
    `rows` exactly.
    """
    group, rows = [UNIT, *names], unit.rows
    held = nw.when(~nw.col(value).is_null()).then(nw.col(counted)).otherwise(nw.lit(0, nw.Int64))
    placed = _placed(frame, unit.placed(names)).with_columns(held.alias(_ONE))
    start = (nw.col(_PLACE) % _HALF).cast(nw.Float64) / float(_HALF)
    every = nw.col(_ONE).sum().over(*group)
    until = nw.col(_ONE).cum_sum().over(*group, order_by=value)
    lined = placed.with_columns(
        start.alias(_PLACE), every.alias(_EVERY), until.alias(_NUMBER)
    )  # fmt: skip
    before = nw.col(_NUMBER) - nw.col(_ONE)
    taken = _reached(nw.col(_NUMBER), rows) - _reached(before, rows)
    kept = nw.when(nw.col(_EVERY) > rows).then(taken).otherwise(nw.col(_ONE))
    counts = lined.with_columns(kept.alias(counted))
    return counts.filter((nw.col(counted) > 0) | nw.col(value).is_null())


def _reached(number: nw.Expr, rows: int) -> nw.Expr:
    """Return how many of the evenly spaced rows are among the first `number`."""
    every = nw.col(_EVERY).clip(rows, None).cast(nw.Float64)
    share = number.cast(nw.Float64) * float(rows) / every
    return (share + nw.col(_PLACE)).floor().cast(nw.Int64)


def _placed(frame: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Add a hash of some columns, a whole number below 2**63, by the engine's own function."""
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        hashed = pl.struct(*names).hash(seed=0) // 2
        placed = native.with_columns(hashed.cast(pl.Int64).alias(_PLACE))
    elif frame.implementation.is_ibis():
        placed = native.mutate(**{_PLACE: _ibis_hash(native, names)})
    elif frame.implementation.is_spark_like():
        placed = with_place(native, names, _PLACE)
    else:
        placed = native.project(f"*, (hash({', '.join(names)}) // 2)::BIGINT AS {_PLACE}")
    lazy: nw.LazyFrame[Any] = nw.from_native(placed)
    return lazy


def _ibis_hash(native: Any, names: Sequence[str]) -> Any:
    """Return a hash of the columns' texts, from 0 to 2**52: backends divide it as floats."""
    texts = [native[name].cast("string").fill_null("") for name in names]
    joined = texts[0].concat(*(part for text in texts[1:] for part in ("|", text)))
    return ((joined.hash() % _PLACES) + _PLACES) % _PLACES
