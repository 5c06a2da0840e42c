"""Release means of vectors: the question, the passes over a frame, the noisy mean."""
