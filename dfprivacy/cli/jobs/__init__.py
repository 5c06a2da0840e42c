"""Make the releases that a file describes: read, checked whole, run once, and repeated for free.

The only things that leave a run are released tables that a ledger has kept, and what the
description says about them. docs/etl.md.
"""
