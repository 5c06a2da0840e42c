# Methods of statistics, as type checkers see them. Written by .ci/stubs.py.

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Generic, TypeVar

from dfprivacy.statistics import Statistic

One = TypeVar("One")  # noqa: PYI001 the answer to one question

def method_of(statistic: type[Statistic], *, of_column: bool = ...) -> Callable[..., Any]: ...
def documentation(statistic: type[Statistic], *, of_column: bool = ...) -> str: ...
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
        interval: float = ...,
    ) -> One: ...
    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
    ) -> One: ...
    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
        method: str = ...,
    ) -> One: ...
    def var(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
    ) -> One: ...
    def std(
        self,
        column: Hashable,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
    ) -> One: ...
    def median(
        self,
        column: Hashable,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        method: str = ...,
    ) -> One: ...
    def quantile(
        self,
        column: Hashable,
        q: float,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        method: str = ...,
    ) -> One: ...
    def quantiles(
        self,
        column: Hashable,
        qs: Sequence[float],
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
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

class ColumnMethods(Generic[One]):
    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...
    def count(
        self,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
    ) -> One: ...
    def sum(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
    ) -> One: ...
    def mean(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
        method: str = ...,
    ) -> One: ...
    def var(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
    ) -> One: ...
    def std(
        self,
        bounds: tuple[float, float] | None = ...,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        interval: float = ...,
    ) -> One: ...
    def median(
        self,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        method: str = ...,
    ) -> One: ...
    def quantile(
        self,
        q: float,
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
        method: str = ...,
    ) -> One: ...
    def quantiles(
        self,
        qs: Sequence[float],
        *,
        epsilon: float = ...,
        rho: float | None = ...,
        delta: float | None = ...,
    ) -> Any: ...
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
