"""Privacy losses: what a release costs."""
