"""If it is shown, it runs: README, docs and docstrings."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import dfprivacy
import sql_udfs
from tests.command_line import command

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS = {
    "sql_udfs.dbt": ("dbt.adapters.duckdb",),
    "ibis.md": ("ibis",),
    "dfprivacy.engine.ibis": ("ibis",),
}
"""Pages and modules that need a library beyond those of the tests; .ci/run has a lane with it."""
DRAWING = ("dfprivacy.noise", "dfprivacy.papers.", "dfprivacy.statistics.estimators")
"""Modules whose examples draw outside of a release: tests/noise/test_samplers.py runs them."""
APART = {"spark.md", "recipes.md"}
"""Pages that tests/spark/test_page.py and tests/docs/test_recipes.py run: with what they need."""
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


def blocks(page):
    """Return the Python blocks of a page, each with the text shown below it."""
    pattern = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?"
    return re.findall(pattern, page.read_text(), flags=re.DOTALL | re.MULTILINE)


def modules():
    for package in (dfprivacy, sql_udfs):
        yield package.__name__
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            yield module.name


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in APART], ids=lambda page: page.name
)
def test_python_blocks_run_in_order(page):
    """The Python blocks of a page run one after the other, as a reader would type them.

    An error that a block expects is printed or looked at, so that it can't fail to come.
    """
    for needed in NEEDS.get(page.name, ()):
        pytest.importorskip(needed)
    scope = {}
    for block, shown in blocks(page):
        printed = run_block(block, page.name, scope)
        assert "except " not in block or (shown and printed) or " = error" in block
        if shown and printed:
            words = without_noise(shown)
            assert words == without_noise(printed)[: len(words)]


def run_block(block, name, scope):
    """Run a block of code, and return the text that it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, name, "exec"), scope)
    return printed.getvalue()


def without_noise(text):
    """Mask the numbers of a printed answer, and leave out its notes."""
    text = re.sub(r", clipped: [^\n]*", "", text)
    text = re.sub(r"[-+]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?", "#", text)
    text = re.sub(r"\[ +", "[", text)
    return text.split()


def test_the_command_of_readme_prints_what_it_shows(tmp_path, monkeypatch):
    """The table of the command in README is as shown, but for noise and notes by chance."""
    monkeypatch.chdir(tmp_path)
    page = ROOT / "README.md"
    scope = {}
    run_block(blocks(page)[0][0], page.name, scope)
    scope["stays"].to_parquet("stays.parquet")
    words, table = re.search(
        r"^\$ dfprivacy (.*)\n((?:[^`].*\n)+)", page.read_text(), re.MULTILINE
    ).groups()
    results = (command(*words.split()) for attempt in range(10))
    assert any(without_noise(table) == without_noise(result.stdout) for result in results)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Every relative link of a page names a file of the repository."""
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def find_folder(name):
    """Return the folder of a module."""
    return ".".join(name.split(".")[:2])


def is_installed(name):
    """Check whether a library is installed."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("room", sorted({find_folder(name) for name in modules()}))
def test_docstrings_run(room):
    """Every example in a docstring of a room gives what it says."""
    for name in (
        module
        for module in modules()
        if find_folder(module) == room and not module.startswith(DRAWING)
    ):
        if all(map(is_installed, NEEDS.get(name, ()))):
            result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
            assert (name, result.failed) == (name, 0)


def test_tests_named_in_docs_exist():
    """A test file or folder that a proof note or docstring names is there."""
    named = set()
    for file in [*PAGES, *ROOT.glob("dfprivacy/**/*.py"), *ROOT.glob("sql_udfs/**/*.py")]:
        named |= set(re.findall(r"tests/[\w/]+(?:\.(?:py|sql))?", file.read_text()))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
