"""Read a job file: releases by name, each with what the file says for all of them.

All that can be wrong is found before anything runs. docs/how-to/etl.md describes every field.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa

from dfprivacy.cli.specs import JobRelease, Read, as_list, checking, read_as, require_kind, spec
from dfprivacy.engine.keys import type_constant
from dfprivacy.errors import MOVED_ARGUMENTS, DPError, InvalidKeysError, InvalidQuestionError
from dfprivacy.statements.yaml_files import At, Content, Faults, read_content
from dfprivacy.statistics import Share

if TYPE_CHECKING:
    from pydantic import ValidationError

_SHARED = ("source", "unit", "budget")
"""The fields at the top of a file that stand for those of every release."""


@spec
class JobSpec:
    """A whole job file; what it says for all releases has been put into each."""

    releases: dict[str, Annotated[Any, Read(lambda fields, at: read_as(JobRelease, fields, at))]]
    parameters: Any = None
    source: Any = None
    unit: Any = None
    budget: Any = None

    def __post_init__(self) -> None:
        if not self.releases:
            raise ValueError("there are no releases; write some by name")


@dataclass(frozen=True)
class JobFileContent:
    """All releases of a job file, its content, and the parameters that it was read with."""

    file: Path
    content: Content
    parameters: Mapping[str, str]
    releases: Mapping[str, JobRelease]

    def require_types(self, name: str, types: Mapping[str, pa.DataType]) -> None:
        """Refuse public keys and constants that do not fit the declared types of their columns.

        The fault names the line of the field, before anything is charged.
        """
        faults, release, at = Faults(self.file), self.releases[name], ("releases", name)
        questions = self.content.value["releases"][name].get("questions", {})
        try:
            if release.keys is not None:
                with checking("keys"):
                    release.keys.for_query(types, release.by)
            for title, question in release.numbers.items():
                if isinstance(question, Share) and "value" in questions[title]:
                    column, value = str(question.column), question.value
                    with checking("questions", title, "value"):
                        require_kind(column, value, types[column])
                        type_constant(column, value, types[column], value)
        except (InvalidKeysError, InvalidQuestionError) as error:
            way = self.content.nearest((*at, *error.__notes__))
            _add_fault(faults, self.content, way, f"{error.message}; {error.hint}")
        faults.require_none()


def read_job_file(file: str | Path, parameters: Mapping[str, str] | None = None) -> JobFileContent:
    """Return the content of a job file, with values for its parameters; no data are read.

    Raises
    ------
    InvalidDescriptionError
        With one line for each fault: the file, the line, the field, and what pydantic says of it.
    """
    from pydantic import ValidationError  # noqa: PLC0415 loads pydantic

    path, values = Path(file), dict(parameters or {})
    faults = Faults(path)
    content = read_content(faults, values)
    try:
        job: JobSpec = read_as(JobSpec, _inherit_fields(content.value), path.absolute().parent)
    except ValidationError as error:
        _add_faults(faults, content, error)
        faults.require_none()
        raise
    for at, what in _find_clashes(job.releases):
        _add_fault(faults, content, at, what)
    faults.require_none()
    return JobFileContent(path, content, values, job.releases)


def _add_faults(faults: Faults, content: Content, error: ValidationError) -> None:
    """Note all that pydantic has found, once for each field."""
    noted = set()
    for fault in error.errors(include_url=False):
        loc, what = fault["loc"], fault["msg"].removeprefix("Value error, ")
        reason = fault.get("ctx", {}).get("error")
        if isinstance(reason, DPError):
            what = reason.message
        if fault["type"] == "extra_forbidden" and loc[-1] in MOVED_ARGUMENTS:
            what = f"{what}; {MOVED_ARGUMENTS[loc[-1]]}"
        at = (*loc, *getattr(reason, "__notes__", ()))
        way, shared = content.nearest(at), content.nearest(at[2:])
        if len(at) > 2 and len(shared) + 2 > len(way):  # the release has it from the top
            way = shared
        if fault["type"] == "missing":
            way = (*way, loc[-1])
        if way not in noted:
            noted.add(way)
            _add_fault(faults, content, way, what)


def _add_fault(faults: Faults, content: Content, at: At, what: str) -> None:
    path = ".".join(map(str, at))
    faults.add(content.line(at), f"{path}: {what}" if path else what)


def _inherit_fields(value: Any) -> Any:
    """Return a job file whose releases have what the file says for all of them.

    Lone items become lists, and a source that is a text is a file.
    """
    if not isinstance(value, dict) or not isinstance(value.get("releases"), dict):
        return value
    top = _without_nothing(value)
    for fields in (top, *top["releases"].values()):
        if isinstance(fields, dict) and isinstance(fields.get("source"), str):
            fields["source"] = {"file": fields["source"]}
    shared = {name: top[name] for name in _SHARED if name in top}
    for release in top["releases"].values():
        if isinstance(release, dict):
            for name in {"by", "outputs"} & {*release}:
                release[name] = as_list(release[name])
            budget, common = release.get("budget", {}), shared.get("budget")
            if isinstance(common, dict) and isinstance(budget, dict):
                losses = {"epsilon", "rho"} if {"epsilon", "rho"} & {*budget} else set()
                inherited = {name: item for name, item in common.items() if name not in losses}
                release["budget"] = {**inherited, **budget}
            release |= {**shared, **release}
    return top


def _without_nothing(value: Any) -> Any:
    """Return a value without fields that hold nothing, at any depth."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nothing(item) for name, item in value.items() if item is not None}


def _find_clashes(releases: Mapping[str, JobRelease]) -> Iterator[tuple[At, str]]:
    """Find outputs that would overwrite one another, or what is read."""
    names: dict[tuple[Path, str], str] = {}
    read = {path.resolve() for release in releases.values() for path in release.source.paths}
    for name, release in releases.items():
        ledger = release.budget.ledger.path.resolve()
        for number, output in enumerate(release.outputs):
            path, table = output.path.resolve(), (output.table or "").lower()
            fault = None
            if (path, table) in names:
                fault = f"the release {names[path, table]!r} writes there too"
            elif (path in read and not table) or path == ledger:
                fault = "the output is a file that is read"
            elif any(_can_name(source, path) for source in read):
                fault = "the output would be read as a source"
            if fault is not None:
                yield ("releases", name, "outputs", number), f"{output.text}: {fault}"
            names.setdefault((path, table), name)


def _can_name(source: Path, path: Path) -> bool:
    """Check if a folder or pattern could name a path, whatever files there are by now."""
    if not has_magic(str(source)):
        return source in path.parents
    parts = ["*" if "\\" in part else part for part in source.parts]  # engines read it differently
    pattern = re.sub(r"/(\*\*/)+", "/*", Path(*parts).as_posix())
    return fnmatch.fnmatchcase(path.as_posix(), pattern)
