"""Hold privacy losses, and keep account of what releases cost."""
