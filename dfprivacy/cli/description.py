"""Read a description of releases and check it: all that can be wrong is found before it runs.

docs/etl.md describes every field.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import pyarrow as pa
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dfprivacy.accounting.charge import Charge, account_name
from dfprivacy.accounting.ledger import analyst_name, dataset_name, version_name
from dfprivacy.accounting.ledger_file import expand_home
from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.accounting.memory import fingerprint
from dfprivacy.cli.asking import require_kind, typed_column
from dfprivacy.engine.embedded import UTC, Engine, in_checked_zone
from dfprivacy.engine.files import require_local
from dfprivacy.engine.keys import require_constant
from dfprivacy.engine.returning import frame_table
from dfprivacy.engine.snapshots import table_format
from dfprivacy.engine.text_files import ARCHIVES, FORM, TextFile, with_form
from dfprivacy.errors import (
    DPError,
    InvalidKeysError,
    InvalidQuestionError,
    UnsupportedFrameError,
)
from dfprivacy.frames.asking import AskedTable, bin_counts, line, together
from dfprivacy.frames.crosstabs import Crosstab
from dfprivacy.frames.describing import Describe
from dfprivacy.frames.explanation import SIZE, Explanation, Target, solved, target_of
from dfprivacy.frames.frequencies import Frequencies
from dfprivacy.frames.released import TOTAL, Released
from dfprivacy.frames.tables import NOTE, Origin
from dfprivacy.measurement.bounds import Bounds, bounds_of
from dfprivacy.release.request import Request
from dfprivacy.release.terms import INTERVAL, PublicKeys, Terms, Unit, interval_of, keys_of, unit_of
from dfprivacy.statements.schema import Schema, schema_of
from dfprivacy.statements.yaml_files import At, Content, Faults, Plain, nearest, read_content
from dfprivacy.statistics import STATISTICS, Share, Statistic
from dfprivacy.statistics.base import QUESTIONS
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.quantile import end_of
from dfprivacy.statistics.regression import Regression

T = TypeVar("T")
Fields = Mapping[str, Any]

Questions = Statistic | Histogram | Describe | Frequencies | Regression
_FREQUENCIES = ("value_counts", "top", "mode")
_ALONE = {
    "histogram": "a histogram is", "describe": "a description is", "regression": "a regression is",
    **dict.fromkeys(_FREQUENCIES, "counts by value are"),
}  # fmt: skip
"""Questions that are a release of their own."""
_ALL_ROWS = "*"
_TEXTS = (".csv", ".tsv")
_ARCHIVED = tuple(f"{text}{archive}" for text in _TEXTS for archive in ARCHIVES)
_READ = (*_TEXTS, ".parquet", ".pq", *_ARCHIVED)
_WRITTEN = (".csv", ".parquet")
_SAID = "the query says this itself: leave the field out"
_HAVE_INTERVALS = "answers to questions have their intervals in any case: leave it out"
_IN = " in "  # between a table and its database
_NAME = "(name)"  # where a release finds its own name


class Group(BaseModel):
    """A group of fields, where a field that holds nothing is as one that is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="wrap")
    @classmethod
    def _group(cls, given: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        known = [
            own.alias or name
            for name, own in cls.model_fields.items()
            if own.validation_alias == own.alias
        ]
        fields = {n: item for n, item in group(given).items() if item is not None or n not in known}
        try:
            return check(fields)
        except ValidationError as error:
            found = [_of_group(one, known) for one in error.errors()]
        raise ValidationError.from_exception_data(cls.__name__, found)


def _of_group(error: ErrorDetails, known: Sequence[str]) -> InitErrorDetails:
    """Return what is wrong in a group, in plain words."""
    *_, name = error["loc"] or ("",)
    if error["type"] == "missing":
        return _told("group", error["loc"], f"{name!r} is missing")
    if error["type"] == "extra_forbidden":
        what = f"unknown field {name!r}; {nearest(str(name), known)}"
        return _told("unknown", error["loc"], what)
    return _told(error["type"], error["loc"], _words(error))


def _words(error: ErrorDetails) -> str:
    reason = error.get("ctx", {}).get("error")
    if isinstance(reason, DPError):
        return reason.message
    return error["msg"] if reason is None else str(reason)


def _told(kind: str, at: tuple[int | str, ...], words: str) -> InitErrorDetails:
    return {"type": wrong(words, kind), "loc": at, "input": None}


def wrong(words: str, kind: str = "fault") -> PydanticCustomError:
    """Return an error in words of ours; of the kind "group" it is about the group of its field."""
    return PydanticCustomError(kind, "{words}", {"words": words})


def group(given: Any) -> Fields:
    """Return a group of fields."""
    if isinstance(given, dict):
        return given
    raise wrong(f"this is {kind_of(given)}, not a group of fields")


def kind_of(given: object) -> str:
    """Return what a value is, in words."""
    words = {str: "a text", bool: "true or false", list: "a list", dict: "a group of fields"}
    return "nothing" if given is None else words.get(type(given), "a number")


def _text(given: object) -> str:
    if isinstance(given, str) and given.strip():
        return given
    empty = "this is empty" if isinstance(given, str) else f"this is {kind_of(given)}"
    quotes = "; put it in quotes" if isinstance(given, int | float) else ""
    raise ValueError(f"{empty}, not a text{quotes}")


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _number(given: Any) -> float:
    if _is_number(given):
        return given  # type: ignore[no-any-return]
    raise ValueError(f"this is {kind_of(given)}, not a number")


def _level(given: Any) -> float | str:
    """Return the level of intervals, or the text that asks for those of the population."""
    level: float | str = given if isinstance(given, str) else _number(given)
    interval_of(level)
    return level


def _listed(given: object) -> list[Any]:
    """Return a list; what is none is a list of one."""
    return given if isinstance(given, list) else [given]


def _truth(given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise ValueError(f"this is {kind_of(given)}, not true or false")


def _texts(given: object) -> tuple[str, ...]:
    found = _listed(given)
    if not found or not all(isinstance(item, str) and item.strip() for item in found):
        raise ValueError("this is not a list of texts")
    return tuple(found)


def _numbers(given: object) -> tuple[float, ...]:
    found = _listed(given)
    if not found or not all(map(_is_number, found)):
        raise ValueError("this is not a list of numbers")
    return tuple(found)


def _pair(given: object) -> Bounds | tuple[Any, Any]:
    if isinstance(given, list) and len(given) == 2 and all(isinstance(end, str) for end in given):
        lower, upper = map(end_of, given)
        return lower, upper
    bounds = bounds_of(list(_numbers(given)))
    assert bounds is not None  # noqa: S101 a pair was given
    return bounds


@dataclass(frozen=True)
class Place:
    """A file as the description names it, and where that is."""

    text: str
    path: Path


def place_of(given: object, info: ValidationInfo) -> Place:
    """Return a place: paths stand relative to the description's folder."""
    text, folder = _text(given), info.context
    assert isinstance(folder, Path)  # noqa: S101 whoever checks fields names it
    try:
        require_local(text)
    except UnsupportedFrameError as error:
        raise ValueError(error.message) from None
    return Place(text, folder / expand_home(Path(text)))


Text = Annotated[str, PlainValidator(_text)]
Texts = Annotated[tuple[str, ...], PlainValidator(_texts)]
Number = Annotated[float, PlainValidator(_number)]
Flag = Annotated[bool, PlainValidator(_truth)]
Level = Annotated[float | str, PlainValidator(_level)]
Numbers = Annotated[tuple[float, ...], PlainValidator(_numbers)]
Pair = Annotated[Bounds | tuple[Any, Any], PlainValidator(_pair)]
File = Annotated[Place, PlainValidator(place_of)]


_TYPES: Mapping[str, Any] = {
    "choice": Text,
    "flag": Flag,
    "number": Number,
    "whole": Number,
    "numbers": Numbers,
    "bounds": Pair,
    "value": Any,
    "Sequence[Hashable]": Texts,
}


def question_of(given: object, info: ValidationInfo) -> Questions:
    """Return the question that fields describe; its release may give its column bounds."""
    fields, shared = given if isinstance(given, dict) else {}, info.data["bounds"]
    kind = _kind(fields)
    found = dict(_model(kind).model_validate(fields))
    own = {name: value for name, value in found.items() if value is not None}
    column = own.pop(kind)
    if kind == "histogram":
        if ("edges" in own) == ("bins" in own):
            raise InvalidQuestionError("a histogram needs either bins or edges")
        own = {"bins": own.get("edges", own.get("bins")), "bounds": own.get("bounds")}
    if kind in QUESTIONS:
        about = None if kind == "describe" and column == (_ALL_ROWS,) else column
        make: Any = QUESTIONS[kind]
        asked: Questions = make(about, **own).completed(shared)
        _ = asked.ends if isinstance(asked, Regression) else None
        return asked
    make = STATISTICS[kind]
    about = column if isinstance(column, tuple) else [column]
    if len(about) != len(make.places()):
        raise ValueError(f"{kind} is about {len(make.places())} different columns, in a list")
    if (kind, column) == ("count", _ALL_ROWS):
        about = [None]
    question: Statistic = make(*about, **own).completed(shared)
    question.check()
    return question


def _kind(fields: Fields) -> str:
    """Return the question that is named; bounds are one where they name a column."""
    known = (*STATISTICS, *_ALONE)
    if "describe" in fields:  # which has a field `top`
        return "describe"
    kinds = [name for name in fields if name in known and name != "bounds"]
    if not kinds and isinstance(fields.get("bounds"), str):
        kinds = ["bounds"]
    if len(kinds) != 1:
        raise InvalidQuestionError(
            f"a question names one of {', '.join(known)}, and its column",
            hint="name one of them",
        )
    return kinds[0]


@cache
def _model(kind: str) -> type[Group]:
    asks = STATISTICS.get(kind) or QUESTIONS[kind]
    several = kind == "describe" or (len(asks.places()) > 1 and kind in STATISTICS)
    fields: dict[str, Any] = {kind: (Texts if several else Text, ...)}
    if kind == "histogram":
        fields |= {"bins": (Number | None, None), "edges": (Numbers | None, None)}
    for each in asks.arguments():
        own = _TYPES.get(each.form)
        if own is not None and each.name != next(iter(asks.arguments())).name:
            fields[each.name] = (own, ...) if each.required else (own | None, None)
    return create_model(kind, __base__=Group, **fields)


Question = Annotated[Questions, PlainValidator(question_of)]


def _schema(given: object, info: ValidationInfo) -> Schema:
    """Return the schema that fields describe, or a file of such fields."""
    if not isinstance(given, dict):
        return schema_of(place_of(given, info).path)
    return schema_of(given)


class Source(Group):
    """Where rows come from: files, a table of a DuckDB file, or a query over either."""

    file: File | None = None
    folder: File | None = None
    hive: Flag = False
    table: Text | None = None
    query: Text | None = None
    database: File | None = None
    tables: dict[str, File] | None = None
    encoding: Text | None = None
    delimiter: Any = None
    multiline: Flag = False
    owners: Annotated[Schema, PlainValidator(_schema)] | None = Field(None, alias="schema")

    @field_validator("file")
    @classmethod
    def _file(cls, file: Place) -> Place:
        _require_ending(file.text)
        if has_magic(str(Path(file.text).parent)):
            raise ValueError("a pattern names files of one folder, as in days/*.parquet")
        return file

    @field_validator("tables")
    @classmethod
    def _tables(cls, tables: Mapping[str, Place]) -> Mapping[str, Place]:
        for name, place in tables.items():
            if not name.isidentifier():
                raise ValueError(f"{name!r} is no plain name")
            if Path(place.text).suffix:  # others are folders
                _require_ending(place.text)
        return tables

    @model_validator(mode="after")
    def _form(self) -> Self:
        forms = (
            "file", "folder", "folder hive", "table database", "query database", "query tables",
        )  # fmt: skip
        if self.model_fields_set - {"owners", *FORM} not in [set(form.split()) for form in forms]:
            raise ValueError(
                f"the fields are one of: {'; '.join(forms).replace(' ', ', ').replace(';,', ';')}"
            )
        if self.owners is not None and self.query is None:
            raise ValueError("a schema says who owns the rows of a query, and there is none")
        if self.text_form:
            self._require_text_files()
        return self

    def _require_text_files(self) -> None:
        """Refuse a form of text that is none, or beside which no text file is named."""
        try:
            named = [self.file, *(self.tables or {}).values()]
            paths = [file.path for file in named if file is not None]
            files = [with_form(path, self.text_form) for path in paths]
        except UnsupportedFrameError as error:
            raise ValueError(error.message) from None
        if not any(isinstance(file, TextFile) for file in files):
            raise ValueError(f"{next(iter(self.text_form))} is for CSV and TSV files")

    @property
    def text_form(self) -> dict[str, Any]:
        """The form of text files that fields name."""
        named = {name: getattr(self, name) for name in FORM}
        return {name: value for name, value in named.items() if value not in (None, False)}

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
            return f"{self.table}{_IN}{self.database.text}"
        place = self.file or self.folder or self.database
        return ", ".join(path for _, path in self.files) if place is None else place.text

    @property
    def rows(self) -> Path | None:
        """The file, pattern or folder of files that is read; None for queries and databases."""
        if self.file is not None or self.folder is None:
            return None if self.file is None else self.file.path
        is_read_whole = self.hive or table_format(self.folder.path) is not None
        return self.folder.path if is_read_whole else self.folder.path / "*.parquet"

    @property
    def paths(self) -> list[Path]:
        """Everything that is read; the files of a folder are a pattern."""
        places = (self.database, *(self.tables or {}).values())
        paths = [self.rows, *(place.path for place in places if place is not None)]
        return [path for path in paths if path is not None]


def _require_ending(text: str) -> None:
    if not text.lower().endswith(_READ):
        raise ValueError(f"the name does not end in one of {', '.join(_READ)}")


class _Goal(Group):
    within: Any
    size: Number = float(SIZE)


def _amount(given: object) -> object:
    """Return a loss, or the target that it has to reach."""
    if given is None or not isinstance(given, dict):
        return None if given is None else _number(given)
    goal = _Goal.model_validate(given)
    return target_of(goal.within, goal.size)


Amount = Annotated[Any, PlainValidator(_amount)]


class Budget(Group):
    """What a release may spend, or the target it has to reach, and from which account."""

    ledger: File
    dataset: Text
    version: Text
    epsilon: Amount = None
    rho: Amount = Field(default=None, validate_default=True)
    delta: Number | None = None
    period: Text | None = None
    analyst: Text | None = None

    @field_validator("dataset", "version", "epsilon", "delta")
    @classmethod
    def _checked(cls, given: Any, info: ValidationInfo) -> Any:
        checks = {"dataset": dataset_name, "version": version_name, "delta": delta_of}
        if not isinstance(given, Target):
            checks.get(str(info.field_name), loss_of)(given)
        return given

    @field_validator("rho")
    @classmethod
    def _rho(cls, rho: Any, info: ValidationInfo) -> Any:
        if "epsilon" not in info.data:
            return rho
        if info.data["epsilon"] is not None and rho is not None:
            raise ValueError("epsilon and rho are both given: name one")
        if info.data["epsilon"] is None and rho is None:
            raise wrong("'epsilon' or 'rho' is missing", "group")
        if not isinstance(rho, Target):
            loss_of(rho=rho)
        return rho

    @field_validator("period", "analyst")
    @classmethod
    def _named(cls, given: str | None, info: ValidationInfo) -> str | None:
        if info.field_name == "analyst":
            return analyst_name(given)
        account_name("", given)
        return given

    @property
    def account(self) -> str:
        """The name of the account: the dataset's, or its period's."""
        return account_name(self.dataset, self.period)

    @property
    def target(self) -> Target | None:
        """What has to be reached, where that is named instead of a loss."""
        named = self.epsilon if self.rho is None else self.rho
        return named if isinstance(named, Target) else None


class _Unit(Group):
    column: Text
    max_rows: Number | None = None
    max_groups: Number | None = None


class _Limits(Group):
    max_rows: Number | None = None
    max_groups: Number | None = None


def _unit(given: object, info: ValidationInfo) -> Unit | None:
    """Return the unit that a release protects; where it has a schema, that names the column."""
    source = info.data.get("source")
    schema = None if source is None else source.owners
    if schema is None:
        if given is None or (source is None and group(given).get("column") is None):
            return None  # a schema that has faults may name the column
        fields = _Unit.model_validate(given)
        return unit_of(fields.column, fields.max_rows, fields.max_groups)
    if isinstance(given, dict) and given.get("column") is not None:
        raise ValueError("the schema of this release says whose rows they are: name no column here")
    limits = _Limits.model_validate({} if given is None else given)
    return unit_of(schema.unit, limits.max_rows, limits.max_groups)


@dataclass(frozen=True)
class NamedKeys(PublicKeys):
    """Public keys that were listed by column."""

    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """What `released(frame)` makes of answers by group: `diff`, `change` or `ratio_to`."""

    method: str
    base: Plain = None
    along: str | None = None

    def of(self, table: pa.Table, origin: Origin) -> pa.Table:
        """Return answers compared with each other; a base is read in the type of its key."""
        base: object = self.base
        along = self.along or origin.keys[-1]
        if base is not None and base != TOTAL and along in table.column_names:
            (base,) = typed_column(along, [base], table.schema.field(along).type)
        given = {} if base is None else {"base": base}
        made = getattr(Released(table, table, origin), self.method)(along=self.along, **given)
        return frame_table(made)


@dataclass(frozen=True)
class Output:
    """A CSV or Parquet file, or a table of a DuckDB file; perhaps of answers compared."""

    path: Path
    text: str
    table: str | None = None
    compared: Compared | None = None


class _Table(Group):
    database: File
    table: Text


class _Compared(Group):
    diff: Any = None
    change: Any = None
    ratio_to: Any = None
    base: Any = None
    along: Text | None = None


_COMPARED = ("diff", "change", "ratio_to")


def _comparing(given: Fields, info: ValidationInfo) -> Output:
    """Return an output of answers compared: {change: FILE, base: KEY, along: COLUMN}."""
    found = _Compared.model_validate(given)
    named = [name for name in _COMPARED if getattr(found, name) is not None]
    if len(named) != 1 or not isinstance(found.base, Plain):
        raise ValueError(f"one of {', '.join(_COMPARED)} names where it goes, base is one key")
    if named == ["ratio_to"] and found.base is None:
        raise ValueError("ratio_to needs a base: total, or a key")
    output = _output(getattr(found, named[0]), info)
    return replace(output, compared=Compared(named[0], found.base, found.along))


def _output(given: object, info: ValidationInfo) -> Output:
    if isinstance(given, dict) and not {*_COMPARED}.isdisjoint(given):
        return _comparing(given, info)
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
    outputs = _listed(given)
    if not outputs:
        raise ValueError("there is none")
    return outputs


class Release(Group):
    """One release: what is asked of which rows, what it spends, and where the answer goes.

    A query holds its questions, groups and conditions itself; `questions` and `by` are empty then.
    """

    name: str = Field(validation_alias=_NAME)
    source: Source
    where: Text | None = None
    timezone: Text | None = None
    unit: Annotated[Unit | None, PlainValidator(_unit)] = Field(None, validate_default=True)
    by: Texts = ()
    keys: PublicKeys | None = None
    margins: Annotated[bool, PlainValidator(_truth)] = False
    bounds: dict[str, Pair] = Field(default_factory=dict)
    questions: dict[str, Question] = Field(default_factory=dict, validate_default=True)
    interval: Level = float(INTERVAL)
    intervals: Flag = False
    outputs: Annotated[list[Annotated[Output, PlainValidator(_output)]], BeforeValidator(_outputs)]
    budget: Budget

    @field_validator("where", "by", "bounds", "intervals")
    @classmethod
    def _of_its_source(cls, given: object, info: ValidationInfo) -> object:
        source, of_a_query = info.data.get("source"), info.field_name == "intervals"
        if source is not None and (source.query is None) is of_a_query:
            raise ValueError(_HAVE_INTERVALS if of_a_query else _SAID)
        return given

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        with in_checked_zone(name):
            return name

    @field_validator("keys", mode="plain")
    @classmethod
    def _keys(cls, given: object, info: ValidationInfo) -> PublicKeys | None:
        if not {"source", "by"} <= set(info.data):
            return None
        if not info.data["by"] and info.data["source"].query is None:
            raise ValueError("there is no 'by' that they are keys of")
        return _keys_of(given, info.data["by"])

    @field_validator("questions", mode="before")
    @classmethod
    def _asked(cls, given: object, info: ValidationInfo) -> object:
        if not {"source", "bounds"} <= set(info.data):
            return {}
        query = info.data["source"].query is not None
        if query and given:
            raise ValueError(_SAID)
        if not query and not given:
            raise wrong("'questions' is missing", "group")
        return group(given)

    @field_validator("questions")
    @classmethod
    def _alone(cls, questions: dict[str, Questions]) -> dict[str, Questions]:
        for words in (_ALONE[own.kind] for own in questions.values() if own.kind in _ALONE):
            if len(questions) > 1:
                raise ValueError(f"{words} a release of its own")
        return questions

    @model_validator(mode="after")
    def _of_a_table(self) -> Self:
        if self.margins and (len(self.by) != 2 or len(self.numbers) != 1):
            raise ValueError("margins are for one question that is not a histogram, by two columns")
        return self

    @field_validator("budget")
    @classmethod
    def _fitting(cls, budget: Budget, info: ValidationInfo) -> Budget:
        if not {"source", "by", "keys"} <= set(info.data):
            return budget
        query = info.data["source"].query is not None
        if query and budget.rho is not None:
            raise ValueError("a query spends epsilon, not rho")
        if query and budget.target is not None:
            raise ValueError("a query spends an epsilon that is named, not one that is looked for")
        asked = info.data.get("questions", {})
        if any(isinstance(own, Describe) for own in asked.values()):
            if info.data["by"] or budget.target is not None:
                raise ValueError("a description has no 'by', and spends a loss that is named")
            return budget
        if budget.delta is not None and not query:
            if info.data["keys"] is not None:
                raise ValueError("delta is for secret keys, and these are listed: leave it out")
            if not info.data["by"]:
                raise ValueError("delta is for secret keys, and there is no 'by': leave it out")
        return budget

    @model_validator(mode="after")
    def _priced(self) -> Self:
        try:
            if self.source.query is None and self.described is None:
                self.charge()
        except DPError as error:
            raise ValueError(error.message) from None
        return self

    @model_validator(mode="after")
    def _compared(self) -> Self:
        keys = [] if self.keys is None else zip(*self.keys.rows, strict=True)
        listed = dict(zip(self.by, keys, strict=False))
        for own in (output.compared for output in self.outputs):
            if own is None:
                continue
            if not self.by or self._alone_of(Histogram) is not None:
                raise ValueError("answers to questions 'by' a column are compared, and no others")
            bases = {(type(key), key) for key in listed.get(own.along or self.by[-1], ())}
            if own.base not in {None, TOTAL} and (type(own.base), own.base) not in bases:
                raise ValueError(f"the base {own.base!r} is none of the keys that are listed")
            try:
                own.of(self._example(own), self.origin)
            except DPError as error:
                raise ValueError(error.message) from None
        return self

    def _example(self, compared: Compared) -> pa.Table:
        """Return a table like that of the answers, with one row about the base."""
        by, names = self.by, self.asked.names(self._request)
        base = None if compared.base == TOTAL else compared.base
        keys = [pa.array([base if own == (compared.along or by[-1]) else None]) for own in by]
        rest = [pa.array([""] if own.endswith(NOTE) else [0.0]) for own in names[len(by) :]]
        return pa.table([*keys, *rest], names=names)

    @property
    def origin(self) -> Origin:
        """What is known of the frame that answers the release."""
        return self.asked.origin(self._request)

    @cached_property
    def asked(self) -> AskedTable:
        """What is asked of the rows, all but a description, and how it is answered."""
        if self.margins:
            ((name, question),), (index, column) = self.numbers.items(), self.by
            return Crosstab(index, column, question, margins=True).asked(name, shaped=False)
        ((name, alone),) = [*self.questions.items(), ("", None)][:1]
        if isinstance(alone, Histogram):
            return bin_counts(alone)
        if isinstance(alone, Frequencies):  # the value is the last of `by`
            return alone.asked(name)
        if isinstance(alone, Regression) and not self.by:
            return line(alone)
        return together(self.numbers)

    def _alone_of(self, kind: type[T]) -> T | None:
        """Return the question if it is of this kind, which is always asked for alone."""
        asked = next(iter(self.questions.values()), None)
        return asked if isinstance(asked, kind) else None

    @property
    def described(self) -> Describe | None:
        """The description that is asked for; its price follows from the source's columns."""
        return self._alone_of(Describe)

    @property
    def numbers(self) -> dict[str, Statistic]:
        """The questions that are asked together; by group a line is one for each coefficient."""
        if (line := self._alone_of(Regression)) is not None:
            return dict(line.questions) if self.by else {}
        return {name: q for name, q in self.questions.items() if isinstance(q, Statistic)}

    @cached_property
    def terms(self) -> Terms:
        """The terms of the release, without a ledger; a loss that is looked for is found."""
        own, target = self.budget, self.budget.target
        terms = Terms(delta=own.delta, interval=self.interval, unit=self.unit)
        if self.described is not None:
            terms = replace(terms, bounds=dict(self.bounds.items()))
        if target is None:
            return replace(terms, epsilon=own.epsilon, rho=own.rho)
        some = terms.updated(rho=None if own.rho is None else 1.0)
        return solved(target, some, self._explained)[0]

    def _explained(self, terms: Terms, sizes: tuple[int, ...]) -> Explanation:
        return self.asked.explanation(terms, self.by, self.keys, sizes)

    @cached_property
    def _request(self) -> Request:
        return self.asked.request(self.terms, self.by, self.keys)

    def charge(self) -> Charge:
        """Return what a release of questions costs: a function of the description."""
        self.asked.names(self._request)
        return self._request.charge

    @property
    def mark(self) -> bytes:
        """What the release is known by: its rows, questions and loss, wherever it is written."""
        budget, source = self.budget, self.source
        asked: dict[str, object] = {
            "source": [source.kind, source.text],
            "by": self.by,
            "keys": None if self.keys is None else self.keys.rows,
            "names": list(self.questions),
            "questions": list(self.questions.values()),
            "unit": self.unit,
            "interval": self.interval,
            "loss": budget.target or loss_of(budget.epsilon, budget.rho),
            "delta": delta_of(budget.delta),
        }
        if source.query is not None:
            asked |= {"query": source.query, "tables": source.files}
        if source.owners is not None:
            asked["schema"] = repr(source.owners)
        if source.hive:
            asked["hive"] = True
        if source.text_form:
            asked["text"] = source.text_form
        if source.table is not None and _IN in source.table:  # else the text tells where it ends
            asked["table"] = source.table
        if self.described is not None:
            asked["bounds"] = self.bounds
        if self.where is not None:
            asked["where"] = self.where
        if self.timezone not in {None, UTC}:
            asked["timezone"] = self.timezone
        asked |= {name: True for name in ("intervals", "margins") if getattr(self, name)}
        return fingerprint(budget.account, budget.version, "run", asked)


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
    keys = keys_of(listed, columns)
    if keys is not None and isinstance(given, dict):
        return NamedKeys(keys.rows, columns=tuple(by or given))
    return keys


def _listed_keys(keys: object, columns: Sequence[str]) -> Iterator[tuple[At, str, object]]:
    """Yield each part of the public keys with its position in the list and its column."""
    names = {name.casefold(): name for name in columns}
    lists = keys if isinstance(keys, dict) else {"": keys}
    for field, values in lists.items():
        for index, item in enumerate(_listed(values)):
            at: At = (*([field] if field else []), *([index] if isinstance(values, list) else []))
            if field:
                yield at, names.get(field.casefold(), field), item
                continue
            parts = item if isinstance(item, list) else [item]
            for part, (column, key) in enumerate(zip(columns, parts, strict=False)):
                yield (*at, part) if isinstance(item, list) else at, column, key


class _Engine(Group):
    memory: Text | None = None
    threads: Number | None = None
    temporary: File | None = None


def _engine(value: object, info: ValidationInfo) -> Engine:
    """Return the limits of the engine that fields describe."""
    fields = _Engine.model_validate({} if value is None else value, context=info.context)
    folder = None if fields.temporary is None else fields.temporary.path
    return Engine(fields.memory, fields.threads, folder)  # type: ignore[arg-type]  # it checks them


class _Whole(Group):
    """A whole description; what is meant for all releases has been put into each."""

    parameters: Any = None
    engine: Annotated[Engine, PlainValidator(_engine)] = Engine()
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
    """All releases of a file, its content, and the parameters that it was read with."""

    file: Path
    content: Content
    parameters: Mapping[str, str]
    releases: Sequence[Release]
    engine: Engine

    def require_types(self, release: Release, types: Mapping[str, pa.DataType]) -> None:
        """Refuse public keys and constants that do not fit the declared types of their columns.

        Each fault names its line, before anything is charged.
        """
        faults = Faults(self.file)
        fields = self.content.value["releases"][release.name]
        keys = () if release.keys is None else _listed_keys(fields["keys"], release.by or [*types])
        for at, column, key in keys:
            with self._faults_at(("releases", release.name, "keys", *at), key, faults):
                typed_column(column, [key], types[column])
        for name, question in release.numbers.items():
            if isinstance(question, Share) and "value" in fields["questions"].get(name, {}):
                at, column = ("questions", name, "value"), str(question.column)
                with self._faults_at(("releases", release.name, *at), question.value, faults):
                    require_kind(column, question.value, types[column])
                    require_constant(column, question.value, types[column])
        faults.require_none()

    @contextmanager
    def _faults_at(self, at: At, value: object, faults: Faults) -> Iterator[None]:
        """Note what is wrong with a value, with the spelling that it has in the file."""
        try:
            yield
        except (InvalidKeysError, InvalidQuestionError) as error:
            spelling = self.content.spellings.get(at)
            hint = str(error.hint).replace(f"'{value}'", f"'{spelling}'")
            if spelling is None and hint.startswith("quote"):
                hint = "declare the parameter as text"
            _note("fault", at, f"{error.message}; {hint}", self.content, faults)


def read_description(file: str | Path, given: Mapping[str, str] | None = None) -> Description:
    """Return what a file describes, with `given` as its parameters; no data are read."""
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
    return Description(path, content, given, releases, whole.engine)


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
    found = {**own, _NAME: name, **_by_value(own)}
    for shared in ("source", "unit"):
        if own.get(shared) is None and top.get(shared) is not None:
            found[shared], origins[*at, shared] = top[shared], (shared,)
    ours, theirs = own.get("budget"), top.get("budget")
    if theirs is not None and not isinstance(theirs, dict):
        found["budget"], origins[*at, "budget"] = theirs, ("budget",)
    elif theirs is not None and (ours is None or isinstance(ours, dict)):
        losses = {"epsilon", "rho"}
        named = set(ours or ()) | (losses if losses & set(ours or ()) else set())
        if not _needs_delta(found) and _is_number(theirs.get("delta")) and 0 < theirs["delta"] < 1:
            named.add("delta")
        taken = {field: item for field, item in theirs.items() if field not in named}
        found["budget"] = {**taken, **(ours or {})}
        origins.update({(*at, "budget", field): ("budget", field) for field in taken})
    return found


def _by_value(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that counts by value are grouped by: those that are named, and its own."""
    asked = own["questions"] if isinstance(own.get("questions"), dict) else {}
    fields = [one for one in asked.values() if isinstance(one, dict)]
    columns = [
        one[kind]
        for one in fields
        for kind in _FREQUENCIES
        if "describe" not in one and kind in one
    ]
    if len(columns) != 1 or not isinstance(columns[0], str):
        return {}
    return {"by": [*_listed([] if own.get("by") is None else own["by"]), columns[0]]}


def _needs_delta(own: Mapping[str, Any]) -> bool:
    """Tell whether a release may have secret keys: a query, columns, groups that are not listed."""
    if isinstance(own.get("source"), dict) and own["source"].get("query") is not None:
        return True
    asked = own["questions"] if isinstance(own.get("questions"), dict) else {}
    if any(isinstance(one, dict) and "describe" in one for one in asked.values()):
        return True
    return own.get("by") is not None and own.get("keys") is None


def _origin(at: At, origins: Mapping[At, At]) -> At:
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
    """Tell whether a source names a place, whatever files there are: a next run may find others."""
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
