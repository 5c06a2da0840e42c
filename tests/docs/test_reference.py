"""docs/reference/api.md is the page that the registry of statistics gives."""

import runpy
from pathlib import Path

SITE = Path(__file__).parents[2] / "docs" / "site"


def test_the_reference_is_that_of_the_registry():
    """A statistic that is added, renamed or gone changes the reference."""
    script = runpy.run_path(str(SITE / "reference_page.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["write_page"]()
