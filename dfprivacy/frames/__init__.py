"""What `.dp` is on a frame: its questions, and the numbers and frames that come back."""
