# Methods of questions, as type checkers see them. Written by .ci/stubs.py.

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from inspect import Signature
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from dfprivacy.statistics.base import Question

One = TypeVar("One")  # noqa: PYI001 the answer to one question

def questions_of(place: str) -> dict[str, type[Question]]: ...
def method_of(statistic: type[Question], *, of_column: bool = ...) -> Callable[..., Any]: ...
def documentation(statistic: type[Question], signature: Signature) -> str: ...
def meant(name: str, known: Collection[str]) -> str | None: ...

class Asked(TypedDict, total=False):
    epsilon: float
    rho: float | None
    delta: float | None
    interval: float | str

class Selected(TypedDict, total=False):
    epsilon: float
    rho: float | None
    delta: float | None

class AskedInRho(TypedDict, total=False):
    rho: float | None
    delta: float | None
    interval: float | str

class GroupMethods(Generic[One]):
    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...
    def count(self, column: Hashable = ..., **terms: Unpack[Asked]) -> One: ...
    def nunique(self, column: Hashable, **terms: Unpack[Asked]) -> One: ...
    def share(self, column: Hashable, value: Any = ..., **terms: Unpack[Asked]) -> One: ...
    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        method: str = ...,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def var(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def std(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def median(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        method: str = ...,
        ends: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def quantile(
        self,
        column: Hashable,
        q: float,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        method: str = ...,
        ends: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def quantiles(
        self,
        column: Hashable,
        qs: Sequence[float],
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        **terms: Unpack[Selected],
    ) -> Any: ...
    def min(self, column: Hashable, **terms: Unpack[Selected]) -> One: ...
    def max(self, column: Hashable, **terms: Unpack[Selected]) -> One: ...
    def center(
        self,
        column: Hashable,
        p: float,
        bounds: tuple[float, float] | None = ...,
        *,
        method: str = ...,
        **terms: Unpack[Selected],
    ) -> One: ...
    def bounds(
        self, column: Hashable, rank: int | None = ..., **terms: Unpack[Selected]
    ) -> Any: ...
    def cov(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def corr(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def slope(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def intercept(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def r_squared(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def histogram(
        self,
        column: Hashable,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> Any: ...
    def mean_vector(
        self,
        columns: Sequence[Hashable] | Hashable,
        radius: float | None = ...,
        p: float = ...,
        dimension: int | None = ...,
        universe: int | None = ...,
        *,
        method: str = ...,
        neighbours: str = ...,
        deviations: str = ...,
        skewed: bool = ...,
        **terms: Unpack[AskedInRho],
    ) -> Any: ...
    def regression(
        self,
        y: Hashable,
        xs: Sequence[Hashable],
        bounds: Mapping[Hashable, tuple[float, float]] | None = ...,
        **terms: Unpack[Asked],
    ) -> Any: ...
    def value_counts(
        self, column: Hashable, keys: Any = ..., *, other: bool = ..., **terms: Unpack[Asked]
    ) -> Any: ...
    def top(
        self, column: Hashable, k: int = ..., keys: Any = ..., **terms: Unpack[Asked]
    ) -> Any: ...
    def mode(self, column: Hashable, keys: Any = ..., **terms: Unpack[Asked]) -> Any: ...

class Methods(GroupMethods[One]):
    def crosstab(
        self,
        index: Hashable,
        columns: Hashable,
        values: Any = ...,
        aggregate: str | None = ...,
        bounds: tuple[float, float] | None = ...,
        keys: Any = ...,
        rounded: str | None = ...,
        *,
        margins: bool = ...,
        nonnegative: bool = ...,
        **terms: Unpack[Asked],
    ) -> Any: ...
    def pivot(
        self,
        index: Hashable,
        columns: Hashable,
        values: Any,
        aggregate: str | None = ...,
        bounds: tuple[float, float] | None = ...,
        keys: Any = ...,
        rounded: str | None = ...,
        *,
        margins: bool = ...,
        nonnegative: bool = ...,
        **terms: Unpack[Asked],
    ) -> Any: ...
    def describe(
        self,
        columns: Sequence[Hashable] | None = ...,
        exclude: Sequence[Hashable] = ...,
        quantiles: Sequence[float] = ...,
        top: int = ...,
        numbers: Sequence[Hashable] = ...,
        **terms: Unpack[Asked],
    ) -> Any: ...

class ColumnMethods(Generic[One]):
    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...
    def count(self, **terms: Unpack[Asked]) -> One: ...
    def nunique(self, **terms: Unpack[Asked]) -> One: ...
    def share(self, value: Any = ..., **terms: Unpack[Asked]) -> One: ...
    def sum(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def mean(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        method: str = ...,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def var(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def std(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        clipping: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def median(
        self,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        method: str = ...,
        ends: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def quantile(
        self,
        q: float,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        method: str = ...,
        ends: bool = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def quantiles(
        self,
        qs: Sequence[float],
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        **terms: Unpack[Selected],
    ) -> Any: ...
    def min(self, **terms: Unpack[Selected]) -> One: ...
    def max(self, **terms: Unpack[Selected]) -> One: ...
    def center(
        self,
        p: float,
        bounds: tuple[float, float] | None = ...,
        *,
        method: str = ...,
        **terms: Unpack[Selected],
    ) -> One: ...
    def bounds(self, rank: int | None = ..., **terms: Unpack[Selected]) -> Any: ...
    def cov(
        self,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def corr(
        self,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def slope(
        self,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def intercept(
        self,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def r_squared(
        self,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> One: ...
    def histogram(
        self,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = ...,
        **terms: Unpack[Asked],
    ) -> Any: ...
    def value_counts(
        self, keys: Any = ..., *, other: bool = ..., **terms: Unpack[Asked]
    ) -> Any: ...
    def top(self, k: int = ..., keys: Any = ..., **terms: Unpack[Asked]) -> Any: ...
    def mode(self, keys: Any = ..., **terms: Unpack[Asked]) -> Any: ...
