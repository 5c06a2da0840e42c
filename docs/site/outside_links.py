"""A hook of the documentation site: links that lead out of docs/.

Pages are read in the repository as well, where they link to benchmarks and examples. Results of
benchmarks become pages of the site; other files are named instead of linked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).resolve().parent.parent.parent
_RESULTS = _ROOT / "benchmarks" / "results"
_OUTSIDE = re.compile(r"(!?)\[([^\]]+)\]\(\.\./([^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the results of benchmarks to the site."""
    for path in sorted(_RESULTS.glob("*.*")):
        if path.suffix in {".md", ".png"}:
            name = f"results/{path.name}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links at the results on the site, and name what is not on it."""
    return _OUTSIDE.sub(_inside, markdown)


def _inside(link: re.Match[str]) -> str:
    picture, text, path, anchor = link.groups()
    if path.startswith("benchmarks/results/"):
        return f"{picture}[{text}](results/{Path(path).name}{anchor or ''})"
    return text if path in text else f"{text} (`{path}`)"
