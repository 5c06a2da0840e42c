"""The file of results: every finished measurement is in it before the next one starts."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.jobs import ScoreJob, TimeJob, job_facts


@dataclass
class Store:
    """Measurements by name, and what is known of the environments and the machine."""

    file: Path
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def opened(cls, file: Path, *, resume: bool) -> Store:
        """Open a file of results, to be continued or begun anew."""
        store = cls(file)
        if resume and file.exists():
            content = json.loads(file.read_text())
            store.measured, store.environments = content["measured"], content["environments"]
        store.machine = machine()
        return store

    def has(self, job: TimeJob | ScoreJob) -> bool:
        """Return whether this very job has been measured; failed ones are tried again."""
        record = self.measured.get(job.name)
        if record is None or record["status"] == "failed":
            return False
        return record["asked"] == job_facts(job)

    def keep(self, job: TimeJob | ScoreJob, result: dict[str, Any]) -> None:
        """Remember a measurement, on disk too."""
        self.measured[job.name] = {"asked": job_facts(job), "load": load(), **result}
        self.write()

    def write(self) -> None:
        """Replace the file by what is known now."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "machine": self.machine,
            "environments": self.environments,
            "measured": dict(sorted(self.measured.items())),
        }
        half = self.file.with_suffix(".half")
        half.write_text(json.dumps(content, indent=1) + "\n")
        half.replace(self.file)

    def status(self, name: str) -> str | None:
        """Return the status of a measurement, None when there is none."""
        return self.measured[name]["status"] if name in self.measured else None


def load() -> float:
    """Return how many processes wanted a core over the last minute."""
    return round(os.getloadavg()[0], 2)


def machine() -> dict[str, Any]:
    """Return the facts of the machine on which the figures depend."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
