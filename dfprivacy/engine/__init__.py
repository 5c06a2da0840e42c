"""Pass over the rows once, exactly, with the frame's own engine."""
