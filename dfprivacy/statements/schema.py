"""Describe tables: whom they are about, how they hang together, which of them are public."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dfprivacy.errors import InvalidBoundsError, InvalidDescriptionError, InvalidUnitError, boundary
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.release.terms import Terms
from dfprivacy.statements.nodes import fold_name
from dfprivacy.statements.rules import nearly

_HINT = (
    'dfp.Schema(unit="customer.id", links={"orders.customer_id": "customer.id"}, public=["nation"])'
)


MOST_MATCHES = 2**20
"""The largest number of matches that a schema can declare."""


@dataclass(frozen=True)
class Public:
    """A frame that everybody may know; `dfp.public` makes one."""

    frame: object = field(repr=False)


def public(frame: object) -> Public:
    """Declare that everybody may know a frame, so that it can be joined with private ones.

    Parameters
    ----------
    frame : pandas or polars frame, Arrow table, DuckDB relation, path
        What `dfp.sql` takes by name. Its rows are used as they are and nothing protects them.

    Examples
    --------
    >>> import dfprivacy as dfp, pandas as pd
    >>> flights = pd.DataFrame({"plane": ["N1", "N2"] * 500, "carrier": ["AA", "UA"] * 500})
    >>> airlines = pd.DataFrame({"carrier": ["AA", "UA"], "name": ["American", "United"]})
    >>> query = "SELECT name, dp_count(*) AS n FROM f JOIN airlines USING (carrier) GROUP BY 1"
    >>> named = dfp.sql(
    ...     query, f=flights, airlines=dfp.public(airlines), unit="plane", max_rows=500,
    ...     max_groups=1, epsilon=1e6, keys=["American", "United"],
    ... )
    >>> [round(n) for n in named["n"]]
    [500, 500]
    """
    return Public(frame)


@boundary
@dataclass(frozen=True, repr=False, eq=False)
class Schema:
    """Who is protected in several tables, how the tables are linked, and which are public.

    A row of the unit's table belongs to the unit that its column names, a row of a linked table to
    whoever owns the rows that it is linked to; a row that is linked to nothing, or to a missing
    unit, belongs to nobody and is left out. A table that is neither linked nor public is refused.

    Parameters
    ----------
    unit : str
        The column that names the unit: "table.column". Its table may have many rows of one unit.
    matches : mapping
        The most rows of a table that have one value of a column: {"prices.product": 4}. In joins
        by it a row that is protected by itself then meets the first 4 rows of a public table and
        counts as up to 4 rows, which noise pays for. Of a table with owners, the first 4 rows of
        each unit with each value are seen, and no others, so that joins multiply no further.
    rows : str
        In place of `unit`: a table of which each row is protected by itself. It can be joined with
        public tables whose keys are unique.
    links : mapping
        From a column of a table to that of the table that it belongs to: {"orders.customer_id":
        "customer.id"}. Each table has one link at most, and its links lead to the unit's table.
    public : list of str
        Tables that everybody may know.
    bounds : mapping
        What everybody knows of columns: {"orders.amount": (0, 500)}. A call that would find bounds,
        dp_mean(amount), takes these where FROM names the table itself.

    Raises
    ------
    InvalidUnitError, InvalidBoundsError
        When bounds or matches are none, a name is no "table.column", a table has two links, links
        run in a circle, or a linked table does not reach the unit's table or is public.

    Notes
    -----
    docs/how-to/owned-rows.md says what is protected, and proves it.

    >>> Schema(unit="customer.id", links={"orders.customer_id": "customer.id"}, public=["nation"])
    Schema(unit='customer.id', links={'orders.customer_id': 'customer.id'}, public=['nation'])
    """

    unit: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    public: Iterable[str] = ()
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rows: str | None = None
    matches: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rows is None:
            _split(self.unit, "the unit")
        elif not isinstance(self.rows, str) or self.unit is not None or self.links:
            raise _wrong(
                "rows= comes with a unit or links, or is no name of a table",
                "each row of one table is protected by itself, or units are",
            )
        for name in ("links", "bounds", "matches"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise _wrong(f"{name} is no mapping", _HINT)
            object.__setattr__(self, name, MappingProxyType(dict(value)))
        if isinstance(self.public, str) or not all(isinstance(t, str) for t in self.public):
            raise _wrong("public is no list of names of tables", _HINT)
        object.__setattr__(self, "public", tuple(self.public))
        self._check_links()
        for column, ends in self.bounds.items():
            _split(column, "a bound")
            if not isinstance(ends, tuple) or len(ends) != 2:
                raise _wrong(f"the bounds of {column!r} are no pair of numbers", _HINT)
            try:
                Bounds(*ends)
            except InvalidBoundsError as error:
                raise InvalidBoundsError(
                    f"the bounds of {column!r}: {error.message}", hint=error.hint
                ) from None
        for column, count in self.matches.items():
            table, _ = _split(column, "a column with matches")
            if type(count) is not int or not 1 <= count <= MOST_MATCHES:
                raise _wrong(
                    f"the matches of {column!r} are no whole number from 1 to {MOST_MATCHES}",
                    'matches={"prices.product": 4}',
                )
            if self.rows is not None and fold_name(table) == fold_name(self.unit_table):
                raise _wrong(
                    f"{column!r} has matches", "each of its rows is protected by itself; leave out"
                )

    def _check_links(self) -> None:
        parents: dict[str, str] = {}
        names = set(map(fold_name, self.public))
        for child, parent in self.links.items():
            (table, _), (parent_table, _) = _split(child, "a link"), _split(parent, "a link")
            if fold_name(table) in parents:
                raise _wrong(
                    f"table {table!r} has two links",
                    "a row belongs to whom one link says; name that one, and join along the other",
                )
            parents[fold_name(table)] = fold_name(parent_table)
            if fold_name(table) in names or fold_name(parent_table) in names:
                raise _wrong(
                    f"the link from {child!r} to {parent!r} touches a public table",
                    "a table is public, or belongs to units: leave it out of one of them",
                )
        start = fold_name(self.unit_table)
        if start in names:
            raise _wrong(f"the unit's table {start!r} is public", "leave it out of public")
        if start in parents:
            raise _wrong(
                f"the unit's table {start!r} is linked to another",
                "its rows belong to whom the unit's column names; leave the link out",
            )
        for table in parents:
            path = [table]
            while (above := parents.get(path[-1])) is not None and above not in path:
                path.append(above)
            if above is not None:
                circle = " -> ".join([*path, above])
                raise _wrong(f"links run in a circle: {circle}", "a link leads to whom it owns")
            if path[-1] != start:
                raise _wrong(
                    f"table {table!r} is linked to {path[-1]!r}, which the unit does not reach",
                    f"link {path[-1]!r} to {start!r}, or declare the tables public",
                )

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables with owners, the unit's first."""
        linked = (_split(child, "a link")[0] for child in self.links)
        return tuple(dict.fromkeys([self.unit_table, *linked]))

    @property
    def unit_table(self) -> str:
        """The table of the unit, or of the rows that are protected by themselves."""
        return self.rows if self.rows is not None else _split(self.unit, "the unit")[0]

    @property
    def unit_column(self) -> str:
        """The column that names the unit."""
        return _split(self.unit, "the unit")[1]

    def __repr__(self) -> str:
        """Return the call that makes it; nothing is left at its default."""
        parts: dict[str, Any] = {
            "rows": self.rows,
            "unit": self.unit,
            "links": dict(self.links),
            "public": list(self.public),
            "bounds": dict(self.bounds),
            "matches": dict(self.matches),
        }
        return f"Schema({', '.join(f'{name}={part!r}' for name, part in parts.items() if part)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _wrong(what: str, hint: str) -> InvalidUnitError:
    return InvalidUnitError(f"a schema can't be used: {what}", hint=hint)


def _split(name: object, what: str) -> tuple[str, str]:
    table, _, column = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not table or not column:
        raise _wrong(f"{what}, {name!r}, is no 'table.column'", _HINT)
    return table, column


def read_schema(value: object, unit: object = None) -> Schema:
    """Return the schema that a caller passes: a Schema, a mapping of its parts, or a YAML file.

    It names the unit, so that no other one may be named beside it.
    """
    if unit is not None:
        raise _wrong("it comes with unit=", "the schema names the unit: leave unit= out")
    if isinstance(value, Schema):
        return value
    if isinstance(value, str | Path):
        from dfprivacy.statements.yaml_files import read_plainly  # noqa: PLC0415 on first use

        path = Path(value)
        try:
            value = read_plainly(path)
        except InvalidDescriptionError as error:
            what = f"{path.name!r} is no YAML file that can be read"
            raise _wrong(what, f"{error.message}; write e.g. unit: customer.id") from None
    if not isinstance(value, Mapping):
        raise _wrong("it is no Schema, mapping of unit, links, public and bounds, or file", _HINT)
    names = Schema.__dataclass_fields__
    for name in value:
        if name not in names:
            close = nearly(str(name), names)
            raise _wrong(f"it has no part {name!r}", f"{close}its parts are {', '.join(names)}")
    parts: dict[str, Any] = {str(name): part for name, part in value.items() if part is not None}
    if isinstance(bounds := parts.get("bounds"), Mapping):
        parts["bounds"] = {
            name: tuple(ends) if isinstance(ends, list) else ends for name, ends in bounds.items()
        }
    return Schema(**parts)


def separate_public_frames(
    frames: Mapping[str, object], schema: Schema | None, terms: Terms
) -> tuple[Mapping[str, object], Schema | None, Terms]:
    """Return frames without the marks of `dfp.public`, and the schema that the marks make."""
    marked = [name for name, frame in frames.items() if isinstance(frame, Public)]
    if not marked:
        return frames, schema, terms
    plain = {n: f.frame if isinstance(f, Public) else f for n, f in frames.items()}
    private = [name for name in frames if name not in marked]
    if schema is not None:
        missing = [name for name in marked if fold_name(name) not in map(fold_name, schema.public)]
        if missing:
            raise _wrong(f"frame {missing[0]!r} is declared public, and not in it", _HINT)
        return plain, schema, terms
    if len(private) != 1:
        raise _wrong("several frames are private, and nothing says how they hang together", _HINT)
    if terms.unit is None:
        return plain, Schema(rows=private[0], public=tuple(marked)), terms
    unit = replace(terms.unit, column=f"{private[0]}.{terms.unit.column}")
    schema = Schema(unit=str(unit.column), public=tuple(marked))
    return plain, schema, replace(terms, unit=unit)
