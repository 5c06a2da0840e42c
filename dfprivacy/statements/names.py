"""Names in SQL: quoted whenever they have to be, and compared as DuckDB compares them."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

from dfprivacy.engine.files import quoted

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z", re.IGNORECASE | re.ASCII)
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def shown(name: str) -> str:
    """Return a name as DuckDB shows it in an expression, quoted where it has to be.

    >>> shown("delay"), shown("Q x")
    ('delay', '"Q x"')
    """
    return name if _PLAIN.match(name) else quoted(name)


def folded(name: str) -> str:
    """Return a name in the form in which two spellings of it are one.

    DuckDB takes A for a, and every letter beyond ASCII as it is.

    >>> folded("City") == folded("CITY"), folded("\N{KELVIN SIGN}") == folded("K")
    (True, False)
    """
    return name.translate(_SMALL)


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not among those taken, in any spelling.

    >>> fresh("city", ["City", "city_2"])
    'city_3'
    """
    used = {folded(other) for other in taken}
    if folded(name) not in used:
        return name
    number = 2
    while folded(f"{name}_{number}") in used:
        number += 1
    return f"{name}_{number}"
