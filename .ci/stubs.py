"""Write the stubs of the package and of the methods of statistics, or check that they are current.

python .ci/stubs.py --write
python .ci/stubs.py --check
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import dfprivacy
from dfprivacy.frames import private  # noqa: F401 knows every question
from dfprivacy.frames.methods import questions_of, signature_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.base import Question

ROOT = Path(dfprivacy.__file__).parent
PACKAGE = """# The public names, as type checkers see them. Written by .ci/stubs.py.
# ruff: noqa: A004, I001, N813

"""
HEAD = """# Methods of questions, as type checkers see them. Written by .ci/stubs.py.

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from dfprivacy.statistics.base import Question

One = TypeVar("One")  # noqa: PYI001 the answer to one question

def questions_of(place: str) -> dict[str, type[Question]]: ...
def method_of(statistic: type[Question], *, of_column: bool = ...) -> Callable[..., Any]: ...
def documentation(statistic: type[Question], *, of_column: bool = ...) -> str: ...
def meant(name: str, known: Collection[str]) -> str | None: ...
"""


def stubs() -> dict[Path, str]:
    """Return the texts of the stubs by their files."""
    names, package = dfprivacy.__all__, PACKAGE
    for name in names:
        module, own = dfprivacy._HOMES[name]  # noqa: SLF001
        package += f"from dfprivacy.{module} import {own} as {name}\n"
    for name, place in dfprivacy._LATER.items():  # noqa: SLF001
        room, _, module = f"dfprivacy.{place}".rpartition(".")
        package += f"from {room} import {module} as {name}\n"
    package += "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n"
    places = {"Methods": "frame", "GroupMethods": "group", "ColumnMethods": "column"}
    methods = "".join(_class(name, place) for name, place in places.items())
    return {ROOT / "__init__.pyi": package, ROOT / "frames" / "methods.pyi": HEAD + methods}


def _class(name: str, place: str) -> str:
    asked = questions_of(place).values()
    methods = "".join(_method(own, of_column=place == "column") for own in asked)
    lookup = "    def __getattr__(self, name: str) -> Any: ...\n"
    lookup += "    def __dir__(self) -> list[str]: ...\n"
    return f"\nclass {name}(Generic[One]):\n{lookup}{methods}"


def _method(statistic: type[Question], *, of_column: bool) -> str:
    lines, keyword = ["self"], False
    for name, parameter in list(signature_of(statistic, of_column=of_column).parameters.items())[
        1:
    ]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword:
            lines.append("*")
            keyword = True
        default = "" if parameter.default is inspect.Parameter.empty else " = ..."
        lines.append(f"{name}: {parameter.annotation}{default}")
    one = issubclass(statistic, Statistic) and statistic.answers_one
    returns = "One" if one else "Any"
    arguments = ",\n        ".join(lines)
    return f"    def {statistic.kind}(\n        {arguments},\n    ) -> {returns}: ...\n"


def main() -> int:
    """Write or check."""
    if sys.argv[1:] == ["--write"]:
        for path, text in stubs().items():
            path.write_text(text, encoding="utf-8")
        return 0
    same = all(p.is_file() and p.read_text(encoding="utf-8") == t for p, t in stubs().items())
    sys.stdout.write("up to date\n" if same else "run python .ci/stubs.py --write\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
