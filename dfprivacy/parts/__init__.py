"""The parts of a release: each measures once, is paid its share, and answers some questions."""
