"""The parts of the page about a ledger: words, rows of tables, and the drawing with its legend."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import datetime
from decimal import ROUND_CEILING, Context

from dfprivacy.display.ledger_facts import AccountFacts, ChargeFacts, LedgerFacts
from dfprivacy.display.markup import Markup, element, joined
from dfprivacy.display.staircase import MOST_LINES, Staircase, highest, staircases
from dfprivacy.display.words import left_out

_NEARLY = 99.99


def amount(value: float) -> str:
    """Return a number with up to 12 digits: 1e-6, not 1e-06.

    >>> amount(1e-6), amount(0.30000000000000004)
    ('1e-6', '0.3')
    """
    return f"{value:.12g}".replace("e-0", "e-").replace("e+0", "e")


def upper(value: float) -> str:
    """Return a number with up to 6 digits, rounded up: no loss is shown as less than it is.

    >>> upper(7.7662201), upper(0.5)
    ('7.76623', '0.5')
    """
    exact = Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(exact):.6g}"


def opening(facts: LedgerFacts) -> list[Markup]:
    """Return the head of the page."""
    said: list[object] = ["Nothing has been spent."]
    if facts.charges:
        charges = counted(len(facts.charges), "charge")
        first, last = (_moment(facts.charges[place].time) for place in (0, -1))
        said = [
            charges,
            f" to {counted(len(facts.accounts), 'dataset')}, ",
            first,
            " to ",
            last,
            ".",
        ]
    made = element("p", *said, " Page made ", _moment(facts.made), ".", class_="soft")
    return [element("h1", f"Privacy ledger {facts.name}"), made]


def counted(number: int, thing: str) -> str:
    """Return a number of things.

    >>> counted(1, "charge"), counted(2000, "charge")
    ('1 charge', '2,000 charges')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _moment(time: datetime) -> Markup:
    return element("time", f"{time:%Y-%m-%d %H:%M} UTC", datetime=time.isoformat())


def promise(facts: LedgerFacts) -> list[Markup]:
    """Return the promise in plain words."""
    epsilon, delta = facts.promise
    budget = f"{facts.measure} {amount(facts.budget.loss)}"
    budget += f" and delta {amount(facts.budget.delta)}" if facts.budget.delta else ""
    bound = f"epsilon {upper(epsilon)}" + (f" and delta {amount(delta)}" if delta else "")
    return [
        element(
            "section",
            element("h2", "The promise"),
            element(
                "p", "Each dataset may spend ", element("b", budget), ", and never more. ",
                "Whatever was asked and whatever will be, all releases about one dataset together "
                f"are differentially private with {bound}.",
            ),
            element("p", _in_plain_words(epsilon, delta)),
            class_="promise",
        )
    ]  # fmt: skip


def _in_plain_words(epsilon: float, delta: float) -> str:
    chance = math.ceil(1e4 * min(guess(epsilon, delta), 1.0)) / 100
    somebody = (
        "In plain words: take somebody who sees all releases, knows every other row, and would "
        "have to toss a coin over whether one more row (or one user, where a question says unit) "
        "is in the data or not. "
    )
    if chance >= _NEARLY:
        return somebody + (
            f"Such a guess may be right with a chance of more than {_NEARLY} %: a budget of this "
            "size promises little by itself. What the releases so far amount to stands below."
        )
    return somebody + (
        f"Such a guess is right with a chance of at most {chance:.2f} %, where the coin has 50 %."
    )


def guess(epsilon: float, delta: float) -> float:
    """Return the best chance of telling two neighbours apart at even odds: (e^eps+d)/(e^eps+1).

    That is the corner of the region of errors which (epsilon, delta) allows (Kairouz, Oh and
    Viswanath 2015).

    >>> guess(0.0, 0.0), round(guess(1.0, 0.0), 4)
    (0.5, 0.7311)
    """
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def account_rows(facts: LedgerFacts) -> list[list[object]]:
    """Return the cells of each dataset."""
    return [_account_row(facts, account) for account in facts.accounts]


def _account_row(facts: LedgerFacts, own: AccountFacts) -> list[object]:
    spent, left, budget = own.spent, own.left, facts.budget
    row: list[object] = [
        own.dataset, f"{own.charges:,}",
        joined(amount(spent.loss), _meter(spent.loss, budget.loss)), amount(left.loss),
        joined(amount(spent.delta), _meter(spent.delta, budget.delta)), amount(left.delta),
        _epsilon(own.total), _epsilon(own.tight),
    ]  # fmt: skip
    return [*row, f"{own.remembered:,}"] if facts.remembers else row


def _epsilon(value: float | None) -> str:
    return "" if value is None else upper(value)


def _meter(part: float, whole: float) -> Markup:
    """Return a bar of what is spent; none where there was nothing to spend."""
    if whole <= 0:
        return Markup("")
    filled = round(100 * min(part / whole, 1), 1)
    bars = [
        element("rect", width=length, height=8, class_=kind)
        for length, kind in ((100, "all"), (filled, "part"))
    ]
    return element(
        "svg", *bars, viewBox="0 0 100 8", preserveAspectRatio="none", class_="meter",
        aria_hidden="true",
    )  # fmt: skip


def charge_rows(facts: LedgerFacts, most: int) -> list[list[object]]:
    """Return the cells of the newest charges, the newest first."""
    newest = reversed(facts.charges[-most:])
    return [_charge_row(facts, charge) for charge in newest]


def _charge_row(facts: LedgerFacts, charge: ChargeFacts) -> list[object]:
    asked = f"{charge.asked} {amount(charge.amount)}"
    return [
        f"{charge.time:%Y-%m-%d %H:%M:%S}", charge.dataset, charge.question,
        *([asked] if facts.measure == "rho" else []), amount(charge.cost),
        amount(charge.delta) if charge.delta else "0", charge.note,
    ]  # fmt: skip


def spending(facts: LedgerFacts) -> Markup:
    """Return the drawing of what was spent over time, for the datasets that spent most."""
    stairs = _stairs(facts)
    shown = stairs[:MOST_LINES]
    top = highest(shown[0].parts[-1])
    about = f"Part of each budget of {facts.measure} that is spent, drawn up to {100 * top:g} %."
    lines = left_out(len(shown), len(stairs), "datasets", ", those that spent most")
    return element(
        "section", element("h2", "Spending over time"),
        element("p", about, class_="soft"),
        staircases(shown, 960, 300, "wide"), staircases(shown, 360, 240, "narrow"),
        element("ul", *map(_legend, range(len(shown)), shown), class_="legend"),
        *(element("p", line, class_="soft") for line in lines),
    )  # fmt: skip


def _legend(place: int, own: Staircase) -> Markup:
    swatch = element(
        "svg", element("path", d="M0 5H34", class_=f"line c{place}"), viewBox="0 0 34 10",
        aria_hidden="true",
    )  # fmt: skip
    return element("li", swatch, own.name)


def _stairs(facts: LedgerFacts) -> list[Staircase]:
    """Return the steps of each dataset, those that spent most first."""
    steps: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for charge in facts.charges:
        before = steps[charge.dataset][-1][1] if steps[charge.dataset] else 0.0
        part = before + charge.cost / facts.budget.loss
        steps[charge.dataset].append((charge.time.timestamp(), min(part, 1.0)))
    most = sorted(steps.items(), key=lambda item: (-item[1][-1][1], item[0]))
    return [Staircase(name, *map(tuple, zip(*own, strict=True))) for name, own in most]
