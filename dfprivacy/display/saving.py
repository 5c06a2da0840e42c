"""Charts as files: PNG, SVG, or one HTML page that holds all it needs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dfprivacy.display.chart import library
from dfprivacy.display.markup import Markup, element
from dfprivacy.errors import PictureError
from dfprivacy.whole_files import put_whole

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_ACTIONS = {"actions": {"export": True, "source": False, "compiled": False, "editor": False}}
_ENDINGS = (".png", ".svg", ".html")


def save_plot(chart: Any, path: str | os.PathLike[str]) -> Path:
    """Write a chart to a file that ends in .png, .svg or .html, and return its path.

    Nothing is fetched, now or when the file is opened: an HTML page holds the script that draws
    it, and a policy under which a browser loads nothing. The file is written wholly or not at all.

    >>> import dfprivacy as dfp, polars as pl, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> count = pl.DataFrame({"delay": range(100)}).dp.count()
    >>> dfp.save_plot(count.plot(), folder.name + "/count.svg").name
    'count.svg'
    >>> folder.cleanup()

    Raises
    ------
    PictureError
        For another ending, a path that can't be written, or when vl-convert is not installed:
        pip install 'dfprivacy[plot]'.
    """
    target = Path(path)
    if target.suffix.lower() not in _ENDINGS:
        raise PictureError(
            f"a chart can't be written to a file that ends in {target.suffix!r}",
            hint="name a file that ends in .png, .svg or .html",
        )
    return write_whole(target, _content(chart.to_dict(), target.suffix.lower()))


def _content(spec: dict[str, Any], ending: str) -> bytes:
    convert = library("vl_convert")
    if ending == ".png":
        return bytes(convert.vegalite_to_png(spec, scale=2))
    if ending == ".svg":
        return str(convert.vegalite_to_svg(spec)).encode()
    return chart_page(spec, convert.javascript_bundle()).encode()


def chart_page(spec: dict[str, Any], script: str) -> str:
    """Return a page with a chart; text in it can't end the script that it is written into."""
    written = _script_text([spec, _ACTIONS])
    title = spec.get("title", {})
    name = title.get("text", "chart") if isinstance(title, dict) else title
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"), element("title", name),
    )  # fmt: skip
    run = f"const [spec, options] = {written}; vegaEmbed('#chart', spec, options);"
    body = element(
        "body", element("div", id="chart"),
        element("script", Markup(f"{script}\n{run}"), type="module"),
    )  # fmt: skip
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _script_text(value: object) -> str:
    r"""Return JSON for a script: no "<" in it can be read as markup.

    >>> _script_text("</script>")
    '"\\u003c/script>"'
    """
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c")


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file wholly or not at all, and return its path.

    Raises
    ------
    PictureError
        When the operating system does not let us write there.
    """
    try:
        put_whole(path, lambda whole: whole.write_bytes(content))
    except OSError as error:
        raise PictureError(
            f"{str(path)!r} could not be written: {error.strerror}",
            hint="choose a directory in which you may write",
        ) from None
    return path
