"""The packages are written in plain language, and old files come closer to it."""

import json

import pytest

from tests.structure.odd_words import RECORD, count_files, count_odd_words, find_rises, lower


@pytest.mark.battery
def test_odd_words_never_rise():
    """No new file has odd words, and no folder has more of them than recorded."""
    assert find_rises(json.loads(RECORD.read_text(encoding="utf-8")), count_files()) == []


@pytest.mark.parametrize(
    ("source", "names", "docstrings"),
    [
        ("own = 1\nother.own = own", 1, 0),
        ("def read(told, *known, each=1, **it): pass", 4, 0),
        ("for one in (made := rows): pass", 2, 0),
        ("with open(path) as thing: pass", 1, 0),
        ("try: pass\nexcept OSError as found: pass", 1, 0),
        ("match row:\n    case [given, *asked]: pass", 2, 0),
        ("[own for own in rows if own]", 1, 0),
        ("def read(column): 'Return what is read.'", 0, 1),
        ("LIMIT = 3\n'So many rows.'", 0, 1),
        ("def read(column): 'Whatever the column is, read the column.'", 0, 0),
        ("'What is in this file.'\ntext = 'What?'", 0, 1),
    ],
)
def test_odd_words_are_counted_where_they_are_bound(source, names, docstrings):
    """Every way to bind a name counts, a use does not, and docstrings count by their opening."""
    counts = count_odd_words(source)
    assert (counts["names"], counts["docstrings"]) == (names, docstrings)


OLD = {"a/x.py": {"names": 3}, "a/y.py": {"names": 1, "docstrings": 1}}


@pytest.mark.parametrize(
    ("current", "rises"),
    [
        (OLD, 0),
        ({"a/x.py": {"names": 1}, "a/y.py": {"names": 3}}, 0),
        ({"a/x.py": {"names": 4}, "a/y.py": {"names": 1}}, 1),
        ({"a/x.py": {"docstrings": 2}}, 1),
        ({"a/z.py": {"names": 1}}, 1),
        ({"b/x.py": {"docstrings": 1}}, 2),
    ],
)
def test_code_may_move_between_old_files_only(current, rises):
    """A folder is compared as a sum, a file that is not listed may have no odd word."""
    assert len(find_rises(OLD, current)) == rises


def test_the_record_is_only_lowered():
    """Lowering the record drops clean files and lists no new ones."""
    current = {"a/x.py": {"names": 2}, "a/z.py": {"names": 1}}
    assert lower(OLD, current) == {"a/x.py": {"names": 2}}
