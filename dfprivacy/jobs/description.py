"""Read a description of releases and check it: all that can be wrong is found before it runs.

docs/etl.md describes every field.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.ledger import dataset_name, version_name
from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.accounting.memory import fingerprint
from dfprivacy.errors import DPError
from dfprivacy.jobs.fields import (
    File,
    Group,
    Number,
    Pair,
    Place,
    Text,
    Texts,
    each,
    kind_of,
    place_of,
    wrong,
)
from dfprivacy.jobs.questions import Asked, question_of
from dfprivacy.jobs.reading import At, Content, Faults, Plain, read_content
from dfprivacy.release.frames import frame_names
from dfprivacy.releasing import histogram_request, request_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.terms import INTERVAL, Bounds, PublicKeys, Terms, interval_level, keys_of
from dfprivacy.unit import Unit, unit_of

_READ = (".csv", ".tsv", ".parquet", ".pq")
_WRITTEN = (".csv", ".parquet")
_SAID = "the query says this itself: leave the field out"
_NAME = "(name)"  # where a release finds its own name


class Source(Group):
    """Where rows come from: files, a table of a DuckDB file, or a query over either."""

    file: File | None = None
    folder: File | None = None
    table: Text | None = None
    query: Text | None = None
    database: File | None = None
    tables: dict[str, File] | None = None

    @field_validator("file")
    @classmethod
    def _file(cls, file: Place) -> Place:
        text_file = file.path.suffix.lower() in _READ[:2]
        _require_ending(file.text)
        if has_magic(file.text) and (text_file or has_magic(str(Path(file.text).parent))):
            raise ValueError("a pattern names Parquet files of one folder, as in days/*.parquet")
        return file

    @field_validator("tables")
    @classmethod
    def _tables(cls, tables: Mapping[str, Place]) -> Mapping[str, Place]:
        return each(dict(tables), _table)

    @model_validator(mode="after")
    def _form(self) -> Self:
        forms = ("file", "folder", "table database", "query database", "query tables")
        if self.model_fields_set not in [set(form.split()) for form in forms]:
            raise ValueError(
                f"the fields are one of: {'; '.join(forms).replace(' ', ', ').replace(';,', ';')}"
            )
        return self

    @property
    def kind(self) -> str:
        """The name of the source's kind in the fingerprint of a release."""
        if self.query is not None:
            return "QuerySource"
        return "FileSource" if self.table is None else "TableSource"

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The names of a query's files with their paths as they were written, sorted by name."""
        return tuple((name, place.text) for name, place in sorted((self.tables or {}).items()))

    @property
    def text(self) -> str:
        """The source as it was written."""
        if self.table is not None and self.database is not None:
            return f"{self.table} in {self.database.text}"
        place = self.file or self.folder or self.database
        return ", ".join(path for _, path in self.files) if place is None else place.text

    @property
    def paths(self) -> list[Path]:
        """Everything that is read; the files of a folder are a pattern."""
        if self.folder is not None:
            return [self.folder.path / "*.parquet"]
        places = (self.file, self.database, *(self.tables or {}).values())
        return [place.path for place in places if place is not None]


def _table(name: str, place: Place) -> Place:
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no plain name")
    _require_ending(place.text)
    return place


def _require_ending(text: str) -> None:
    if not text.lower().endswith(_READ):
        raise ValueError(f"the name does not end in one of {', '.join(_READ)}")


class Budget(Group):
    """What a release may spend, and from which account; `version` names the state of the data."""

    ledger: File
    dataset: Text
    version: Text
    epsilon: Number | None = None
    rho: Number | None = Field(default=None, validate_default=True)
    delta: Number | None = None

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, dataset: str) -> str:
        dataset_name(dataset)
        return dataset

    @field_validator("version")
    @classmethod
    def _version(cls, version: str) -> str:
        version_name(version)
        return version

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, epsilon: float) -> float:
        loss_of(epsilon, None)
        return epsilon

    @field_validator("rho")
    @classmethod
    def _rho(cls, rho: float | None, info: ValidationInfo) -> float | None:
        if "epsilon" not in info.data:
            return rho
        if info.data["epsilon"] is not None and rho is not None:
            raise ValueError("epsilon and rho are both given: name one")
        if info.data["epsilon"] is None and rho is None:
            raise wrong("'epsilon' or 'rho' is missing", "group")
        loss_of(info.data["epsilon"], rho)
        return rho

    @field_validator("delta")
    @classmethod
    def _delta(cls, delta: float) -> float:
        delta_of(delta)
        return delta


class _Unit(Group):
    column: Text
    max_rows: Number
    max_groups: Number | None = None


def _unit(given: object) -> Unit | None:
    fields = _Unit.model_validate(given)
    return unit_of(fields.column, fields.max_rows, fields.max_groups)


@dataclass(frozen=True)
class Output:
    """A CSV or Parquet file, or a table of a DuckDB file."""

    path: Path
    text: str
    table: str | None = None


class _Table(Group):
    database: File
    table: Text


def _output(given: object, info: ValidationInfo) -> Output:
    if not isinstance(given, str):
        found = _Table.model_validate(given, context=info.context)
        database = found.database
        return Output(database.path, f"{database.text}:{found.table}", found.table)
    if not given.lower().endswith(_WRITTEN):
        raise ValueError(
            f"{given!r} does not end in .csv or .parquet; a table is "
            "{database: FILE, table: NAME}"
        )
    return Output(place_of(given, info).path, given)


def _outputs(given: object) -> list[object]:
    outputs = given if isinstance(given, list) else [given]
    if not outputs:
        raise ValueError("there is none")
    return outputs


class Release(Group):
    """One release: what is asked of which rows, what it spends, and where the answer goes.

    A query holds its questions, groups and conditions itself; `questions` and `by` are empty then.
    """

    name: str = Field(validation_alias=_NAME)
    source: Source
    unit: Annotated[Unit, PlainValidator(_unit)] | None = None
    by: Texts = ()
    keys: PublicKeys | None = None
    bounds: dict[str, Pair] = Field(default_factory=dict)
    questions: dict[str, Asked] = Field(default_factory=dict, validate_default=True)
    interval: Number = float(INTERVAL)
    outputs: Annotated[list[Annotated[Output, PlainValidator(_output)]], BeforeValidator(_outputs)]
    budget: Budget

    @field_validator("by", "bounds")
    @classmethod
    def _not_of_a_query(cls, given: object, info: ValidationInfo) -> object:
        source = info.data.get("source")
        if source is not None and source.query is not None:
            raise ValueError(_SAID)
        return given

    @field_validator("keys", mode="plain")
    @classmethod
    def _keys(cls, given: object, info: ValidationInfo) -> PublicKeys | None:
        if not {"source", "by"} <= set(info.data):
            return None
        if not info.data["by"] and info.data["source"].query is None:
            raise ValueError("there is no 'by' that they are keys of")
        return _keys_of(given, info.data["by"])

    @field_validator("questions", mode="plain")
    @classmethod
    def _questions(cls, given: object, info: ValidationInfo) -> dict[str, Asked]:
        if not {"source", "bounds"} <= set(info.data):
            return {}
        if info.data["source"].query is not None:
            if given:
                raise ValueError(_SAID)
            return {}
        if not given:
            raise wrong("'questions' is missing", "group")
        bounds: Mapping[str, Bounds] = info.data["bounds"]
        found = each(given, lambda _, item: question_of(item, bounds))
        if len(found) > 1 and any(isinstance(asked, Histogram) for asked in found.values()):
            raise ValueError("a histogram is a release of its own")
        return found

    @field_validator("interval")
    @classmethod
    def _interval(cls, interval: float) -> float:
        return interval_level(interval)

    @field_validator("budget")
    @classmethod
    def _fitting(cls, budget: Budget, info: ValidationInfo) -> Budget:
        if not {"source", "by", "keys"} <= set(info.data):
            return budget
        query = info.data["source"].query is not None
        if query and budget.rho is not None:
            raise ValueError("a query spends epsilon, not rho")
        if budget.delta is not None and not query:
            if info.data["keys"] is not None:
                raise ValueError("delta is for secret keys, and these are listed: leave it out")
            if not info.data["by"]:
                raise ValueError("delta is for secret keys, and there is no 'by': leave it out")
        return budget

    @model_validator(mode="after")
    def _priced(self) -> Self:
        try:
            if self.source.query is None:
                self.charge()
        except DPError as error:
            raise ValueError(error.message) from None
        return self

    @property
    def histogram(self) -> Histogram | None:
        """The histogram that is asked for, which is always asked for alone."""
        asked = next(iter(self.questions.values()), None)
        return asked if isinstance(asked, Histogram) else None

    @property
    def numbers(self) -> dict[str, Statistic]:
        """The questions that are asked together."""
        return {name: q for name, q in self.questions.items() if not isinstance(q, Histogram)}

    @property
    def terms(self) -> Terms:
        """The terms of the release, without a ledger."""
        own = self.budget
        return Terms(own.epsilon, own.rho, own.delta, interval=self.interval, unit=self.unit)

    def charge(self) -> Charge:
        """Return what a release of questions costs: a function of the description.

        Raises
        ------
        DPError
            When its questions, keys, unit and losses do not go together.
        """
        if self.histogram is not None:
            return histogram_request(self.histogram, self.terms, self.by, self.keys).charge
        request = request_of(self.numbers, self.terms, self.by, self.keys)
        if self.by:
            frame_names(request.parts, self.numbers, self.by)
        return request.charge

    @property
    def mark(self) -> bytes:
        """What the release is known by: where rows come from, what is asked, what it spends.

        Where it is written is no part of it, nor is the rest of the description.
        """
        budget, source = self.budget, self.source
        asked: dict[str, object] = {
            "source": [source.kind, source.text],
            "by": self.by,
            "keys": None if self.keys is None else self.keys.rows,
            "names": list(self.questions),
            "questions": list(self.questions.values()),
            "unit": self.unit,
            "interval": self.interval,
            "loss": loss_of(budget.epsilon, budget.rho),
            "delta": delta_of(budget.delta),
        }
        if source.query is not None:
            asked |= {"query": source.query, "tables": source.files}
        return fingerprint(budget.dataset, budget.version, "run", asked)


def _keys_of(given: object, by: Sequence[str]) -> PublicKeys | None:
    """Return public keys: a list, or for several columns a list of lists, or lists by column."""
    if isinstance(given, dict) and given:
        if by and set(given) != set(by):
            raise ValueError(f"these are lists for {', '.join(given)}, not for each of by")
        lists = [_listed(given[name]) for name in by or given]
        rows: list[tuple[object, ...]] = list(itertools.product(*lists))
    else:
        rows = [tuple(_listed(item)) if isinstance(item, list) else (item,)
                for item in _listed(given)]  # fmt: skip
    nested = len(by) == 1 and any(len(row) != 1 for row in rows)
    if nested or not all(isinstance(part, Plain) for row in rows for part in row):
        raise ValueError("a key is a text, a number, or a list of one for each column of by")
    listed = [row[0] if len(row) == 1 else row for row in rows]
    columns: Sequence[object] = by or [None] * max(
        map(len, rows), default=1
    )  # a query has the columns
    return keys_of(listed, columns)


def _listed(given: object) -> list[object]:
    return given if isinstance(given, list) else [given]


class _Whole(Group):
    """A whole description; what is meant for all releases has been put into each."""

    parameters: Any = None
    source: Any = None
    unit: Any = None
    budget: Any = None
    releases: dict[str, Release]

    @field_validator("releases", mode="before")
    @classmethod
    def _releases(cls, given: object) -> object:
        if isinstance(given, dict) and given:
            return given
        found = "there is none" if given == {} else f"this is {kind_of(given)}"
        raise ValueError(f"{found}; write releases by name")


@dataclass(frozen=True)
class Description:
    """All releases of a file, its SHA-256, and the parameters that it was read with."""

    file: Path
    digest: str
    parameters: Mapping[str, str]
    releases: Sequence[Release]


def read_description(file: str | Path, given: Mapping[str, str] | None = None) -> Description:
    """Return what a file describes, with `given` as its parameters.

    Nothing but the file is read: no data, and no ledger.

    Raises
    ------
    InvalidDescriptionError
        With every fault, one a line, as file:line: what is wrong.
    """
    path, given = Path(file), dict(given or {})
    faults = Faults(path)
    content = read_content(faults, given)
    origins: dict[At, At] = {}
    try:
        whole = _Whole.model_validate(
            _completed(content.value, origins), context=path.absolute().parent
        )
    except ValidationError as error:
        for one in error.errors():
            _note(one["type"], _origin(one["loc"], origins), one["ctx"]["words"], content, faults)
        faults.require_none()
        raise
    releases = list(whole.releases.values())
    for at, what in _clashes(releases):
        _note("fault", at, what, content, faults)
    faults.require_none()
    return Description(path, content.digest, given, releases)


def _completed(value: Any, origins: dict[At, At]) -> Any:
    """Return a description whose releases have what is said for all; note where it comes from."""
    if not isinstance(value, dict) or not isinstance(value.get("releases"), dict):
        return value
    releases = {
        name: _inheriting(name, value, own, origins) if isinstance(own, dict) else own
        for name, own in value["releases"].items()
    }
    return {**value, "releases": releases}


def _inheriting(name: str, top: Any, own: Any, origins: dict[At, At]) -> dict[str, Any]:
    """Return a release with its name, and the groups that it takes from the top."""
    at = ("releases", name)
    found = {**own, _NAME: name}
    for shared in ("source", "unit"):
        if own.get(shared) is None and top.get(shared) is not None:
            found[shared], origins[*at, shared] = top[shared], (shared,)
    ours, theirs = own.get("budget"), top.get("budget")
    if theirs is not None and not isinstance(theirs, dict):
        found["budget"], origins[*at, "budget"] = theirs, ("budget",)
    elif theirs is not None and (ours is None or isinstance(ours, dict)):
        losses = {"epsilon", "rho"}
        named = set(ours or ()) | (losses if losses & set(ours or ()) else set())
        taken = {field: item for field, item in theirs.items() if field not in named}
        found["budget"] = {**taken, **(ours or {})}
        origins.update({(*at, "budget", field): ("budget", field) for field in taken})
    return found


def _origin(at: At, origins: Mapping[At, At]) -> At:
    """Return where a value of a release stands in the file."""
    for end in range(len(at), 0, -1):
        if at[:end] in origins:
            return origins[at[:end]] + at[end:]
    return at


def _note(kind: str, at: At, what: str, content: Content, faults: Faults) -> None:
    """Note a fault: where it is in the file, then what it is."""
    line = content.line(at[:-1] if kind == "group" else at)
    names = [part for part in at if isinstance(part, str)]
    if kind in {"group", "unknown"} or (names and what.startswith(f"{names[-1]} ")):
        names.pop()
    faults.add(line, ": ".join([*names, what]))


def _clashes(releases: Sequence[Release]) -> Iterator[tuple[At, str]]:
    """Find outputs that would overwrite one another, or what is read."""
    taken: dict[tuple[Path, str], str] = {}
    read = {path.resolve() for release in releases for path in release.source.paths}
    for release in releases:
        ledger = release.budget.ledger.path.resolve()
        for number, output in enumerate(release.outputs):
            place, table = output.path.resolve(), (output.table or "").lower()
            what = None
            if (place, table) in taken:
                what = f"the release {taken[place, table]!r} writes there too"
            elif (place in read and not table) or place == ledger:
                what = "the output is a file that is read"
            elif any(_names(path, place) for path in read):
                what = "the output would be read as a source"
            if what is not None:
                at = ("releases", release.name, "outputs", number)
                yield at, f"{output.text}: {what}"
            taken.setdefault((place, table), release.name)


def _names(source: Path, place: Path) -> bool:
    """Tell whether a source, as a folder or a pattern, names a place.

    The file system is not asked: what is a file today can be a folder when the next run reads it.
    """
    return source in place.parents or (
        has_magic(str(source)) and _matches(place.parts, source.parts)
    )


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether a glob names a path, part by part; `**` stands for any number of parts."""
    ends = {0}  # of the parts that the pattern can name so far
    for own in pattern:
        wide = "*" if "\\" in own else own  # engines differ in what a backslash takes back
        if own == "**":
            ends = {end for end in range(len(parts) + 1) if end >= min(ends)}
        else:
            ends = {
                end + 1
                for end in ends
                if end < len(parts) and (parts[end] == own or fnmatch.fnmatch(parts[end], wide))
            }
        if not ends:
            return False
    return len(parts) in ends
