"""The mean of vectors as a question: which columns, how long, which error, which method."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.accounting.exact import decimal_number, describe, number_within, whole_number
from dfprivacy.errors import InvalidBoundsError, InvalidQuestionError
from dfprivacy.release.terms import label_of

VECTOR_METHODS = ("auto", "recentred", "clipped", "shifted", "plan")
DEVIATIONS = ("gaussian", "generic", "binary")
NEIGHBOURS = ("add-remove", "replace")

LARGEST_DIMENSION = 2**20
_LARGEST_RADIUS = 2**900
_LARGEST_P = 1000


@dataclass(frozen=True)
class MeanVector:
    """The mean of vectors in R^d, or of item sets as 0/1 vectors over a public universe.

    Everything here is public. `columns` is a tuple of d numeric columns, or one label of a column
    of arrays, lists or item sets; `dimension` is the length of lists, `universe` the number of
    items 0, ..., universe - 1. `radius` bounds Euclidean norms in units of the columns; `p` names
    the error to keep small. `neighbours` is what privacy protects against: a row added or removed,
    or (for comparison) a row replaced with the number of rows public.

    >>> MeanVector(("x", "y"), radius=10).chosen_method
    'recentred'
    >>> MeanVector("basket", universe=500).chosen_method
    'plan'

    Raises
    ------
    InvalidBoundsError
        When the radius is missing, or not a positive number.
    InvalidQuestionError
        When anything else does not go together.
    """

    columns: Hashable
    radius: float | None = None
    method: str = "auto"
    neighbours: str = "add-remove"
    p: float = 2
    dimension: int | None = None
    universe: int | None = None
    deviations: str = "gaussian"
    skewed: bool = False

    def __post_init__(self) -> None:
        _check_labels(self)
        _one_of("method", self.method, VECTOR_METHODS)
        _one_of("neighbours", self.neighbours, NEIGHBOURS)
        _one_of("deviations", self.deviations, DEVIATIONS)
        _check_p(self.p)
        for name in ("dimension", "universe"):
            _check_size(name, getattr(self, name))
        if self.universe is None and self.deviations != "binary":
            _check_radius(self.radius)
        _check_combination(self)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The columns read, in their order."""
        return self.columns if isinstance(self.columns, tuple) else (self.columns,)

    @property
    def wide(self) -> bool:
        """Tell whether each coordinate is a column of its own."""
        return isinstance(self.columns, tuple)

    @property
    def binary(self) -> bool:
        """Tell whether vectors are sets: their coordinates are 0 or 1."""
        return self.universe is not None or self.deviations == "binary"

    @property
    def chosen_method(self) -> str:
        """The method; "auto" follows from public facts alone, never from data.

        "plan" for item sets, for an error other than p = 2, and where the caller declares that
        standard deviations differ much between coordinates; else "recentred".
        """
        if self.method != "auto":
            return self.method
        return "plan" if self.binary or self.p != 2 or self.skewed else "recentred"

    @property
    def name(self) -> str:
        """What the answer is called."""
        return "mean_vector" if self.wide else str(self.columns)

    @property
    def text(self) -> str:
        """The question as it was asked, with at most three columns."""
        shown = ", ".join(map(repr, self.labels[:3])) + (", ..." if len(self.labels) > 3 else "")
        return f"mean_vector([{shown}])" if self.wide else f"mean_vector({shown})"


def mean_vector_question(columns: object, **facts: object) -> MeanVector:
    """Return the question for a list of columns, or for the label of one column of vectors."""
    if isinstance(columns, list | tuple):
        return MeanVector(tuple(columns), **facts)  # type: ignore[arg-type]
    return MeanVector(label_of(columns), **facts)  # type: ignore[arg-type]


def _check_labels(question: MeanVector) -> None:
    if not question.labels:
        raise InvalidQuestionError(
            "no column was named", hint='list the coordinates, e.g. mean_vector(["x", "y"])'
        )
    labels = [label_of(label) for label in question.labels]
    if len(set(labels)) < len(labels):
        raise InvalidQuestionError(
            "a column is named twice", hint="list each coordinate of the vector once"
        )
    if len(labels) > LARGEST_DIMENSION:
        raise InvalidQuestionError(
            "vectors have at most 2**20 coordinates", hint="ask about fewer columns"
        )


def _one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise InvalidQuestionError(
            f"mean_vector has no such {name}",
            hint=f"choose one of {', '.join(map(repr, known))}",
        )


def _check_p(value: object) -> None:
    exact = decimal_number(value)
    if exact is None or not 1 <= exact <= _LARGEST_P:
        raise InvalidQuestionError(
            f"the error's p must be a number from 1 to {_LARGEST_P}, not {describe(value)}",
            hint="pass p=2 for Euclidean error, p=1 for total variation",
        )


def _check_size(name: str, value: object) -> None:
    if value is None:
        return
    what = f"{name} must be a whole number from 1 to 2**20"
    hint = f"pass what everybody may know, e.g. {name}=384"
    whole_number(value, 1, LARGEST_DIMENSION, InvalidQuestionError, what, hint=hint)


def _check_radius(value: object) -> None:
    number_within(
        value, Fraction(1, _LARGEST_RADIUS), _LARGEST_RADIUS, InvalidBoundsError,
        "radius must be a positive number",
        hint="pass a bound on Euclidean norms that you know without looking at the data; too "
        "large costs little, too small cuts: e.g. radius=1000",
    )  # fmt: skip


def _check_combination(question: MeanVector) -> None:
    if question.wide and (question.dimension or question.universe):
        raise InvalidQuestionError(
            "several columns have their number as dimension",
            hint="leave dimension and universe out, or name one column of vectors",
        )
    if question.dimension is not None and question.universe is not None:
        raise InvalidQuestionError(
            "a column holds vectors of a dimension, or items of a universe, not both",
            hint="pass dimension=384 for vectors, universe=500 for sets of items",
        )
    if question.binary and question.chosen_method in {"recentred", "shifted"}:
        raise InvalidQuestionError(
            f"{question.chosen_method} moves vectors, which would make sets of items dense",
            hint='use method="plan", or "clipped"',
        )
