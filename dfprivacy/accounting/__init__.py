"""Hold privacy losses, and keep account of the cost of releases."""
