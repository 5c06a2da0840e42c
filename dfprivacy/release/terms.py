"""Hold the public facts of a release: bounds, group keys, privacy unit, level of intervals."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dfprivacy.accounting.spending import Account, NoAccount, name_account
from dfprivacy.errors import (
    InvalidKeysError,
    InvalidQuestionError,
    InvalidUnitError,
    boundary,
    warn_once,
)
from dfprivacy.measurement.exact import describe, exact_number, read_once, whole_number


def find_label(column: object) -> Hashable:
    """Return a column's label, as the frame's own list of columns has it."""
    with suppress(TypeError):
        hash(column)
        if not (hasattr(column, "__array__") or callable(column)):
            return column
    if isinstance(column, list | set):
        raise InvalidQuestionError(
            f"one column is named by its label, not by {describe(column)}",
            hint='write "age", not ["age"]; several are asked about in one '
            '.agg(dfp.mean("age"), dfp.mean("income"))',
        )
    raise InvalidQuestionError(
        f"a column is named by its label, not by {describe(column)}",
        hint='pass its name, e.g. "income"; compute new columns on the frame first, row by row',
    )


LARGEST_LIMIT = 2**20


@boundary
@dataclass(frozen=True)
class Unit:
    """The privacy unit: all rows that share a value of `column`, and the limits of rows that count.

    A unit's rows in one group count together as `max_rows` rows at most, and it counts in at most
    `max_groups` groups. Rows without a unit (NULL) are left out.

    >>> Unit("user_id", max_rows=3, max_groups=2)
    Unit(column='user_id', max_rows=3, max_groups=2)

    Raises
    ------
    InvalidUnitError
        When max_rows is missing, or a limit is no whole number from 1 to 2**20.
    """

    column: Hashable
    max_rows: int
    max_groups: int | None = None

    def __post_init__(self) -> None:
        find_label(self.column)
        object.__setattr__(self, "max_rows", _limit("max_rows", self.max_rows))
        if self.max_groups is not None:
            object.__setattr__(self, "max_groups", _limit("max_groups", self.max_groups))

    @property
    def text(self) -> str:
        """The unit as a ledger's history names it."""
        groups = "" if self.max_groups is None else f", max_groups={self.max_groups}"
        return f"unit={self.column!r}, max_rows={self.max_rows}{groups}"


@dataclass(frozen=True)
class UnlimitedUnit(Unit):
    """A unit whose limits a release finds itself. The numbers that it has are the smallest ones.

    `max_groups` is sought where it is None and the groups have to be limited.
    """

    max_rows: int = 1
    rows: bool = True

    @property
    def text(self) -> str:
        """The unit as a ledger's history names it."""
        named = [] if self.rows else [f"max_rows={self.max_rows}"]
        named += [] if self.max_groups is None else [f"max_groups={self.max_groups}"]
        return ", ".join([f"unit={self.column!r}", *named, "limits found"])


def no_limit() -> InvalidUnitError:
    """Return the error for a unit whose limits have to be known beforehand."""
    return InvalidUnitError(
        "a unit may have any number of rows, and nothing says how many of them count",
        hint="pass max_rows=5, a number chosen without looking at the data, or pay for "
        "limits: dfp.suggest_limits(df, unit='user_id', by='city')",
    )


def _limit(name: str, value: object) -> int:
    if value is None:
        raise no_limit()
    return whole_number(
        value,
        1,
        LARGEST_LIMIT,
        InvalidUnitError,
        f"{name} must be a whole number from 1 to 2**20",
        hint="choose limits without looking at the data, e.g. max_rows=5, max_groups=3",
    )


def read_unit(unit: object, max_rows: object, max_groups: object) -> Unit | None:
    """Return the privacy unit that a caller has named, perhaps with limits to be found."""
    if unit is None:
        if max_rows is not None or max_groups is not None:
            raise InvalidUnitError(
                "max_rows and max_groups limit what one unit contributes, and no unit was named",
                hint='name the column: unit="user_id"',
            )
        return None
    base = unit if isinstance(unit, Unit) else UnlimitedUnit(find_label(unit))
    groups: Any = base.max_groups if max_groups is None else max_groups
    if isinstance(base, UnlimitedUnit) and max_rows is None:
        return UnlimitedUnit(base.column, max_groups=groups)
    return Unit(base.column, base.max_rows if max_rows is None else max_rows, groups)  # type: ignore[arg-type]


@dataclass(frozen=True)
class PublicKeys:
    """Group keys that everybody may know: exactly these groups are released.

    `rows` has one tuple a group, one value a key column, in the order in which they were listed and
    come out. Duplicates are dropped. With `others` a missing value in the last column stands for
    all values there that are not listed, and rows without a value there are left out.
    """

    rows: tuple[tuple[object, ...], ...]
    others: bool = False


def read_keys(value: Any, columns: Sequence[Any]) -> PublicKeys | None:
    """Return the public keys of a group-by over `columns`. None means that keys are secret."""
    if value is None:
        return None
    for listing in ("to_list", "tolist"):  # an Index, a Series or an array of any library
        if hasattr(value, listing) and getattr(value, "ndim", 1) == 1:
            warn_once(  # by its type alone: its length or values could be those of the data
                "keys",
                f"keys= is an object of type {type(value).__name__}. Keys are published as they "
                "are: never read them off the protected data. Pass a list of public values.",
            )
            value = getattr(value, listing)()
    if isinstance(value, Mapping):
        return _product(value, columns)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
        raise InvalidKeysError(
            f"keys must be a list of public values, not {describe(value)}",
            hint='list them as constants, e.g. keys=["AA", "UA"]; never read them off the data',
        )
    if isinstance(value, set | frozenset):  # in an order that every process gives it
        try:
            value = sorted(value)
        except TypeError:
            value = sorted(value, key=lambda key: (type(key).__name__, repr(key)))
    keys, width = [], len(columns)
    for item in value:
        row = tuple(item) if width > 1 and isinstance(item, tuple | list) else (item,)
        if len(row) != width:
            raise InvalidKeysError(
                f"each key needs one value for each of the {width} group columns",
                hint="pass tuples, e.g. keys=[('AA', 1), ('UA', 2)]",
            )
        keys.append(row)
    rows = tuple(_unique(keys))
    if not rows:
        raise InvalidKeysError(
            "the list of keys is empty: nothing would be released",
            hint="name at least one key, or leave keys out and give a delta",
        )
    return PublicKeys(rows)


def _unique(rows: Iterable[tuple[object, ...]]) -> Iterable[tuple[object, ...]]:
    seen: set[tuple[tuple[type, object], ...]] = set()
    for row in rows:
        try:
            mark = tuple((type(value), value) for value in row)
            fresh = mark not in seen
        except TypeError:
            fresh, mark = True, ()
        if fresh:
            seen.add(mark)
            yield row


def interval_level(value: object) -> float:
    """Return the level of an interval, between 0 and 1 by at least 2**-40."""
    exact = exact_number(value)
    if exact is None or not Fraction(1, 2**40) <= exact <= 1 - Fraction(1, 2**40):
        names_population = isinstance(value, str) and "population" in value
        raise InvalidQuestionError(
            f"an interval's level must lie between 0 and 1, not {describe(value)}",
            hint=f"pass interval={'0.9, population=True' if names_population else '0.95'}",
        )
    return float(exact)


class Default(float):
    """A default value that is told apart from the same number given by a caller."""


EPSILON = Default(1.0)
INTERVAL = Default(0.95)


@dataclass(frozen=True)
class Files:
    """Files of statistics that are added up: their ids, and in how many of them a unit can be."""

    ids: tuple[str, ...]
    parts: int


@dataclass(frozen=True)
class Terms:
    """The terms of a release that a caller sets once for several questions.

    `bounds` maps columns to pairs, `keys` maps group columns to lists of public values. `ledger`,
    `dataset`, its `version` and `period`, `analyst` and `note` name the charged account and its
    note. `unit` is who is protected, one row if it is None. `files` is where statistics come from
    that were made before. A row that is protected counts as `copies` rows at most, in one group or
    several. `snapshot` is the version of a table that has versions, for releases that name none.
    With `population` intervals make room for sampling.
    """

    epsilon: object = EPSILON
    rho: object = None
    delta: object = None
    interval: object = INTERVAL
    population: bool = False
    bounds: Mapping[Hashable, object] = field(default_factory=dict)
    keys: Mapping[Hashable, object] = field(default_factory=dict)
    ledger: object = None
    dataset: object = None
    note: object = None
    version: object = None
    unit: Unit | None = None
    files: Files | None = None
    period: object = None
    analyst: object = None
    copies: int = 1
    snapshot: str | None = None

    def __post_init__(self) -> None:
        """Read numbers once: charge and noise come from the same ones."""
        for name in ("epsilon", "rho", "delta", "interval"):
            value = getattr(self, name)
            if type(value) is not Default:
                object.__setattr__(self, name, read_once(value))
        if not isinstance(self.population, bool):
            raise InvalidQuestionError(
                f"population must be True or False, not {describe(self.population)}",
                hint="pass interval=0.9, population=True; an answer goes by another name",
            )

    @property
    def account(self) -> Account | NoAccount:
        """The account that a release with these terms is charged to."""
        return name_account(
            self.ledger,
            self.dataset,
            self.note,
            self.version,
            period=self.period,
            analyst=self.analyst,
            snapshot=self.snapshot,
        )

    def update(self, **changes: object) -> Terms:
        """Return these terms with the given changes. Naming rho sets a default epsilon aside."""
        chosen = {
            name: value
            for name, value in changes.items()
            if value is not None and not isinstance(value, Default)
        }
        if "rho" in chosen and "epsilon" not in chosen:
            chosen["epsilon"] = None
        elif "epsilon" in chosen and "rho" not in chosen:
            chosen["rho"] = None
        return replace(self, **chosen)  # type: ignore[arg-type]

    def keys_for(self, columns: Sequence[Hashable], keys: object) -> PublicKeys | None:
        """Return the public keys of a group-by: `keys`, or all combinations of the terms'."""
        if keys is not None:
            return read_keys(keys, columns)
        listed_columns = [column for column in columns if column in self.keys]
        if not listed_columns:
            return None
        if len(listed_columns) < len(columns):
            raise InvalidKeysError(
                "some of the group columns have public keys and some have none",
                hint="list keys for each of them, or for none and give a delta",
            )
        return _product(self.keys, columns)


def _product(keys: Mapping[Hashable, object], columns: Sequence[Hashable]) -> PublicKeys:
    """Return all combinations of the keys of each column."""
    missing = [column for column in columns if column not in keys]
    if missing:
        raise InvalidKeysError(
            f"the keys of column {missing[0]!r} are missing",
            hint=f"list keys for each group column: keys={{{missing[0]!r}: [...], ...}}",
        )
    lists = [[row[0] for row in _read_keys(keys[c], c).rows] for c in columns]
    return PublicKeys(tuple(itertools.product(*lists)))


def _read_keys(value: object, column: Hashable) -> PublicKeys:
    keys = read_keys(value, [column])
    if keys is None:
        raise InvalidKeysError(f"the keys of column {column!r} are missing")
    return keys
