"""Questions with bounds, and their exact sums."""

import dfprivacy as dfp

BOUNDS = [(0, 100), (-60.0, 61.5), (100, 101), (-7, -3), (0.1, 0.3), (-1e-300, 1e-299), (-1e9, 2)]


def questions(low: float, high: float, **terms: bool) -> dict[str, object]:
    """Return questions that have a source each: within the same bounds a sum shares one."""
    return {
        "rows": dfp.count(),
        "texts": dfp.count("g"),
        "variance": dfp.std("x", (low, high), **terms),
        "total": dfp.sum("x", (low, 2 * high), **terms),
        "whole": dfp.mean("i", (low, high), **terms),
        "integers": dfp.count("h"),
    }
