"""One command that times and scores this package and others beside each other."""
