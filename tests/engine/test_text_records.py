"""A record of a text file is a row of its own: the others are the same without it."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

import dfprivacy as dfp

ENDS = (b"\n", b"\r\n", b"\r")
ODD_ENDS = (*ENDS, b"\r\r\n", b"\n\r", b"\r\n\r\n", b"\r\r")
ODD = (
    b"",
    b"x",
    b"x,1",
    b"x,1,2",
    b'"x\r\ny",1',
    b'"x\ny",1',
    b'"x\ry",1',
    b'"x""y",1',
    b'x,"1"z',
    b'x,1"',
    b"\xff,1",
    b"\0,1",
    b'"x" ,1',
    b'" "',
)


@pytest.fixture
def rows(tmp_path, exact):
    """Return how many rows of which keys a text file has."""
    path = tmp_path / "rows.csv"

    def read(data):
        path.write_bytes(data)
        return Counter(dict(exact.sums(path, {"n": dfp.count()}, "k")))

    return read


@pytest.mark.sample(4)
@pytest.mark.parametrize("header", [b"k,v", b"\xef\xbb\xbfk,v", b"k", b"k,v,w"])
@pytest.mark.parametrize("end", ENDS)
def test_an_odd_record_leaves_the_others_as_they_are(header, end, rows):
    """However a record looks and its line ends, it is one row or none, and the others stay."""
    width = header.count(b",")
    kept = [b"".join((b"g%d" % index, b",1" * width)) for index in range(3)]
    expected = Counter(f"g{index}" for index in range(3))
    assert rows(end.join([header, *kept, b""])) == expected
    for odd, odd_end in list(product(ODD, ODD_ENDS))[:: 5 if width else 9]:
        first, *others = (line + end for line in kept)
        found = rows(b"".join([header, end, first, odd, odd_end, *others]))
        assert not expected - found, (odd, odd_end)
        assert (found - expected).total() <= 1, (odd, odd_end)


@pytest.mark.parametrize("end", ENDS)
def test_a_file_of_one_column_has_a_row_a_line(end, rows):
    """Every line but the first is one row, whatever ends it; an empty one is none."""
    data = end.join([b"k", b"a", b"", b'""', b"b,2", b""])
    assert rows(data) == Counter(["a", None, "b"])


def test_one_more_carriage_return_takes_nobody_out_of_a_group(tmp_path):
    """Rows that end in one carriage return more do not change the keys of those after them."""
    counts = []
    for name, odd in (("rows.csv", b""), ("odd.csv", b"z,1\r\r\n")):
        (tmp_path / name).write_bytes(b"k,v\r\n" + (odd + b"a,1\r\n") * 50)
        frame = dfp.frame(tmp_path / name).group_by("k", keys=["a"])
        counts.append(frame.count(epsilon=1e12)["count"].to_pylist())
    assert counts == [[50], [50]]
