"""Files that were damaged or tampered with are refused; messages quote nothing in them."""

import hashlib
import json

import pyarrow.parquet as pq

import dfprivacy as dfp
from tests.partial.secret_files import FRAME, SECRET, lab_merge, require_refusal, rewritten


def test_every_cut_is_refused(make_file, tmp_path):
    """A file that ends too early is refused wherever it is cut."""
    content = make_file("one.parquet").read_bytes()
    for size in range(0, len(content), 211):
        cut = tmp_path / "cut.parquet"
        cut.write_bytes(content[:size])
        require_refusal(cut, "cut.parquet", "Hint: ")


def test_flipped_bits_are_refused_or_change_nothing(make_file, tmp_path, replayed, lab):
    """A file in which any bit flips is refused, or gives the same answer from the same bytes."""
    path = make_file("one.parquet")
    content = path.read_bytes()
    expected = lab.shown(replayed(lambda: dfp.merge(path, delta=0.2)))
    messages = []
    for position in range(0, len(content), 41):
        flipped = tmp_path / "flipped.parquet"
        byte = content[position] ^ 1 << (position // 41) % 8
        flipped.write_bytes(content[:position] + bytes([byte]) + content[position + 1 :])
        try:
            answer = replayed(lambda flipped=flipped: dfp.merge(flipped, delta=0.2))
        except dfp.errors.StatisticsFileError as error:
            messages.append(str(error))
        else:
            assert lab.shown(answer) == expected
    assert len(messages) > 20
    assert SECRET not in "".join(messages)


def test_numbers_without_their_digest_are_refused(make_file, tmp_path):
    """A number that could be, in a file whose checksums are right, is refused by the digest."""
    path = make_file("one.parquet")
    digest = pq.read_metadata(path).metadata[b"dfprivacy.tables"]

    def one_row_more(index, columns):
        if index == 0:
            columns["sum_0_0"] = columns["sum_0_0"] + 1

    for name, stored_digest in (("same", digest), ("none", b"")):
        changed = tmp_path / f"{name}.parquet"
        rewritten(path, changed, {b"dfprivacy.tables": stored_digest}, one_row_more)
        require_refusal(changed, "it is damaged, or was changed")
    assert lab_merge(rewritten(path, tmp_path / "signed.parquet", {}, one_row_more)).num_columns > 3


def test_foreign_files_are_refused(tmp_path):
    """Text, other Parquet files and folders hold no statistics of ours."""
    text = tmp_path / "text.parquet"
    text.write_text(f"secret {SECRET}")
    require_refusal(text, "holds no statistics of ours", "dfp.statistics(frame, path, ...)")
    FRAME.write_parquet(tmp_path / "other.parquet")
    require_refusal(tmp_path / "other.parquet", "holds no statistics of ours")
    require_refusal(tmp_path, "there is no file")
    require_refusal(tmp_path / "missing.parquet", "there is no file")
    require_refusal(f"{tmp_path}/none-*.parquet", "no file is called")
    require_refusal([], "no file of statistics was named")
    require_refusal([7], "not by 7")


def test_versions_are_told(make_file, tmp_path):
    """A file of another version of the format is refused with the way out: update."""
    path = make_file("one.parquet")
    newer = rewritten(path, tmp_path / "new.parquet", {b"dfprivacy.version": b"9"})
    older = rewritten(path, tmp_path / "old.parquet", {b"dfprivacy.version": b"7"})
    for other in (newer, older):
        require_refusal(other, "version of the format is not 8", "pip install -U dfprivacy")


def sign(header):
    """Return metadata that was changed and signed again."""
    text = json.dumps(header).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    return {b"dfprivacy.header": text, b"dfprivacy.digest": digest}


def change(header, **fields):
    return sign({**header, **fields})


def test_metadata_that_was_edited_is_refused(make_file, tmp_path):
    """A header that was changed is refused; signed again too, where it does not fit together."""
    path = make_file("one.parquet")
    header = json.loads(pq.read_metadata(path).metadata[b"dfprivacy.header"])
    question = header["questions"][0]
    edits = {
        "unsigned": {b"dfprivacy.header": json.dumps(header).encode()},
        "no json": {**sign(header), b"dfprivacy.header": b"{"},
        "other bounds": change(header, questions=[{**question, "bounds": [0, 9]}]),
        "unknown question": change(header, questions=[{"name": "m", "ask": "max"}]),
        "code": change(header, questions=[{**question, "column": ["__import__('os')"]}]),
        "no groups": change(header, by=[]),
        "public": change(header, keys="known"),
        "rows": change(header, rows=[4, 4]),
        "more rows": change(header, rows=[row_count + 1 for row_count in header["rows"]]),
        "bins": change(header, bins=["(SignificantBits(bits=3), 0)"] * 2),
        "sums": change(header, sums=[header["sums"][0].replace("5000", "4000")]),
        "types": change(header, key_types=["int64"]),
        "unit": change(header, unit={"column": "u", "max_rows": 0, "max_groups": 1}),
        "ids": change(header, ids=[7]),
        "field": change(header, extra=1),
    }  # fmt: skip
    for name, metadata in edits.items():
        edited = rewritten(path, tmp_path / f"{name}.parquet", metadata)
        require_refusal(edited, f"{name}.parquet", "its ", "make it anew")
