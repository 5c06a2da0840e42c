"""Releases described in a file: read with line numbers, checked whole, run, and run again.

The only things that leave a run are released tables that a ledger has kept, and what the
description says about them. docs/etl.md.
"""

from __future__ import annotations

from dfprivacy.jobs.checks import read_description
from dfprivacy.jobs.running import Done, run_releases

__all__ = ["Done", "read_description", "run_releases"]
