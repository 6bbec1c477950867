"""Commands, by topic."""
