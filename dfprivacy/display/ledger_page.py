"""The page about a ledger: one file that fetches nothing, with tables, a drawing and a script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from dfprivacy.display.ledger_facts import LedgerFacts
from dfprivacy.display.ledger_sections import (
    account_rows,
    amount,
    charge_rows,
    opening,
    promise,
    spending,
)
from dfprivacy.display.markup import Markup, element, joined
from dfprivacy.display.words import left_out

MOST_CHARGES = 10_000
"""So many charges are listed, the newest; every one of them counts in what is spent."""


@dataclass(frozen=True)
class Column:
    """The head of a column, and whether it holds numbers."""

    head: str
    numeric: bool = False
    class_: str = ""

    @property
    def written(self) -> str:
        """The class of the cells."""
        return "n" if self.numeric else self.class_


def ledger_page(facts: LedgerFacts) -> str:
    """Return the page. Its policy lets a browser load nothing and run this one script alone."""
    tables = [_accounts(facts), _charges(facts)] if facts.charges else []
    style = _resource("report.css") + "".join(table.phone_labels for table in tables)
    script = _resource("report.js")
    body = element(
        "body", *opening(facts), *promise(facts), *(_body(facts, tables) if tables else ()),
        element("footer", element("p", _FOOTER)),
        element("script", Markup(script)),
    )  # fmt: skip
    return f"<!doctype html>\n{element('html', _head(facts, style, script), body, lang='en')}\n"


_FOOTER = (
    "Made by dfprivacy. This page shows what was asked and what it cost. It holds no rows and no "
    "answers, and it loads nothing from anywhere."
)


def _head(facts: LedgerFacts, style: str, script: str) -> Markup:
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return element(
        "head", element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", f"Privacy ledger {facts.name}"), element("style", Markup(style)),
    )  # fmt: skip


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _resource(name: str) -> str:
    return files("dfprivacy.display").joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Table:
    """A table by its columns and the cells of its rows; sorted by its first column."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    sorted_by: str

    def markup(self) -> Markup:
        """Return the table."""
        heads = []
        for place, column in enumerate(self.columns):
            sorts = {"aria_sort": self.sorted_by} if place == 0 else {}
            kind = {"class_": column.written} if column.written else {}
            heads.append(element("th", column.head, scope="col", **kind, **sorts))
        body = element("tbody", *map(self._row, self.rows))
        head = element("thead", element("tr", *heads))
        return element("table", head, body, id=self.name, aria_label=self.caption)

    def _row(self, cells: Sequence[object]) -> Markup:
        return element(
            "tr",
            *(
                element("td", cell, **({"class_": column.written} if column.written else {}))
                for column, cell in zip(self.columns, cells, strict=True)
            ),
        )

    @property
    def phone_labels(self) -> str:
        """The rules that name each cell where a row is a card and has no heads above it."""
        rules = [
            f'#{self.name} td:nth-child({place})::before {{ content: "{column.head}: "; }}'
            for place, column in enumerate(self.columns, start=1)
        ]
        return f"@media (max-width: 800px) {{\n{chr(10).join(rules)}\n}}\n"


def _accounts(facts: LedgerFacts) -> Table:
    columns = [
        Column("dataset"), Column("charges", numeric=True),
        Column(f"{facts.measure} spent", numeric=True), Column("left", numeric=True),
        Column("delta spent", numeric=True), Column("delta left", numeric=True),
        Column("together", numeric=True), Column("tight", numeric=True),
        *([Column("remembered", numeric=True)] if facts.remembers else []),
    ]  # fmt: skip
    rows = account_rows(facts)
    return Table("accounts", "What each dataset has spent and left", columns, rows, "ascending")


def _charges(facts: LedgerFacts) -> Table:
    other = facts.measure == "rho"
    columns = [
        Column("time (UTC)", class_="t"), Column("dataset"), Column("question", class_="q"),
        *([Column("asked", class_="t")] if other else []), Column(facts.measure, numeric=True),
        Column("delta", numeric=True), Column("note"),
    ]  # fmt: skip
    rows = charge_rows(facts, MOST_CHARGES)
    return Table("charges", "Charges, the newest first", columns, rows, "descending")


def _body(facts: LedgerFacts, tables: Sequence[Table]) -> list[Markup]:
    accounts, charges = tables
    listed = left_out(len(charges.rows), len(facts.charges), "charges", ", the newest")
    return [
        element("section", element("h2", "Spent and left"), accounts.markup(), *_notes(facts)),
        spending(facts),
        element(
            "section", element("h2", "Charges"), *(element("p", line) for line in listed),
            _filter(), charges.markup(),
        ),
    ]  # fmt: skip


def _filter() -> Markup:
    box = element("input", id="filter", type="search", autocomplete="off", spellcheck="false")
    label = element("label", "Show only charges with ", box)
    status = element("span", id="shown", role="status", class_="soft")
    return Markup(element("div", label, status, class_="filter").replace(">", " hidden>", 1))


def _notes(facts: LedgerFacts) -> list[Markup]:
    together = (
        f"together: the epsilon that all releases of the dataset so far amount to at delta "
        f"{amount(facts.quoted_delta)}; tight: the same by privacy loss distributions. Both may be "
        "quoted where costs were settled before the first answer was seen; the promise above "
        "holds in any case."
    )
    lines = [together, *([facts.tells_tight] if facts.tells_tight else [])]
    return [joined(*(element("p", line, class_="soft") for line in lines))]
