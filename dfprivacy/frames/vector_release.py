"""Release means of vectors, whole or by group: one reading of the source serves all groups at once.

These methods are adaptive: they draw noise between passes. Everything is therefore charged before
the first random byte, and what can be refused is refused by declared types before that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.accounting.loss import Rho, read_loss
from dfprivacy.accounting.spending import NoAccount
from dfprivacy.engine.adopt import Columns
from dfprivacy.engine.keys import align, find_keys
from dfprivacy.engine.progress import watch_progress
from dfprivacy.engine.returning import check_schema
from dfprivacy.errors import InvalidLedgerError, InvalidLossError, InvalidQuestionError, boundary
from dfprivacy.frames.releasing import By, FrameSource, plan_question, release_frame, release_plan
from dfprivacy.frames.viz.charts import Dot, vector_chart
from dfprivacy.frames.viz.text import MeasuredIn, render
from dfprivacy.measurement.exact import decimal_number
from dfprivacy.measurement.linear import ROWS
from dfprivacy.measurement.sums import Statistics, key_names, merge, sum_name
from dfprivacy.measurement.vectors import Buffers, Floats, VectorGrid, VectorTable, vector_grid
from dfprivacy.noise.additive import add_noise
from dfprivacy.release.pipeline import Release, charge_plan, check_charge
from dfprivacy.release.plan import Plan, ReleaseInfo, plan_release
from dfprivacy.release.terms import PublicKeys, Terms, interval_level
from dfprivacy.statistics.estimators.vector_means import (
    RELATIONS,
    ClippedMean,
    NoisyMean,
    NoisyRows,
    Passes,
    PlanItems,
    PlanMean,
    RecenteredMean,
    ShiftedMean,
)
from dfprivacy.statistics.mean_vector import (
    MeanVector,
    VectorSource,
    by_group,
    open_source,
    prepare_block,
)


@boundary
@dataclass(frozen=True, eq=False, repr=False)
class VectorEstimate:
    """A private mean of vectors. It behaves like a sequence of floats and like a numpy array.

    >>> import dfprivacy as dfp, numpy as np, polars as pl
    >>> frame = pl.DataFrame({"x": np.linspace(0, 1, 5000), "y": np.linspace(1, 2, 5000)})
    >>> mean = frame.dp.mean_vector(["x", "y"], rho=0.5, radius=10)
    >>> len(mean), bool(abs(np.asarray(mean) - [0.5, 1.5]).max() < 0.2)
    (2, True)
    """

    question: MeanVector
    noisy: NoisyMean
    info: ReleaseInfo

    @property
    def values(self) -> Floats:
        """The mean, one float64 a coordinate, in units of the columns."""
        return self.noisy.value()

    def interval(self, level: float | None = None) -> tuple[Floats, Floats]:
        """Return ends, one a coordinate, that cover the noise with probability `level` each.

        They cover what noise does to the clipped mean: not sampling error, and not what clipping
        and quantisation have done. No interval is wider than what clipping allows. `level` lies
        between 0 and 1.
        """
        chosen = self.info.level if level is None else interval_level(level)
        return self.noisy.interval(chosen)

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals at the level asked for."""
        return self.interval()[0]

    @property
    def high(self) -> Floats:
        """Upper ends of the intervals at the level asked for."""
        return self.interval()[1]

    @property
    def std_error(self) -> Floats:
        """Standard deviation of the noise in each coordinate, to first order."""
        return self.noisy.standard_error()

    @property
    def count(self) -> int:
        """The number of whole vectors, noisy; public and exact under neighbors="replace"."""
        return self.noisy.rows.value

    @property
    def rho(self) -> float:
        """The rho that the call spent (zCDP)."""
        return float(self.info.loss.value)

    @property
    def method(self) -> str:
        """How the mean was found; what "auto" has chosen."""
        return self.question.chosen_method

    @property
    def neighbors(self) -> str:
        """The neighbors: "add-remove", or "replace" with a public number of rows."""
        return self.question.neighbors

    def __len__(self) -> int:
        return len(self.noisy.sums)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001 numpy's protocol
        return np.array(self.values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        """Show the first coordinates, how far noise moves the whole, and the cost, on one line."""
        return f"{self.question.name} {self._first()}, {self._describe_release()}"

    def _first(self) -> str:
        shown = ", ".join(f"{value:.6g}" for value in self.values[:4])
        return f"[{shown}{', ...' if len(self) > 4 else ''}]"

    @property
    def note(self) -> str | None:
        """A reason to doubt the mean; None in general."""
        return self.noisy.note()

    def _describe_release(self) -> str:
        noise = f"noise of length {math.hypot(*self.std_error.tolist()):.3g}"
        return (
            f"{len(self)} coordinates, {self.note or noise}, method {self.method}, "
            f"neighbors {self.neighbors}, {self.info.cost}"
        )

    def _repr_html_(self) -> str:
        card = {
            "name": self.question.name,
            "shown": self._first(),
            "footnote": self._describe_release(),
        }
        return render("cards.html", readings=[{**card, "interval": "", "bar": ()}])

    def plot(self, *, measured_in: MeasuredIn = None) -> Any:
        """Return a chart of all coordinates with their intervals (an altair chart).

        Up to 40 coordinates are dots, more of them a line with a band; 2,000 are shown at most.
        `measured_in` names the unit of the columns for the axis. It needs altair:
        pip install 'dfprivacy[plot]'.
        """
        low, high = self.interval()
        names = self.question.labels if self.question.is_wide else range(len(self))
        rows = zip(names, self.values.tolist(), low.tolist(), high.tolist(), strict=True)
        dots = [Dot(str(name), value, (a, b)) for name, value, a, b in rows]
        level = self.info.level
        return vector_chart(dots, self.question.name, self._describe_release(), level, measured_in)


def estimator(
    question: MeanVector, dimension: int, rho: Fraction
) -> Callable[[NoisyRows | None], Passes]:
    """Return the passes of the question's method, as a function of the number of rows if known."""
    relation = RELATIONS[question.neighbors]
    p = decimal_number(question.p)
    assert p is not None  # noqa: S101 checked with the question
    if question.binary:
        scaled = question.chosen_method == "plan"
        return PlanItems(dimension, rho, relation, p if scaled else None).passes
    grid = find_grid(question, dimension)
    if question.chosen_method == "plan":
        return PlanMean(grid, rho, relation, p, question.deviations).passes
    return DENSE[question.chosen_method](grid, rho, relation).passes


DENSE: dict[str, type[RecenteredMean | ShiftedMean]] = {
    "recentered": RecenteredMean,
    "clipped": ClippedMean,
    "shifted": ShiftedMean,
}
"""The methods for vectors whose noise is the same in all coordinates."""


def find_grid(question: MeanVector, dimension: int) -> VectorGrid:
    """Return the grid of the question's vectors."""
    assert question.radius is not None  # noqa: S101 checked with the question
    return vector_grid(dimension, float(question.radius))


def run_estimators(
    source: VectorSource,
    question: MeanVector,
    estimators: Mapping[int, Passes],
    keys: pa.Table | None = None,
) -> dict[int, NoisyMean]:
    """Run estimators side by side, one a group of these `keys`, in passes of the source."""
    means: dict[int, NoisyMean] = {}
    while len(means) < len(estimators):
        tables: dict[int, VectorTable] = {}
        for number in [number for number in estimators if number not in means]:
            try:
                tables[number] = next(estimators[number])
            except StopIteration as done:
                means[number] = done.value
        if tables:
            with watch_progress():
                _fill(source, question, tables, keys)
    return means


def _fill(
    source: VectorSource,
    question: MeanVector,
    tables: Mapping[int, VectorTable],
    keys: pa.Table | None,
) -> None:
    """Read the vectors once, and add the rows of each group to its table."""
    keeps = RELATIONS[question.neighbors].keeps_incomplete
    buffers, grid = Buffers(), None if question.binary else find_grid(question, source.dimension)
    for block in source.read():
        rows, mask = prepare_block(block, grid, buffers, keeps_incomplete=keeps)
        if keys is None:
            tables[0].add(rows, buffers)
            continue
        labels = find_keys(block.keys, keys)[1]
        for number, rows_of_group in by_group(rows, labels if mask is None else labels[mask]):
            if number in tables:
                tables[number].add(rows_of_group, buffers)


_MERGED = 64


def group_rows(source: VectorSource, question: MeanVector, columns: int) -> Statistics:
    """Return how many whole vectors each group has, sorted by key, or as listed. Secret."""
    names = key_names(columns)
    parts: list[Statistics] = []
    grid = None if question.binary else find_grid(question, source.dimension)
    buffers = Buffers()
    for block in source.read():
        _, mask = prepare_block(block, grid, buffers, keeps_incomplete=False)
        parts.append(_count_keys(block.keys, mask, names))
        if len(parts) == _MERGED:
            parts = [merge(parts)]
    parts = parts or [_count_keys(source.keys.empty_table(), None, names)]
    merged = merge(parts).check_rows()
    return merged if source.listed_keys is None else align(merged, source.listed_keys)


def _count_keys(
    keys: pa.Table, shown: npt.NDArray[np.bool_] | None, names: list[str]
) -> Statistics:
    rows = keys if shown is None else keys.filter(pa.array(shown))
    ones = rows.append_column(sum_name(0), pa.array(np.ones(rows.num_rows, np.int64)))
    counted = ones.group_by(names).aggregate([(sum_name(0), "sum")])
    return Statistics(counted.rename_columns([*names, sum_name(0)]), len(names), (ROWS.source,))


GROUP_COUNT_SHARE = Fraction(1, 16)  # by group, the part of rho that counts the rows of each group
_MOST_NUMBERS = 2**26  # table entries in memory at once, half a GiB: more groups take more passes


@dataclass(frozen=True)
class VectorPlan(Plan):
    """The plan of a mean of vectors, whole or by group."""

    @property
    def question(self) -> MeanVector:
        """The question."""
        (question,) = self.questions.values()
        assert isinstance(question, MeanVector)  # noqa: S101 it is planned so
        return question


@plan_question.register
def plan_vector(
    question: MeanVector, _: object, terms: Terms, by: By = (), keys: PublicKeys | None = None
) -> VectorPlan:
    """Return the plan of a mean of vectors."""
    if terms.rho is None:
        raise InvalidLossError(
            "a mean of vectors is asked for in rho (zero-concentrated privacy)",
            hint="pass rho=0.5; with delta=1e-6 that implies epsilon = 5.8",
        )
    loss = read_loss(None, terms.rho)
    if terms.unit is not None:  # nothing here bounds the rows of another one
        raise InvalidQuestionError(
            "a mean of vectors protects rows, and the terms name another unit",
            hint="make one row of each unit first, or leave unit out",
        )
    if by and question.neighbors != "add-remove":
        raise InvalidQuestionError(
            "by group, neighbors have a row more or less: a replaced row may change its group",
            hint="leave neighbors out",
        )
    text = f"{question.text} by {', '.join(map(repr, by))}" if by else question.text
    plan = plan_release(text, terms, by, keys, [loss], questions={question.name: question})
    if question.neighbors == "replace" and not isinstance(plan.account, NoAccount):
        raise InvalidLedgerError(
            "a ledger counts what adding or removing a row reveals, and replace protects less",
            hint="ask with neighbors='add-remove', or without a ledger",
        )
    names: tuple[str, ...] = ()
    if by:
        answers = [question.name, "low", "high"]
        if question.is_wide:
            answers = list(map(str, question.labels))
        names = (*map(str, by), *answers, "count")
    if len(set(names)) < len(names):
        raise InvalidQuestionError(
            "two columns of the result would have the same name",
            hint="rename the group column, or a coordinate that is called count, low or high",
        )
    return VectorPlan.of_plan(plan, names=names)


@release_plan.register
def release_vector(plan: VectorPlan, frame: object) -> Any:
    """Release the mean of the vectors of a frame: one estimate, or a row a group."""
    question = plan.question
    with ExitStack() as opened:
        if plan.by:
            return release_frame(plan, VectorFrame(frame, opened))
        check_charge(plan)
        source = _open_vectors(opened, frame, plan)
        with charge_plan(plan):
            passes = estimator(question, source.dimension, plan.charge.loss.value)(None)
            mean = run_estimators(source, question, {0: passes})[0]
    return VectorEstimate(question, mean, plan.info)


@dataclass(eq=False, repr=False)
class VectorFrame(FrameSource):
    """A frame of vectors by group, which is closed with a stack."""

    opened: ExitStack

    def measure(self, plan: VectorPlan) -> tuple[VectorSource, Statistics]:
        """Return the vectors, and how many each group has."""
        vectors = _open_vectors(self.opened, self.frame, plan)
        self.wrap = vectors.wrap
        exact, public = group_rows(vectors, plan.question, len(plan.by)), plan.keys is not None
        check_schema(self.frame, vectors.wrap, exact.key_table(), plan.names, public=public)
        return vectors, exact

    def answer(self, plan: VectorPlan, exact: tuple[VectorSource, Statistics]) -> Release:
        """Count the groups, then average the vectors of each."""
        return Release(_group_means(*exact, plan), plan.info)


def _open_vectors(opened: ExitStack, frame: object, plan: VectorPlan) -> VectorSource:
    """Return the source of the vectors; it is closed with the stack."""
    question = plan.question
    columns = Columns(plan.by, plan.keys, values=dict.fromkeys(question.labels, question.is_wide))
    return opened.enter_context(closing(open_source(frame, question, columns)))


def _group_means(source: VectorSource, exact: Statistics, plan: VectorPlan) -> pa.Table:
    """Return one row a shown group: count the groups, then average the vectors of each."""
    question, loss = plan.question, plan.charge.loss
    assert isinstance(loss, Rho)  # noqa: S101 it is named in rho
    noise = loss.share(GROUP_COUNT_SHARE).noise(1, 1)
    noisy = add_noise(exact, [ROWS], [noise])[0].coordinates[0]
    threshold = -math.inf if plan.rule is None else plan.rule.threshold(noise, 1, 1)
    shown = np.flatnonzero(noisy >= threshold)
    shown_keys = exact.key_table().take(pa.array(shown))
    rows = [NoisyRows(int(noisy[index]), noise) for index in shown]
    start = estimator(question, source.dimension, loss.value * (1 - GROUP_COUNT_SHARE))
    at_once = max(_MOST_NUMBERS // (2048 * source.dimension), 1)
    means: list[NoisyMean] = []
    for first in range(0, len(rows), at_once):
        part_of_rows = rows[first : first + at_once]
        keys = shown_keys.slice(first, len(part_of_rows))
        passes = {number: start(count) for number, count in enumerate(part_of_rows)}
        means_found = run_estimators(source, question, passes, keys)
        means += [means_found[number] for number in range(len(part_of_rows))]
    return _table(shown_keys, means, question, plan.names, plan.level)


def _table(
    groups: pa.Table,
    means: Sequence[NoisyMean],
    question: MeanVector,
    names: Sequence[str],
    level: float,
) -> pa.Table:
    values = [mean.value() for mean in means]
    columns: list[Any] = list(groups.columns)
    if question.is_wide:
        coordinates = np.array(values).reshape(len(means), len(question.labels))
        columns += [pa.array(column) for column in coordinates.T]
    else:
        ends = [mean.interval(level) for mean in means]
        kind = pa.list_(pa.float64())
        columns += [pa.array(values, kind)]
        columns += [pa.array([end[side] for end in ends], kind) for side in (0, 1)]
    columns.append(pa.array([mean.rows.value for mean in means], pa.int64()))
    return pa.table(columns, names=list(names))
