"""The one exact pass over the rows, run by the frame's own engine."""
