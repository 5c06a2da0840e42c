"""Measure the privacy loss of releases: record one on a table, replay it on a neighboring table.

    python -m benchmarks.replay            # print the largest loss of each statistic
    python -m benchmarks.replay --write    # write that table into benchmarks/results/replay.md

The first release runs as usual, and a tape keeps the exact inputs and the result of each draw. In
the second release, on the neighboring table, each draw returns the recorded result. Then both
releases must have the same outcome: the same values, types, errors, warnings and charges. The exact
inputs may differ, and their difference is the privacy loss. It is computed exactly and must not
exceed the charge in the ledger.

Idea: Re:cord-play, arXiv 2602.17454.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import math
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

import dfprivacy as dfp
from benchmarks.releases import plain
from dfprivacy.engine.text_files import LEFT_OUT
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.noise.recording import record_draws
from dfprivacy.noise.selection import ExponentialMechanism

PAGE = Path(__file__).parent / "results" / "replay.md"
ABOUT = (
    "`python -m benchmarks.replay --write`: the largest loss of a release on neighboring tables, "
    "as a fraction of its charge, by statistic and entry point."
)
COINS = ("random_signs", "random_labels")
"""Draws that no exact value enters."""

dfp.errors.WARNED.update({"epsilon", "delta", "keys", LEFT_OUT})  # which warn once in a process


class MismatchError(Exception):
    """The second release does not draw what the first one has drawn."""


@dataclass(frozen=True)
class Draw:
    """One draw: the mechanism, its inputs by parameter name, and its result."""

    mechanism: str
    inputs: Mapping[str, Any]
    result: Any


@dataclass(frozen=True)
class Loss:
    """A privacy loss as pure epsilon and as rho."""

    epsilon: Fraction | float = Fraction(0)
    rho: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.epsilon + other.epsilon, self.rho + other.rho)


class Tape:
    """Recorder of draws. With recorded draws it returns their results instead of new ones."""

    def __init__(
        self, recorded: Sequence[Draw] | None = None, *, skips: Literal["", "few", "any"] = ""
    ) -> None:
        self.recorded, self.draws = recorded, list[Draw]()
        self._left, self._skips = list(recorded or ()), skips
        self.loss, self.mismatch = Loss(), ""
        self._coins = 0

    def draw(self, mechanism: str, inputs: Mapping[str, Any], sample: Callable[[], Any]) -> Any:
        """Return the result of a draw, and keep its inputs."""
        if mechanism in COINS:
            return self._toss(mechanism, **{k: v for k, v in inputs.items() if k != "entropy"})
        inputs = {name: copy_value(value) for name, value in inputs.items() if name != "entropy"}
        try:
            result = sample() if self.recorded is None else self._replay(mechanism, inputs)
        except MismatchError as mismatch:  # the boundary of the package would hide it
            self.mismatch = str(mismatch)
            raise
        self.draws.append(Draw(mechanism, inputs, result))
        return copy_value(result)

    def _replay(self, mechanism: str, inputs: Mapping[str, Any]) -> Any:
        """Return the result of the next recorded draw, or of one after the draws of lost groups.

        With few skips that is the next one that matches, else the one of the least loss.
        """
        require(bool(self._left), f"one draw more: {mechanism}")
        matches, mismatch = [], MismatchError()
        for index, draw in enumerate(self._left if self._skips else self._left[:1]):
            try:
                require(draw.mechanism == mechanism, f"{mechanism} instead of {draw.mechanism}")
                matches.append((index, *MECHANISMS[mechanism](draw, inputs)))
            except MismatchError as error:
                mismatch = error
        if not matches:
            raise mismatch
        index, loss, result = matches[0]
        if self._skips == "any":
            index, loss, result = min(matches, key=lambda match: match[1].rho)
        del self._left[: index + 1]
        self.loss += loss
        return result

    def _toss(self, mechanism: str, size: int, below: int = 2) -> Any:
        """Return public coins. A row has the same ones in both releases."""
        self._coins += 1
        values = np.random.default_rng(self._coins).integers(0, below, max(size, 10**5))[:size]
        return values if mechanism == "random_labels" else 1.0 - 2.0 * values


class LoudTape(Tape):
    """Recorder of draws whose noise is as large as it is with a probability just above delta.

    All draws of a column of an array are as large together. A group that is shown nevertheless,
    though one unit alone has made it, is shown with a probability above delta.
    """

    def __init__(self, delta: float) -> None:
        super().__init__()
        self._delta = delta

    def draw(self, mechanism: str, inputs: Mapping[str, Any], sample: Callable[[], Any]) -> Any:
        """Return exact integers with large noise, and anything else as it is drawn."""
        if mechanism != "add_to":
            return super().draw(mechanism, inputs, sample)
        exact = inputs["exact"]
        draws = exact.shape[0] if exact.ndim == 2 else 1
        noise = inputs["noise"].quantile(2 * self._delta ** (1 / draws))
        return super().draw(mechanism, inputs, lambda: exact + noise)


def require(condition: object, message: str) -> None:
    """Stop a release that does not repeat its draws."""
    if not condition:
        raise MismatchError(message)


def copy_value(value: Any) -> Any:
    """Return a copy of an array, and any other value itself."""
    return value.copy() if isinstance(value, np.ndarray) else value


# Losses of draws


def addition_loss(draw: Draw, inputs: Mapping[str, Any]) -> tuple[Loss, Any]:
    """Return the loss of added noise, and the recorded result for the smaller array."""
    require(draw.inputs["noise"] == inputs["noise"], "another noise")
    first, second = draw.inputs["exact"], inputs["exact"]
    require(first.ndim == second.ndim, "another shape")
    axes = [axis for axis in range(first.ndim) if first.shape[axis] != second.shape[axis]]
    require(len(axes) <= 1, "another shape")
    axis = axes[0] if axes else 0

    def find_gaps(places: Any) -> list[int]:
        padded = np.zeros(first.shape, dtype=object)
        index = [slice(None)] * first.ndim
        if first.ndim:
            index[axis] = places
        padded[tuple(index)] = second
        return list((first.astype(object) - padded).flat)

    sizes = (first.shape[axis], second.shape[axis]) if first.ndim else (1, 1)
    gaps, places = least_gaps(find_gaps, *sizes)
    result = np.take(draw.result, places, axis=axis) if axes else draw.result
    return noise_loss(gaps, inputs["noise"]), result


NO_MATCH = 2**200
"""A gap larger than any of two lists of the same candidates."""


def selection_loss(draw: Draw, inputs: Mapping[str, Any]) -> tuple[Loss, Any]:
    """Return the loss of selections, and the choices of the fewer groups.

    Only differences of scores count: a constant that is added to all of them changes no chance.
    """
    law = inputs["self"]
    require(draw.inputs["self"] == law, "another selection")
    first, second = (list(list_scores(arguments["runs"])) for arguments in (draw.inputs, inputs))

    def find_gaps(places: Any) -> list[int]:
        pairs = zip(places.tolist(), second, strict=True)
        return [score_gap(first[position], scores) for position, scores in pairs]

    gaps, places = least_gaps(find_gaps, len(first), len(second))
    require(NO_MATCH not in gaps, "other candidates")
    epsilons = [law.rate * gap for gap in gaps]
    divisor = 8 if isinstance(law, ExponentialMechanism) else 2
    rho = sum((epsilon**2 / divisor for epsilon in epsilons), start=Fraction(0))
    return Loss(sum(epsilons, start=Fraction(0)), rho), draw.result[places]


def list_scores(runs: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield first candidates, ends and scores of the runs of each group."""
    starts = runs.group_starts.tolist()
    for start, end in itertools.pairwise([*starts, len(runs.first)] if starts else []):
        order = start + np.argsort(runs.first[start:end], kind="stable")
        order = order[runs.length[order] > 0]
        yield runs.first[order], (runs.first + runs.length)[order], runs.loss[order]


def score_gap(first: tuple[Any, Any, Any], other: tuple[Any, Any, Any]) -> int:
    """Return the range of the differences of scores, NO_MATCH if candidates differ."""
    cuts = np.unique(np.concatenate([*first[:2], *other[:2]]))
    scores = []
    for firsts, ends, losses in (first, other):
        run = np.searchsorted(firsts, cuts, side="right") - 1
        inside = (run >= 0) & (cuts < ends[run])
        scores.append((inside, losses[run]))
    (inside, losses), (same, others) = scores
    if not np.array_equal(inside, same):
        return NO_MATCH
    return int(np.ptp((losses - others)[inside])) if inside.any() else 0


_SIZE_OF_PAIRS = 64


def least_gaps(gaps_of: Callable[[Any], list[int]], size: int, smaller: int) -> tuple[Any, Any]:
    """Return the gaps of matching groups, and the places of the second table's groups.

    Groups that the second table lacks are the last ones, in each of equal blocks where columns are
    stacked, or a single one anywhere, or two of few. The match with the least gaps is the right
    one. A wrong match can't hide a leak, because the releases must be equal with the results it
    assigns.
    """
    missing = size - smaller
    require(missing >= 0, "more groups than recorded")
    blocks = [b for b in range(1, max(missing, 1) + 1) if missing % b == 0 and size % b == 0]
    matches = [np.arange(size).reshape(b, -1)[:, : smaller // b].ravel() for b in blocks]
    if missing == 1 or (missing == 2 and size <= _SIZE_OF_PAIRS):
        lost = itertools.combinations(range(size), missing)
        matches += [np.delete(np.arange(size), list(places)) for places in lost]
    sized = [(gaps_of(places), places) for places in matches]
    return min(sized, key=lambda match: sum(map(abs, match[0])))


def noise_loss(gaps: Sequence[int], noise: Any) -> Loss:
    """Return the loss of independent noise on sums that differ by these gaps."""
    if isinstance(noise, DiscreteLaplace):
        epsilons = [Fraction(abs(gap)) / noise.scale for gap in map(int, gaps) if gap]
        return Loss(sum(epsilons, start=Fraction(0)), sum(e * e for e in epsilons) * Fraction(1, 2))
    squares = sum(int(gap) ** 2 for gap in gaps)
    return Loss(math.inf if squares else Fraction(0), Fraction(squares) / (2 * noise.sigma_squared))


MECHANISMS = {
    "add_to": addition_loss,
    "select": selection_loss,
}


# Pairs of releases


Release = Callable[[dfp.Ledger, str], Any]
"""A call that charges a ledger for a dataset of this name."""


@dataclass(frozen=True)
class Pair:
    """Two neighboring releases after a replay."""

    draws: int
    loss: Loss
    charge: dfp.Budget
    fault: str = ""

    @property
    def ratio(self) -> Fraction:
        """The measured loss as a fraction of the charge."""
        measure = "epsilon" if self.charge.rho is None else "rho"
        charged = Fraction(round(getattr(self.charge, measure) * 10**9), 10**9)
        loss = getattr(self.loss, measure)
        if charged == 0 or loss == math.inf:
            return Fraction(0) if loss == 0 else Fraction(10**9)
        return Fraction(loss) / charged


class Meter:
    """Ledgers for releases, and comparisons of neighboring releases."""

    def __init__(self, folder: Path) -> None:
        self.releases = 0
        self._ledgers = {
            "epsilon": dfp.Ledger(folder / "epsilon.db", epsilon=1e9, delta=0.5, remember=True),
            "rho": dfp.Ledger(folder / "rho.db", rho=1e9, delta=0.5, remember=True),
        }

    def compare(
        self,
        larger: Release,
        smaller: Release,
        measure: str = "epsilon",
        stated: dfp.Budget | None = None,
        *,
        lost_groups: bool = False,
    ) -> Pair:
        """Record the release with more groups, replay the other one, and measure the loss.

        `stated` is the charge of a statement that no ledger knows. With `lost_groups` the second
        table may lack secret groups, whose draws are left out if the others don't match without.
        """
        first = Tape()
        outcome, charge = self.run(larger, measure, first)
        choices: list[Literal["", "few", "any"]] = ["", "any", "few"]
        for skips in choices if lost_groups else choices[:1]:
            second = Tape(first.draws, skips=skips)
            other, same_charge = self.run(smaller, measure, second)
            fault = second.mismatch
            if not fault and len(second.draws) < len(first.draws) and not skips:
                fault = f"one draw less: {first.draws[len(second.draws)].mechanism}"
            if not fault and (outcome != other or charge != same_charge):
                fault = f"outcomes differ: {difference(outcome, other)}; {charge}, {same_charge}"
            if not fault:
                break
        return Pair(len(first.draws), second.loss, stated or charge, fault)

    def run(self, release: Release, measure: str, tape: Tape) -> tuple[Any, dfp.Budget]:
        """Return everything a caller sees of a release, and its charge."""
        ledger = self._ledgers[measure]
        self.releases += 1
        dataset, printed = f"release_{self.releases:09}", io.StringIO()
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            record_draws(tape),
        ):
            warnings.simplefilter("always")
            try:
                value = plain(release(ledger, dataset))
            except Exception as error:
                value = type(error).__name__, str(error)
        messages = [str(warning.message) for warning in caught]
        is_charged = dataset in ledger.datasets()
        charge = ledger.spent(dataset) if is_charged else dfp.Budget(**{measure: 0.0})
        return (value, messages, printed.getvalue()), charge


def difference(first: Any, other: Any) -> str:
    """Return where two outcomes begin to differ."""
    texts = str(first), str(other)
    pairs = enumerate(zip(*texts, strict=False))
    start = max(0, next((i for i, (a, b) in pairs if a != b), 0) - 40)
    return " | ".join(text[start : start + 160] for text in texts)


def measure_rows(seed: int = 1) -> Iterator[tuple[Any, Pair]]:
    """Yield every case of `benchmarks.replay_cases` with its pair of releases."""
    from benchmarks.replay_cases import Places, cases  # noqa: PLC0415 it needs this module

    memory = Path("/dev/shm")  # ledgers wait for the disk elsewhere
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        meter, places = Meter(Path(folder)), Places(Path(folder))
        for case in cases(seed):
            larger, smaller = case.releases(places)
            yield (
                case,
                meter.compare(
                    larger, smaller, case.measure, case.stated, lost_groups=case.lost_groups
                ),
            )


def build_table(results: Sequence[tuple[Any, Pair]]) -> str:
    """Return a Markdown table of the largest loss by statistic and entry point."""
    ratios: dict[str, dict[str, list[Fraction]]] = defaultdict(lambda: defaultdict(list))
    for case, pair in results:
        if pair.draws:
            ratios[case.statistic][case.entry].append(pair.ratio)
    entries = list(dict.fromkeys(entry for cells in ratios.values() for entry in cells))
    lines = [
        "| statistic | pairs | " + " | ".join(entries) + " |",
        "|---" * (2 + len(entries)) + "|",
    ]
    for statistic, cells in ratios.items():
        worst = [f"{float(max(cells[e])):.3g}" if e in cells else "" for e in entries]
        pairs = sum(map(len, cells.values()))
        lines.append(f"| `{statistic}` | {pairs} | " + " | ".join(worst) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure all cases; print or write the table; return 1 if a law is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--write", action="store_true", help="write the table into benchmarks/results/replay.md"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the tables and combinations")
    options = parser.parse_args()
    start = time.process_time()
    results = list(measure_rows(options.seed))
    faults = [f"{case}: {pair.fault or f'loss {float(pair.ratio):.6g} of the charge'}"
              for case, pair in results if pair.fault or pair.ratio > 1]  # fmt: skip
    table = build_table(results)
    print("\n".join([table, *faults]))
    drawing_pairs = sum(pair.draws > 0 for _, pair in results)
    seconds = time.process_time() - start
    print(
        f"{drawing_pairs} pairs with draws, {len(results) - drawing_pairs} without, "
        f"{seconds:.0f} CPU seconds"
    )
    if options.write:
        PAGE.write_text(f"{ABOUT}\n\n{table}", encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
