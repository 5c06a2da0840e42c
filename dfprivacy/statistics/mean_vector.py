"""Ask for the mean of vectors: of which columns, how long, by which method."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dfprivacy.errors import InvalidBoundsError, InvalidQuestionError
from dfprivacy.measurement.exact import number_within, whole_number
from dfprivacy.release.terms import find_label
from dfprivacy.statistics.base import Question, argument

VECTOR_METHODS = ("auto", "recentered", "clipped", "shifted", "plan")
DEVIATIONS = ("gaussian", "generic", "binary")
NEIGHBORS = ("add-remove", "replace")

LARGEST_DIMENSION = 2**20
_LARGEST_RADIUS = 2**900
_LARGEST_P = 1000


@dataclass(frozen=True)
class MeanVector(Question):
    """Average vectors: several numeric columns, or one column of arrays, lists or item sets.

    Privacy: rho-zCDP, whatever the dimension, when one row is added or removed; the number of rows
    is secret. `neighbors="replace"` makes it public, protects against one row taking another
    one's place, and runs the papers' own form. Secret group keys add `delta`.

    Methods: norms cut at a private threshold around noisy means, three times ("recentered"),
    once around 0 ("clipped"), or around private medians ("shifted"; both Huang, Liang and Yi 2021);
    noise by private standard deviations ("plan", Aumueller et al. 2023). "auto" decides by public
    facts: "plan" for item sets, p != 2 or `skewed`, else "recentered".

    A row that is no whole vector counts for nothing (zeros under "replace").

    >>> MeanVector(["x", "y"], radius=10).chosen_method
    'recentered'
    >>> MeanVector("basket", universe=500).chosen_method
    'plan'

    >>> import dfprivacy as dfp, numpy as np, pandas as pd
    >>> frame = pd.DataFrame(np.arange(20_000).reshape(5_000, 4) % 7.0, columns=list("abcd"))
    >>> mean = frame.dp.mean_vector(["a", "b", "c", "d"], rho=0.5, radius=100)
    >>> bool(abs(mean.values - 3).max() < 0.3), mean.method
    (True, 'recentered')
    """

    kind: ClassVar[str] = "mean_vector"
    asked_of: ClassVar[tuple[str, ...]] = ("frame", "group")
    terms: ClassVar[tuple[str, ...]] = ("rho", "delta", "interval")
    returns: ClassVar[str] = (
        "A sequence of floats that knows its noise (`VectorEstimate`). By group, the caller's own "
        "frame type: the keys, a column a coordinate (or a list column with low and high), count."
    )

    columns: Hashable = argument(
        "The coordinates, or a column of vectors: Array, FixedSizeList or List.",
        form="Sequence[Hashable] | Hashable",
    )
    radius: float | None = argument(
        "A public bound on Euclidean norms, in units of the columns. Larger vectors are cut; a "
        "radius a thousand times too large costs little.",
        None,
        form="float | None",
    )
    method: str = argument("How vectors are averaged.", choices=VECTOR_METHODS)
    neighbors: str = argument("The neighbor relation.", choices=NEIGHBORS)
    p: float = argument('Which l_p error "plan" keeps small.', 2, form="float")
    dimension: int | None = argument("The length of lists, which no List column declares.", None)
    universe: int | None = argument("The column holds sets of items 0, ..., universe - 1.", None)
    deviations: str = argument(
        'How "plan" finds standard deviations: for data that is about normal, for any with four '
        "moments, or for coordinates 0 and 1.",
        choices=DEVIATIONS,
    )
    skewed: bool = argument(
        "Declare that standard deviations differ much between coordinates.",
        False,  # noqa: FBT003
    )

    def __post_init__(self) -> None:
        is_list = isinstance(self.columns, list | tuple)
        columns = tuple(self.columns) if is_list else find_label(self.columns)  # type: ignore[arg-type]
        object.__setattr__(self, "columns", columns)
        super().__post_init__()
        _check_labels(self)
        number_within(
            self.p,
            1,
            _LARGEST_P,
            InvalidQuestionError,
            f"the error's p must be a number from 1 to {_LARGEST_P}",
            hint="pass p=2 for Euclidean error, p=1 for total variation",
        )
        sizes = {"dimension": self.dimension, "universe": self.universe}
        for name, size in sizes.items():
            if size is not None:
                what = f"{name} must be a whole number from 1 to 2**20"
                hint = f"pass what everybody may know, e.g. {name}=384"
                whole_number(size, 1, LARGEST_DIMENSION, InvalidQuestionError, what, hint=hint)
        if not self.binary:
            number_within(
                self.radius,
                Fraction(1, _LARGEST_RADIUS),
                _LARGEST_RADIUS,
                InvalidBoundsError,
                "radius must be a positive number",
                hint="pass a bound on Euclidean norms that you know without looking at the data; "
                "too large costs little, too small cuts: e.g. radius=1000",
            )
        _check_combination(self)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The columns read, in their order."""
        return self.columns if isinstance(self.columns, tuple) else (self.columns,)

    @property
    def is_wide(self) -> bool:
        """True if each coordinate is a column."""
        return isinstance(self.columns, tuple)

    @property
    def binary(self) -> bool:
        """True if vectors are sets: their coordinates are 0 or 1."""
        return self.universe is not None or self.deviations == "binary"

    @property
    def chosen_method(self) -> str:
        """The method; "auto" follows from public facts alone, never from data.

        "plan" for item sets, for an error other than p = 2, and where the caller declares that
        standard deviations differ much between coordinates; else "recentered".
        """
        if self.method != "auto":
            return self.method
        return "plan" if self.binary or self.p != 2 or self.skewed else "recentered"

    @property
    def name(self) -> str:
        """The name of the answer."""
        return "mean_vector" if self.is_wide else str(self.columns)

    @property
    def text(self) -> str:
        """The question as it was asked, with at most three columns."""
        shown = ", ".join(map(repr, self.labels[:3])) + (", ..." if len(self.labels) > 3 else "")
        return f"mean_vector([{shown}])" if self.is_wide else f"mean_vector({shown})"


def _check_labels(question: MeanVector) -> None:
    if not question.labels:
        raise InvalidQuestionError(
            "no column was named", hint='list the coordinates, e.g. mean_vector(["x", "y"])'
        )
    labels = [find_label(label) for label in question.labels]
    if len(set(labels)) < len(labels):
        raise InvalidQuestionError(
            "a column is named twice", hint="list each coordinate of the vector once"
        )
    if len(labels) > LARGEST_DIMENSION:
        raise InvalidQuestionError(
            "vectors have at most 2**20 coordinates", hint="ask about fewer columns"
        )


def _check_combination(question: MeanVector) -> None:
    if question.is_wide and (question.dimension or question.universe):
        raise InvalidQuestionError(
            "several columns have their number as dimension",
            hint="leave dimension and universe out, or name one column of vectors",
        )
    if question.dimension is not None and question.universe is not None:
        raise InvalidQuestionError(
            "a column holds vectors of a dimension, or items of a universe, not both",
            hint="pass dimension=384 for vectors, universe=500 for sets of items",
        )
    if question.binary and question.chosen_method in {"recentered", "shifted"}:
        raise InvalidQuestionError(
            f"{question.chosen_method} moves vectors, which would make sets of items dense",
            hint='use method="plan", or "clipped"',
        )
