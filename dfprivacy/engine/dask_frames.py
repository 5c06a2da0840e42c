"""Dask frames."""
