"""Files that can't be used, or do not go together, are refused; messages quote nothing in them."""

import json
import os
import shutil
import stat

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from dfprivacy.partial import header as headers
from dfprivacy.partial import written
from dfprivacy.partial.opened import open_file
from dfprivacy.partial.pooled import Pooled
from dfprivacy.vector_question import MeanVector

SECRET = "47110815"
FRAME = pl.DataFrame(
    {
        "g": ["a", f"key {SECRET}", "b", None] * 30,
        "x": [1.0, float(SECRET), -3.5, None] * 30,
        "u": list(range(120)),
    }
)
ASKED = {"m": dfp.mean("x", (0, 5000)), "v": dfp.var("x"), "q": dfp.median("x")}


@pytest.fixture
def made(tmp_path):
    """Return a function that makes a file of the same questions, with changes."""

    def make(name, frame=FRAME, **given):
        return dfp.statistics(frame, tmp_path / name, **{**ASKED, "by": "g", **given})

    return make


def refused(paths, *words, **terms):
    """Merge, and return the message of the error, which says these words and no secret."""
    with pytest.raises(dfp.StatisticsFileError) as caught:
        dfp.merge(paths, delta=1e-3, **terms)
    said = str(caught.value)
    assert [word for word in words if word not in said] == []
    assert SECRET not in said
    assert caught.value.__cause__ is None
    return said


def test_a_file_is_made_once_and_for_its_owner(made, tmp_path):
    """A file can be read by its owner alone, is never written over, and leaves nothing beside."""
    path = made("one.parquet")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(dfp.StatisticsFileError, match="already"):
        made("one.parquet")
    assert path.read_bytes() == before
    with pytest.raises(dfp.StatisticsFileError, match="no directory"):
        dfp.statistics(FRAME, tmp_path / "none" / "x.parquet", dfp.count())
    assert [own.name for own in tmp_path.iterdir()] == ["one.parquet"]


def test_a_file_that_appears_meanwhile_stays(made, tmp_path, monkeypatch):
    """Of two jobs that write one path, the second fails and leaves the first one's file."""
    path = made("one.parquet")
    before = path.read_bytes()
    monkeypatch.setattr("dfprivacy.partial.writing.check_target", lambda path: None)
    with pytest.raises(dfp.StatisticsFileError, match="already"):
        made("one.parquet")
    assert path.read_bytes() == before
    assert [own.name for own in tmp_path.iterdir()] == ["one.parquet"]


def test_a_full_disk_leaves_nothing(made, tmp_path, monkeypatch):
    """A file that can't be written whole is not there at all."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(written.os, "fsync", full)
    with pytest.raises(dfp.StatisticsFileError, match="No space left"):
        made("one.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_file_says_what_it_is(made):
    """The metadata says that the file is secret, in which format it is, and what was asked."""
    known = pq.read_metadata(made("one.parquet")).metadata
    assert known[b"dfprivacy.secret"].startswith(b"SECRET: exact statistics")
    assert known[b"dfprivacy.version"] == b"1"
    written = json.loads(known[b"dfprivacy.header"])
    assert [own["ask"] for own in written["questions"]] == ["mean", "var", "median"]
    assert (written["by"], written["keys"]) == (["g"], "secret")


def test_ids_are_fresh(made):
    """Two files of the same rows have different ids."""
    assert len({open_file(made(f"{k}.parquet")).header.id for k in range(5)}) == 5


def test_every_cut_is_refused(made, tmp_path):
    """A file that ends too early is refused wherever it is cut."""
    whole = made("one.parquet").read_bytes()
    for size in range(0, len(whole), 211):
        cut = tmp_path / "cut.parquet"
        cut.write_bytes(whole[:size])
        refused(cut, "cut.parquet", "Hint: ")


def test_flipped_bits_are_refused_or_change_nothing(made, tmp_path, replayed, lab):
    """A bit that flips anywhere is told by a checksum, or is one that says nothing."""
    path = made("one.parquet")
    whole = path.read_bytes()
    expected = lab.shown(replayed(lambda: dfp.merge(path, delta=0.2)))
    messages = []
    for place in range(4, len(whole), 97):
        flipped = tmp_path / "flipped.parquet"
        flipped.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            answer = replayed(lambda flipped=flipped: dfp.merge(flipped, delta=0.2))
        except dfp.StatisticsFileError as error:
            messages.append(str(error))
        else:
            assert lab.shown(answer) == expected
    assert len(messages) > 20
    assert SECRET not in "".join(messages)


def test_foreign_files_are_refused(tmp_path):
    """Text, other Parquet files and folders hold no statistics of ours."""
    text = tmp_path / "text.parquet"
    text.write_text(f"secret {SECRET}")
    refused(text, "holds no statistics of ours", "dfp.statistics(frame, path, ...)")
    FRAME.write_parquet(tmp_path / "other.parquet")
    refused(tmp_path / "other.parquet", "holds no statistics of ours")
    refused(tmp_path, "there is no file")
    refused(tmp_path / "missing.parquet", "there is no file")
    refused(f"{tmp_path}/none-*.parquet", "no file is called")
    refused([], "no file of statistics was named")
    refused([7], "not by 7")


def rewritten(path, target, metadata=None, change=None):
    """Write a file anew with other metadata or other tables, as somebody might by hand."""
    with pq.ParquetFile(path) as file:
        known = {**file.schema_arrow.metadata, **(metadata or {})}
        schema = file.schema_arrow.with_metadata(known)
        with pq.ParquetWriter(target, schema) as writer:
            for index in range(file.num_row_groups):
                table = file.read_row_group(index)
                columns = {n: table.column(n).to_numpy(zero_copy_only=False) for n in schema.names}
                if change is not None:
                    change(index, columns)
                arrays = [pa.array(columns[f.name], f.type, from_pandas=True) for f in schema]
                writer.write_table(pa.table(arrays, schema=schema))
    return target


def test_versions_are_told(made, tmp_path):
    """A file of another version of the format is refused with the way out: update."""
    path = made("one.parquet")
    newer = rewritten(path, tmp_path / "new.parquet", {b"dfprivacy.version": b"2"})
    refused(newer, "version of the format", "update dfprivacy", "pip install -U dfprivacy")


def signed(header):
    """Return metadata that was changed and signed again."""
    text = json.dumps(header).encode()
    digest = headers.hashlib.sha256(text).hexdigest().encode()
    return {b"dfprivacy.header": text, b"dfprivacy.digest": digest}


def changed(header, **own):
    return signed({**header, **own})


def test_metadata_that_was_edited_is_refused(made, tmp_path):
    """A header that was changed is refused; signed again too, where it does not fit together."""
    path = made("one.parquet")
    header = json.loads(pq.read_metadata(path).metadata[b"dfprivacy.header"])
    question = header["questions"][0]
    edits = {
        "unsigned": {b"dfprivacy.header": json.dumps(header).encode()},
        "no json": {**signed(header), b"dfprivacy.header": b"{"},
        "other bounds": changed(header, questions=[{**question, "bounds": [0, 9]}]),
        "unknown question": changed(header, questions=[{"name": "m", "ask": "max"}]),
        "code": changed(header, questions=[{**question, "column": ["__import__('os')"]}]),
        "no groups": changed(header, by=[]),
        "public": changed(header, keys="known"),
        "rows": changed(header, rows=[4, 4]),
        "more rows": changed(header, rows=[own + 1 for own in header["rows"]]),
        "bins": changed(header, bins=[["significant bits", 3, 0]] * 2),
        "types": changed(header, key_types=["int64"]),
        "unit": changed(header, unit={"column": "u", "max_rows": 0, "max_groups": 1}),
        "id": changed(header, id=7),
        "field": changed(header, extra=1),
    }  # fmt: skip
    for name, metadata in edits.items():
        edited = rewritten(path, tmp_path / f"{name}.parquet", metadata)
        refused(edited, f"{name}.parquet", "its ", "make it anew")


def tampering():
    """Return changes of tables that no rows can have given, by what they do."""

    def to(table, column, value):
        def change(index, columns):
            if index == table:
                columns[column] = columns[column].copy()
                columns[column][0] = value(columns[column][0]) if callable(value) else value

        return change

    return {
        "negative rows": to(0, "rows_0", -1),
        "too many rows": to(0, "rows_0", 2**33),
        "a sum above K times the rows": to(0, "first_0", 2**30 * 31),
        "a sum below zero": to(0, "first_0", -1),
        "a missing sum": to(0, "first_0", None),
        "another group": to(0, "group", 3),
        "no rows in a bin": to(1, "rows", 0),
        "too many rows in a bin": to(1, "rows", 2**31),
        "a bin beyond all": to(1, "bin", 254),
        "a bin out of order": to(1, "bin", 253),
        "a group that is not there": to(1, "group", 40),
        "a sum beyond its octave": to(1, "moment_1", lambda own: own * 4),
        "squares beyond their octave": to(1, "moment_2", lambda own: own / 8),
        "a sum that is no number": to(1, "moment_1", float("nan")),
        "bins of values": to(2, "bin", 10**6),
    }


@pytest.mark.parametrize("name", tampering())
def test_tables_that_no_rows_have_given_are_refused(made, tmp_path, name):
    """What no rows can have given is damage: the file is refused, without a word about numbers."""
    path, change = made("one.parquet"), tampering()[name]

    def objects(index, columns):
        columns.update({n: own.astype(object) for n, own in columns.items()})
        change(index, columns)

    assert lab_merge(rewritten(path, tmp_path / "same.parquet")).num_columns > 3
    tampered = rewritten(path, tmp_path / "tampered.parquet", change=objects)
    said = refused(tampered, "it is damaged, or was changed")
    assert not any(letter.isdigit() for letter in said.split("statistics:")[1])


def lab_merge(path):
    return dfp.merge(path, delta=0.2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"m": dfp.mean("x", (0, 4000))}, "questions, or their bounds"),
        ({"m": dfp.sum("x", (0, 5000))}, "questions, or their bounds"),
        ({"by": "u"}, "group columns"),
        ({"keys": ["a"]}, "kind of keys"),
        ({"unit": "u", "max_rows": 1, "max_groups": 1}, "unit, or its limits"),
        ({"frame": FRAME.with_columns(x=FRAME["x"].cast(pl.Int64))}, "declared to hold integers"),
    ],
)
def test_files_that_differ_are_named_with_the_term(made, given, words):
    """Files made with other arguments are not added up: the message names file and term."""
    paths = [made("one.parquet"), made("two.parquet"), made("three.parquet", **given)]
    refused(paths, "three.parquet", "one.parquet", words)


def test_limits_and_public_keys_must_be_the_same(made):
    """Other limits of the same unit, and other public keys, are told too."""
    unit = {"unit": "u", "max_groups": 1}
    paths = [made(f"{rows}.parquet", **unit, max_rows=rows) for rows in (1, 2)]
    refused(paths, "2.parquet", "unit, or its limits")
    paths = [made(f"{keys}.parquet", keys=list(keys)) for keys in ("ab", "ac")]
    refused(paths, "ac.parquet", "public keys")


def test_no_file_counts_twice(made, tmp_path):
    """A file that is named twice is refused, and so is its copy under another name."""
    path = made("one.parquet")
    shutil.copy(path, tmp_path / "copy.parquet")
    os.link(path, tmp_path / "link.parquet")
    for other in (path, tmp_path / "copy.parquet", tmp_path / "link.parquet"):
        refused([path, other], "is named twice, or is a copy")


def test_no_repr_shows_a_number(made):
    """What holds exact statistics shows none of them, nor how many groups there are."""
    file = open_file(made("one.parquet"))
    tables = file.tables()
    shown = repr(file) + repr(tables) + repr(tables.bins) + repr(Pooled((file,), ()))
    shown = shown.replace(str(file.path), "").replace(file.header.id, "")
    assert SECRET not in shown
    assert not set(shown.replace("bits=8", "").replace("2 tables", "")) & set("0123456789")
    assert "secret" in shown


def test_the_limit_of_rows_holds_over_all_files(made, tmp_path):
    """Rows of a group below 2**33 in each file, and not in all: refused, as in one pass."""
    asked = {"m": dfp.mean("x", (0, 1)), "by": "g", "v": ASKED["m"], "q": ASKED["m"]}
    paths = [made(f"{k}.parquet", **asked) for k in range(2)]

    def full(index, columns):
        if index == 0:
            grid = open_file(paths[0]).header.sums
            for own in range(len(grid)):
                columns[f"rows_{own}"] = np.full_like(columns[f"rows_{own}"], 2**33 - 1)
                columns[f"first_{own}"] = columns[f"rows_{own}"] * 2**29

    filled = [rewritten(p, tmp_path / f"full{k}.parquet", change=full) for k, p in enumerate(paths)]
    assert lab_merge(filled[0]).num_rows
    with pytest.raises(dfp.TooManyRowsError) as caught:
        dfp.merge(filled, delta=1e-3)
    assert str(2**34) not in str(caught.value)


ARGUMENTS = [
    ({"epsilon": 1}, dfp.InvalidQuestionError, "dfp.merge(paths, epsilon=1)"),
    ({"rho": 1}, dfp.InvalidQuestionError, "rho was given"),
    ({"bounds": (0, 1)}, dfp.InvalidQuestionError, "mapping"),
    ({"by": ["g", "g"]}, dfp.InvalidQuestionError, "different columns"),
    ({"by": "g", "unit": "u", "max_rows": 1}, dfp.InvalidUnitError, "max_groups"),
    ({"unit": "u"}, dfp.InvalidUnitError, "max_rows"),
    ({"max_rows": 3}, dfp.InvalidUnitError, "no unit was named"),
    ({"by": "nowhere"}, dfp.MissingColumnError, "nowhere"),
    ({"low": dfp.count(), "by": "low"}, dfp.InvalidQuestionError, "low"),
]


@pytest.mark.parametrize(("given", "kind", "words"), ARGUMENTS)
def test_arguments_are_checked(tmp_path, given, kind, words):
    """What can't be asked is refused as in a release, and no file is made."""
    with pytest.raises(kind) as caught:
        dfp.statistics(FRAME, tmp_path / "x.parquet", dfp.mean("x", (0, 1)), **given)
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_add_up_is_refused_by_name(tmp_path):
    """A mean of vectors takes several passes that depend on noise: there is nothing to add up."""
    with pytest.raises(dfp.InvalidQuestionError, match="mean_vector takes several passes"):
        dfp.statistics(FRAME, tmp_path / "x.parquet", MeanVector(("x", "u"), radius=1))
    with pytest.raises(dfp.InvalidQuestionError, match="agg takes questions"):
        dfp.statistics(FRAME, tmp_path / "x.parquet", "x")
    with pytest.raises(dfp.InvalidQuestionError, match="no question"):
        dfp.statistics(FRAME, tmp_path / "x.parquet")


def test_labels_are_text_or_whole_numbers(tmp_path):
    """Other labels have no name that every frame could have."""
    frame = pd.DataFrame({1: [1.0, 2.0], (1, 2): [1.0, 2.0]})
    path = dfp.statistics(frame, tmp_path / "one.parquet", dfp.count(1))
    assert list(dfp.merge(path)) == ["1"]
    with pytest.raises(dfp.StatisticsFileError, match="a tuple"):
        dfp.statistics(frame, tmp_path / "two.parquet", dfp.count((1, 2)))
