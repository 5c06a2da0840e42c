"""Exact integer statistics of rows, and their noisy counterparts."""
