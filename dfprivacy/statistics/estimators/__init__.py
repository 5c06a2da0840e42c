"""Estimate: pure functions of noisy statistics and public facts."""
