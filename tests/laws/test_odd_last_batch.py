"""An odd row alone in the last batch, block or file decides neither errors nor charges."""

import itertools

import polars as pl
import pyarrow.parquet
import pytest

import dfprivacy as dfp
from dfprivacy.engine import histograms
from dfprivacy.statistics import mean_vector
from tests.frame_types import make_database
from tests.laws.empty_tables import QUESTIONS, SCHEMA, ask, run_question
from tests.products import take_turns

ROWS = 4
"""The rows of a block, a batch and a file: public constants of the package are made so small."""

NAN = float("nan")
ODD = {
    "incomplete": ("z", 1, 1, None, NAN, None, None, None),
    "incomplete in a group": ("a", 1, 1, None, NAN, None, None, None),
    "without keys": (None, None, None, 1.0, 2.0, 3, True, [1]),
    "NULLs": (None,) * 8,
}
FULL = [("ab"[i % 2], i % 3, i % 5, float(i % 7), 2.0, 3, True, [1]) for i in range(2 * ROWS)]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Count a few rows at a time."""
    monkeypatch.setattr(histograms, "_BATCH_ROWS", ROWS)
    monkeypatch.setattr(histograms, "_SORTED_ROWS", ROWS)
    monkeypatch.setattr(mean_vector, "_FETCHED", ROWS)
    monkeypatch.setattr(mean_vector, "_block_rows", lambda dimension: ROWS)
    monkeypatch.setattr(mean_vector, "_count_matrix_rows", lambda dimension: ROWS)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """Return a ledger that pays for every question of this file."""
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    return dfp.Ledger(path, rho=1e6, delta=0.9)


def build_frame(rows):
    """Return rows as a polars frame."""
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def parquet(frames, folder):
    """Return a folder of one Parquet file a frame."""
    for number, frame in enumerate(frames):
        pyarrow.parquet.write_table(frame.to_arrow(), folder / f"{number}.parquet")
    return folder / "*.parquet"


def csv(frames, folder):
    """Return a CSV file without the column of lists, which CSV does not have."""
    pl.concat(frames).drop("s").write_csv(folder / "rows.csv")
    return folder / "rows.csv"


SOURCES = {
    "polars": lambda frames, folder: pl.concat(frames, rechunk=False),
    "polars lazy": lambda frames, folder: pl.concat(frames).lazy(),
    "pandas": lambda frames, folder: pl.concat(frames).to_pandas(use_pyarrow_extension_array=True),
    "arrow": lambda frames, folder: pl.concat(frames, rechunk=False).to_arrow(),
    "record batches": lambda frames, folder: pl.concat(frames).to_arrow().to_reader(ROWS),
    "duckdb": lambda frames, folder: make_database(stored=pl.concat(frames)).table("stored"),
    "parquet": parquet,
    "csv": csv,
}
_folders = itertools.count()


def check(question, kind, keys, ledger, folder, odd):
    """Require the same outcome for full batches, and for one more with an odd row alone."""
    full = [build_frame(FULL[:ROWS]), build_frame(FULL[ROWS:])]
    outcomes = set()
    for frames in (full, *([*full, build_frame([ODD[name]])] for name in odd)):
        directory = folder / str(next(_folders))
        directory.mkdir()
        outcomes.add(
            run_question(
                ledger,
                lambda frames=frames, directory=directory, **account: ask(
                    dfp.frame(SOURCES[kind](frames, directory))(**account), question, keys
                ),
            )
        )
    assert len(outcomes) == 1, outcomes


@pytest.mark.parametrize("question", ["mean", "median", "corr bounds", "vectors", "sets"])
@pytest.mark.parametrize("kind", SOURCES)
def test_an_odd_last_batch(question, kind, ledger, tmp_path):
    """By public keys an incomplete row alone in the last batch has no say in the outcome."""
    check(question, kind, "public", ledger, tmp_path, ["incomplete", "incomplete in a group"])


@pytest.mark.battery
@pytest.mark.parametrize(
    ("question", "kind", "keys", "odd"),
    take_turns(QUESTIONS, SOURCES, ["whole", "public", "secret"], list(ODD)),
)
def test_every_question_about_an_odd_last_batch(question, kind, keys, odd, ledger, tmp_path):
    """No odd row alone in the last batch has a say in the outcome of any question.

    All pairs of question, source, keys and odd row are covered.
    """
    check(question, kind, keys, ledger, tmp_path, [odd])
