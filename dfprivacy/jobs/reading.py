"""Read a description, a YAML file, into values that know their lines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from dfprivacy.jobs.faults import Faults
from dfprivacy.jobs.marked import Marked
from dfprivacy.jobs.reading_yaml import read_yaml

MOST_BYTES = 2**20
_ENDINGS = {".yml", ".yaml"}


@dataclass(frozen=True)
class Text:
    """What a file says, and its SHA-256."""

    content: Marked
    digest: str


def read_text(path: Path, faults: Faults) -> Text:
    """Return a file's content with lines; what is wrong with it is noted.

    Raises
    ------
    InvalidDescriptionError
        When it can't be read at all.
    """
    raw = _bytes(path, faults)
    faults.require_none()
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        faults.add(raw[: error.start].count(b"\n") + 1, "this is not UTF-8 text")
        text = ""
    faults.require_none()
    content = read_yaml(text, faults)
    if content is None:
        faults.require_none()
    assert content is not None  # noqa: S101 a reader that returns None has noted why
    return Text(content, hashlib.sha256(raw).hexdigest())


def _bytes(path: Path, faults: Faults) -> bytes:
    if path.suffix.lower() not in _ENDINGS:
        faults.add(1, "a description is a .yml or .yaml file")
        return b""
    try:
        raw = path.read_bytes()
    except OSError as error:
        faults.add(1, f"the file can't be read: {error.strerror}")
        return b""
    if len(raw) > MOST_BYTES:
        faults.add(1, "a description has at most 1 MiB")
    return raw
