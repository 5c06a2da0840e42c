"""Estimators: pure functions of noisy statistics and public facts."""
