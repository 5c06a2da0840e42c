"""Describe releases: where rows come from, the questions, and the price.

A command makes one `ReleaseSpec`, a job file several. pydantic reads those of a job file by the
types of their fields; commands start without it. docs/how-to/etl.md describes every field.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, dataclass_transform

import duckdb
import pyarrow as pa

from dfprivacy.accounting.ledger_file import expand_home
from dfprivacy.accounting.loss import read_delta, read_loss
from dfprivacy.engine.columns import find_declared_columns
from dfprivacy.engine.embedded import (
    Setting,
    engine_options,
    find_space_error,
    in_checked_zone,
    list_limits,
    open_embedded,
    private_folder,
    remove_folders,
    restrict_optimizer,
    session_zone,
    set_time_zone,
)
from dfprivacy.engine.files import declare_file, open_source, require_local
from dfprivacy.engine.returning import frame_table
from dfprivacy.engine.run import run_guarded
from dfprivacy.engine.snapshots import Snapshot, table_format
from dfprivacy.engine.text_files import ARCHIVES, FORM, TextFile, is_text_name, with_form
from dfprivacy.errors import (
    DPError,
    InvalidKeysError,
    InvalidQuestionError,
    MissingColumnError,
    RefusedStatementError,
    UnsupportedFrameError,
    silent,
)
from dfprivacy.frames.crosstabs import Crosstab
from dfprivacy.frames.describing import Describe
from dfprivacy.frames.explanation import (
    SIZE,
    Explanation,
    Target,
    explain_plan,
    reach_target,
    read_target,
    solve_target,
)
from dfprivacy.frames.frequencies import Frequencies
from dfprivacy.frames.private import complete_booleans
from dfprivacy.frames.releasing import (
    FrameSource,
    plan_answers,
    plan_question,
    release_frame,
    release_plan,
)
from dfprivacy.frames.tables import with_origin
from dfprivacy.measurement.bounds import Bounds, read_bounds
from dfprivacy.release.plan import Plan
from dfprivacy.release.terms import (
    INTERVAL,
    PublicKeys,
    Terms,
    Unit,
    interval_level,
    read_keys,
    read_unit,
)
from dfprivacy.statements.schema import Schema, read_schema
from dfprivacy.statistics import STATISTICS, Statistic
from dfprivacy.statistics.base import QUESTIONS, Question
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.quantile import read_end
from dfprivacy.statistics.regression import Regression

T = TypeVar("T")

Plain = str | int | float | bool | None
_TEXT_ENDINGS = (".csv", ".tsv")
_ENDINGS = (
    *(*_TEXT_ENDINGS, ".parquet", ".pq"),
    *(f"{text}{archive}" for text in _TEXT_ENDINGS for archive in ARCHIVES),
)
_SOURCES = ("file", "folder", "folder hive", "table database", "query database", "query tables")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def spec(kind: type[T]) -> type[T]:
    """Make a frozen dataclass whose unknown fields pydantic refuses."""
    kind.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(kind)


@dataclass(frozen=True)
class Read:
    """Let pydantic read a field by a function of its value and of the job file's folder."""

    function: Callable[[Any, Path], Any]

    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        """Return the schema of the function."""
        from pydantic_core import core_schema  # noqa: PLC0415 loads pydantic

        def read(value: Any, info: Any) -> Any:
            try:
                return self.function(value, info.context)
            except DPError as error:
                failure = ValueError(error.message)
                failure.__notes__ = [*getattr(error, "__notes__", ())]
                raise failure from None

        return core_schema.with_info_plain_validator_function(read)


def read_as(kind: Any, value: Any, folder: Path) -> Any:
    """Return a value of a job file as a type, exactly as it is written: nothing is converted.

    A pydantic.ValidationError has all faults of the value, and the way to each.
    """
    return _adapter(kind).validate_json(json.dumps(value), strict=True, context=folder)


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 loads pydantic

    return TypeAdapter(kind)


@contextmanager
def checking(*fields: str) -> Iterator[None]:
    """Note the field that an error of this block is about."""
    try:
        yield
    except (DPError, ValueError) as error:
        for name in fields:
            error.add_note(name)
        raise


@dataclass(frozen=True)
class File:
    """A file or folder as it was named, and its path."""

    text: str
    path: Path

    @classmethod
    def of(cls, path: str | Path | None) -> Self | None:
        """Return a file that an option names, if it does."""
        return None if path is None else cls(str(path), Path(path))


def resolve_file(text: Any, folder: Path) -> File:
    """Return a local file, whose path counts from the folder of the job file."""
    text = read_as(str, text, folder)
    require_local(text)
    return File(text, folder / expand_home(Path(text)))


def _require_ending(text: str) -> None:
    """Refuse a name of a file of rows that does not tell its format."""
    if not text.lower().endswith(_ENDINGS):
        raise ValueError(f"the name does not end in one of {', '.join(_ENDINGS)}")


def _read_rows_file(text: Any, folder: Path) -> File:
    """Return a file of rows, or a pattern of files in one folder."""
    file = resolve_file(text, folder)
    _require_ending(file.text)
    if has_magic(str(Path(file.text).parent)):
        raise ValueError("a pattern names files of one folder, as in days/*.parquet")
    return file


def _read_table_file(text: Any, folder: Path) -> File:
    """Return a file or folder that a query reads under a name."""
    file = resolve_file(text, folder)
    if Path(file.text).suffix:  # others are folders
        _require_ending(file.text)
    return file


JobFile = Annotated[File, Read(resolve_file)]
RowsFile = Annotated[File, Read(_read_rows_file)]
TableFile = Annotated[File, Read(_read_table_file)]


@spec
class Source:
    """Where rows come from: files, a table of a DuckDB file, or a query over either."""

    file: RowsFile | None = None
    folder: JobFile | None = None
    hive: bool = False
    table: str | None = None
    query: str | None = None
    database: JobFile | None = None
    tables: dict[str, TableFile] | None = None
    encoding: str | None = None
    delimiter: str | None = None
    multiline: bool = False
    schema: dict[str, Any] | JobFile | None = None

    def __post_init__(self) -> None:
        names = {name for form in _SOURCES for name in form.split() if getattr(self, name)}
        if names not in [set(form.split()) for form in _SOURCES]:
            forms = "; ".join(form.replace(" ", ", ") for form in _SOURCES)
            raise ValueError(f"the fields are one of: {forms}")
        if self.schema is not None and self.query is None:
            raise ValueError("a schema says who owns the rows of a query, and there is none")
        with checking("schema"):
            _ = self.owners
        with checking("encoding"):
            files = [file.path for file in (self.file, *(self.tables or {}).values()) if file]
            sources = [with_form(path, self.text_form) for path in files if self.text_form]
            if self.text_form and not any(isinstance(source, TextFile) for source in sources):
                raise UnsupportedFrameError(
                    f"{next(iter(self.text_form))} is for CSV and TSV files, and none is named",
                    hint="leave it out, or name a text file",
                )

    @cached_property
    def owners(self) -> Schema | None:
        """The schema that says whose the rows of a query are."""
        if self.schema is None:
            return None
        return read_schema(self.schema.path if isinstance(self.schema, File) else self.schema)

    @property
    def text_form(self) -> dict[str, Any]:
        """The form of text files that fields name."""
        named = {name: getattr(self, name) for name in FORM}
        return {name: value for name, value in named.items() if value not in (None, False)}

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The names of a query's files with their paths as they were written, sorted by name."""
        return tuple((name, file.text) for name, file in sorted((self.tables or {}).items()))

    @property
    def text(self) -> str:
        """The source as it was written."""
        if self.table is not None and self.database is not None:
            return f"{self.table} in {self.database.text}"
        file = self.file or self.folder or self.database
        return ", ".join(path for _, path in self.files) if file is None else file.text

    @property
    def rows(self) -> Path | None:
        """The file, pattern or folder of files that is read; None for queries and databases."""
        if self.file is not None or self.folder is None:
            return None if self.file is None else self.file.path
        folder = self.folder.path
        has_texts = folder.is_dir() and any(map(is_text_name, folder.iterdir()))
        is_read_whole = self.hive or has_texts or table_format(folder) is not None
        return folder if is_read_whole else folder / "*.parquet"

    @property
    def paths(self) -> list[Path]:
        """Everything that is read; the files of a folder are a pattern."""
        files = (self.database, *(self.tables or {}).values())
        paths = [self.rows, *(file.path for file in files if file is not None)]
        return [path for path in paths if path is not None]


@contextmanager
def open_database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file for reading, within the limits of the engine."""
    connection, folder = None, private_folder()
    failure: DPError = UnsupportedFrameError(
        f"{str(path)!r} is not a DuckDB file that can be opened for reading",
        hint="check the path, and that no other process holds it open for writing",
    )
    config: dict[str, Setting] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        **list_limits(engine_options()),
        "temp_directory": str(folder),
    }
    try:
        try:
            if path.is_file():
                connection = duckdb.connect(str(path), read_only=True, config=config)
        except duckdb.Error as error:
            failure = find_space_error(error) or failure
        if connection is None:
            raise failure
        set_time_zone(connection, session_zone())
        with connection:
            yield connection
    finally:
        remove_folders(folder)


@contextmanager
def open_rows(source: Source, where: str | None = None) -> Iterator[Any]:
    """Open the rows of a source, or those for which a condition holds.

    The connection of a table has the safe optimizers alone where there is a condition.
    """
    from dfprivacy.statements.jobs import filter_rows  # noqa: PLC0415 on first use

    with ExitStack() as stack:
        rows: Any = None
        if source.table is None or source.database is None:
            rows = open_source(source.rows, **source.text_form)
        else:
            connection = stack.enter_context(open_database(source.database.path))
            if where is not None:
                restrict_optimizer(connection)
            with suppress(duckdb.Error):
                rows = connection.table(source.table)
            if rows is None:
                raise MissingColumnError(
                    f"there is no table {source.table!r} in {str(source.database.path)!r}",
                    hint="name a table or view of the file, with its schema where it is not main",
                )
        yield rows if where is None else filter_rows(rows, where)


def column_types(source: Source) -> dict[str, pa.DataType]:
    """Return the declared types of the columns of a source; no row is read."""

    def declare() -> pa.Schema:
        if isinstance(rows, Snapshot):
            return rows.rows.limit(0).collect().to_arrow().schema
        if isinstance(rows, duckdb.DuckDBPyRelation):
            return rows.limit(0).to_arrow_table().schema
        with open_embedded() as connection:
            return declare_file(connection, rows).limit(0).to_arrow_table().schema

    with open_rows(source) as rows:
        schema = run_guarded(declare)
    return dict(zip(schema.names, schema.types, strict=True))


@dataclass(frozen=True)
class TypedKeys:
    """Public keys as they are written; `columns` names theirs where they are listed by column."""

    rows: tuple[tuple[object, ...], ...]
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, keys: Any, by: Sequence[str]) -> Self | None:
        """Return keys of a list, of a list of lists for several columns, or of lists by column."""
        if keys is None or isinstance(keys, cls):
            return keys
        columns: tuple[str, ...] = ()
        rows: list[tuple[Any, ...]]
        if isinstance(keys, dict) and keys:
            if by and set(keys) != set(by):
                raise ValueError(f"these are lists for {', '.join(keys)}, not for each of by")
            columns = tuple(by or keys)
            rows = list(itertools.product(*(as_list(keys[column]) for column in columns)))
        else:
            rows = [tuple(as_list(key)) for key in as_list(keys)]
        is_nested = len(by) == 1 and any(len(row) != 1 for row in rows)
        if is_nested or not all(isinstance(part, Plain) for row in rows for part in row):
            raise ValueError("a key is a text, a number, or a list of one for each column of by")
        width = len(by) or max(map(len, rows), default=1)  # a query has the columns
        parts = [row[0] if len(row) == 1 else row for row in rows]
        public = read_keys(parts, by or [None] * width)
        return None if public is None else cls(public.rows, columns)

    def type_keys(self, types: Mapping[str, pa.DataType], by: Sequence[str]) -> PublicKeys:
        """Return the keys of some columns in the types that these declare."""
        if any(len(row) != len(by) for row in self.rows):
            raise InvalidKeysError(
                f"a public key has as many parts as there are group columns: {', '.join(by)}",
                hint="list one value for each of them",
            )
        columns = zip(by, zip(*self.rows, strict=True), strict=True)
        text = pa.string()
        typed = [type_column(name, values, types.get(name, text)) for name, values in columns]
        return PublicKeys(tuple(zip(*typed, strict=True)))

    def for_query(self, types: Mapping[str, pa.DataType], by: Sequence[str] = ()) -> Any:
        """Return keys as callers list them, in the types of their columns, all of a query's."""
        rows: Sequence[tuple[object, ...]] = self.rows
        names = {name.casefold(): name for name in types}
        columns = [names.get(name.casefold(), name) for name in self.columns] or by or [*types]
        if types:
            rows = self.type_keys(types, columns).rows
        if self.columns:
            lists = (list(dict.fromkeys(values)) for values in zip(*rows, strict=True))
            return dict(zip(self.columns, lists, strict=True))
        return [row[0] if len(row) == 1 else row for row in rows]


def as_list(value: object) -> list[Any]:
    """Return a list; any other value is a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def type_column(name: str, keys: Sequence[object], declared: pa.DataType) -> list[object]:
    """Return the keys of one column in the type that it declares.

    A text is read as that type. A number or a boolean has to be of its kind: a number that stands
    for a text has lost its leading zeros.
    """
    if pa.types.is_dictionary(declared):
        declared = declared.value_type
    for key in keys:
        require_kind(name, key, declared)
    texts = []
    for key in keys:
        if isinstance(key, float) and key.is_integer() and pa.types.is_integer(declared):
            key = int(key)  # noqa: PLW2901 Arrow reads no 1.0 as an integer
        text = str(key).lower() if isinstance(key, bool) else str(key)
        texts.append(None if key is None else text)
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return list(pa.array(texts, pa.string()).cast(declared).to_pylist())
    raise InvalidKeysError(
        f"a key does not fit column {name!r}, which is declared {declared}",
        hint=f"list keys that can be read as {declared}",
    )


def require_kind(name: str, key: object, declared: pa.DataType) -> None:
    """Refuse a number or a boolean as a key of a column of another kind."""
    if not isinstance(key, bool | int | float):
        return
    is_boolean = isinstance(key, bool)
    kinds = ("boolean",) if is_boolean else ("integer", "floating", "decimal")
    if not any(getattr(pa.types, f"is_{kind}")(declared) for kind in kinds):
        is_text = pa.types.is_string(declared) or pa.types.is_large_string(declared)
        raise InvalidKeysError(
            f"{key} is {'a boolean' if is_boolean else 'a number'}, and column {name!r} is "
            f"declared {declared}",
            hint=f"quote it: '{key}'" if is_text else f"list keys that can be read as {declared}",
        )


if TYPE_CHECKING:
    from dfprivacy.statements.jobs import Job


@spec
class Goal:
    """The half-width that a release has to reach in groups of `size` rows, instead of a loss."""

    within: Any
    size: int = SIZE

    def __post_init__(self) -> None:
        _ = self.target

    @property
    def target(self) -> Target:
        """The half-widths by the names of answers."""
        return read_target(self.within, self.size)


Amount = Annotated[
    float | int | Goal | None,
    Read(lambda value, at: read_as(Goal if isinstance(value, dict) else float | int, value, at)),
]


@spec
class Loss:
    """The loss that a release spends, or the half-width that it has to reach."""

    epsilon: Amount = None
    rho: Amount = None
    delta: float | int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Goal) and not isinstance(self.rho, Goal):
            read_loss(self.epsilon, self.rho)
        elif self.epsilon is not None and self.rho is not None:
            raise InvalidQuestionError("epsilon and rho are both named", hint="name one")
        read_delta(self.delta)

    @property
    def target(self) -> Target | None:
        """The half-width to reach, where that is named instead of a loss."""
        named = self.epsilon if self.rho is None else self.rho
        return named.target if isinstance(named, Goal) else None


@spec
class UnitSpec:
    """Whose rows are protected together; a schema names the column itself."""

    column: str | None = None
    max_rows: int | None = None
    max_groups: int | None = None


def _parse_question(fields: Any, folder: Path) -> Question:
    """Return the question that fields describe: one names it, with its column."""
    kinds = {**STATISTICS, **{kind: QUESTIONS[kind] for kind in ALONE}}
    fields = read_as(dict[str, Any], fields, folder)
    names = [name for name in fields if name in kinds and name != "bounds"]
    if "describe" in fields:  # which has a field `top`
        names = ["describe"]
    if not names and isinstance(fields.get("bounds"), str):
        names = ["bounds"]
    if len(names) != 1:
        raise ValueError(f"a question names one of {', '.join(kinds)}, and its column")
    kind = kinds[names[0]]
    if names[0] in {"count", "describe"} and fields[names[0]] is True:
        with checking(names[0]):
            raise ValueError(f'write "*" for all {"rows" if names[0] == "count" else "columns"}')
    values = vars(read_as(_build_model(kind), fields, folder))
    about = values.pop(names[0])
    arguments = {name: value for name, value in values.items() if value is not None}
    bounds = {argument.name for argument in kind.arguments() if argument.form == "bounds"}
    for name, ends in arguments.items():
        if name in bounds:
            arguments[name] = parse_ends(ends)
    if kind is Describe:
        about = None if about in {"*", ("*",)} else tuple(as_list(about))
    if names == ["count"] and about == "*":
        return kind()
    if kind is Histogram:
        return build_histogram(about, **arguments)
    columns = about if issubclass(kind, Statistic) and isinstance(about, tuple) else [about]
    if issubclass(kind, Statistic) and len(columns) != len(kind.places()):
        raise ValueError(f"{kind.kind} is about {len(kind.places())} different columns, in a list")
    return kind(*columns, **arguments)


def build_histogram(
    column: str,
    bins: int | Sequence[float] | None = None,
    bounds: Any = None,
    edges: Sequence[float] | None = None,
) -> Histogram:
    """Return a histogram by a number of bins or by the edges of its bins, under either name."""
    if (bins is None) == (not edges):
        raise InvalidQuestionError(
            "a histogram needs either bins or edges",
            hint="add --bins 10, or --edge 0 --edge 10 --edge 100",
        )
    return Histogram(column, edges or bins or 0, bounds)


ALONE = ("histogram", "describe", "regression", "value_counts", "top", "mode")
"""The questions that are a release of their own."""


@cache
def _build_model(kind: type[Question]) -> Any:
    """Return the fields of a question in a job file, by the types of its arguments."""
    from pydantic import create_model  # noqa: PLC0415 loads pydantic

    is_list = kind is Describe or (issubclass(kind, Statistic) and len(kind.places()) > 1)
    fields: dict[str, Any] = {kind.kind: (tuple[str, ...] | str if is_list else str, ...)}
    if kind is Histogram:
        edges = tuple[float | int, ...]
        fields |= {"bins": (int | edges | None, None), "edges": (edges | None, None)}
    for argument in kind.arguments():
        type_, name = argument.type.job_field, argument.name
        if type_ is not None and argument.form != "column" and name not in {"columns", *fields}:
            fields[name] = (type_, ...) if argument.required else (type_ | None, None)
    return create_model(kind.kind, __config__={"extra": "forbid"}, **fields)


def parse_ends(pair: Sequence[Any]) -> Bounds | tuple[Any, Any]:
    """Return bounds, or a pair of dates or times where they are written as texts."""
    if all(isinstance(end, str) for end in pair):
        lower, upper = map(read_end, pair)
        return lower, upper
    bounds = read_bounds(tuple(pair))
    assert bounds is not None  # noqa: S101 there is a pair
    return bounds


NOT_FOR_QUERIES = ("where", "by", "bounds", "questions", "rho", "within", "size")
"""Fields and options that a query has in its text, or can't have."""
JobQuestion = Annotated[Any, Read(_parse_question)]
Pair = tuple[float | str, float | str]


@spec
class ReleaseSpec:
    """Questions about rows, and the loss that the answers may cost.

    A question about all rows, or by groups of `by`, has a name in `questions`.
    """

    source: Source
    where: str | None = None
    timezone: str | None = None
    unit: UnitSpec | None = None
    by: tuple[str, ...] = ()
    keys: Any = None
    margins: bool = False
    bounds: dict[str, Pair] = field(default_factory=dict)
    questions: dict[str, JobQuestion] = field(default_factory=dict)
    interval: float = float(INTERVAL)
    population: bool = False
    intervals: bool = False
    budget: Loss = field(default_factory=Loss)

    def __post_init__(self) -> None:
        """Read each field in the light of the others."""
        with checking("timezone"), in_checked_zone(self.timezone):
            pass
        with checking("interval"):
            interval_level(self.interval)
        with checking("bounds"):
            self._set(bounds={column: parse_ends(pair) for column, pair in self.bounds.items()})
        questions = {}
        for name, question in self.questions.items():
            with checking("questions", name):
                completed = question.complete(self.bounds)
                if isinstance(completed, Statistic):
                    completed.check()
                if question.kind in ALONE and len(self.questions) > 1:
                    raise ValueError(f"{question.kind} is a release of its own")
                questions[name] = completed
        self._set(questions=questions)
        if isinstance(self._first, Frequencies):
            self._set(by=(*self.by, str(self._first.column)))
        with checking("keys"):
            self._set(keys=TypedKeys.of(self.keys, self.by))
            if self.keys is not None and not self.by and self.source.query is None:
                raise ValueError("keys need 'by'")

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def privacy_unit(self) -> Unit | None:
        """The unit that is protected; one row if there is none."""
        schema, unit = self.source.owners, self.unit or UnitSpec()
        if schema is not None and unit.column is not None:
            raise InvalidQuestionError(
                "the schema names the unit already: leave column out, and keep the limits",
                hint="in a job unit: {max_rows: 3, max_groups: 2}",
            )
        column = unit.column if schema is None else schema.unit
        return read_unit(column, unit.max_rows, unit.max_groups)

    @cached_property
    def terms(self) -> Terms:
        """The terms of the release, without a ledger; a loss that is looked for is found."""
        target = self.budget.target
        if target is None:
            return self._open_terms
        with self._columns() as rows:
            return solve_target(target, self._open_terms, partial(self._explain_under, rows))[0]

    def _columns(self) -> AbstractContextManager[Any]:
        """Open the rows if a question or a condition depends on declared types."""
        finds_bounds = any(getattr(q, "finds_bounds", False) for q in self.questions.values())
        if finds_bounds or self.described is not None or self.where is not None:
            return open_rows(self.source, self.where)
        return nullcontext()

    @property
    def _open_terms(self) -> Terms:
        """The terms before a loss that is looked for is found."""
        losses = {
            name: 1.0 if isinstance(loss, Goal) else loss
            for name, loss in (("epsilon", self.budget.epsilon), ("rho", self.budget.rho))
            if loss is not None
        }
        bounds: Any = {} if self.described is None else self.bounds
        terms = Terms(
            interval=self.interval,
            population=self.population,
            unit=self.privacy_unit,
            bounds=bounds,
        )
        return terms.update(delta=self.budget.delta, **losses)

    def _explain_under(self, rows: object, terms: Terms, sizes: tuple[int, ...]) -> Explanation:
        plan = self.plan_under(terms, rows)
        return explain_plan(plan, None if self.described is None else {}, sizes)

    @silent()
    def explain(self) -> Explanation:
        """Return the cost and the errors of the release; no row is read."""
        if self.source.query is not None:
            from dfprivacy.statements.jobs import explain_job  # noqa: PLC0415 on first use

            with self.open_statement(self.terms) as statement:
                return explain_job(statement)
        with self._columns() as rows:
            return reach_target(
                self.budget.target, self._open_terms, partial(self._explain_under, rows)
            )

    @silent()
    def release(self, terms: Terms, answers: Sequence[pa.Table] = ()) -> Any:
        """Release the answers: a table, or numbers by name where there are no groups.

        A query whose `answers` were drawn before runs over these.
        """
        if self.source.query is not None:
            with self.open_statement(terms) as statement:
                return with_origin(*statement.release(answers))
        keys = None
        if self.keys is not None:
            keys = self.keys.type_keys(column_types(self.source), self.by)
        with open_rows(self.source, self.where) as rows:
            if terms.ledger is None and isinstance(rows, Snapshot):
                terms = replace(terms, snapshot=rows.version)
            plan = self.plan_under(terms, rows, keys)
            if self.margins:
                result = release_frame(plan, FrameSource(rows))
            else:
                result = release_plan(plan, rows)
            return result if isinstance(result, dict | pa.Table) else frame_table(result)

    @contextmanager
    def open_statement(self, terms: Terms) -> Iterator[Job]:
        """Open the query as a job of `dfp.sql`, with public keys in the types of their columns."""
        from dfprivacy.statements.jobs import open_job, plan_script  # noqa: PLC0415 on first use

        source, keys = self.source, self.keys
        tables = {
            name: with_form(file.path, source.text_form)
            for name, file in (source.tables or {}).items()
        }
        database = nullcontext() if source.database is None else open_database(source.database.path)
        with (
            database as connection,
            open_job(
                str(source.query),
                connection,
                tables,
                terms,
                None if keys is None else keys.for_query({}),
                schema=source.owners,
                intervals=self.intervals,
                timezone=session_zone(),
            ) as statement,
        ):
            if statement.script.target is not None:
                raise RefusedStatementError(
                    "the query writes a table itself",
                    hint="write a SELECT; outputs, or --output, say where its rows go",
                )
            public = statement.public
            with suppress(InvalidKeysError):  # a job file names the line
                public = None if keys is None else keys.for_query(statement.key_types)
            plans = plan_script(statement.script, statement.terms, public)
            yield replace(statement, plans=plans, public=public)

    @cached_property
    def plan(self) -> Plan:
        """The plan of its questions."""
        return self.plan_under(self.terms)

    def plan_under(self, terms: Terms, rows: object = None, keys: PublicKeys | None = None) -> Plan:
        """Return the plan of its questions under terms.

        A description needs rows as well; other questions find booleans among their columns. Public
        keys are those of the release as they are written, unless they are given in their types.
        """
        if keys is None and self.keys is not None:
            keys = PublicKeys(self.keys.rows)
        kinds = cache(lambda: run_guarded(lambda: find_declared_columns(rows)) or {})
        questions = {
            name: question if rows is None else complete_booleans(question, kinds)
            for name, question in self.questions.items()
        }
        ((name, alone),) = [*questions.items(), ("", None)][:1]
        match alone:
            case _ if self.margins:
                ((name, question),), (index, column) = questions.items(), self.by
                return Crosstab(index, column, question, margins=True).plan(terms, keys, name)
            case Crosstab():
                return alone.plan(terms, keys)
            case Frequencies():  # the value is the last of `by`
                return alone.plan(terms, self.by, keys, name)
            case Describe() | Histogram() | Regression():
                return plan_question(alone, rows, terms, self.by, keys)
            case _:
                return plan_answers(questions, terms, self.by, keys)

    @property
    def _first(self) -> Question | None:
        return next(iter(self.questions.values()), None)

    @property
    def described(self) -> Describe | None:
        """The description that is asked for; its price follows from the source's columns."""
        return self._first if isinstance(self._first, Describe) else None

    @property
    def numbers(self) -> dict[str, Statistic]:
        """The questions that are asked together."""
        return {name: q for name, q in self.questions.items() if isinstance(q, Statistic)}
