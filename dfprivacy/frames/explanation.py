"""Show what a release would cost and how wrong it would be, as a page of text and as HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.frames.viz.text import rendered
from dfprivacy.statistics.forecast import Forecast, Reach

_WIDTH, _TITLE = 100, 10

_TABLE = pa.schema(
    {
        "answer": pa.string(),
        "question": pa.string(),
        "rows": pa.int64(),
        "certain": pa.float64(),
        "ordinary": pa.float64(),
        "unit": pa.string(),
    }
)


@dataclass(frozen=True, repr=False)
class Draw:
    """One noisy vector or selection: what it costs, and the questions that it answers.

    >>> Draw(0.5, ("count()",))
    Draw(epsilon=0.5, questions=('count()',))
    """

    epsilon: float | None
    questions: tuple[str, ...]
    rho: float | None = None

    def __repr__(self) -> str:
        """Show the one measure that counts."""
        loss = f"epsilon={self.epsilon!r}" if self.rho is None else f"rho={self.rho!r}"
        return f"Draw({loss}, questions={self.questions!r})"

    @property
    def text(self) -> str:
        """What it costs, and for what."""
        name, value = ("epsilon", self.epsilon) if self.rho is None else ("rho", self.rho)
        return f"{name} {value:.6g} on {', '.join(self.questions)}"


@dataclass(frozen=True)
class Account:
    """What a ledger has left for a dataset before a release, and after it: None if too little."""

    dataset: str
    before: Budget
    after: Budget | None


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """The cost and the error of a release that is not made. It reads no data and spends nothing.

    Attributes
    ----------
    asks : str
        What is asked, as a ledger's history would show it.
    protects : str
        Who may be added or removed.
    epsilon, rho : float or None
        What the whole release costs one privacy unit: the one that was named.
    delta : float
        What secret group keys cost on top.
    draws : tuple of Draw
        How the loss is shared; the losses of all draws add up to it.
    level : float
        The level of half-widths.
    answers : tuple of Forecast
        Each answer with its noise and its half-widths.
    shown : Reach or None
        Sizes from which on a group of secret keys is shown, for three probabilities.
    account : Account or None
        What the ledger has left, where one was named.
    remembered : bool
        Whether the ledger remembers this release: it is then returned again, at no cost.
    reaches : str
        What epsilon or rho was found for, where a half-width was named instead of it.
    """

    asks: str
    protects: str
    epsilon: float | None
    rho: float | None = None
    delta: float = 0.0
    draws: tuple[Draw, ...] = ()
    level: float = 0.95
    answers: tuple[Forecast, ...] = ()
    shown: Reach | None = None
    account: Account | None = None
    remembered: bool = False
    reaches: str = ""

    def __getitem__(self, name: str) -> Forecast:
        """Return the forecast of an answer by its name.

        Raises
        ------
        KeyError
            When no answer is called that.
        """
        for answer in self.answers:
            if answer.name == name:
                return answer
        raise KeyError(name)

    @property
    def table(self) -> pa.Table:
        """Every half-width, one row an answer and size: answer, question, rows, certain, ..."""
        records = [
            (answer.name, answer.question, *halves, answer.unit)
            for answer in self.answers
            for halves in zip(answer.rows, answer.certain, answer.ordinary, strict=True)
        ]
        rows = [dict(zip(_TABLE.names, record, strict=True)) for record in records]
        return pa.Table.from_pylist(rows, _TABLE)

    @property
    def cost(self) -> str:
        """The charge in words."""
        name, value = ("epsilon", self.epsilon) if self.rho is None else ("rho", self.rho)
        cost = f"{name} {short(Fraction(repr(value)))}"
        return f"{cost}, delta {short(Fraction(repr(self.delta)))}" if self.delta else cost

    def head(self) -> list[tuple[str, str]]:
        """Return the lines above the answers, each with its title."""
        return [
            ("asks", self.asks),
            ("protects", self.protects),
            ("costs", self.cost),
            *([("reaches", self.reaches)] if self.reaches else ()),
            *self.details(),
            *(("spends", draw.text) for draw in self.draws),
        ]

    def details(self) -> list[tuple[str, str]]:
        """Return what is known of ledger, draws and groups."""
        lines = [] if self.account is None else [("ledger", _account_text(self.account))]
        if self.remembered:
            lines.append(("ledger", "remembers this release: it is returned again, at no cost"))
        if self.shown is not None:
            lines.append(("groups", f"are shown {self.shown}"))
        return lines

    def lines(self) -> list[str]:
        """Return the head as lines of at most 100 characters."""
        return [line for title, text in self.head() for line in _titled(title, text)]

    def __repr__(self) -> str:
        """Show everything, in lines of at most 100 characters."""
        lines = self.lines()
        for answer in self.answers:
            lines += ["", *_answer_lines(answer, self.level)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        answers = [(own, _facts(own, self.level), list(_widths(own))) for own in self.answers]
        return rendered("explanation.html", head=self.head(), answers=answers)


def _account_text(account: Account) -> str:
    before = account.before.arguments()
    if account.after is None:
        return f"{account.dataset!r} has {before} left: too little, so the release would be refused"
    return f"{account.dataset!r} has {before} left, and {account.after.arguments()} afterwards"


def _titled(title: str, text: str) -> list[str]:
    """Return a text behind its title, wrapped."""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"{title:<{_TITLE - 1}} ", subsequent_indent=" " * _TITLE,
        break_on_hyphens=False,
    )  # fmt: skip


def _answer_lines(answer: Forecast, level: float) -> list[str]:
    """Return what is known of one answer."""
    if len(answer.name) < _TITLE:
        lines = _titled(answer.name, answer.question)
    else:
        lines = [*textwrap.wrap(f"{answer.name}:", _WIDTH), *_titled("", answer.question)]
    for title, text in _facts(answer, level):
        lines += _titled("", f"{title}: {text}")
    columns = zip(*_widths(answer), strict=True)
    return lines + [f"{'':<{_TITLE}}{name:<9}{_aligned(texts)}" for name, *texts in columns]


def _aligned(texts: Sequence[str]) -> str:
    return "".join(f"{text:>12}" for text in texts)


def _facts(answer: Forecast, level: float) -> list[tuple[str, str]]:
    """Return what is known besides half-widths, each with its title."""
    noise = answer.mechanism
    if answer.scale is not None:
        noise = f"{noise}, scale {_number(answer.scale)} ({answer.scale_unit})"
    found = [("Noise", noise)]
    if answer.answered is not None:
        found.append(("There is an answer", str(answer.answered)))
    if answer.halve:
        *first, last = answer.halve
        either = f"{', '.join(first)}{',' * (len(first) > 1)} or {last}" if first else last
        found.append(("To halve the error", either))
    found += [("Note", remark) for remark in answer.remarks]
    if answer.told:
        found.append((f"Half-width at {100 * level:.6g}%", f"in {answer.unit}"))
    return found


def _widths(answer: Forecast) -> Iterator[tuple[str, ...]]:
    """Yield the table of half-widths under its heads; nothing where none is known."""
    if answer.told:
        shown = 3 if any(half is not None for half in answer.ordinary) else 2
        yield ("rows", "at most", "ordinary")[:shown]
        for rows, *halves in zip(answer.rows, answer.certain, answer.ordinary, strict=True):
            yield (f"{rows:,}", *map(_number, halves))[:shown]


def _number(value: float | None) -> str:
    """Return a number with three digits.

    >>> _number(0.0123456), _number(12345.0), _number(1e-9), _number(None)
    ('0.0123', '12,345', '1e-09', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"
