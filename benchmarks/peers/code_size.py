"""How much there is to type: statements and concepts of the marked region of each script.

    python -m benchmarks.peers.code_size

A region stands between `# region: ...` and `# endregion`. A statement is a node of the syntax
tree that is a statement (a call written over five lines is one), and a line `# also: ...` counts
as one more: what has to be said once outside. Concepts are listed in `registry.py`, each with the
word in the region that shows it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass

from benchmarks.peers.registry import PEERS, Peer

REGION = re.compile(r"^[ ]*# region: .*?\n(.*?)^[ ]*# endregion", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class CodeSize:
    """The marked region of a script, as a function, and what it asks of the reader."""

    shown: str
    statements: int
    lines: int
    concepts: tuple[str, ...]


def region(peer: Peer) -> str:
    """Return the marked code of a peer's script, without what indents it."""
    regions = REGION.findall(peer.file.read_text())
    return textwrap.dedent(regions[0]) if regions else ""


def write_function(peer: Peer) -> str:
    """Return the marked code as the function that it is the body of."""
    head = re.search(r"^def mean_by_group\(.*\):$", peer.file.read_text(), re.MULTILINE)
    return f"{head[0] if head else ''}\n{textwrap.indent(region(peer), '    ')}".strip()


def code_size(peer: Peer) -> CodeSize:
    """Count the marked region of a peer's script."""
    code = region(peer)
    tree = ast.parse("def asked(frame, q):\n" + textwrap.indent(code, "    "))
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) - 1
    also = [line for line in code.splitlines() if line.startswith("# also: ")]
    lines = [line for line in code.splitlines() if line.strip() and line not in also]
    return CodeSize(
        write_function(peer), statements + len(also), len(lines) + len(also), tuple(peer.concepts)
    )


def sizes() -> dict[str, CodeSize]:
    """Return the counts of every peer that has a marked region."""
    return {peer.name: code_size(peer) for peer in PEERS if region(peer)}


if __name__ == "__main__":
    for name, size in sizes().items():
        print(f"{name}: {size.statements} statements, {len(size.concepts)} concepts")
