"""Orders in MongoDB."""
