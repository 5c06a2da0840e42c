"""Run `python -m benchmarks`: this package and others beside each other."""

import sys

from benchmarks.peers.command import main

if __name__ == "__main__":
    sys.exit(main())
