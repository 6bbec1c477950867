"""The reminder job and its schedule."""
