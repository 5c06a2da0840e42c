"""The local model: reports that are private before they leave their owner.

The analyst plans a protocol and publishes it as JSON; every owner makes one report; the analyst
adds reports up, publishes the next round, and reads the answer:

>>> import dfprivacy as dfp
>>> protocol = dfp.local.gaussian_mean(users=20_000, epsilon=2, sigma=1.0, limit=64)
>>> published = protocol.to_json()
>>> at_the_owner = dfp.local.Protocol.from_json(published)
>>> reports = at_the_owner.reports([5.5] * 20_000)
>>> second = protocol.aggregate(reports).next_round()
>>> second.round
2
"""

from dfprivacy.local.aggregate import Aggregate
from dfprivacy.local.asks import Digit, Distance, Side
from dfprivacy.local.estimate import LocalEstimate
from dfprivacy.local.grid_noise import BallGaussian, GridLaplace
from dfprivacy.local.journal import Journal
from dfprivacy.local.planning import gaussian_mean
from dfprivacy.local.planning_vectors import mean_vector
from dfprivacy.local.protocol import Protocol
from dfprivacy.local.response import RandomisedResponse
from dfprivacy.local.simulation import simulate
from dfprivacy.local.vectors import VectorMean

__all__ = [
    "Aggregate",
    "BallGaussian",
    "Digit",
    "Distance",
    "GridLaplace",
    "Journal",
    "LocalEstimate",
    "Protocol",
    "RandomisedResponse",
    "Side",
    "VectorMean",
    "gaussian_mean",
    "mean_vector",
    "simulate",
]
