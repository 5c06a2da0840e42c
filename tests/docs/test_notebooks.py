"""The notebooks of examples/: committed without outputs, run from top to bottom, true."""

import json
import os
import re
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SECONDS = 600  # twenty times what one takes: it stops what hangs, and is no law of speed

# What a notebook says about its own answers, in its own names, run as one more cell at its end.
# A law of the noise that could fail by chance does so less often than once in a million runs.
CLAIMS = {
    "flights_frames": """
        half = (wide["high"] - wide["low"]) / 2
        assert half.min() > 10
        gap = beside_the_truth(narrow).head(5)
        assert ((gap["high"] < gap["true"]) & (gap["high"] - gap["low"] < 0.1)).all()
        assert abs(by_carrier.set_index("carrier").loc["UA", "dep_delay"] - 11.9) < 1
        assert set(listed.count(epsilon=0.2)["carrier"]) == {"UA", "OO", "ZZ"}
    """,
    "flights_questions": """
        assert set(busiest["dest"]) == set(flights["dest"].value_counts().head(8).index)
        assert len(weeks) == 53 and abs(each - 73.8) < 3
        assert abs(table.loc["All", "All"] - len(kept)) < 200
        late = flights.groupby("hour")["late"].mean().loc[5:]
        assert abs(hours["late"] - late.values).max() < 0.03
        assert plan.epsilon == 0.134
    """,
    "flights_sql": """
        assert truth["hour"][0] == 1 and truth["true flights"][0] == 1
        assert 1 not in set(released["hour"]) and 7 in set(released["hour"])
        assert ledger.remaining("flights") == dfp.Budget(epsilon=0.0, delta=9e-6)
        assert (plan.epsilon, plan.delta) == (0.5, 1e-6)
    """,
    "nightly_job": """
        assert again.equals(first)
        assert ledger.remaining("stays") == dfp.Budget(epsilon=0.0)
        assert list(history["epsilon"]) == [0.25] * 4
        assert 0.9 < year.promise(delta=1e-6).epsilon < 1.1
    """,
    "vectors_and_surveys": """
        assert abs(cosine(courier, herald) - cosine(true_courier, true_herald)) < 0.05
        assert off_by(0.05)["error"] > 0.3 and off_by(1_000)["error"] < 0.02
        assert central.high - central.low < (local.high - local.low) / 4
    """,
}


def cells(notebook, kind):
    return [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == kind]


def execute_cells(notebook, claims, folder):
    """Return the outputs of every cell, run in order in a kernel of its own, in an empty folder."""
    nbclient = pytest.importorskip("nbclient", reason="pip install '.[demo,test,notebooks]'")
    pytest.importorskip("ipykernel", reason="pip install '.[demo,test,notebooks]'")
    import nbformat  # noqa: PLC0415 comes with nbclient

    pages = nbformat.read(notebook, as_version=4)
    nbformat.validate(pages)
    pages.cells.append(nbformat.v4.new_code_cell("if True:" + claims))
    client = nbclient.NotebookClient(
        pages,
        kernel_name="python3",
        startup_timeout=SECONDS,
        resources={"metadata": {"path": str(folder)}},
    )
    end = time.monotonic() + SECONDS
    with client.setup_kernel(env=environment()):
        for index, cell in enumerate(pages.cells):
            client.timeout = max(1, int(end - time.monotonic()))
            client.execute_cell(cell, index)
    return [output for cell in pages.cells for output in cell.get("outputs", [])]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_unrun(notebook):
    """No cell has an output or a number: what a reader sees was made by the reader."""
    code = cells(notebook, "code")
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert len(code) >= 10


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_are_short(notebook):
    """A cell has at most 20 lines of code, and a story at least half as many texts as cells."""
    code = cells(notebook, "code")
    assert [cell["id"] for cell in code if len(cell["source"]) > 20] == []
    assert 2 * len(cells(notebook, "markdown")) >= len(code)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_claims_hold(notebook, tmp_path):
    """Each notebook runs from top to bottom, leaves nothing, says what is so, warns by notes alone.

    A statement of SQL notes what its bounds clip, and that it compares rows with released numbers.
    """
    outputs = execute_cells(notebook, CLAIMS[notebook.stem], tmp_path)
    texts = [output["text"] for output in outputs if output.get("name") == "stderr"]
    lines = [line for text in texts for line in text.splitlines()]
    notes = "dp_", "avg(", "rows are compared"
    assert [line for line in lines if not line.startswith(notes)] == []
    if notebook.stem == "flights_sql":
        assert any(line.startswith("dp_mean(dep_delay, -10, 10): clipped: ") for line in lines)
    assert len(outputs) >= 8
    assert list(tmp_path.iterdir()) == []


def test_the_page_lists_every_notebook():
    """docs/how-to/notebooks.md names the notebooks that are there and no others."""
    page = (ROOT / "docs" / "how-to" / "notebooks.md").read_text()
    assert re.findall(r"\.\./\.\./examples/(\w+)\.ipynb", page) == [path.stem for path in NOTEBOOKS]
    assert sorted(CLAIMS) == [path.stem for path in NOTEBOOKS]
