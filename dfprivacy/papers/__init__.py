"""Statistics as papers print them, where this package answers by other forms.

Importing this package registers them, so that every entry point has them:

>>> import polars as pl
>>> from dfprivacy import papers
>>> frame = pl.DataFrame({"x": [1.0, 2.0, 3.0] * 5000})
>>> 1.5 < frame.dp.shifted_mean("x", (0, 10), epsilon=1) < 2.5
True
>>> sorted(frame.dp.agg(papers.ShiftedMean("x", (0, 10)), a=papers.DickMean("x"), epsilon=9))
['a', 'x']
"""

from dfprivacy.errors import close as _close
from dfprivacy.papers.kulesza2023 import IndependentMean, ShiftedMean
from dfprivacy.papers.monotone import DickCenter, InverseQuantile
from dfprivacy.papers.subset_optimal import DickMean, SubsetMean

__all__ = [
    "DickCenter",
    "DickMean",
    "IndependentMean",
    "InverseQuantile",
    "ShiftedMean",
    "SubsetMean",
]

_close(globals())
