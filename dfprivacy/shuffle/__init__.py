"""Survey in the shuffle model: messages hide their sender once they are shuffled.

Three parts: the randomizer at each user, a shuffler in between, the analyzer.

>>> import dfprivacy as dfp
>>> protocol = dfp.shuffle.mean(users=2000, bounds=(0, 10), epsilon=1, delta=1e-6)
>>> messages = protocol.messages([2.0, 4.0] * 1000)  # at the users
>>> shuffled = dfp.shuffle.shuffle(messages)  # at the shuffler
>>> 2.5 < protocol.analyze(shuffled).estimate() < 3.5  # at the analyst
True
"""

from dfprivacy.errors import close as _close
from dfprivacy.shuffle.protocol import (
    Protocol,
    ShuffleChoice,
    ShuffledVector,
    ShuffleEstimate,
    mean,
    mean_vector,
    quantile,
    simulate,
    total,
)
from dfprivacy.shuffle.sums import join_messages, shuffle

__all__ = [
    "Protocol",
    "ShuffleChoice",
    "ShuffleEstimate",
    "ShuffledVector",
    "join_messages",
    "mean",
    "mean_vector",
    "quantile",
    "shuffle",
    "simulate",
    "total",
]

_close(globals())
