"""Answer SQL statements about protected rows: read, vetted, planned, released once."""
