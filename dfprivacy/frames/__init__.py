"""Statistics of frames: `.dp` on pandas and polars, and the frames that it returns."""
