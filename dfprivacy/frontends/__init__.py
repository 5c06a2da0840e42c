"""Where a caller meets dfprivacy: accessors and the command line."""
