"""Reviews in MongoDB."""
