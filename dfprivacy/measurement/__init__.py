"""Measure rows: exact integer statistics, which are secret."""
