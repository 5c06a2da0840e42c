"""What a file of statistics says of itself: what was asked, of whom, and how it is laid out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dfprivacy.errors import DPError, StatisticsFileError
from dfprivacy.partial.exact_tables import ExactTables
from dfprivacy.partial.layout import binned, bins_json, source_json, sources_of
from dfprivacy.partial.question_text import (
    JSON,
    label_json,
    questions_json,
    questions_of,
    unit_json,
)
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.split import split
from dfprivacy.unit import Unit

FORMAT = "dfprivacy exact statistics"
VERSION = 2
"""Of the file format; to be raised when the same questions would be laid out otherwise."""

_WARNING = (
    "SECRET: exact statistics of data, without any noise. Guard this file like the rows that it "
    "was made from. Only dfprivacy.merge makes something of it that may be published."
)
_FORMAT, _VERSION, _SECRET, _HEADER, _DIGEST = (
    f"dfprivacy.{name}".encode() for name in ("format", "version", "secret", "header", "digest")
)


@dataclass(frozen=True, repr=False)
class Header:
    """The facts of a file: public ones but for `rows`, how many rows each of its tables has.

    `questions`, `unit`, `sums` and `bins` are JSON; `keys` is "none" without groups, "public" or
    "secret"; `id` is a random number that no other file has.
    """

    id: str
    questions: list[JSON]
    by: list[str | int]
    keys: str
    key_types: list[str]
    unit: JSON | None
    sums: list[list[Any]]
    bins: list[list[Any]]
    rows: list[int]

    def __repr__(self) -> str:
        """Show no number of rows."""
        return f"Header({self.id!r})"

    def asked(self) -> dict[str, Statistic]:
        """Return the questions by name."""
        return questions_of(self.questions)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts of the release."""
        return split(self.asked(), grouped=bool(self.by))

    def of_unit(self) -> Unit | None:
        """Return the privacy unit with its limits; None for single rows."""
        return None if self.unit is None else Unit(**self.unit)

    def terms(self) -> Mapping[str, object]:
        """Return what must be the same in all files that are added up, by its name in words."""
        return {
            "questions, or their bounds": self.questions,
            "group columns": self.by,
            "kind of keys, public or secret": self.keys,
            "unit, or its limits": self.unit,
            "grids of sums": self.sums,
            "grids of values: a column is declared to hold integers here and floats there":
                self.bins,
        }  # fmt: skip

    def metadata(self) -> dict[bytes, bytes]:
        """Return the header as the metadata of a Parquet file."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()
        return {
            _FORMAT: FORMAT.encode(),
            _VERSION: str(VERSION).encode(),
            _SECRET: _WARNING.encode(),
            _HEADER: text,
            _DIGEST: hashlib.sha256(text).hexdigest().encode(),
        }


def header_for(
    id_: str,
    questions: Mapping[str, Statistic],
    by: Sequence[Hashable],
    keys: str,
    unit: Unit | None,
    *,
    parts: Sequence[Part],
    tables: ExactTables,
) -> Header:
    """Return the header of a file that is to be written."""
    return Header(
        id=id_,
        questions=questions_json(questions),
        by=[label_json(label) for label in by],
        keys=keys,
        key_types=[str(field.type) for field in tables.keys.schema],
        unit=unit_json(unit),
        sums=[source_json(source, label_json) for source in sources_of(parts)],
        bins=[bins_json((table.binning, len(table.moments))) for table in tables.bins],
        rows=[tables.groups, *(len(table.rows) for table in tables.bins)],
    )


def header_of(metadata: Mapping[bytes, bytes] | None) -> Header:
    """Return the header in the metadata of a Parquet file.

    Raises
    ------
    StatisticsFileError
        When there is none, it is of another version, was changed, or is not what this version
        would have written.
    """
    known = metadata or {}
    if known.get(_FORMAT) != FORMAT.encode():
        raise StatisticsFileError(
            "it holds no statistics of ours", hint="make it with dfp.statistics(frame, path, ...)"
        )
    if known.get(_VERSION) != str(VERSION).encode():
        raise StatisticsFileError(
            f"its version of the format is not {VERSION}, which this version of dfprivacy reads",
            hint="update dfprivacy, here if the file is newer: pip install -U dfprivacy",
        )
    text = known.get(_HEADER, b"")
    if hashlib.sha256(text).hexdigest().encode() != known.get(_DIGEST):
        raise damaged("its metadata was changed")
    header = _parsed(text)
    if header is None or not _is_ours(header):
        raise damaged("its metadata does not fit together")
    return header


def damaged(what: str) -> StatisticsFileError:
    """Return the error for a file that is not as it was written."""
    return StatisticsFileError(what, hint="make it anew: dfp.statistics(frame, path, ...)")


def _parsed(text: bytes) -> Header | None:
    try:
        return Header(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None


def _is_ours(header: Header) -> bool:
    """Tell whether the questions and this version's code give the layout that is written."""
    try:
        parts, unit = header.parts(), header.of_unit()
        ways = [[bins_json(way) for way in part.tables] for part in binned(parts)]
        same = [
            unit_json(unit) == header.unit,
            [source_json(source, label_json) for source in sources_of(parts)] == header.sums,
            len(ways) == len(header.bins),
            all(own in able for own, able in zip(header.bins, ways, strict=False)),
            len(header.rows) == 1 + len(ways) and all(_is_count(own) for own in header.rows),
            header.keys in (("public", "secret") if header.by else ("none",)),
            len(header.key_types) == len(header.by) == len({label_json(own) for own in header.by}),
            header.by != [] or header.rows[0] == 1,
            isinstance(header.id, str) and len(header.id) == 32,
        ]
    except (DPError, TypeError, ValueError, LookupError):
        return False
    return all(same)


def _is_count(rows: object) -> bool:
    return isinstance(rows, int) and not isinstance(rows, bool) and rows >= 0
