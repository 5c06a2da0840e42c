"""List odd words in code: `python tests/structure/odd_words.py` prints nothing if none is there.

Names and docstrings are plain language (CONTRIBUTING.md).
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("dfprivacy", "sql_udfs", "tests", "benchmarks", "examples")
ODD_NAME = re.compile(
    "own|made|found|told|known|asked|given|said|drawn|kept|held|each|whole|near|far|apart|alike|"
    "beside|beyond|meant|settled|several|together|taken|wanted|listed|place|most|least|few|one|"
    "it|thing"
)
ODD_FUNCTION = re.compile(
    f"_*({ODD_NAME.pattern}|both|some|moved|outcome|seen|done|paid|left|others?|same|many|over|after|about|tell)"
)
NO_VERB = re.compile(
    r"_*((?!test_)\w+_of|(?!need|embed|exceed|seed|speed|expected|test_)[a-z]+ed(_\w+)?)"
)
PUBLIC = {"announced", "is_one_of", "released", "stored"}
"""Functions that callers know by these names, and one that is a question."""
ODD_OPENING = re.compile(r"\s*(Return what|What|Tell|So many|Whether|Say)\b")


def find_odd_words(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of odd names that code binds, and of odd first words."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ) if ODD_NAME.fullmatch(name):
                yield node.lineno, name
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ) if ODD_FUNCTION.fullmatch(name):
                yield node.lineno, name
            case ast.FunctionDef(name=name, decorator_list=[]) if (
                NO_VERB.fullmatch(name) and name.strip("_") not in PUBLIC
            ):
                yield node.lineno, name
            case ast.Expr(value=ast.Constant(value=str(text))) if ODD_OPENING.match(text):
                yield node.lineno, text.strip().splitlines()[0]


def main() -> int:
    """Print every odd word with its file and line; return 1 if there is one."""
    lines = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {text}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in find_odd_words(path.read_text(encoding="utf-8"))
    ]
    print(*lines, sep="\n", end="\n" * bool(lines))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
