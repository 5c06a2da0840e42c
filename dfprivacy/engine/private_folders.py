"""Folders of a call's own, which only this user may enter and which go whatever interrupts them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from weakref import finalize

from dfprivacy.engine.options import engine_options

_MAKERS: dict[Path, int] = {}
"""The folders not yet removed, each with the process that has made it: a fork leaves it alone."""


def private_folder() -> Path:
    """Make a folder where spill files go.

    It is noted before it is made, so that the end of the process removes it wherever an interrupt
    comes between this call and the caller's own care.
    """
    place = Path(engine_options().temporary or tempfile.gettempdir()).absolute()
    folder = Path(tempfile.mktemp(prefix="dfprivacy-", dir=place))  # noqa: S306 mkdir takes no other's
    _MAKERS[folder] = os.getpid()
    try:
        folder.mkdir(mode=0o700)
    except OSError:  # there is none, or one of somebody else: not ours to remove
        del _MAKERS[folder]
        raise
    return folder


def remove_folders(*folders: Path) -> None:
    """Remove folders with all that is in them; an interrupt waits until that is done."""
    interrupted = False
    while own := [folder for folder in folders if _MAKERS.get(folder) == os.getpid()]:
        try:
            for folder in own:
                shutil.rmtree(folder, ignore_errors=True)
                _MAKERS.pop(folder, None)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


def remove_with(owner: object, folder: Path) -> finalize[Any, Any]:
    """Remove a folder at the end of its owner, or of the process; call the result to hurry."""
    return finalize(owner, remove_folders, folder)


@atexit.register
def _remove_all() -> None:
    remove_folders(*_MAKERS)
