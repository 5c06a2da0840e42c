"""Write the methods of statistics as Python code, or check that the committed code is current.

python .ci/methods.py --write
python .ci/methods.py --check
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import dfprivacy
from dfprivacy.frames.lookup import build_signature, list_statistics
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.base import Question

TARGET = Path(dfprivacy.__file__).parent / "frames" / "methods.py"
HEAD = '''"""Methods that ask the statistics of this package. Written by .ci/methods.py."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar, Unpack

{imports}

Answer = TypeVar("Answer")


class Terms(TypedDict, total=False):
    """Keyword arguments of most methods."""

    epsilon: float
    rho: float | None
    delta: float | None
    interval: float
    population: bool


class SelectionTerms(TypedDict, total=False):
    """Keyword arguments of methods without intervals."""

    epsilon: float
    rho: float | None
    delta: float | None


class GaussianTerms(TypedDict, total=False):
    """Keyword arguments of methods with Gaussian noise only."""

    rho: float | None
    delta: float | None
    interval: float

'''
TERMS = {
    ("epsilon", "rho", "delta", "interval", "population"): "Terms",
    ("epsilon", "rho", "delta"): "SelectionTerms",
    ("rho", "delta", "interval"): "GaussianTerms",
}
CLASSES = {
    "GroupMethods": ("Registered[Answer]", "Statistics of a frame by group.", "group"),
    "FrameMethods": ("GroupMethods[Answer]", "Statistics of a whole frame.", "frame"),
}
COLUMN = """

class ColumnMethods(Registered[Answer]):
    \"""Statistics of one column: those of its frame, about the column.\"""

    _scope = "column"

"""


def write_code() -> str:
    """Return the code of all methods."""
    kinds_by_scope = {
        scope: [kind for kind in list_statistics(scope).values() if _is_own(kind)]
        for scope in ("group", "frame", "column")
    }
    frame, group = kinds_by_scope["frame"], kinds_by_scope["group"]
    kinds_by_scope["frame"] = [kind for kind in frame if kind not in group]
    kinds = {kind for kinds in kinds_by_scope.values() for kind in kinds}
    imports = {f"from {kind.__module__} import {kind.__name__}" for kind in kinds}
    helpers = "Registered, of_column, several_of_column"
    imports.add(f"from dfprivacy.frames.lookup import {helpers}")
    code = HEAD.format(imports="\n".join(sorted(imports)))
    for name, (base, doc, scope) in CLASSES.items():
        code += f'\nclass {name}({base}):\n    """{doc}"""\n\n    _scope = "{scope}"\n\n'
        code += "\n".join(map(_write_method, kinds_by_scope[scope]))
    code += COLUMN
    for kind in kinds_by_scope["column"]:
        maker = "of_column" if _answers_one(kind) else "several_of_column"
        code += f"    {kind.kind} = {maker}(GroupMethods.{kind.kind})\n"
    return format_code(code)


def _is_own(kind: type[Question]) -> bool:
    return kind.__module__.startswith("dfprivacy.")


def _answers_one(kind: type[Question]) -> bool:
    return issubclass(kind, Statistic) and kind.answers_one


def _write_method(kind: type[Question]) -> str:
    positional, keywords, terms = ["self"], [], []
    for name, parameter in build_signature(kind).parameters.items():
        if name == "self":
            continue
        if name in {"epsilon", "rho", "delta", "interval", "population"}:
            terms.append(name)
            continue
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        is_keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        (keywords if is_keyword else positional).append(f"{name}: {parameter.annotation}{default}")
    star = ["*", *keywords] if keywords else []
    arguments = [*positional, *star, f"**terms: Unpack[{TERMS[tuple(terms)]}]"]
    values = [argument.name for argument in kind.arguments()]
    answer = "Answer" if _answers_one(kind) else "Any"
    summary = inspect.cleandoc(kind.__doc__ or "").splitlines()[0].partition(";")[0]
    return (
        f"    def {kind.kind}({', '.join(arguments)}) -> {answer}:\n"
        f'        """{summary.removesuffix(".")}."""\n'
        f"        return self._ask({kind.__name__}({', '.join(values)}), terms)\n"
    )


def format_code(code: str) -> str:
    """Return code as ruff formats it."""
    for command in (["check", "--fix", "--select", "I,F401"], ["format"]):
        code = subprocess.run(  # noqa: S603
            ["ruff", *command, "-q", "--stdin-filename", TARGET, "-"],  # noqa: S607
            input=code,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return code


def main() -> int:
    """Write or check."""
    code = write_code()
    if sys.argv[1:] == ["--write"]:
        TARGET.write_text(code, encoding="utf-8")
        return 0
    is_current = TARGET.read_text(encoding="utf-8") == code
    sys.stdout.write("up to date\n" if is_current else "run python .ci/methods.py --write\n")
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main())
