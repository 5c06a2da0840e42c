"""What can be asked: frozen values that name a statistic, a column and its bounds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dfprivacy.errors import InvalidQuestionError, MissingBoundsError
from dfprivacy.labels import label_of
from dfprivacy.rank_questions import (
    Center,
    PrivateBounds,
    Quantile,
    Quantiles,
    bounds_text,
    method_text,
)
from dfprivacy.terms import Bounds, bounds_of

BOUNDED_METHODS = ("transformed", "shifted", "independent")
UNBOUNDED_METHODS = ("transformed", "subset", "dick", "inverse")
MEAN_METHODS = tuple(dict.fromkeys((*BOUNDED_METHODS, *UNBOUNDED_METHODS)))


@dataclass(frozen=True)
class Count:
    """The number of rows, or of rows whose `column` is neither NULL nor NaN."""

    kind: ClassVar[str] = "count"
    column: Hashable = None

    def __post_init__(self) -> None:
        """Check the label."""
        label_of(self.column)

    @property
    def text(self) -> str:
        """The question as it was asked."""
        return "count()" if self.column is None else f"count({self.column!r})"


@dataclass(frozen=True)
class BoundedQuestion:
    """A question about one numeric column, whose values are clipped to public bounds."""

    kind: ClassVar[str]
    column: Hashable
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        """Check the label and the bounds, and keep them as `Bounds`."""
        label_of(self.column)
        object.__setattr__(self, "bounds", bounds_of(self.bounds))

    def required_bounds(self) -> Bounds:
        """Return the bounds, or say how to give them.

        Raises
        ------
        MissingBoundsError
            When the question was asked without bounds.
        """
        if self.bounds is None:
            raise MissingBoundsError(
                f"{self.kind} needs the bounds of column {self.column!r}",
                hint=f"pass {self.kind}({self.column!r}, bounds=(0, 100)) with numbers that you "
                "know without looking at the data",
            )
        return self.bounds

    @property
    def text(self) -> str:
        """The question as it was asked."""
        return f"{self.kind}({self.column!r}{bounds_text(self.bounds)})"


@dataclass(frozen=True)
class Sum(BoundedQuestion):
    """The sum of a column, each value clipped to the bounds."""

    kind: ClassVar[str] = "sum"


@dataclass(frozen=True)
class Mean(BoundedQuestion):
    """The mean of a column, each value clipped to the bounds.

    With bounds, `method` is "transformed" (Kulesza, Suresh and Wang 2023, Algorithm 3), "shifted"
    (Algorithm 2) or "independent" (Algorithm 1). Without, bounds are found privately: at octave
    edges ("transformed"), or by rank ("subset", and "dick" in the form of Dick et al. 2023,
    Algorithm 3). "inverse" finds them at octave edges too, and selects the mean within them by
    inverse sensitivity (Dick et al. 2023, Algorithm 5).
    """

    kind: ClassVar[str] = "mean"
    method: str = field(default="transformed")

    def __post_init__(self) -> None:
        """Check bounds and method."""
        super().__post_init__()
        if self.method not in MEAN_METHODS:
            raise InvalidQuestionError(
                "the mean has no such method",
                hint=f"choose one of {', '.join(map(repr, MEAN_METHODS))}",
            )

    @property
    def text(self) -> str:
        """The question as it was asked."""
        method = method_text(self.method, MEAN_METHODS)
        return f"mean({self.column!r}{bounds_text(self.bounds)}{method})"

    def check_method(self) -> None:
        """Check that bounds and method go together.

        Raises
        ------
        MissingBoundsError
            When the method needs bounds and there are none.
        InvalidQuestionError
            When the method finds bounds and there are some.
        """
        if self.bounds is None and self.method not in UNBOUNDED_METHODS:
            self.required_bounds()
        if self.bounds is not None and self.method not in BOUNDED_METHODS:
            raise InvalidQuestionError(
                f"the method {self.method!r} finds its own bounds", hint="leave bounds out"
            )


@dataclass(frozen=True)
class Variance(BoundedQuestion):
    """The population variance of a column, each value clipped to the bounds."""

    kind: ClassVar[str] = "var"


@dataclass(frozen=True)
class StandardDeviation(BoundedQuestion):
    """The population standard deviation of a column, each value clipped to the bounds."""

    kind: ClassVar[str] = "std"


MomentQuestion = Count | Sum | Mean | Variance | StandardDeviation
Question = MomentQuestion | Quantile | Quantiles | Center | PrivateBounds


def question_text(questions: Mapping[str, Question], by: Sequence[Hashable] = ()) -> str:
    """Return questions as they were asked, for the history of a ledger.

    >>> question_text({"x": Mean("x", Bounds(0, 9))}, ["city"])
    "mean('x', bounds=(0.0, 9.0)) by 'city'"
    """
    asked = ", ".join(question.text for question in questions.values())
    return f"{asked} by {', '.join(map(repr, by))}" if by else asked


def count(column: Hashable = None) -> Count:
    """Ask for the number of rows, or of values of `column`, in `agg`."""
    return Count(column)


def sum(column: Hashable, bounds: object = None) -> Sum:  # noqa: A001 the field's own word
    """Ask for the sum of `column`, clipped to `bounds`, in `agg`."""
    return Sum(column, bounds_of(bounds))


def mean(column: Hashable, bounds: object = None, *, method: str = "transformed") -> Mean:
    """Ask for the mean of `column`, clipped to `bounds`, in `agg`."""
    return Mean(column, bounds_of(bounds), method)


def var(column: Hashable, bounds: object = None) -> Variance:
    """Ask for the population variance of `column`, clipped to `bounds`, in `agg`."""
    return Variance(column, bounds_of(bounds))


def std(column: Hashable, bounds: object = None) -> StandardDeviation:
    """Ask for the population standard deviation of `column`, clipped to `bounds`, in `agg`."""
    return StandardDeviation(column, bounds_of(bounds))
