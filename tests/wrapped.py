"""A connection to DuckDB of which a test changes a method."""


class Wrapped:
    """Do all that a connection does; classes that build on it change a method."""

    def __init__(self, connection):
        self.connection = connection

    def __getattr__(self, name):
        return getattr(self.connection, name)
