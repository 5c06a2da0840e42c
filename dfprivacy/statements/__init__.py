"""SQL statements over one protected relation: read, vetted, planned, released once."""
