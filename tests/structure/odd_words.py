"""Count odd words in all code: `python tests/structure/odd_words.py [--lower]`.

Names and docstrings are plain language (CONTRIBUTING.md). `odd_words.json` holds the counts of the
files that are older than this rule. A file that is not listed there has none, and the total of a
folder never rises. `--lower` records the lower counts of today.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_suffix(".json")
FOLDERS = ("dfprivacy", "sql_udfs", "tests", "benchmarks", "examples")
ODD_NAME = re.compile(
    "own|made|found|told|known|asked|given|said|drawn|kept|held|each|whole|near|far|apart|alike|"
    "beside|beyond|meant|settled|several|together|taken|wanted|listed|place|most|least|few|one|"
    "it|thing"
)
ODD_OPENING = re.compile(r"\s*(Return what|What|Tell|So many|Whether|Say)\b")
Counts = Mapping[str, Mapping[str, int]]


def count_odd_words(source: str) -> Counter[str]:
    """Count odd names that the source binds, and docstrings with an odd opening."""
    counts: Counter[str] = Counter()
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                counts["names"] += ODD_NAME.fullmatch(name) is not None
            case ast.Expr(value=ast.Constant(value=str(text))):
                counts["docstrings"] += ODD_OPENING.match(text) is not None
    return +counts


def count_files() -> Counts:
    """Count the odd words of every file that has some."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    counts = {path: count_odd_words(path.read_text(encoding="utf-8")) for path in paths}
    return {path.relative_to(ROOT).as_posix(): count for path, count in counts.items() if count}


def sum_folders(counts: Counts) -> dict[str, Counter[str]]:
    """Sum the counts of files by folder."""
    totals: dict[str, Counter[str]] = {}
    for path, count in counts.items():
        totals.setdefault(path.rpartition("/")[0], Counter()).update(count)
    return totals


def find_rises(recorded: Counts, current: Counts) -> list[str]:
    """Describe every unlisted file with odd words, and every folder with more than recorded."""
    rises = [f"{path} is not listed: {dict(current[path])}" for path in current.keys() - recorded]
    limits, totals = sum_folders(recorded), sum_folders(current)
    for folder, total in totals.items():
        limit = limits.get(folder, Counter[str]())
        if not total <= limit:
            rises.append(f"{folder} rose from {dict(limit)} to {dict(total)}")
    return sorted(rises)


def lower(recorded: Counts, current: Counts) -> Counts:
    """Return the record at today's counts, listing no file that was not listed before."""
    return {path: current[path] for path in sorted(recorded) if path in current}


def main() -> int:
    """Print the rises, or else lower the record if asked to."""
    recorded, current = json.loads(RECORD.read_text(encoding="utf-8")), count_files()
    rises = find_rises(recorded, current)
    print(*rises, sep="\n", end="\n" * bool(rises))
    if "--lower" in sys.argv and not rises:
        text = ",\n".join(
            f"{json.dumps(path)}: {json.dumps(count)}"
            for path, count in lower(recorded, current).items()
        )
        RECORD.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    return bool(rises)


if __name__ == "__main__":
    sys.exit(main())
