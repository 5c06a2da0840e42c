"""Make text safe to show: legible names, HTML escaped by templates, and plain captions."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import cache, partial
from typing import Any

from dfprivacy.release.plan import POPULATION

MeasuredIn = str | Mapping[str, str] | None
"""The unit of a column, or the units of several by the names of their answers."""

_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_JOINER = "\N{WORD JOINER}"
_LONGEST = 100


def legible(text: object) -> str:
    r"""Return text on one line. Characters that hide or reorder text are replaced.

    >>> legible("two\nlines\x00")
    'two lines\ufffd'
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    chars = []
    for char in plain:
        category = unicodedata.category(char)
        hidden = category in {"Cc", "Cs"} or ord(char) in _BIDI
        is_space = char in "\n\t\r" or category in {"Zl", "Zp"}
        chars.append(" " if is_space else "\N{REPLACEMENT CHARACTER}" if hidden else char)
    return "".join(chars)


def code(text: object) -> str:
    """Return text as a line of code in HTML."""
    return f"<code>{html.escape(legible(text))}</code>"


def render(template: str, /, **facts: object) -> str:
    """Return HTML from a file of `templates/`. Every value in it is made legible and escaped."""
    html: str = _templates().get_template(template).render(facts)
    return html


def trust(text: str) -> str:
    """Return text of our own that a template writes without escaping it."""
    from markupsafe import Markup  # noqa: PLC0415 it comes with jinja2: on first use

    return Markup(text)  # noqa: S704 called with our own style and scripts only


@cache
def _templates() -> Any:
    """Return the templates. The library is loaded on first use."""
    import jinja2  # noqa: PLC0415 most programs draw no page
    from markupsafe import Markup  # noqa: PLC0415 the same

    def escape_value(value: object) -> object:
        return value if isinstance(value, Markup) else legible(value)

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dfprivacy.frames.viz"),
        autoescape=True,
        finalize=escape_value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["finite"] = math.isfinite
    return environment


def chart_text(text: object) -> str:
    """Return text for a chart. It can't end a script that the chart is written into.

    >>> "</script>" in chart_text("</script>")
    False
    """
    return legible(text).replace("</", f"<{_JOINER}/").replace("<!", f"<{_JOINER}!")


def with_unit(name: str, measured_in: MeasuredIn, *, answer: str | None = None) -> str:
    """Return the title of an axis: its question and unit.

    One unit applies to every answer but counts. A mapping has the units of answers by name.

    >>> with_unit("delay", "minutes"), with_unit("count", "minutes")
    ('delay (minutes)', 'count')
    """
    answer_name = name if answer is None else answer
    if isinstance(measured_in, Mapping):
        unit = measured_in.get(answer_name)
    else:
        unit = None if answer_name == "count" else measured_in
    return chart_text(name if unit is None else f"{name} ({unit})")


def count_decimals(values: Iterable[float], errors: Iterable[float]) -> int | None:
    """Return the number of decimals of numbers within these errors: two digits of an error.

    Of several errors the one in the middle decides. None leaves each number its six digits. Whole
    numbers stay whole. Below 0 are the last digits that say nothing.

    >>> count_decimals([30.07912], [0.077]), count_decimals([336770.4], [8400.0])
    (3, -2)
    """
    sizes = sorted(error for error in errors if math.isfinite(error) and error > 0)
    finite = [float(number) for number in values if math.isfinite(number)]
    is_integer = all(number.is_integer() for number in (*finite, *(2 * size for size in sizes)))
    if not sizes:
        return 0 if is_integer and finite else None
    places = min(1 - math.floor(math.log10(sizes[len(sizes) // 2])), _FINEST)
    return min(places, 0) if is_integer else places


def writer(
    values: Iterable[float], errors: Iterable[float], *, percent: bool = False
) -> partial[str]:
    """Return a function that writes numbers with the decimals of `count_decimals`.

    >>> written = writer([0.16481], [0.0012], percent=True)
    >>> written(0.16481), written(0.1654)
    ('16.48%', '16.54%')
    """
    size = 100 if percent else 1
    decimals = count_decimals([size * n for n in values], [size * n for n in errors])
    return partial(figure, decimals=decimals, percent=percent)


def figure(
    value: float,
    decimals: int | None = None,
    *,
    percent: bool = False,
    rounding: str = ROUND_HALF_EVEN,
) -> str:
    """Return a number with separators of thousands. As a power of ten if it is very large or small.

    >>> figure(336770.4, -2), figure(30.07912, 3), figure(1234.5, None), figure(2.5e-9, None)
    ('336,800', '30.079', '1,234.5', '2.5e-09')
    >>> figure(1e-30, count_decimals([1e-30], [1e-33]))
    '1e-30'
    >>> figure(0.25678, 1, percent=True), figure(0.25678, percent=True)
    ('25.7%', '25.68%')
    >>> figure(11.6, -1, rounding=ROUND_CEILING), figure(-622.3, -1, rounding=ROUND_FLOOR)
    ('20', '-630')
    """
    if not math.isfinite(value):
        return f"{value:.6g}"
    number = Decimal(repr(float(value))).scaleb(2 if percent else 0)  # which 100 * 0.07 is not
    size, sign = abs(number), "%" if percent else ""
    is_power = size >= _LARGEST or (decimals in (None, _FINEST) and 0 < size < _LEAST)
    last = -(decimals or 0)  # the power of ten of the last digit
    if is_power or decimals is None:
        last = number.adjusted() - (3 if percent else 5)
        last = last if is_power else min(last, 0)
    rounded = number.quantize(Decimal(1).scaleb(last), rounding) + 0  # not -0
    if is_power or abs(rounded) >= _LARGEST:
        return f"{float(rounded):.6g}{sign}"
    text = f"{rounded:,.{max(0, -last)}f}"
    return f"{text.rstrip('0').rstrip('.') if decimals is None and last < 0 else text}{sign}"


def write_ends(ends: tuple[float, float], write: Callable[..., str]) -> tuple[str, str]:
    """Return the ends of an interval in words, rounded outwards by `write`, e.g. `figure`."""
    return write(ends[0], rounding=ROUND_FLOOR), write(ends[1], rounding=ROUND_CEILING)


_FINEST, _LEAST, _LARGEST = 12, 1e-4, 1e15


def shorten(text: str) -> str:
    """Return a text of at most a hundred characters.

    >>> len(shorten("edges, " * 1000))
    100
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def explain_intervals(level: float | None, question: str = "") -> str:
    """Return the caption that explains the intervals of a question.

    >>> explain_intervals(0.95)
    '95 % intervals, without sampling error and clipping by given bounds.'
    """
    intervals = "Released" if level is None else f"{100 * level:.4g} %"
    whose = " of the population" if POPULATION in question else ""
    left_out = [] if whose else ["sampling error"]
    left_out += ["clipping by given bounds"]
    if "max_rows=" in question:
        limits = "max_rows, beyond max_groups" if "max_groups=" in question else "max_rows"
        left_out += [f"rows beyond {limits} or without a unit"]
    elif "limits found" in question:
        left_out += ["large units that noise hides"]
    return f"{intervals} intervals{whose}, without {' and '.join(left_out)}."


def left_out(shown: int, rows: int, things: str, order: str = "") -> list[str]:
    """Return the line that says how many are left out. No line if all are shown.

    >>> left_out(40, 300, "groups", ", the largest first")
    ['Shows 40 of 300 groups, the largest first.']
    """
    return [f"Shows {shown:,} of {rows:,} {things}{order}."] if shown < rows else []


def list_unanswered(count: int, compared: str = "") -> list[str]:
    """Return the line that says how many have no answer, or no result where answers are compared.

    No line if all have one.
    """
    why = "or nothing to compare with" if compared else "because values are too few"
    return [f"Without an answer, {why}: {count:,}."] if count else []


def unique_texts(texts: Sequence[str]) -> list[str]:
    """Return texts of which no two are alike: a repeated one gets a number.

    >>> unique_texts(["a", "NULL", "NULL"])
    ['a', 'NULL', 'NULL (2)']
    """
    unique: dict[str, None] = {}
    for text in texts:
        name, number = text, 1
        while name in unique:
            number += 1
            name = f"{text} ({number})"
        unique[name] = None
    return list(unique)
