"""A virtual environment for each peer, made once and kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.registry import Peer


@dataclass(frozen=True)
class Environment:
    """Where a peer runs, or why it can't."""

    python: str | None
    trouble: str | None = None


def prepare(peer: Peer, folder: Path) -> Environment:
    """Return the peer's interpreter; make its environment when there is none yet."""
    if not peer.requires:
        return Environment(sys.executable)
    home = folder / peer.script
    python, stamp = home / "bin" / "python", home / "requires.txt"
    requirements = "\n".join(peer.requires)
    if stamp.exists() and stamp.read_text() == requirements:
        return Environment(str(python))
    trouble = install(peer, home, python)
    if trouble is None:
        stamp.write_text(requirements)
        return Environment(str(python))
    return Environment(None, trouble)


def install(peer: Peer, home: Path, python: Path) -> str | None:
    """Make the environment; return the installer's last line when it fails."""
    uv = shutil.which("uv")
    shutil.rmtree(home, ignore_errors=True)
    if uv is None:
        venv.create(home, with_pip=True)
        steps = [[str(python), "-m", "pip", "install", "-q", *peer.requires]]
    else:
        make = [uv, "venv", "-q", "-p", sys.executable, str(home)]
        steps = [make, [uv, "pip", "install", "-q", "--python", str(python), *peer.requires]]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            return lines[-1].strip() if lines else f"{step[0]} ended with {done.returncode}"
    return None
