"""Returns in MongoDB."""
