"""The catalogue of mistakes: every message is the one a beginner reads, and every mend runs."""

import os
import re
from pathlib import Path

import pytest

import dfprivacy as dfp
from tests.command_line import command

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/mistakes.md").read_text()
FENCE = re.compile(r'^```(\w+) title="([\w ]+)"\n(.*?)^```\n', re.DOTALL | re.MULTILINE)
ENTRIES = re.split(r"^### ", PAGE, flags=re.MULTILINE)
SETUP = FENCE.search(ENTRIES[0]).group(3)
TITLES = [entry.split("\n")[0] for entry in ENTRIES[1:]]


def in_python(code, scope):
    exec(compile(code, "page", "exec"), scope)


def in_sql(code, scope):
    dfp.sql(code, con=scope["con"], epsilon=1)


class CommandFailedError(Exception):
    """A command that ended with an exit code."""


def on_the_command_line(code, _):
    for line in code.strip().splitlines():
        words = line.removeprefix("$ dfprivacy ").split()
        result = command(*words, columns=100)
        if result.exit_code:
            raise CommandFailedError(result.stderr.strip())


def in_a_description(code, _):
    Path("release.yml").write_text(code)
    on_the_command_line("$ dfprivacy run release.yml --check", _)


RUN = {
    "python": in_python,
    "sql": in_sql,
    "console": on_the_command_line,
    "yaml": in_a_description,
}


def read_message(error):
    """Return the text of an error for readers: kind and message, without this test's folder."""
    kind = "" if isinstance(error, CommandFailedError) else f"{type(error).__name__}: "
    return re.sub(
        r"[ \t]+$", "", f"{kind}{error}".replace(f"{Path.cwd()}/", ""), flags=re.MULTILINE
    )


@pytest.fixture(scope="module")
def scope(tmp_path_factory):
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("mistakes"))
    names = {}
    in_python(SETUP, names)
    yield names
    os.chdir(before)


@pytest.mark.parametrize("number", range(1, len(ENTRIES)), ids=TITLES)
def test_a_mistake_has_its_message_and_its_mend(number, scope):
    """A mistake raises the whole message of the page, with a hint, and the mend runs."""
    blocks = {title: (kind, text) for kind, title, text in FENCE.findall(ENTRIES[number])}
    assert set(blocks) == {"mistake", "message", "mend"}
    kind, mistake = blocks["mistake"]
    with pytest.raises(Exception) as caught:  # noqa: PT011 the whole message is compared
        RUN[kind](mistake, scope)
    assert read_message(caught.value).strip() == blocks["message"][1].strip()
    assert "Hint: " in blocks["message"][1]
    kind, mend = blocks["mend"]
    RUN[kind](mend, scope)


def test_the_catalogue_is_long_enough():
    """There are twenty mistakes at least, three or more in every front end."""
    assert len(TITLES) >= 20
    kinds = re.findall(r'^```(\w+) title="mistake"', PAGE, flags=re.MULTILINE)
    assert {kind: kinds.count(kind) >= 3 for kind in RUN} == dict.fromkeys(RUN, True)
