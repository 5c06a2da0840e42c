"""All code is written in plain language."""

import pytest

from tests.structure.odd_words import find_odd_words, main


@pytest.mark.battery
def test_there_are_no_odd_words():
    """No file binds an odd name, and no docstring begins with an odd word."""
    assert main() == 0


@pytest.mark.parametrize(
    ("source", "odd"),
    [
        ("own = 1\nother.own = own", ["own"]),
        ("def read(told, *known, each=1, **it): pass", ["told", "known", "each", "it"]),
        ("for one in (made := rows): pass", ["one", "made"]),
        ("with open(path) as thing: pass", ["thing"]),
        ("try: pass\nexcept OSError as found: pass", ["found"]),
        ("match row:\n    case [given, *asked]: pass", ["given", "asked"]),
        ("[own for own in rows if own]", ["own"]),
        ("def _moved(): pass\nclass Told: pass\nasync def settled(): pass", ["_moved", "settled"]),
        ("def read(column): 'Return what is read.'", ["Return what is read."]),
        ("LIMIT = 3\n'So many rows.'", ["So many rows."]),
        ("def read(column): 'Whatever the column is, read the column.'", []),
        ("'What is in this file.'\ntext = 'What?'", ["What is in this file."]),
    ],
)
def test_odd_words_count_where_they_are_bound(source, odd):
    """Every way to bind a name counts, a use does not, and docstrings count by their opening."""
    assert sorted(text for _, text in find_odd_words(source)) == sorted(odd)
