"""Make releases without noise: the same rows have the same answers."""

import numpy as np

from benchmarks.replay import list_scores


class NoNoise:
    """Recorder of draws without noise: exact counts, and the first of the best candidates."""

    def draw(self, mechanism, inputs, sample):
        """Return the likeliest result of a draw."""
        if mechanism == "add_to":
            return inputs["exact"].copy()
        assert mechanism == "select"
        best = [firsts[losses.argmin()] for firsts, _, losses in list_scores(inputs["runs"])]
        return np.array(best, np.int64)
