"""Ibis frames."""
