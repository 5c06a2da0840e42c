"""What a release would cost and how wrong it would be: a value that prints as a page."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from dfprivacy.accounting.charge import Budget, short
from dfprivacy.forecast.forecast import Forecast
from dfprivacy.forecast.pages import page_of, titled
from dfprivacy.forecast.reaching import Reach
from dfprivacy.forecast.tables import table_of

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
        return f"{name} {value:.6g} for {', '.join(self.questions)}"


@dataclass(frozen=True)
class Account:
    """What a ledger has left for a dataset before a release, and after it: None if too little."""

    dataset: str
    before: Budget
    after: Budget | None


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """A release before it is made. To make one reads no data and spends nothing.

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
        Sizes from which on a group of secret key is shown, with three probabilities.
    account : Account or None
        What the ledger has left, where one was named.
    remembered : bool
        Whether the ledger has made this very release before: it is then given again, and costs
        nothing.
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
        records = [record for answer in self.answers for record in answer.records()]
        return pa.Table.from_pylist(records, _TABLE)

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
            *self.details(),
            *(("draws", draw.text) for draw in self.draws),
        ]

    def details(self) -> list[tuple[str, str]]:
        """Return what is known of ledger, draws and groups."""
        lines = [] if self.account is None else [("ledger", _account_text(self.account))]
        if self.remembered:
            lines.append(("ledger", "it remembers this release: given again, for nothing"))
        if self.shown is not None:
            lines.append(("shown", f"groups: {self.shown}"))
        return lines

    def lines(self) -> list[str]:
        """Return the head as lines of at most 100 characters."""
        return [line for title, text in self.head() for line in titled(title, text)]

    def __repr__(self) -> str:
        """Show everything, in lines of at most 100 characters."""
        return page_of(self.lines(), self.answers, self.level)

    def _repr_html_(self) -> str:
        return table_of(self.head(), self.answers, self.level)


def _account_text(account: Account) -> str:
    before = account.before.arguments()
    if account.after is None:
        return f"{account.dataset!r} has {before} left: too little, the release would be refused"
    return f"{account.dataset!r} has {before} left, and {account.after.arguments()} afterwards"
