"""Write the stubs of the package and of the methods of statistics, or check that they are current.

python .ci/stubs.py --write
python .ci/stubs.py --check
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

import dfprivacy
from dfprivacy.frames import private  # noqa: F401 knows every question
from dfprivacy.frames.methods import TERMS, questions_of, signature_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.base import Question

ROOT = Path(dfprivacy.__file__).parent
WIDTH = 100
"""Characters of a line."""

PACKAGE = """# The public names, as type checkers see them. Written by .ci/stubs.py.
# ruff: noqa: A004, I001, N813

"""
HEAD = """# Methods of questions, as type checkers see them. Written by .ci/stubs.py.

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from inspect import Signature
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from dfprivacy.statistics.base import Question

One = TypeVar("One")  # noqa: PYI001 the answer to one question

def questions_of(place: str) -> dict[str, type[Question]]: ...
def method_of(statistic: type[Question], *, of_column: bool = ...) -> Callable[..., Any]: ...
def documentation(statistic: type[Question], signature: Signature) -> str: ...
def meant(name: str, known: Collection[str]) -> str | None: ...
"""
LOOKUP = """    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...
"""
NAMES = {
    ("epsilon", "rho", "delta", "interval"): "Asked",
    ("epsilon", "rho", "delta"): "Selected",
    ("rho", "delta", "interval"): "AskedInRho",
}
"""What the terms of a method are called."""


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
    group, frame = questions_of("group"), questions_of("frame")
    methods = "".join(map(_terms, NAMES))
    methods += _class("GroupMethods(Generic[One])", LOOKUP, group.values())
    more = [own for kind, own in frame.items() if kind not in group]
    methods += _class("Methods(GroupMethods[One])", "", more)
    methods += _class("ColumnMethods(Generic[One])", LOOKUP, questions_of("column").values())
    return {ROOT / "__init__.pyi": package, ROOT / "frames" / "methods.pyi": HEAD + methods}


def _terms(names: tuple[str, ...]) -> str:
    """Return the keyword arguments that set the terms of a question."""
    fields = "".join(f"    {name}: {TERMS[name][0]}\n" for name in names)
    return f"\nclass {NAMES[names]}(TypedDict, total=False):\n{fields}"


def _class(name: str, start: str, asked: Iterable[type[Question]]) -> str:
    of_column = name.startswith("Column")
    return f"\nclass {name}:\n{start}" + "".join(_method(own, of_column=of_column) for own in asked)


def _method(statistic: type[Question], *, of_column: bool) -> str:
    parameters = list(signature_of(statistic, of_column=of_column).parameters.values())[1:]
    taken, options, terms = ["self"], [], []
    for own in parameters:
        default = "" if own.default is inspect.Parameter.empty else " = ..."
        if own.name in TERMS:
            terms.append(own.name)
        else:
            place = options if own.kind is inspect.Parameter.KEYWORD_ONLY else taken
            place.append(f"{own.name}: {own.annotation}{default}")
    starred = ["*", *options] if options else []
    arguments = [*taken, *starred, f"**terms: Unpack[{NAMES[tuple(terms)]}]"]
    one = issubclass(statistic, Statistic) and statistic.answers_one
    start, end = f"    def {statistic.kind}(", f") -> {'One' if one else 'Any'}: ...\n"
    line = ", ".join(arguments)
    if len(start + line + end) <= WIDTH + 1:
        return start + line + end
    if 8 + len(line) <= WIDTH:
        return f"{start}\n        {line}\n    {end}"
    return start + "".join(f"\n        {own}," for own in arguments) + f"\n    {end}"


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
