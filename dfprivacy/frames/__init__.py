"""Put `.dp` on frames of pandas and polars, and answer what is asked there."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import local
from types import ModuleType
from typing import Any

KINDS = {"DataFrame": "Private", "LazyFrame": "Private", "Series": "PrivateSeries"}
"""What answers for the frames and series of a library, by their names there."""

LIBRARIES = ("pandas", "polars")

UNLOADED = """dfprivacy can't load its libraries: memory is short, or one of them is broken.
Hint: python -c "import duckdb, narwhals, numpy, pandas, polars, pyarrow" tells which."""


def loaded(module: str) -> ModuleType:
    """Return a module of the package, by its name there, imported on first use.

    How much memory is left depends on the rows that a process holds. So which library finds too
    little of it is not told; that one is not installed is.
    """
    try:
        found = import_module(f"dfprivacy.{module}")
    except ModuleNotFoundError:
        raise
    except Exception:  # noqa: BLE001 what a library raises that finds too little of anything
        found = None
    if found is None:  # raised here, where it has no context
        raise ImportError(UNLOADED)
    return found


class Door:
    """The attribute `.dp` of a kind of frame: what is behind it is imported on first use."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, frame: object, owner: type) -> Any:
        """Return what answers privately for a frame, or its class for a class of frames."""
        kind = getattr(loaded("frames.private"), self._kind)
        return kind if frame is None else kind(frame)


class Doorman(MetaPathFinder):
    """Puts `.dp` on frames as soon as their library is imported, whoever imports it.

    It asks all other finders. One that does the same, as its own twin does where this package is
    imported again, asks it back, and is not answered: neither would ever end.
    """

    def __init__(self) -> None:
        self._asking = local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders find, with a loader that opens the doors at its end."""
        if fullname not in LIBRARIES or getattr(self._asking, "others", False):
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        self._asking.others = True
        try:
            spec = next(filter(None, found), None)
        finally:
            self._asking.others = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            load = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                put_doors(module)

            loader.exec_module = exec_module
        return spec


def put_doors(library: ModuleType) -> None:
    """Put `.dp` on frames and series, not on expressions: that name there belongs to OpenDP."""
    for name, kind in KINDS.items():
        if hasattr(library, name):
            getattr(library, name).dp = Door(kind)


def open_doors() -> None:
    """Put `.dp` on frames of the libraries that are imported, and of others when they are.

    A library that another thread is importing is waited for: it has no frames yet.
    """
    sys.meta_path.insert(0, Doorman())
    for name in LIBRARIES:
        if sys.modules.get(name) is not None:
            put_doors(import_module(name))
    atexit.register(close_doors)


def close_doors() -> None:
    """Take `.dp` off frames again, when Python ends.

    These classes outlive the interpreter. What hangs on them would keep our modules alive,
    and DuckDB's types with them, of which DuckDB would complain on stderr.
    """
    for library in filter(None, map(sys.modules.get, LIBRARIES)):
        for name in KINDS:
            if "dp" in vars(getattr(library, name, object)):
                delattr(getattr(library, name), "dp")
