"""Exact statistics in files: a pass writes one, and files are added up and released once."""
