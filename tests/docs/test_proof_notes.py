"""Docs name tests and files that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/**/*.md"))]


def known_tests():
    """Return the names of the tests in every file of tests, by the file's name."""
    names_by_file = {}
    for path in ROOT.glob("tests/**/test_*.py"):
        names = {n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)}
        names_by_file.setdefault(path.name, set()).update(names)
    return names_by_file


def test_the_tests_that_pages_name_exist():
    """A test that a page names is somewhere; one named with its file is in that file."""
    names_by_file = known_tests()
    everything = {
        *names_by_file,
        *(f.removesuffix(".py") for f in names_by_file),
        *set().union(*names_by_file.values()),
    }
    for page in PAGES:
        text = page.read_text()
        assert [n for n in re.findall(r"\btest_\w+(?:\.py)?", text) if n not in everything] == []
        placed = re.findall(r"(test_\w+\.py)::(test_\w+)", text)
        assert [(file, name) for file, name in placed if name not in names_by_file[file]] == []


def test_the_pages_that_code_names_exist():
    """A page that a docstring, a comment or a message names is in docs."""
    paths = {}
    for file in [*ROOT.glob("dfprivacy/**/*.py"), *ROOT.glob("sql_udfs/**/*.py")]:
        for path in re.findall(r"docs/[\w./-]+\.md", file.read_text(encoding="utf-8")):
            paths.setdefault(path, file.name)
    assert len(paths) > 20
    assert {path: name for path, name in paths.items() if not (ROOT / path).exists()} == {}


def test_the_files_that_contributors_are_sent_to_exist():
    """A path in CONTRIBUTING or SECURITY that has a slash or an ending is in the repository."""
    for page in ("CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / page).read_text()
        paths = {*re.findall(r"`([\w./]+(?:/|\.(?:py|md|toml|cff)))`", text)}
        paths |= {*re.findall(r"\]\(([^)]+)\)", text), *re.findall(r"[\w./]+\w+\.py", text)}
        homes = (ROOT, ROOT / "dfprivacy", ROOT / "dfprivacy/statistics", ROOT / "dfprivacy/frames")
        assert paths
        assert [p for p in sorted(paths) if not any((home / p).exists() for home in homes)] == []
