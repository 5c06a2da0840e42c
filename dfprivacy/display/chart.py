"""Charts of the altair library, which need not be installed until one is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from dfprivacy.display.panels import Spec
from dfprivacy.display.theme import NAME, theme
from dfprivacy.errors import PictureError


def chart_of(spec: Spec) -> Any:
    """Return a specification as an altair chart in the theme `dfprivacy`.

    Raises
    ------
    PictureError
        When altair is not installed.
    """
    altair = library("altair")
    if NAME not in altair.theme.names():
        altair.theme.register(NAME, enable=False)(lambda: {"config": theme()})
    return altair.Chart.from_dict({**spec, "config": theme()})


def library(name: str) -> Any:
    """Return a library of the extra `plot`.

    Raises
    ------
    PictureError
        When it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise PictureError(
            f"a picture needs {name}, which is not installed", hint="pip install 'dfprivacy[plot]'"
        ) from None
