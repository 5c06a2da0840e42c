"""A record of a text file is a row of its own: the others are the same without it."""

from collections import Counter
from itertools import product

import pytest

import dfprivacy as dfp

EXACT = 1e8  # an epsilon at which noise is far below a row

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

    def read(data, **form):
        path.write_bytes(data)
        source = dfp.TextFile(path, **form)
        return Counter(dict(exact.sums(source, {"n": dfp.count()}, "k")))

    return read


@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize("header", [b"k,v", b"\xef\xbb\xbfk,v", b"k", b"k,v,w"])
@pytest.mark.parametrize("end", ENDS)
def test_an_odd_record_leaves_the_others_as_they_are(header, end, multiline, rows):
    """However a record looks and its line ends, it is a row a line, and the others stay."""
    width = header.count(b",")
    others = [b"".join((b"g%d" % index, b",1" * width)) for index in range(3)]
    expected = Counter(f"g{index}" for index in range(3))
    assert rows(end.join([header, *others, b""]), multiline=multiline) == expected
    for odd, odd_end in list(product(ODD, ODD_ENDS))[:: 5 if width else 9]:
        first, *rest = (line + end for line in others)
        data = b"".join([header, end, first, odd, odd_end, *rest])
        counts = rows(data, multiline=multiline)
        lines = 1 if multiline else len(odd.splitlines())
        assert not expected - counts, (odd, odd_end)
        assert (counts - expected).total() <= max(lines, 1), (odd, odd_end)


JUNK = (
    b'"', b'g,"open', b'g,"a"b', b'g,"a""', b'"" ""', b'x"y,"z', b"g,1,2,3,4", b"g", b",", b",,,,",
    b"\0", b"g\0,\0", b"\xff\xfe,\xe2", b"\xc3", b"\xe2\x82", b"\x1a", b"\\", b"g,\\\"", b"#g,1",
    b"\xef\xbb\xbfg,1", b"sep=;", b"k,v", b'"g";"1"', b'"' * 999, b"," * 999, b"g" * 70_000,
)  # fmt: skip


@pytest.mark.parametrize("block", [16, 64, 2**20])
@pytest.mark.parametrize("position", [0, 50, 99])
def test_one_line_never_decides_about_other_lines(block, position, rows, monkeypatch):
    """A line that is replaced by junk leaves all other rows as they are, in blocks of any size."""
    monkeypatch.setattr("dfprivacy.engine.text_files._BLOCK_SIZE", block)
    monkeypatch.setattr("dfprivacy.engine.text_files._LINE_LIMIT", 2**16)
    lines = [b'"g%d","\xc3\xa9,1"' % index for index in range(100)]
    expected = Counter(f"g{index}" for index in range(100) if index != position)
    for junk in JUNK if block > 16 else JUNK[:-1]:
        data = b"\n".join([b"k,v", *lines[:position], junk, *lines[position + 1 :]])
        counts = rows(data)
        assert not expected - counts, junk
        assert (counts - expected).total() == 1, junk


@pytest.mark.parametrize("cell", ["NA", "1,250", "", "\ufffd", "1e999", '"', "x" * 5000, "\0"])
def test_the_cells_of_a_column_decide_about_no_other_column(cell, tmp_path):
    """A cell that is no number lacks in its own column, and counts in answers about all others."""
    path = tmp_path / "rows.csv"
    field = '"' + cell.replace('"', '""') + '"'
    path.write_text("g,x,y\n" + "a,5,1\n" * 100 + f"b,{field},1\n" * 100)
    frame = dfp.frame(path)
    answers = frame.agg(
        n=dfp.count(), m=dfp.mean("x", (0, 10)), s=dfp.sum("y", (0, 10)), b=dfp.share("g", "b"),
        k=dfp.nunique("g"), epsilon=EXACT,
    )  # fmt: skip
    assert (answers["n"], answers["k"]) == (200, 2)
    assert (answers["s"], answers["b"]) == (pytest.approx(200), pytest.approx(0.5))
    assert answers["m"] == pytest.approx(7.5 if cell == "1e999" else 5, abs=1e-3)
    questions = {"n": dfp.count(), "m": dfp.mean("x", (0, 10))}
    groups = frame.group_by("g").agg(**questions, epsilon=EXACT, delta=1e-6)
    public_groups = frame.group_by("g", keys=["a", "b"]).agg(**questions, epsilon=EXACT)
    assert groups["n"].to_pylist() == public_groups["n"].to_pylist() == [100, 100]
    dfp.statistics(path, tmp_path / "sums.parquet", **questions, by="g")
    merged = dfp.merge([tmp_path / "sums.parquet"], epsilon=EXACT, delta=1e-6)
    assert merged["n"].to_pylist() == [100, 100]


@pytest.mark.parametrize("end", ENDS)
def test_a_file_of_one_column_has_a_row_a_line(end, rows):
    """Every line but the first is one row, whatever ends it; an empty one is none."""
    data = end.join([b"k", b"a", b"", b'""', b"b,2", b""])
    assert rows(data) == Counter(["a", None, "b"])


def test_text_that_can_not_be_decoded_is_a_missing_field(tmp_path):
    """A cell of another encoding lacks in its own column, and the declared one reads it."""
    path = tmp_path / "rows.csv"
    text = "g,x\n" + "Oslo,1\n" * 100 + "Orléans,3\n" * 100
    path.write_bytes(text.encode("latin-1"))
    counts = dfp.frame(path).group_by("g", keys=["Oslo", None]).count(epsilon=EXACT)
    assert counts["count"].to_pylist() == [100, 100]
    assert dfp.frame(path).count(epsilon=EXACT) == 200
    for encoding in ("latin-1", "cp1252", "utf-8", "utf-16", "utf-16-le", "gb18030"):
        path.write_bytes(text.encode(encoding))
        frame = dfp.frame(dfp.TextFile(path, encoding=encoding))
        counts = frame.group_by("g", keys=["Oslo", "Orléans"]).count(epsilon=EXACT)
        assert counts["count"].to_pylist() == [100, 100]


def test_a_record_of_several_lines_is_declared(rows):
    """With multiline=True quoted fields hold line breaks and blank lines, in blocks of any size."""
    data = b'k,v\n"a\n\nb",1\nc,"2\r\n""3"\n"d",4\n'
    assert rows(data, multiline=True) == Counter(["a\n\nb", "c", "d"])
    assert rows(data) == Counter([None, 'b"', "c", '3"', "d"])


@pytest.mark.parametrize(
    "form", [{"encoding": "utf-7"}, {"encoding": "iso2022_jp"}, {"encoding": "none"},
             {"encoding": 8}, {"delimiter": ""}, {"delimiter": ";;"}, {"delimiter": '"'},
             {"multiline": 1}]
)  # fmt: skip
def test_forms_of_text_that_are_refused(form):
    """An encoding in which a line decides about the next one is refused, like what is no form."""
    with pytest.raises(dfp.errors.UnsupportedFrameError):
        dfp.TextFile("rows.csv", **form)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (",x", ["column0", "x"]),
        ('"","x",', ["column0", "x", "column2"]),
        ("," * 10 + "x", [*(f"column{index:02}" for index in range(10)), "x"]),
        ("g;x", ["g", "x"]),
        ("g|x", ["g", "x"]),
        ('"g;h",x', ["g;h", "x"]),
        ('"x"', ["x"]),
    ],
)
def test_the_header_alone_names_and_separates_the_columns(header, names, tmp_path):
    """Columns without a name have that of DuckDB, and the first line shows the separator."""
    (tmp_path / "rows.csv").write_text(header + "\n")
    with pytest.raises(dfp.MissingColumnError) as caught:
        dfp.frame(tmp_path / "rows.csv").count("no such column")
    assert f"its columns are {', '.join(map(repr, names))}" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Report 2024,\n\ng,x\na,1\n", "title"),
        (b"sep=;\ng;x\n", "Excel"),
        ("g,x\n".encode("utf-16"), "UTF-16"),
        ("g,x\n".encode("utf-16-le"), "encoding"),
        ("größe,x\n".encode("latin-1"), "encoding"),
        (b"column1,\n", "title"),
        (b"x,column1,\nx,X\n", None),
        (b"column1,,x\n", "distinct"),
        (b"\n", "distinct"),
    ],
)
def test_headers_that_are_refused_name_the_remedy(data, message, tmp_path):
    """Text above the column names, or in another encoding, is refused by the first line."""
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    if message is None:
        assert dfp.frame(path).count(epsilon=EXACT) == 1
        return
    with pytest.raises(dfp.errors.UnsupportedFrameError, match=message) as caught:
        dfp.frame(path).count(epsilon=1)
    assert "Hint" in str(caught.value)
