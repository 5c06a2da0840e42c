# Methods of questions, as type checkers see them. Written by .ci/stubs.py.

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from dfprivacy.statistics.base import Question

One = TypeVar("One")  # noqa: PYI001 the answer to one question

def questions_of(place: str) -> dict[str, type[Question]]: ...
def method_of(statistic: type[Question], *, of_column: bool = ...) -> Callable[..., Any]: ...
def documentation(statistic: type[Question], *, of_column: bool = ...) -> str: ...
def meant(name: str, known: Collection[str]) -> str | None: ...

class Methods(Generic[One]):
    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...
    def count(
        self,
        column: Hashable = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def nunique(
        self,
        column: Hashable,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def share(
        self,
        column: Hashable,
        value: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def var(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def std(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def median(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        ends: bool = ...,
    ) -> One: ...
    def quantile(
        self,
        column: Hashable,
        q: float,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        ends: bool = ...,
    ) -> One: ...
    def quantiles(
        self,
        column: Hashable,
        qs: Sequence[float],
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
    def min(
        self,
        column: Hashable,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> One: ...
    def max(
        self,
        column: Hashable,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> One: ...
    def center(
        self,
        column: Hashable,
        p: float,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        method: str = ...,
    ) -> One: ...
    def bounds(
        self,
        column: Hashable,
        rank: int | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
    def cov(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def corr(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def slope(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def intercept(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def r_squared(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def histogram(
        self,
        column: Hashable,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def mean_vector(
        self,
        columns: Sequence[Hashable] | Hashable,
        radius: float | None = ...,
        p: float = ...,
        dimension: int | None = ...,
        universe: int | None = ...,
        *,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        neighbours: str = ...,
        deviations: str = ...,
        skewed: bool = ...,
    ) -> Any: ...
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
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        margins: bool = ...,
        nonnegative: bool = ...,
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
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        margins: bool = ...,
        nonnegative: bool = ...,
    ) -> Any: ...
    def value_counts(
        self,
        column: Hashable,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        other: bool = ...,
    ) -> Any: ...
    def top(
        self,
        column: Hashable,
        k: int = ...,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def mode(
        self,
        column: Hashable,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def describe(
        self,
        columns: Sequence[Hashable] | None = ...,
        exclude: Sequence[Hashable] = ...,
        quantiles: Sequence[float] = ...,
        top: int = ...,
        numbers: Sequence[Hashable] = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def regression(
        self,
        y: Hashable,
        xs: Sequence[Hashable],
        bounds: Mapping[Hashable, tuple[float, float]] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...

class GroupMethods(Generic[One]):
    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...
    def count(
        self,
        column: Hashable = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def nunique(
        self,
        column: Hashable,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def share(
        self,
        column: Hashable,
        value: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def var(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def std(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def median(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        ends: bool = ...,
    ) -> One: ...
    def quantile(
        self,
        column: Hashable,
        q: float,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        ends: bool = ...,
    ) -> One: ...
    def quantiles(
        self,
        column: Hashable,
        qs: Sequence[float],
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
    def min(
        self,
        column: Hashable,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> One: ...
    def max(
        self,
        column: Hashable,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> One: ...
    def center(
        self,
        column: Hashable,
        p: float,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        method: str = ...,
    ) -> One: ...
    def bounds(
        self,
        column: Hashable,
        rank: int | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
    def cov(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def corr(
        self,
        x: Hashable,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def slope(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def intercept(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def r_squared(
        self,
        y: Hashable,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def histogram(
        self,
        column: Hashable,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def mean_vector(
        self,
        columns: Sequence[Hashable] | Hashable,
        radius: float | None = ...,
        p: float = ...,
        dimension: int | None = ...,
        universe: int | None = ...,
        *,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        neighbours: str = ...,
        deviations: str = ...,
        skewed: bool = ...,
    ) -> Any: ...
    def value_counts(
        self,
        column: Hashable,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        other: bool = ...,
    ) -> Any: ...
    def top(
        self,
        column: Hashable,
        k: int = ...,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def mode(
        self,
        column: Hashable,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def regression(
        self,
        y: Hashable,
        xs: Sequence[Hashable],
        bounds: Mapping[Hashable, tuple[float, float]] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...

class ColumnMethods(Generic[One]):
    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...
    def count(
        self,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def nunique(
        self,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def share(
        self,
        value: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def sum(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def mean(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def var(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def std(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        clipping: bool = ...,
    ) -> One: ...
    def median(
        self,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        ends: bool = ...,
    ) -> One: ...
    def quantile(
        self,
        q: float,
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        method: str = ...,
        ends: bool = ...,
    ) -> One: ...
    def quantiles(
        self,
        qs: Sequence[float],
        bounds: tuple[float, float] | None = ...,
        step: float | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
    def min(
        self,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> One: ...
    def max(
        self,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> One: ...
    def center(
        self,
        p: float,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        method: str = ...,
    ) -> One: ...
    def bounds(
        self,
        rank: int | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
    def cov(
        self,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def corr(
        self,
        y: Hashable,
        x_bounds: tuple[float, float] | None = ...,
        y_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def slope(
        self,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def intercept(
        self,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def r_squared(
        self,
        x: Hashable,
        y_bounds: tuple[float, float] | None = ...,
        x_bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> One: ...
    def histogram(
        self,
        bins: int | Sequence[float],
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def value_counts(
        self,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
        other: bool = ...,
    ) -> Any: ...
    def top(
        self,
        k: int = ...,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
    def mode(
        self,
        keys: Any = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float | str = ...,
    ) -> Any: ...
