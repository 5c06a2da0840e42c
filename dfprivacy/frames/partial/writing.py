"""`dfp.statistics`: run the exact passes of some questions over one frame into one secret file."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from dfprivacy.engine.returning import frame_table
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.frames.partial.files import Header, check_target, write_file
from dfprivacy.frames.partial.tables import ExactTables, declared_keys, keepable
from dfprivacy.frames.private import Private, PrivateGroupBy
from dfprivacy.frames.releasing import measure
from dfprivacy.frames.tables import frame_names
from dfprivacy.noise.entropy import fresh_id
from dfprivacy.release.request import limits_of
from dfprivacy.release.terms import PublicKeys, Terms
from dfprivacy.release.unit import Unit, unit_of
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.statistics.mean_vector import MeanVector
from dfprivacy.statistics.split import split


def statistics(
    frame: object,
    path: str | os.PathLike[str],
    *questions: Statistic,
    by: Hashable | Sequence[Hashable] = (),
    keys: Any = None,
    unit: Hashable | Unit = None,
    max_rows: int | None = None,
    max_groups: int | None = None,
    bounds: Mapping[Hashable, tuple[float, float]] | None = None,
    **named_questions: Statistic,
) -> Path:
    """Write the exact statistics that questions need to a file, to be released by `dfp.merge`.

    **The file is secret.** It holds exact sums and counts, without any noise: guard it like the
    rows. This call releases nothing, charges nothing and promises nothing; `dfp.merge` adds up one
    or several such files, charges once, adds noise once, and its answers may be published.

    Only its owner can read the file. It is written whole or not at all, and never over another one.

    Parameters
    ----------
    frame : frame, relation or path
        Whatever `dfp.frame` takes.
    path : path
        The Parquet file to be made.
    *questions, **named_questions
        What `agg` takes: `dfp.count()`, `dfp.mean("x", (0, 100))`, `dfp.median("x")`, ... Files
        that are to be added up need the same questions, groups, limits and public keys.
    by : label, or list of labels
        The columns to group by.
    keys : list, optional
        Group keys that are public: exactly these are released. Otherwise keys are secret.
    unit, max_rows, max_groups
        Who is protected, as in `df.dp(unit=...)`. The limits hold within this file; `dfp.merge`
        accounts for units with rows in several.
    bounds : mapping, optional
        Bounds of columns whose questions name none.

    Returns
    -------
    pathlib.Path
        The path of the file.

    Raises
    ------
    InvalidQuestionError, InvalidBoundsError, InvalidKeysError, InvalidUnitError
        When the question can't be, or has no statistics that add up (`mean_vector`, `histogram`).
    StatisticsFileError
        When there is a file already, or it can't be written.
    UnsupportedDtypeError
        When a column's declared type does not allow what is asked.
    EngineError
        When the engine fails; its message is withheld.

    Examples
    --------
    >>> import dfprivacy as dfp, pandas as pd, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> day = pd.DataFrame({"x": range(1000)})
    >>> path = dfp.statistics(day, folder.name + "/monday.parquet", dfp.mean("x", (0, 1000)))
    >>> dfp.merge([path], epsilon=1)["x"].epsilon
    1.0
    >>> folder.cleanup()
    """
    target = Path(path)
    check_target(target)
    _check([*questions, *named_questions.values()], named_questions, bounds)
    terms = Terms(unit=unit_of(unit, max_rows, max_groups)).updated(bounds=bounds)
    labels = tuple(by) if isinstance(by, list | tuple) else (by,)
    asked, public = _asked(questions, named_questions, terms, labels, keys)
    parts = split(asked, grouped=bool(labels))
    if labels:
        frame_names(parts, asked, [str(label) for label in labels])
    limited = limits_of(terms.unit, labels, public)[0]
    kind = "none" if not labels else "secret" if public is None else "public"
    header = Header(fresh_id(16), asked, labels, kind, limited)
    header.json()  # refuses labels that have no name there

    kept = keepable(frame, labels)
    adopted, measured = measure(kept, labels, public, parts, unit=limited)
    found = measured[0].keys
    if labels and isinstance(kept, pd.DataFrame):  # keys may stand for categories or durations
        found = guarded(lambda: frame_table(adopted.wrap(found))).replace_schema_metadata(None)
    declared = declared_keys(found, labels) if labels else pa.table({})
    write_file(target, header, ExactTables.of(measured, declared))
    return target


class _Whole(Private):
    """A frame whose `agg` says what would be asked."""

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Any:  # noqa: ARG002 nothing is released
        return questions, None


class _Grouped(PrivateGroupBy):
    """The same by group."""

    def _answer(self, questions: Mapping[str, Statistic], terms: Terms) -> Any:  # noqa: ARG002 nothing is released
        return questions, self._keys


def _asked(
    questions: Sequence[Any],
    named: Mapping[str, Any],
    terms: Terms,
    labels: tuple[Hashable, ...],
    keys: object,
) -> tuple[Mapping[str, Statistic], PublicKeys | None]:
    """Return the questions by name, bounds filled in, and the public keys: checked as ever."""
    frame: Any = _Grouped(None, terms, labels, keys) if labels else _Whole(None, terms)
    return frame.agg(*questions, **named)  # type: ignore[no-any-return]


def _check(questions: Sequence[object], named: Mapping[str, object], bounds: object) -> None:
    """Refuse what has no statistics that add up, terms of a release, and bounds that are no map."""
    if any(isinstance(question, MeanVector | Histogram) for question in questions):
        raise InvalidQuestionError(
            "means of vectors and histograms are not made of one table that adds up: mean_vector "
            "takes several passes, and later ones depend on the noise of earlier ones",
            hint="ask it of the whole frame: dfp.frame(path).mean_vector(...) or .histogram(...)",
        )
    given = [name for name in ("epsilon", "rho", "delta", "interval") if name in named]
    if given:
        raise InvalidQuestionError(
            f"{given[0]} was given, and nothing is released or spent here",
            hint="name it when the files are released: dfp.merge(paths, epsilon=1)",
        )
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidQuestionError(
            "bounds of several columns come as a mapping from column to bounds",
            hint='pass bounds={"column": (0, 100)}',
        )
