"""The mean of vectors as a method."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from dfprivacy.frames.asking import Asking, Many, One
from dfprivacy.frames.vector_release import release_vector, release_vector_frame
from dfprivacy.release.terms import INTERVAL, Terms
from dfprivacy.statistics.mean_vector import MeanVector, mean_vector_question


class VectorMethods(Asking[One, Many]):
    """Questions about vectors."""

    def mean_vector(
        self,
        columns: Sequence[Hashable] | Hashable,
        *,
        rho: float | None = None,
        delta: float | None = None,
        radius: float | None = None,
        method: str = "auto",
        neighbours: str = "add-remove",
        p: float = 2,
        dimension: int | None = None,
        universe: int | None = None,
        deviations: str = "gaussian",
        skewed: bool = False,
        interval: float = INTERVAL,
    ) -> Any:
        """Average vectors: several numeric columns, or one column of arrays, lists or item sets.

        Privacy: rho-zCDP, whatever the dimension, when one row is added or removed; the number of
        rows is secret. `neighbours="replace"` makes it public, protects against one row taking
        another one's place, and runs the papers' own form. Secret group keys add `delta`.

        Parameters
        ----------
        columns : list of labels, or a label
            The coordinates, or a column of vectors: Array, FixedSizeList or List.
        rho : float
            What the whole call spends.
        delta : float, optional
            By group with secret keys: what showing them spends.
        radius : float
            A public bound on Euclidean norms, in units of the columns. Larger vectors are cut; a
            radius a thousand times too large costs little.
        method : {"auto", "clipped", "shifted", "plan"}
            Norms cut at a private threshold; the same around a private centre (Huang, Liang and Yi
            2021); noise by private standard deviations (Aumueller et al. 2023). "auto" decides
            by public facts: "plan" for item sets, p != 2 or `skewed`, else "shifted".
        neighbours : {"add-remove", "replace"}
            The neighbour relation.
        p : float
            Which l_p error "plan" keeps small.
        dimension : int, optional
            The length of lists, which a List column does not declare.
        universe : int, optional
            The column holds sets of items 0, ..., universe - 1.
        deviations : {"gaussian", "generic", "binary"}
            How "plan" finds standard deviations: for data that is about normal, for any with four
            moments, or for coordinates 0 and 1.
        skewed : bool
            Declare that standard deviations differ much between coordinates.
        interval : float
            Level of the intervals.

        Returns
        -------
        VectorEstimate
            A sequence of floats that knows its noise. By group, the caller's own frame type: the
            keys, a column a coordinate (or a list column with `low` and `high`), and `count`.

        Raises
        ------
        InvalidLossError, InvalidBoundsError, InvalidQuestionError, MissingColumnError,
        UnsupportedDtypeError, UnsupportedFrameError
            Before anything is drawn, and never for what is in a row. A row that is no whole vector
            counts for nothing (zeros under "replace").

        Examples
        --------
        >>> import dfprivacy as dfp, numpy as np, pandas as pd
        >>> frame = pd.DataFrame(np.arange(20_000).reshape(5_000, 4) % 7.0, columns=list("abcd"))
        >>> mean = frame.dp.mean_vector(["a", "b", "c", "d"], rho=0.5, radius=100)
        >>> bool(abs(mean.values - 3).max() < 0.3), mean.method
        (True, 'shifted')
        """
        question = mean_vector_question(
            columns, radius=radius, method=method, neighbours=neighbours, p=p,
            dimension=dimension, universe=universe, deviations=deviations, skewed=skewed,
        )  # fmt: skip
        return self._vector(question, self._terms.updated(rho=rho, delta=delta, interval=interval))

    def _vector(self, question: MeanVector, terms: Terms) -> Any:
        by, keys = self._grouping()
        if by:
            return release_vector_frame(self._frame, by, keys, question, terms)
        return release_vector(self._frame, question, terms)
