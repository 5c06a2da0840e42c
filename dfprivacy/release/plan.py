"""Plan a release before it is made: its questions, its price, and the account that pays.

Nothing here looks at data.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import pyarrow as pa

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import Contribution, Epsilon, Rho, read_delta, read_loss
from dfprivacy.accounting.memory import BOUNDS, LIMITS
from dfprivacy.accounting.spending import Account, NoAccount
from dfprivacy.errors import (
    InvalidLossError,
    InvalidQuestionError,
    InvalidUnitError,
    MissingDeltaError,
)
from dfprivacy.noise.laws import KeyRule
from dfprivacy.release.answers import Answers, arrow
from dfprivacy.release.terms import (
    INTERVAL,
    PublicKeys,
    Terms,
    Unit,
    UnlimitedUnit,
    interval_level,
    no_limit,
)
from dfprivacy.release.totals import totals

SEARCH = Fraction(1, 4)
"""Fraction of the loss that finds the limits of a unit, where none are given."""

SELECTION = "answer_selection"
"""Last part of the name of a count that selects the groups with a loss of its own."""

NOTE = "note"
"""Last part of the name of a column that says where an interval can't be relied on."""

ENDS = ("", "_low", "_high", f"_{NOTE}")
"""Last parts of the names of an answer's columns."""

GROUPING = "grouping"
"""The last column of totals: bit i says that key i is NULL because it is added up."""


def list_ends(columns: int) -> tuple[str, ...]:
    """Return the suffixes of the columns of an answer: two are a value and its note."""
    return ("", ENDS[-1]) if columns == 2 else ENDS[:columns]


POPULATION = "interval of the population"
"""The words in a question whose intervals include sampling error."""

SHOWN_TOTALS = "totals are sums of the groups that are shown"
"""The note on totals that lack the groups whose noisy counts are too low."""


@dataclass(frozen=True)
class ReleaseInfo:
    """Facts that all answers of a release share: question, cost, level, unit, selection.

    `unit` has the limits within which rows counted. `shown_from` is the noisy count from which a
    group of secret keys is shown. `limits` has the limits that were found for each answer, and
    `shares` says about how much of the rows counts within them; `notes` warn of the rest. `bounds`
    has those that were found for each answer, by column. All `answers` together cost the loss and
    the delta. `mark` tells the release from all others, in
    copies of its estimates too.
    """

    question: str
    loss: Epsilon | Rho
    delta: float
    level: float
    unit: Unit | None = None
    shown_from: int | None = None
    answers: int = field(default=1, compare=False)
    limits: Mapping[str, Unit] = field(default_factory=dict, compare=False)
    shares: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    notes: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    bounds: Mapping[str, Sequence[tuple[float, float]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    mark: str = field(default="", compare=False, repr=False)

    @property
    def cost(self) -> str:
        """The loss and delta in words."""
        return cost_text(self.loss, self.delta, self.answers)

    def limits_text(self, name: str, note: str | None = None) -> str:
        """Return the limits that were found for an answer, and the share of rows within.

        The share is left out where a note beside the limits has it.
        """
        unit = self.limits.get(name)
        if unit is None:
            return ""
        groups = "" if unit.max_groups is None else f", max_groups={unit.max_groups}"
        limits, share = f"max_rows={unit.max_rows}{groups}", self.shares[name]
        return limits if share in (note or "") else f"{limits}: {share} counts"


def cost_text(loss: Epsilon | Rho, delta: float, answers: int = 1) -> str:
    """Return a loss and a delta in words.

    >>> cost_text(Epsilon(Fraction(1)), 1e-6), cost_text(Rho(Fraction(1, 2)), 0.0, 3)
    ('epsilon=1, delta=1e-06', 'rho=0.5 for all 3')
    """
    shared = {1: "", 2: " for both"}.get(answers, f" for all {answers}")
    spent = f"{loss.measure}={float(loss.value):.6g}"
    return f"{spent}{f', delta={delta:.6g}' if delta else ''}{shared}"


@dataclass(frozen=True)
class LimitSearch:
    """A search for the limits of a unit, for a fraction of the loss."""

    unit: UnlimitedUnit
    loss: Epsilon | Rho


class PartLimits(NamedTuple):
    """The contribution of a unit to a part, and the loss that pays for it.

    `shared` is the largest limit of rows of all parts, which is that of the release.
    """

    contribution: Contribution
    loss: Epsilon | Rho
    shared: int


@dataclass(frozen=True)
class Lost:
    """The effect of the limits of a unit on the answers of a mechanism.

    `share` says how much of the rows, or of the weight of a sum, counts. The value without limits
    is at most `below` less and `above` more than the answer's, but for noise. With a `note` that is
    not certain.
    """

    share: str
    below: float = 0.0
    above: float = 0.0
    note: str | None = None


@dataclass(frozen=True)
class Plan:
    """A release that is checked and priced. No data has been read.

    `mark` is the fingerprint under which a ledger remembers the release, None where it does not.
    Each of the `parts` answers some questions from one pass, for its loss among the `losses` and
    within the limits in `contributions`. `rule_delta` is what a noisy count spends to show a
    group; None for public keys or no groups. `unit` has the limits for these groups: the smallest
    ones where a `search` finds them. `lost` is the effect of these limits, which intervals and
    notes have if it `notes_limits`. Without a unit each row counts as `copies` rows at most. `sets`
    are grouping sets, as places in `by`, whose answers are totals of the groups.

    `names` are the columns of the table, the last one more than its answers have where it shows
    their counts; without them an answer's columns begin with its name.
    """

    charge: Charge
    account: Account | NoAccount
    mark: bytes | None = None
    level: float = float(INTERVAL)
    by: Sequence[Hashable] = ()
    keys: PublicKeys | None = None
    unit: Unit | None = None
    questions: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Any, ...] = ()
    losses: tuple[Epsilon | Rho, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    rule_delta: Fraction | None = None
    search: LimitSearch | None = None
    sets: tuple[tuple[int, ...], ...] = ()
    copies: int = 1
    names: tuple[str, ...] = ()
    lost: tuple[Lost | None, ...] = ()
    notes_limits: bool = False

    subject: ClassVar[Any] = ""
    """The column that its table is about, if it is about one."""
    has_independent_rows: ClassVar[bool] = True
    """False where rows of its table share noise."""
    remark: ClassVar[str] = ""
    """Remark of forecasts on how its groups are selected."""

    @classmethod
    def of_plan(cls, plan: Plan, **changes: Any) -> Self:
        """Return a plan of this class with the fields of another one."""
        facts = {attribute.name: getattr(plan, attribute.name) for attribute in fields(plan)}
        return cls(**{**facts, **changes})

    @cached_property
    def row_losses(self) -> tuple[Epsilon | Rho, ...]:
        """The loss of one row for each part."""
        pairs = zip(self.contributions, self.losses, strict=True)
        return tuple(contribution.row_loss(loss) for contribution, loss in pairs)

    @cached_property
    def rule(self) -> KeyRule | None:
        """The rule that selects groups by their noisy counts, if one does."""
        if self.rule_delta is None:
            return None
        return self.contributions[index_of_counting_part(self.parts)].key_rule(self.rule_delta)

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The columns that tell the rows of the table apart."""
        return tuple(map(str, self.by))

    @cached_property
    def info(self) -> ReleaseInfo:
        """The facts that all answers share."""
        shown_from = None
        if self.rule is not None and self.parts and self.search is None:
            counting = index_of_counting_part(self.parts)
            law = self.parts[counting].count_noise(self.row_losses[counting])
            shown_from = -(-self.rule.threshold(*law) // law[1])
        delta = float(self.charge.delta) if self.by else 0.0
        limits = [
            (name, replace(self.unit, max_rows=within.rows), lost)
            for part, within, lost in zip(self.parts, self.contributions, self.lost, strict=False)
            if self.unit is not None and lost is not None
            for name in part.names
        ]
        notes = {name: lost.note for name, _, lost in limits if lost.note}
        if self.unit is not None and self.search is None and not limits:
            notes = {
                name: note
                for part in self.parts
                if (note := self._describe_limits(self.unit, part))
                for name in part.names
            }
        return ReleaseInfo(
            self.charge.question,
            self.charge.loss,
            delta,
            self.level,
            self.unit,
            shown_from,
            limits={name: unit for name, unit, _ in limits},
            shares={name: lost.share for name, _, lost in limits},
            notes=notes,
        )

    def _describe_limits(self, unit: Unit, part: Any) -> str | None:
        """Return a note on the rows that named limits leave out of the answers of a part."""
        rows, groups, texts = unit.max_rows, unit.max_groups, []
        if not part.counts_units:
            many = f"{rows} row{'s' * (rows > 1)}{' in a group' if self.by else ''}"
            texts.append(f"a unit with more than {many} counts as {rows}")
        if self.by and groups is not None:
            many = f"{groups} group{'s' * (groups > 1)}"
            texts.append(f"{'one' if texts else 'a unit'} in more than {many} counts in {groups}")
        return ", ".join(texts) or None

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines about all answers: the limits that were found, and what they leave out."""
        texts = {name: self.questions[name].text for name in self.info.limits}
        info = self.info
        lines = (
            f"{text}: {info.limits_text(name, info.notes.get(name))}"
            for name, text in texts.items()
        )
        totals = (SHOWN_TOTALS,) if self.sets and self.rule is not None else ()
        return (*lines, *self.limit_notes, *totals)

    @property
    def limit_notes(self) -> tuple[str, ...]:
        """The notes about limits, unless the released table has a column of notes on them."""
        notes = {} if self.notes_limits else self.info.notes
        if not self.lost:
            return tuple(dict.fromkeys(notes.values()))
        return tuple(f"{self.questions[name].text}: {note}" for name, note in notes.items())

    def within(self, rows: Sequence[int], groups: int | None) -> Self:
        """Return the plan with limits of the rows of each part, and of the groups of a unit."""
        unit = self.unit
        if unit is None:
            return self
        shared = max(rows)
        contributions = tuple(
            replace(within, rows=limit, groups=groups or within.groups)
            for within, limit in zip(self.contributions, rows, strict=True)
        )
        facts = zip(self.parts, contributions, self.losses, strict=True)
        parts = (
            part.within_limits(PartLimits(within, loss, shared)) for part, within, loss in facts
        )
        limited = replace(unit, max_rows=shared, max_groups=groups)
        return replace(self, unit=limited, parts=tuple(parts), contributions=contributions)

    def tabulate(self, answers: Answers) -> pa.Table:
        """Return one row for each group that is shown: its keys, then the columns of answers."""
        if not self.sets:
            return self.list_groups(answers)
        tables = []
        for by in self.sets:
            table = self.list_groups(totals(answers, by))
            bits = sum(1 << index for index in range(len(self.by)) if index not in by)
            column = pa.array([bits] * table.num_rows, pa.int64())
            tables.append(table.append_column(GROUPING, column))
        return pa.concat_tables(tables)

    def build_table(self, answers: Answers) -> pa.Table:
        """Return the table of answers, whose metadata have bounds and limits that were found."""
        facts, bounds = {}, answers.list_bounds()
        if bounds:
            facts[BOUNDS] = json.dumps(bounds)
        if self.unit is not None and self.lost:
            rows = [within.rows for within in self.contributions]
            lost = [effect and asdict(effect) for effect in self.lost]
            facts[LIMITS] = json.dumps((rows, self.unit.max_groups, lost))
        return self.tabulate(answers).replace_schema_metadata(facts or None)

    def recall_limits(self, table: pa.Table) -> Self:
        """Return the plan within the limits that were found for a table that a ledger has kept."""
        facts = (table.schema.metadata or {}).get(LIMITS)
        if facts is None:  # an older version kept none
            return self
        rows, groups, effects = json.loads(facts)
        lost = tuple(effect and Lost(**effect) for effect in effects)
        return replace(self.within(rows, groups), search=None, lost=lost)

    def list_doubts(self, table: pa.Table) -> tuple[str, ...]:  # noqa: ARG002 of any plan
        """Return the notes on what a released table does not know; limits have notes apart."""
        return ()

    def list_notes(self, table: pa.Table) -> tuple[str, ...]:
        """Return the lines about a released table: all notes, and the bounds that were found."""
        bounds_by_text = {
            self.questions[name].text: bounds_text(bounds)
            for name, bounds in read_found_bounds(table).items()
        }
        texts = (f"{bounds} for {text}" for text, bounds in bounds_by_text.items())
        bounds = [f"Bounds found: {', '.join(texts)}."] if bounds_by_text else []
        return (*self.notes, *self.list_doubts(table), *bounds)

    def list_groups(self, answers: Answers) -> pa.Table:
        """Return one row for each group of all keys."""
        names, columns = list(map(str, self.by)), []
        if self.by:
            columns += [keys.combine_chunks() for keys in answers.keys.columns]  # one, if empty too
        for name, parts in answers.answers.items():
            suffixes = self.questions[name].suffixes if not self.names else ("",) * len(parts)
            for suffix, answer in zip(suffixes, parts, strict=True):
                values = answer.columns(self.level)
                columns += [arrow(value, answer.declared) for value in values]
                names += [f"{name}{suffix}{end}" for end in list_ends(len(values))]
        if len(columns) < len(self.names):
            columns.append(pa.array(answers.counted.column()[answers.groups_shown]))
        return pa.table(columns, names=list(self.names or names))


def read_found_bounds(table: pa.Table) -> dict[str, list[tuple[float, float]]]:
    """Return the bounds that were found for the questions of a released table, by column."""
    bounds: dict[str, Any] = json.loads((table.schema.metadata or {}).get(BOUNDS, b"{}"))
    return bounds


def bounds_text(bounds: Sequence[tuple[float, float]]) -> str:
    """Return bounds of some columns in words.

    >>> bounds_text([(0.0, 64.0), (-1.5, 1.5)])
    '0 to 64 and -1.5 to 1.5'
    """
    return " and ".join(f"{lower:g} to {upper:g}" for lower, upper in bounds)


def name_columns(
    parts: Sequence[Any],
    questions: Mapping[str, Any],
    keys: Sequence[str],
    *,
    has_notes: bool = False,
    short: bool = True,
) -> tuple[str, ...]:
    """Return the columns of a release by group; ones called low, high or count stay so.

    The ends of the only answer are low and high, unless `short` is False: then they have its name.
    The last one is the count of a group, unless that is an answer. A count within the limits of
    another answer is not shown.
    """
    answers = [
        (name, has_interval, questions[question].has_note or has_notes)
        for question, name, has_interval in list_answers(parts, questions)
    ]
    used = {*keys, *(name for name, _, _ in answers)}
    alone = short and len(answers) == 1 and not used & {"low", "high", NOTE}
    names = list(keys)
    for name, has_interval, has_note in answers:
        ends = [*(["low", "high"] if has_interval else []), *([NOTE] if has_note else [])]
        names += [name, *(ends if alone else [f"{name}_{end}" for end in ends])]
    if not has_notes and not parts[index_of_counting_part(parts)].answers_count:
        names.append("count" if "count" not in used else "rows")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidQuestionError(
            f"two columns of the result would be called {twice!r}",
            hint="name the answer: .agg(delay=dfp.mean(...)) or rename the group column",
        )
    return tuple(names)


def list_answers(parts: Sequence[Any], questions: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Return the question, the name and the kind of each answer: whether it has an interval."""
    answers: dict[str, list[tuple[str, str, bool]]] = {question: [] for question in questions}
    for part in parts:
        for question, names in part.names.items():
            answers.setdefault(question, []).extend((question, *pair) for pair in names.items())
    return [answer for question in questions for answer in answers[question]]


def index_of_counting_part(parts: Sequence[Any]) -> int:
    """Return the index of the part whose counts select the groups: of all units, else the first.

    A part that counts chosen units does so where no other part counts.
    """
    ranks = {
        index: 2 * part.counts_chosen if part.counts_units else 1
        for index, part in enumerate(parts)
        if part.counts
    }
    return min(ranks, key=ranks.__getitem__, default=0)


def plan_release(
    question: str,
    terms: Terms,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    losses: Sequence[Epsilon | Rho],
    *,
    parts: Sequence[Any] = (),
    questions: Mapping[str, Any] | None = None,
    selections: int = 1,
    known_by: Mapping[str, object] | None = None,
    sampled: bool = False,
) -> Plan:
    """Return the plan of a release; `losses` is the loss of each of its `parts`, for all together.

    `selections` noisy counts of a group select it together. `known_by` tells this release from
    others that a ledger remembers, beside question, level, keys and costs; None leaves it
    forgotten. `sampled` says that the parts know intervals of the population.
    """
    level, delta = interval_level(terms.interval), read_delta(terms.delta)
    if not by or keys is not None:  # no group is selected by its noisy count
        delta = None
    elif delta is None:
        raise MissingDeltaError(
            "group keys are secret, and showing them needs a delta",
            hint="pass delta=1e-6, or list keys that are public anyway: group_by(..., keys=[...])",
        )
    unit, contribution = limit_unit(terms.unit, by, keys)
    text = question if unit is None else f"{question}; {unit.text}"
    marks: dict[str, object] = dict(known_by or {})
    if terms.population and not sampled:
        raise InvalidQuestionError(
            "this release has no intervals of the population",
            hint="ask a frame for counts, shares, sums, means, variances or deviations, or leave "
            "population out",
        )
    if terms.population:
        marks["of"], text = "population", f"{text}; {POPULATION}"
    if terms.files is not None:
        contribution = replace(contribution, parts=terms.files.parts)
        many = f"from {len(terms.files.ids)} files, parts_per_unit={terms.files.parts}"
        text, marks["files"] = f"{text}; {many}", terms.files
    if unit is None and terms.copies > 1:
        contribution = replace(contribution, parts=contribution.parts * terms.copies)
        text, marks["copies"] = f"{text}; each row as {terms.copies} rows", terms.copies
    charge = Charge(add_losses(losses), delta or Fraction(0), text)
    account, mark = terms.account, None
    if known_by is not None:
        marks |= {"keys": None if keys is None else keys.rows, "interval": level}
        marks |= {"measure": type(charge.loss).__name__, "loss": charge.loss.value}
        mark = account.fingerprint(text, {**marks, "delta": charge.delta})
    plan = Plan(
        charge,
        account,
        mark,
        level,
        by,
        keys,
        unit,
        questions or {},
        tuple(parts),
        tuple(losses),
        (contribution,) * len(losses),
        None if delta is None else delta / selections,
        copies=terms.copies,
    )
    if unit is None or not parts:
        return plan
    rows = [1 if part.counts_units else unit.max_rows for part in parts]
    return plan.within(rows, unit.max_groups)


@dataclass(frozen=True)
class JointPlan(Plan):
    """Several plans of the same terms, which are charged, remembered and paid once."""

    plans: tuple[Plan, ...] = ()

    @classmethod
    def of(cls, plans: Sequence[Plan], form: str) -> JointPlan:
        """Return one plan of several; `form` tells its release from others of the same plans."""
        first = plans[0]
        charge = Charge(
            add_losses([plan.charge.loss for plan in plans]),
            sum((plan.charge.delta for plan in plans), start=Fraction(0)),
            "; ".join(plan.charge.question for plan in plans),
        )
        marks = [plan.mark.hex() for plan in plans if plan.mark is not None]
        known_by = {"form": form, "releases": marks}
        mark = first.account.fingerprint(charge.question, known_by) if marks else None
        return cls(charge, first.account, mark, first.level, plans=tuple(plans))


def add_losses(losses: Sequence[Epsilon | Rho]) -> Epsilon | Rho:
    """Return the sum of losses of one kind."""
    kinds = {type(loss) for loss in losses}
    if len(kinds) > 1:
        raise InvalidLossError(
            "some questions spend epsilon and the others share a rho",
            hint="name epsilon everywhere, or rho alone",
        )
    return kinds.pop()(sum((loss.value for loss in losses), start=Fraction(0)))


def needs_limits(unit: Unit | None, by: Sequence[Hashable], keys: PublicKeys | None) -> bool:
    """Check whether a release has to find limits of its unit first."""
    if isinstance(unit, UnlimitedUnit):
        return True
    return unit is not None and unit.max_groups is None and bool(by) and keys is None


def with_search(plan: Plan, unit: Unit) -> Plan:
    """Return a plan that finds missing limits of its unit first; `plan` has the smallest ones."""
    rows = isinstance(unit, UnlimitedUnit) and unit.rows
    unlimited = UnlimitedUnit(unit.column, unit.max_rows, unit.max_groups, rows)
    rest = plan.charge.loss
    kind, total = type(rest), rest.value / (1 - SEARCH)
    text = plan.charge.question
    text = f"{text[: text.rindex('; unit=')]}; {unlimited.text}"
    mark = plan.mark and plan.account.fingerprint(text, {"rest": plan.mark.hex()})
    charge = replace(plan.charge, loss=kind(total), question=text)
    search = LimitSearch(unlimited, kind(total - rest.value))
    return replace(plan, charge=charge, mark=mark, search=search)


def with_smallest_limits(
    terms: Terms, unit: Unit, by: Sequence[Hashable], keys: PublicKeys | None
) -> Terms:
    """Return terms with the smallest limits of a unit and the loss that a search leaves."""
    groups = unit.max_groups or (1 if by and keys is None else None)
    loss = read_loss(terms.epsilon, terms.rho).share(1 - SEARCH)
    smallest = Unit(unit.column, unit.max_rows, groups)
    return terms.update(**{loss.measure: loss.value}, unit=smallest)


def limit_unit(
    unit: Unit | None, by: Sequence[Hashable], keys: PublicKeys | None
) -> tuple[Unit | None, Contribution]:
    """Return the unit with the limits for these groups, and its largest contribution."""
    if unit is None:
        return None, Contribution()
    if isinstance(unit, UnlimitedUnit):
        raise no_limit()
    if not by:
        return Unit(unit.column, unit.max_rows), Contribution(unit.max_rows)
    groups, listed_groups = unit.max_groups, None if keys is None else len(keys.rows)
    if groups is None and listed_groups is None:
        raise InvalidUnitError(
            "a unit may be in any number of groups, and nothing says in how many it counts",
            hint="pass max_groups=3, or list keys that are public: group_by(..., keys=[...])",
        )
    if groups is None or (listed_groups is not None and listed_groups <= groups):
        assert listed_groups is not None  # noqa: S101 one of both is there
        return Unit(unit.column, unit.max_rows), Contribution(unit.max_rows, listed_groups)
    return unit, Contribution(unit.max_rows, groups)
