"""Files that were damaged or tampered with are refused; messages quote nothing in them."""

import hashlib
import json

import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.partial.secret_files import FRAME, SECRET, lab_merge, refused, rewritten


def test_every_cut_is_refused(made, tmp_path):
    """A file that ends too early is refused wherever it is cut."""
    whole = made("one.parquet").read_bytes()
    for size in range(0, len(whole), 211):
        cut = tmp_path / "cut.parquet"
        cut.write_bytes(whole[:size])
        refused(cut, "cut.parquet", "Hint: ")


def test_flipped_bits_are_refused_or_change_nothing(made, tmp_path, replayed, lab):
    """A file in which any bit flips is refused, or gives the same answer from the same bytes."""
    path = made("one.parquet")
    whole = path.read_bytes()
    expected = lab.shown(replayed(lambda: dfp.merge(path, delta=0.2)))
    messages = []
    for place in range(0, len(whole), 41):
        flipped = tmp_path / "flipped.parquet"
        byte = whole[place] ^ 1 << (place // 41) % 8
        flipped.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
        try:
            answer = replayed(lambda flipped=flipped: dfp.merge(flipped, delta=0.2))
        except dfp.errors.StatisticsFileError as error:
            messages.append(str(error))
        else:
            assert lab.shown(answer) == expected
    assert len(messages) > 20
    assert SECRET not in "".join(messages)


def test_numbers_without_their_digest_are_refused(made, tmp_path):
    """A number that could be, in a file whose checksums are right, is refused by the digest."""
    path = made("one.parquet")
    digest = pq.read_metadata(path).metadata[b"dfprivacy.tables"]

    def one_row_more(index, columns):
        if index == 0:
            columns["sum_0_0"] = columns["sum_0_0"] + 1

    for name, kept in (("same", digest), ("none", b"")):
        changed = tmp_path / f"{name}.parquet"
        rewritten(path, changed, {b"dfprivacy.tables": kept}, one_row_more)
        refused(changed, "it is damaged, or was changed")
    assert lab_merge(rewritten(path, tmp_path / "signed.parquet", {}, one_row_more)).num_columns > 3


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


def test_versions_are_told(made, tmp_path):
    """A file of another version of the format is refused with the way out: update."""
    path = made("one.parquet")
    newer = rewritten(path, tmp_path / "new.parquet", {b"dfprivacy.version": b"8"})
    older = rewritten(path, tmp_path / "old.parquet", {b"dfprivacy.version": b"6"})
    for other in (newer, older):
        refused(other, "version of the format is not 7", "pip install -U dfprivacy")


def signed(header):
    """Return metadata that was changed and signed again."""
    text = json.dumps(header).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
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
        "bins": changed(header, bins=["(SignificantBits(bits=3), 0)"] * 2),
        "sums": changed(header, sums=[header["sums"][0].replace("5000", "4000")]),
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
        "negative rows": to(0, "sum_0_0", -1),
        "too many rows": to(0, "sum_0_0", 2**33),
        "a sum above K times the rows": to(0, "sum_0_1", 2**30 * 31),
        "a sum below zero": to(0, "sum_0_1", -1),
        "a missing sum": to(0, "sum_0_1", None),
        "another group": to(0, "group", 3),
        "no rows in a bin": to(1, "rows", 0),
        "too many rows in a bin": to(1, "rows", 2**31),
        "a bin beyond all": to(1, "bin", 254),
        "a bin out of order": to(1, "bin", 253),
        "a group that is not there": to(1, "group", 40),
        "a sum beyond its octave": to(1, "moment_1", lambda own: own * 4),
        "squares beyond their octave": to(1, "moment_2", lambda own: own * 8 + 2.0**90),
        "a sum that is no number": to(1, "moment_1", float("nan")),
        "bins of values": to(2, "bin", 10**8),
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
