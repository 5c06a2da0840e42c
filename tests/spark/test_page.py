"""The page about Spark runs as it is written."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "spark.md"


def test_python_blocks_run_in_order(spark):
    """The Python blocks of the page run one after the other, in a session of the reader."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    scope = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), scope)
