"""A hook of the documentation site: links that lead out of docs/.

Pages are read in the repository as well, where they link to benchmarks and examples. Results of
benchmarks become pages of the site; other files are named instead of linked.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parent.parent.parent
_RESULTS = _ROOT / "benchmarks" / "results"
_LINK = re.compile(r"(!?)\[([^\]]+)\]\((\.\./[^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the results of benchmarks to the site."""
    for path in sorted(_RESULTS.glob("*.*")):
        if path.suffix in {".md", ".png"}:
            name = f"results/{path.name}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links at the results on the site, and name what is not on it."""
    folder = _ROOT / "docs" / Path(page.file.src_uri).parent
    return _LINK.sub(lambda link: _inside(link, folder), markdown)


def _inside(link: re.Match[str], folder: Path) -> str:
    picture, text, target, anchor = link.groups()
    path = Path(os.path.normpath(folder / target))
    if path.is_relative_to(_ROOT / "docs") or not path.is_relative_to(_ROOT):
        return link[0]
    if path.is_relative_to(_RESULTS):
        up = os.path.relpath(_ROOT / "docs", folder)
        return f"{picture}[{text}]({up}/results/{path.name}{anchor or ''})"
    name = str(path.relative_to(_ROOT))
    return text if name.endswith(text) else f"{text} (`{name}`)"
