"""Where rows come from and answers go: paths stand relative to the description's folder."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path

from dfprivacy.jobs.description import (
    FileOutput,
    FileSource,
    Output,
    QuerySource,
    Release,
    Source,
    TableOutput,
    TableSource,
)
from dfprivacy.jobs.faults import Faults
from dfprivacy.jobs.fields import Fields
from dfprivacy.jobs.marked import Marked

READ = (".csv", ".tsv", ".parquet", ".pq")
WRITTEN = (".csv", ".parquet")
_FORMS = {
    frozenset({"file"}),
    frozenset({"folder"}),
    frozenset({"table", "database"}),
    frozenset({"query", "database"}),
    frozenset({"query", "tables"}),
}
_NAMES = ("file", "folder", "table", "query", "database", "tables")


@dataclass(frozen=True)
class Places:
    """The folder of a description, and its faults."""

    folder: Path
    faults: Faults

    def path(self, text: str) -> Path:
        """Return a path of the description."""
        return self.folder / text

    def require_apart(self, releases: Sequence[Release]) -> None:
        """Find outputs that would overwrite one another, or what is read."""
        taken: dict[tuple[Path, str], str] = {}
        read = {path.resolve() for release in releases for path in _files(release)}
        for release in releases:
            for output in release.outputs:
                self._require_free(release, output, taken, read)

    def _require_free(
        self,
        release: Release,
        output: Output,
        taken: dict[tuple[Path, str], str],
        read: set[Path],
    ) -> None:
        place = output.path.resolve()
        table = output.table.lower() if isinstance(output, TableOutput) else ""
        whose = f"releases: {release.name}: outputs: {output.text}"
        if (place, table) in taken:
            other = taken[place, table]
            self.faults.add(release.line, f"{whose}: the release {other!r} writes there too")
        elif (place in read and not table) or place == release.budget.ledger.resolve():
            self.faults.add(release.line, f"{whose}: the output is a file that is read")
        elif any(_names(path, place) for path in read):
            self.faults.add(release.line, f"{whose}: the output would be read as a source")
        taken.setdefault((place, table), release.name)


def _files(release: Release) -> list[Path]:
    source = release.source
    if isinstance(source, QuerySource):
        return [*source.tables.values(), *([source.database] if source.database else [])]
    return [source.path if isinstance(source, FileSource) else source.database]


def _names(source: Path, place: Path) -> bool:
    """Tell whether a source, as a folder or a pattern, names a place.

    The file system is not asked: what is a file today can be a folder when the next run reads it.
    """
    return source in place.parents or (
        has_magic(str(source)) and _matches(place.parts, source.parts)
    )


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether a glob names a path, part by part; `**` stands for any number of parts."""
    if not pattern or not parts:
        return not pattern and not parts
    own, rest = pattern[0], pattern[1:]
    if own == "**":
        return any(_matches(parts[start:], rest) for start in range(len(parts)))
    wide = "*" if "\\" in own else own  # engines differ in what a backslash takes back
    return (parts[0] == own or fnmatch.fnmatch(parts[0], wide)) and _matches(parts[1:], rest)


def source_of(node: Marked, where: str, places: Places) -> Source | None:
    """Return the source that a group of fields describes."""
    fields = Fields(node, where, places.faults, _NAMES)
    given = frozenset(node.fields)
    if given <= set(_NAMES) and given not in _FORMS:
        forms = "file; folder; table, database; query, database; query, tables"
        places.faults.add(node.line, f"{fields.where}: the fields are one of: {forms}")
        return None
    texts = {name: fields.text(name) for name in given if name != "tables" and name in _NAMES}
    if not fields.require(*sorted(given)) or None in texts.values() or given not in _FORMS:
        return None
    return _made({name: str(text) for name, text in texts.items()}, fields, places)


def _made(texts: dict[str, str], fields: Fields, places: Places) -> Source | None:
    if "query" in texts:
        database = places.path(texts["database"]) if "database" in texts else None
        tables = _tables(fields, places)
        files = tuple(
            (name, str(fields.node.fields["tables"].fields[name].value)) for name in sorted(tables)
        )
        text = texts.get("database", ", ".join(path for _, path in files))
        return QuerySource(texts["query"], database, tables, files, text)
    if "table" in texts:
        text = f"{texts['table']} in {texts['database']}"
        return TableSource(places.path(texts["database"]), texts["table"], text)
    if "folder" in texts:
        return FileSource(places.path(texts["folder"]) / "*.parquet", texts["folder"])
    return _file(texts["file"], fields, places)


def _file(text: str, fields: Fields, places: Places) -> Source | None:
    path = places.path(text)
    beyond = has_magic(str(Path(text).parent)) or path.suffix.lower() in READ[:2]
    if path.suffix.lower() not in READ:
        fields.wrong("file", f"the name does not end in one of {', '.join(READ)}")
    elif has_magic(text) and beyond:
        fields.wrong("file", "a pattern names Parquet files of one folder, as in days/*.parquet")
    return FileSource(path, text)


def _tables(fields: Fields, places: Places) -> dict[str, Path]:
    node = fields.get("tables")
    if node is None:
        return {}
    inside = Fields(node, f"{fields.where}: tables", places.faults, node.fields)
    texts = {name: inside.text(name) for name in node.fields}
    for name, text in texts.items():
        if not name.isidentifier():
            places.faults.add(inside.line_of(name), f"{inside.where}: {name!r} is no plain name")
        if text is not None and not text.lower().endswith(READ):
            inside.wrong(name, f"the name does not end in one of {', '.join(READ)}")
    return {name: places.path(text) for name, text in texts.items() if text is not None}


def outputs_of(fields: Fields, places: Places) -> list[Output]:
    """Return where a release goes: files, and tables of DuckDB files."""
    node = fields.required("outputs")
    if node is None:
        return []
    items = [node] if node.fields else list(node.items)
    if not items:
        fields.wrong("outputs", "there is none")
    found = [_output(item, f"{fields.where}: outputs", places) for item in items]
    return [output for output in found if output is not None]


def _output(node: Marked, where: str, places: Places) -> Output | None:
    if isinstance(node.value, str):
        if node.value.lower().endswith(WRITTEN):
            return FileOutput(places.path(node.value), node.value)
        places.faults.add(
            node.line,
            f"{where}: {node.value!r} does not end in .csv or .parquet; a table is "
            "{database: FILE, table: NAME}",
        )
        return None
    fields = Fields(node, where, places.faults, ("database", "table"))
    fields.require("database", "table")
    database, table = fields.text("database"), fields.text("table")
    if database is None or table is None:
        return None
    return TableOutput(places.path(database), table, f"{database}:{table}")
