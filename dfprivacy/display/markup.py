"""HTML, built so that text can't become markup: whatever is not `Markup` is escaped."""

from __future__ import annotations

import html
import unicodedata

_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_EMPTY = {"br", "input", "link", "meta"}  # of HTML; those of SVG need an end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def legible(text: object) -> str:
    r"""Return text on one line, without characters that can't be seen or turn others around.

    >>> legible("two\nlines\x00")
    'two lines\ufffd'
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(map(_legible, plain))


def _legible(char: str) -> str:
    category = unicodedata.category(char)
    if char in "\n\t\r" or category in {"Zl", "Zp"}:
        return " "
    hidden = category in {"Cc", "Cs"} or ord(char) in _BIDI
    return "\N{REPLACEMENT CHARACTER}" if hidden else char


def escaped(text: object) -> Markup:
    """Return text as HTML; markup stays as it is.

    >>> escaped("<b>")
    '&lt;b&gt;'
    """
    return text if isinstance(text, Markup) else Markup(html.escape(legible(text)))


def joined(*parts: object) -> Markup:
    """Return parts one after the other, as HTML."""
    return Markup("".join(map(escaped, parts)))


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """Return an element; `class_` is the attribute class, `stroke_width` is stroke-width.

    >>> element("td", "a < b", class_="note")
    '<td class="note">a &lt; b</td>'
    """
    written = "".join(
        f' {name.removesuffix("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
    )
    start = Markup(f"<{tag}{written}>")
    return start if tag in _EMPTY else Markup(f"{start}{joined(*content)}</{tag}>")
