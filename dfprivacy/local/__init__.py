"""Survey in the local model: reports are private before they leave their owner.

The analyst plans a protocol and publishes it as JSON. Every owner makes one report. The analyst
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

from dfprivacy.errors import close as _close
from dfprivacy.local.gaussian import LocalEstimate, gaussian_mean
from dfprivacy.local.protocol import Aggregate, Protocol, simulate
from dfprivacy.local.randomizers import BallGaussian, GridLaplace, RandomizedResponse
from dfprivacy.local.rounds import Digit, Distance, Side
from dfprivacy.local.vectors import VectorMean, mean_vector

__all__ = [
    "Aggregate",
    "BallGaussian",
    "Digit",
    "Distance",
    "GridLaplace",
    "LocalEstimate",
    "Protocol",
    "RandomizedResponse",
    "Side",
    "VectorMean",
    "gaussian_mean",
    "mean_vector",
    "simulate",
]

_close(globals())
