"""From marked values to a description: everything that can be wrong is found before it runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from dfprivacy.accounting.ledger import dataset_name, version_name
from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.jobs.checks_places import Places, outputs_of, source_of
from dfprivacy.jobs.checks_questions import Asked, bounds_in, questions_of
from dfprivacy.jobs.description import Budget, Description, QuerySource, Release, Source
from dfprivacy.jobs.faults import Faults
from dfprivacy.jobs.fields import Fields
from dfprivacy.jobs.marked import Marked, Plain
from dfprivacy.jobs.parameters import parameters_of, substituted
from dfprivacy.jobs.prices import charge_of
from dfprivacy.jobs.reading import read_text
from dfprivacy.terms import INTERVAL, Bounds, PublicKeys, interval_level, keys_of
from dfprivacy.unit import Unit, unit_of

_SHARED = ("source", "unit", "budget")
_ALL = ("parameters", *_SHARED, "releases")
_RELEASE = (*_SHARED, "bounds", "by", "keys", "questions", "interval", "outputs")
_BUDGET = ("ledger", "dataset", "version", "epsilon", "rho", "delta")


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
    text = read_text(path, faults)
    found, content = dict(text.content.fields), text.content
    parameters = parameters_of(found.pop("parameters", None), given, faults)
    faults.require_none()
    if isinstance(content.value, dict):
        content = substituted(Marked(found, 1), parameters, faults)
    fields = Fields(content, "description", faults, _ALL)
    releases = _releases(fields, Places(path.absolute().parent, faults))
    faults.require_none()
    return Description(path, text.digest, given, releases)


def _releases(top: Fields, places: Places) -> list[Release]:
    node = top.required("releases")
    if node is None:
        return []
    if not node.fields:
        empty = "there is none" if node.kind == "a group of fields" else f"this is {node.kind}"
        top.wrong("releases", f"{empty}; write releases by name")
    found = [_release(name, item, top, places) for name, item in node.fields.items()]
    releases = [release for release in found if release is not None]
    places.require_apart(releases)
    return releases


def _release(name: str, node: Marked, top: Fields, places: Places) -> Release | None:
    """Return a release; None where it has faults, after all of them were found."""
    faults, before = top.faults, len(top.faults.found)
    where = f"releases: {name}"
    fields = Fields(node, where, faults, _RELEASE)
    source = _source(fields, top, places)
    budget = _budget(fields, top, places)
    unit = _unit(fields, top)
    by = fields.texts("by")
    keys = _keys(fields, by)
    questions = _questions(fields, source)
    outputs = outputs_of(fields, places)
    level = fields.number("interval")
    interval = faults.attempt(
        fields.line_of("interval"),
        f"{where}: interval",
        lambda: interval_level(INTERVAL if level is None else level),
    )
    if source is None or budget is None or interval is None or len(faults.found) > before:
        return None
    release = Release(name, node.line, source, unit, by, keys, questions, interval, budget, outputs)
    _groups(release, fields)
    if not isinstance(source, QuerySource) and len(faults.found) == before:
        faults.attempt(node.line, where, lambda: charge_of(release))
    return release if len(faults.found) == before else None


def _inherited(fields: Fields, top: Fields, name: str) -> Fields:
    """Return the group that a release holds, or else the one that is meant for all."""
    return fields if name in fields.node.fields else top


def _source(fields: Fields, top: Fields, places: Places) -> Source | None:
    holder = _inherited(fields, top, "source")
    node = holder.get("source")
    if node is None:
        fields.require("source")
        return None
    return source_of(node, f"{holder.where}: source", places)


def _budget(fields: Fields, top: Fields, places: Places) -> Budget | None:
    """Return the budget: the fields that a release names, and the others from the top."""
    own, shared = fields.get("budget"), top.get("budget")
    for node, where in ((own, fields.where), (shared, "description")):
        if node is not None:
            Fields(node, f"{where}: budget", fields.faults, _BUDGET)
    merged = {**(shared.fields if shared else {}), **(own.fields if own else {})}
    if own is not None and {"epsilon", "rho"} & set(own.fields):
        losses = {"epsilon", "rho"} - set(own.fields)
        merged = {name: item for name, item in merged.items() if name not in losses}
    line = fields.line if own is None else own.line
    budget = Fields(Marked(merged, line), f"{fields.where}: budget", fields.faults, merged)
    texts = {name: budget.text(name) for name in ("ledger", "dataset", "version")}
    losses_ = {name: budget.number(name) for name in ("epsilon", "rho", "delta")}
    complete = budget.require("ledger", "dataset", "version")
    _losses(budget, losses_)
    for name, check in (("dataset", dataset_name), ("version", version_name)):
        if texts[name] is not None:
            where = f"{budget.where}: {name}"
            fields.faults.attempt(budget.line_of(name), where, partial(check, texts[name]))
    if not complete or None in texts.values():
        return None
    ledger, dataset, version = (str(text) for text in texts.values())
    return Budget(places.path(ledger), dataset, version, **losses_)


def _losses(budget: Fields, given: Mapping[str, float | None]) -> None:
    epsilon, rho = budget.get("epsilon"), budget.get("rho")
    if epsilon is not None and rho is not None:
        budget.wrong("rho", "epsilon and rho are both given: name one")
    elif epsilon is None and rho is None:
        budget.faults.add(budget.line, f"{budget.where}: 'epsilon' or 'rho' is missing")
    elif given["epsilon"] is not None or given["rho"] is not None:
        name = "epsilon" if rho is None else "rho"
        budget.faults.attempt(
            budget.line_of(name), budget.where, lambda: loss_of(given["epsilon"], given["rho"])
        )
    budget.faults.attempt(budget.line_of("delta"), budget.where, lambda: delta_of(given["delta"]))


def _unit(fields: Fields, top: Fields) -> Unit | None:
    holder = _inherited(fields, top, "unit")
    node = holder.get("unit")
    if node is None:
        return None
    unit = Fields(
        node, f"{holder.where}: unit", fields.faults, ("column", "max_rows", "max_groups")
    )
    if not unit.require("column", "max_rows"):
        return None
    column, rows, groups = unit.text("column"), unit.number("max_rows"), unit.number("max_groups")
    if column is None or rows is None:
        return None
    return fields.faults.attempt(node.line, unit.where, lambda: unit_of(column, rows, groups))


def _keys(fields: Fields, by: tuple[str, ...]) -> PublicKeys | None:
    """Return public keys: a list, or for several columns a list of lists, or lists by column."""
    node = fields.get("keys")
    if node is None:
        return None
    if node.fields:
        if by and set(node.fields) != set(by):
            fields.wrong(
                "keys", f"these are lists for {', '.join(node.fields)}, not for each of by"
            )
            return None
        lists = [[item.value for item in node.fields[name].items] for name in by or node.fields]
        rows: list[tuple[object, ...]] = list(itertools.product(*lists))
    else:
        rows = [_key(item) for item in node.items]
    nested = len(by) == 1 and any(len(row) != 1 for row in rows)
    if nested or not all(isinstance(part, Plain) for row in rows for part in row):
        fields.wrong("keys", "a key is a text, a number, or a list of one for each column of by")
        return None
    listed = [row[0] if len(row) == 1 else row for row in rows]
    columns = by or [None] * max(map(len, rows), default=1)  # a query has the columns
    return fields.faults.attempt(
        node.line, f"{fields.where}: keys", lambda: keys_of(listed, columns)
    )


def _key(node: Marked) -> tuple[object, ...]:
    is_list = node.kind == "a list"
    return tuple(item.value for item in node.items) if is_list else (node.value,)


def _questions(fields: Fields, source: Source | None) -> dict[str, Asked]:
    if isinstance(source, QuerySource):
        for name in ("questions", "by", "bounds"):
            if fields.get(name) is not None:
                fields.wrong(name, "the query says this itself: leave the field out")
        return {}
    shared: dict[str, Bounds] = {}
    given = fields.get("bounds")
    if given is not None:
        columns = Fields(given, f"{fields.where}: bounds", fields.faults, given.fields)
        found = {name: bounds_in(columns, name) for name in given.fields}
        shared = {name: bounds for name, bounds in found.items() if bounds is not None}
    node = fields.get("questions")
    if node is None:
        fields.require(*(() if source is None else ("questions",)))
        return {}
    return questions_of(node, f"{fields.where}: questions", shared, fields.faults)


def _groups(release: Release, fields: Fields) -> None:
    """Find what does not go together about groups, keys and delta."""
    budget, query = release.budget, isinstance(release.source, QuerySource)
    if release.keys is not None and not release.by and not query:
        fields.wrong("keys", "there is no 'by' that they are keys of")
    if query and budget.rho is not None:
        fields.wrong("budget", "a query spends epsilon, not rho")
    if budget.delta is None or query:
        return
    if release.keys is not None:
        fields.wrong("budget", "delta is for secret keys, and these are listed: leave it out")
    elif not release.by:
        fields.wrong("budget", "delta is for secret keys, and there is no 'by': leave it out")
