"""`dfp.statistics`: the exact passes of some questions over one frame, into one secret file."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.returning import frame_table
from dfprivacy.engine.run import guarded
from dfprivacy.noise.entropy import fresh_id
from dfprivacy.partial.asked import asked_of
from dfprivacy.partial.declared_types import check_declared, with_kept_text
from dfprivacy.partial.exact_tables import exact_tables
from dfprivacy.partial.header import header_for
from dfprivacy.partial.key_types import declared_keys
from dfprivacy.partial.written import check_target, write_file
from dfprivacy.releasing import measure
from dfprivacy.statistics import Statistic
from dfprivacy.unit import Unit


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
    asked = asked_of(
        questions, named_questions, by, keys,
        unit=unit, limits=(max_rows, max_groups), bounds=bounds,
    )  # fmt: skip
    check_declared(frame, asked.by)
    frame = with_kept_text(frame, asked.by)
    adopted, measured = measure(frame, asked.by, asked.keys, asked.parts, unit=asked.unit)
    found = _arrow_keys(frame, adopted, measured[0].keys) if asked.by else pa.table({})
    tables = exact_tables(measured, declared_keys(found, asked.by))
    header = header_for(
        fresh_id(16), asked.questions, asked.by, asked.kind, asked.unit,
        parts=asked.parts, tables=tables,
    )  # fmt: skip
    write_file(target, header, tables)
    return target


def _arrow_keys(frame: object, adopted: Adopted, keys: pa.Table) -> pa.Table:
    """Return keys as Arrow holds them; those of pandas may stand for categories or durations."""
    if not isinstance(frame, pd.DataFrame):
        return keys
    restored = guarded(lambda: frame_table(adopted.wrap(keys)))
    return restored.replace_schema_metadata(None)
