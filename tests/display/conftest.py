"""Fixtures of the tests of pictures: small frames, and releases of every kind."""

import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import dfprivacy as dfp

BOUNDS = (0, 60)


class Text(HTMLParser):
    """Collects what a reader of HTML sees, and the tags."""

    def __init__(self, html):
        super().__init__()
        self.parts, self.tags, self.attributes, self.silent = [], [], [], 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.silent += tag in {"script", "style"}

    def handle_endtag(self, tag):
        self.silent -= tag in {"script", "style"}

    def handle_data(self, data):
        self.parts += [] if self.silent else [data]

    @property
    def words(self):
        return re.sub(r"\s+", " ", " ".join(self.parts))


@pytest.fixture(scope="session")
def read_html():
    """Read HTML as a browser does: its words, tags and attributes."""
    return Text


@pytest.fixture(scope="session")
def flights():
    """Return 3,000 made-up flights of three carriers, with a vector and a hostile column name."""
    return pl.DataFrame(
        {
            "carrier": ["AA", "UA", "</script><b>"] * 1000,
            "delay": np.linspace(0, 59, 3000),
            "x": np.linspace(0, 1, 3000),
            "<i>": np.linspace(0, 1, 3000),
        }
    )


@pytest.fixture(scope="session")
def numbers(flights):
    """Return released numbers of every kind, by a name; none has a note by chance."""
    return {
        "estimate": flights.dp.mean("delay", BOUNDS, epsilon=0.5, clipping=False),
        "gaussian": flights.dp.sum("delay", BOUNDS, rho=0.5, interval=0.9, clipping=False),
        "choice": flights.dp.median("delay", epsilon=1),
        "hostile": flights.dp.mean("<i>", (0, 1), epsilon=1),
        "vector": flights.dp.mean_vector(["x", "<i>"], rho=0.5, radius=10),
        "unknown": flights.head(3).dp.inverse_quantile("delay", 0.01, epsilon=1),
    }


@pytest.fixture(scope="session")
def means(flights, replayed):
    """Return a mean by carrier, with secret keys; no note comes by chance."""
    private = flights.dp.group_by("carrier")
    return replayed(lambda: private.mean("delay", BOUNDS, epsilon=2, delta=1e-6))


@pytest.fixture(scope="session")
def histogram(flights):
    """Return a histogram of three bins by carrier."""
    private = flights.dp.group_by("carrier")
    return private.histogram("delay", [0, 20, 40, 60], epsilon=1, delta=1e-6)


@pytest.fixture(scope="session")
def vector(numbers):
    """Return a mean of vectors."""
    return numbers["vector"]


@pytest.fixture(scope="session")
def sums(flights):
    """Ask several questions in one, of the whole frame."""
    return flights.dp.agg(dfp.mean("delay", BOUNDS), dfp.count(), m=dfp.median("delay"))
