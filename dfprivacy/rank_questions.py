"""Questions that a private selection answers: quantiles and centres. They need no bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.exact import decimal_number, describe, exact_number
from dfprivacy.labels import label_of
from dfprivacy.terms import Bounds, bounds_of

QUANTILE_METHODS = ("selection", "inverse")
CENTER_METHODS = ("octaves", "dick")


_LARGEST_DENOMINATOR = 10**6
_LARGEST_POWER = 64


def quantile_fraction(q: object) -> Fraction:
    """Return a quantile as an exact fraction of a denominator up to a million.

    >>> quantile_fraction(0.95)
    Fraction(19, 20)

    Raises
    ------
    InvalidQuestionError
        When `q` is not a number from 0 to 1.
    """
    exact = decimal_number(q)
    if exact is None or not 0 <= exact <= 1:
        raise InvalidQuestionError(
            f"a quantile must be a number from 0 to 1, not {describe(q)}",
            hint="pass 0.5 for the median, 0.9 for the value that one row in ten exceeds",
        )
    return exact.limit_denominator(_LARGEST_DENOMINATOR)


def center_power(p: object) -> float:
    """Return the power of a center as a float.

    >>> center_power(2)
    2.0

    Raises
    ------
    InvalidQuestionError
        When `p` is not a number above 1, as a float too, and up to 64.
    """
    exact = exact_number(p)
    if exact is None or not 1 < exact <= _LARGEST_POWER or float(exact) == 1:
        raise InvalidQuestionError(
            f"the p of a center must be a number above 1, up to 64, not {describe(p)}",
            hint="pass p=2 for the mean, p=1.5 for a center that outliers move less; "
            "ask for the median where p would be 1",
        )
    return float(exact)


def bounds_text(bounds: Bounds | None) -> str:
    """Return how bounds were asked for, as an argument after others; nothing without any."""
    return "" if bounds is None else f", bounds=({bounds.lower!r}, {bounds.upper!r})"


def method_text(method: str, methods: Sequence[str]) -> str:
    """Return how a method was asked for, as `bounds_text` does; nothing for the first, the default.

    >>> method_text("inverse", QUANTILE_METHODS)
    ", method='inverse'"
    """
    return "" if method == methods[0] else f", method={method!r}"


def _check_method(method: object) -> None:
    if method not in QUANTILE_METHODS:
        raise InvalidQuestionError(
            "a quantile has no such method",
            hint=f"choose one of {', '.join(map(repr, QUANTILE_METHODS))}",
        )


@dataclass(frozen=True)
class Quantile:
    """A quantile of a column: the smallest value that at least a part `q` of the rows reach.

    `method` is "selection" (a rank-based selection) or "inverse" (inverse sensitivity: Dick et al.
    2023, Algorithm 5, on all of the grid).
    """

    column: Hashable
    q: float
    method: str = "selection"

    kind: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        """Check label, q and method."""
        label_of(self.column)
        _check_method(self.method)
        if self.method == "inverse" and not 0 < quantile_fraction(self.q) < 1:
            raise InvalidQuestionError(
                "inverse sensitivity ranks quantiles strictly between 0 and 1",
                hint='leave method out, or ask for bounds("x", rank=...)',
            )
        quantile_fraction(self.q)

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The one quantile, exactly."""
        return (quantile_fraction(self.q),)

    @property
    def text(self) -> str:
        """The question as it was asked."""
        method = method_text(self.method, QUANTILE_METHODS)
        return f"quantile({self.column!r}, {self.q!r}{method})"


@dataclass(frozen=True)
class Median(Quantile):
    """The median of a column: its quantile 1/2."""

    q: float = 0.5

    kind: ClassVar[str] = "median"

    @property
    def text(self) -> str:
        """The question as it was asked."""
        return f"median({self.column!r}{method_text(self.method, QUANTILE_METHODS)})"


@dataclass(frozen=True)
class Quantiles:
    """Several quantiles of a column under one loss, in the order asked."""

    column: Hashable
    qs: tuple[float, ...]

    kind: ClassVar[str] = "quantiles"

    def __post_init__(self) -> None:
        """Check label and list, and keep the list as a tuple."""
        label_of(self.column)
        if isinstance(self.qs, str) or not isinstance(self.qs, Sequence) or not len(self.qs):
            raise InvalidQuestionError(
                "quantiles come as a list of at least one number from 0 to 1",
                hint="pass e.g. [0.25, 0.5, 0.75]",
            )
        object.__setattr__(self, "qs", tuple(self.qs))
        if len(set(self.fractions)) < len(self.qs):
            raise InvalidQuestionError(
                "a quantile is asked for twice", hint="list each number once"
            )

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The quantiles, exactly."""
        return tuple(quantile_fraction(q) for q in self.qs)

    @property
    def text(self) -> str:
        """The question as it was asked."""
        return f"quantiles({self.column!r}, {list(self.qs)!r})"


@dataclass(frozen=True)
class Center:
    """The l_p centre of a column: the c with the least sum of abs(x - c)**p, for p > 1.

    p = 2 is the mean; values beyond `bounds`, where there are some, are clipped to them. Without,
    bounds are found at octave edges (`method="octaves"`) or by rank, as in Dick et al. 2023,
    Algorithm 4 (`"dick"`). The centre within them is selected by their Algorithm 5.
    """

    column: Hashable
    p: float
    bounds: Bounds | None = None
    method: str = "octaves"

    kind: ClassVar[str] = "center"

    def __post_init__(self) -> None:
        """Check label, p and bounds."""
        label_of(self.column)
        object.__setattr__(self, "bounds", bounds_of(self.bounds))
        center_power(self.p)
        if self.method not in CENTER_METHODS or (self.bounds and self.method != "octaves"):
            raise InvalidQuestionError(
                "a center has no such method",
                hint="leave method out; method='dick' finds bounds by rank, and takes none",
            )

    @property
    def text(self) -> str:
        """The question as it was asked."""
        method = method_text(self.method, CENTER_METHODS)
        return f"center({self.column!r}, {self.p!r}{bounds_text(self.bounds)}{method})"


@dataclass(frozen=True)
class PrivateBounds:
    """Bounds of a column found privately: both ends, `rank` rows from either end if it is given."""

    column: Hashable
    rank: int | None = None

    kind: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        """Check label and rank."""
        label_of(self.column)
        exact = None if self.rank is None else exact_number(self.rank)
        if self.rank is not None and (
            exact is None or exact.denominator != 1 or not 1 <= exact < 2**31
        ):
            raise InvalidQuestionError(
                f"a rank must be a whole number of rows, from 1 on, not {describe(self.rank)}",
                hint="pass e.g. rank=100, chosen without looking at the data",
            )

    @property
    def text(self) -> str:
        """The question as it was asked."""
        rank = "" if self.rank is None else f", rank={self.rank!r}"
        return f"bounds({self.column!r}{rank})"


RankQuestion = Quantile | Quantiles | Center | PrivateBounds


def median(column: Hashable, *, method: str = "selection") -> Median:
    """Ask for the median of `column`, in `agg`."""
    return Median(column, method=method)


def quantile(column: Hashable, q: float, *, method: str = "selection") -> Quantile:
    """Ask for the quantile `q`, from 0 to 1, of `column`, in `agg`."""
    return Quantile(column, q, method)


def quantiles(column: Hashable, qs: Sequence[float]) -> Quantiles:
    """Ask for several quantiles of `column`, in `agg`."""
    return Quantiles(column, qs)  # type: ignore[arg-type]


def center(column: Hashable, p: float, bounds: object = None, *, method: str = "octaves") -> Center:
    """Ask for the l_p centre of `column`, p > 1, in `agg`."""
    return Center(column, p, bounds_of(bounds), method)
